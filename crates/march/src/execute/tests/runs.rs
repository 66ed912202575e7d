//! The reports of a run, line by line, with all engines and both methods.

use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use rampart_memory::fault::{Emulator, FaultCell, FaultKind, Persistence, PlacedFault};
use rampart_memory::{LineBit, LineData, RegionLine};

use super::Memory;
use crate::execute::front::Front;
use crate::execute::steps::{Stage, compile};
use crate::execute::sweep::Sweep;
use crate::execute::watch::Log;
use crate::execute::{Executor, MarchEngine, MarchOutcome, MarchSettings, Method, Mismatch, Region, Watch};
use crate::{AddressSequence, Aim, Background, Part, Pass, Visit};

/// Keeps all reports; stops the run after some operations, or at a pause.
#[derive(Default)]
struct Recorder {
    mismatches: Vec<Mismatch>,
    calls: Vec<u64>,
    stop_after: Option<u64>,
    stop_at_pause: bool,
    pauses: Vec<Duration>,
}

impl Watch for Recorder {
    fn mismatch(&mut self, mismatch: &Mismatch) {
        self.mismatches.push(*mismatch);
    }

    fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
        self.calls.push(operations);
        let done: u64 = self.calls.iter().sum();
        if self.stop_after.is_some_and(|limit| done >= limit) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pause(&mut self, delay: Duration) -> ControlFlow<()> {
        self.pauses.push(delay);
        if self.stop_at_pause { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn executors() -> impl Iterator<Item = Executor> {
    let all = move |engine| Method::ALL.map(|method| Executor { engine, settings: MarchSettings::new(method) });
    MarchEngine::all_available().into_iter().flat_map(all)
}

/// The kernel says which instruction sets there are: what the crate overlooks would never be tested.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_instruction_set_of_this_processor_is_left_out() {
    let names: Vec<&str> = MarchEngine::all_available().into_iter().map(MarchEngine::name).collect();
    for (name, flag) in [("SSE2", "sse2"), ("AVX2", "avx2"), ("AVX-512", "avx512f")] {
        assert!(!rampart_skips::cpu_has(name, &[flag]) || names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn an_engine_is_found_and_shown_by_its_name() {
    for engine in MarchEngine::all_available() {
        assert_eq!(MarchEngine::named(&engine.to_string().to_lowercase()), Some(engine));
        assert_eq!(engine.to_string(), engine.name());
    }
    assert_eq!(MarchEngine::named("none"), None);
}

#[test]
fn a_method_is_found_by_its_name() {
    assert_eq!(Method::ALL.map(Method::name), ["flush-behind", "flush-in-groups", "non-temporal"]);
    for method in Method::ALL {
        assert_eq!(Method::named(method.name()), Some(method));
    }
    assert_eq!(Method::named("flush"), None);
}

fn pass(notation: &str, order: AddressSequence) -> Pass {
    let background = Background { name: "mixed".to_owned(), data: LineData([0x0123_4567_89ab_cdef; 8]) };
    Pass { test: notation.parse().unwrap(), background, order, aim: Aim::BetweenLines }
}

fn run(executor: &Executor, memory: &Memory, pass: &Pass, recorder: &mut Recorder) -> MarchOutcome {
    executor.run(&mut memory.region(), pass, None, recorder)
}

/// Runs one element after the memory was filled with the background, except for `wrong`.
fn one_element(
    executor: &Executor,
    memory: &Memory,
    element: &str,
    order: AddressSequence,
    wrong: &[u64],
) -> Vec<Mismatch> {
    /// Damages lines once the background is written.
    struct Spoiler<'m>(&'m Memory, Vec<u64>, Recorder);
    impl Watch for Spoiler<'_> {
        fn mismatch(&mut self, mismatch: &Mismatch) {
            self.2.mismatch(mismatch);
        }
        fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
            let written = self.2.calls.iter().sum::<u64>() + operations;
            if written == self.0.lines() {
                self.1.drain(..).for_each(|line| self.0.set(RegionLine(line), LineData::ZERO));
            }
            self.2.advanced(operations)
        }
        fn pause(&mut self, _: Duration) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
    }
    let mut spoiler = Spoiler(memory, wrong.to_vec(), Recorder::default());
    let outcome = executor.run(&mut memory.region(), &pass(&format!("*(w0);{element}"), order), None, &mut spoiler);
    assert_eq!(outcome.mismatches, spoiler.2.mismatches.len() as u64);
    spoiler.2.mismatches
}

#[test]
fn a_sound_memory_shows_no_mismatch_and_ends_with_what_was_last_written() {
    for order in [AddressSequence::Sequential, AddressSequence::Strided] {
        let pass = pass("*(w0); ^(r0,w1); ^(r1,w0,r0,w1); v(r1,r1,w0,w0); Del; v(r0,w1,r1); *(r1)", order);
        for executor in executors() {
            let memory = Memory::new(3000);
            let mut recorder = Recorder::default();
            let outcome = run(&executor, &memory, &pass, &mut recorder);
            assert_eq!(outcome, MarchOutcome { completed: true, mismatches: 0, operations: 15 * 3000 }, "{executor:?}");
            assert_eq!(outcome.moved().get(), 15 * 3000 * 64);
            assert_eq!(recorder.pauses, [executor.settings.delay]);
            assert!(memory.content().iter().all(|&line| line == pass.background.line(true)), "{executor:?}");
        }
    }
}

#[test]
fn a_wrong_line_is_told_with_its_place_its_bits_and_a_second_read() {
    for executor in executors() {
        let memory = Memory::new(200);
        for line in [0, 77, 199] {
            let expected = pass("*(w0)", AddressSequence::Sequential).background.data;
            let seen = one_element(&executor, &memory, "^(r0,w1)", AddressSequence::Sequential, &[line]);
            let line = RegionLine(line);
            let (order, zero) = (AddressSequence::Sequential, LineData::ZERO);
            let reported =
                Mismatch { line, expected, found: zero, reread: zero, element: 1, op: 0, order, emulated: false };
            assert_eq!(seen, [reported], "{executor:?}");
            assert_eq!(seen[0].bits().0, expected);
        }
        assert!(memory.content().iter().all(|line| *line == memory.get(RegionLine(0))), "written all the same");
    }
}

/// As of a cell that errs now and then: the inner loop read zeros, and the memory holds what was written.
#[test]
fn a_line_that_was_wrong_once_is_told_though_the_second_read_is_right() {
    let pass = pass("*(w0); *(r0)", AddressSequence::Sequential);
    let expected = pass.background.data;
    let [_, Stage::Sweep { direction, steps }] = &compile(&pass.test, &pass.background)[..] else { panic!() };
    for executor in executors() {
        let memory = Memory::new(64);
        memory.set(RegionLine(5), expected);
        let mut region = memory.region();
        let sweep = Sweep { steps, ..executor.sweep(&mut region, pass.order, *direction) };
        let mut recorder = Recorder::default();
        Front::new(&sweep, &steps[0], 5..6).report(LineData::ZERO, &mut Log::new(&mut recorder));
        let seen: Vec<_> = recorder.mismatches.iter().map(|seen| (seen.line, seen.found, seen.reread)).collect();
        assert_eq!(seen, [(RegionLine(5), LineData::ZERO, expected)], "{executor:?}");
    }
}

/// Cells that are stuck only half of the time: some reads are wrong whose second read is right.
#[test]
fn an_emulated_fault_that_acts_now_and_then_is_told_though_the_second_read_is_right() {
    let persistence = Persistence::Intermittent { probability: 0.5.try_into().unwrap() };
    let cell = |line| FaultCell { line: RegionLine(line), bit: LineBit::new(0).unwrap() };
    let stuck = |line| PlacedFault { kind: FaultKind::StuckAt { cell: cell(line), value: false }, persistence };
    let faults: Vec<_> = (0..64).map(stuck).collect();
    let pass = pass("*(w0); ^(r0)", AddressSequence::Sequential);
    for executor in executors() {
        let (memory, mut recorder) = (Memory::new(64), Recorder::default());
        let mut emulator = Emulator::new(faults.clone(), 0);
        executor.run(&mut memory.region(), &pass, Some(&mut emulator), &mut recorder);
        let told = recorder.mismatches.len();
        let right = recorder.mismatches.iter().filter(|seen| seen.reread == seen.expected).count();
        assert!(8 < right && right + 8 < told && told < 56, "{right} of {told}, of 64");
    }
}

#[test]
fn lines_are_visited_in_the_order_and_the_direction_of_the_element() {
    let lines = 2000;
    let all: Vec<_> = (0..lines).collect();
    for executor in executors() {
        let memory = Memory::new(lines);
        for order in [AddressSequence::Sequential, AddressSequence::Strided] {
            let visit = executor.settings.visit(order, lines);
            let mut ascending: Vec<_> =
                visit.columns().flat_map(|c| (0..c.count).map(move |i| c.first.0 + i * c.stride)).collect();
            let seen = |element| -> Vec<_> {
                one_element(&executor, &memory, element, order, &all).iter().map(|mismatch| mismatch.line.0).collect()
            };
            assert_eq!(seen("^(r0)"), ascending, "{executor:?}");
            assert_eq!(seen("*(r0,w1)"), ascending, "{executor:?}");
            ascending.reverse();
            assert_eq!(seen("v(r0,w1)"), ascending, "{executor:?}");
        }
    }
}

/// So an operation of one line is over before any on a line that is visited a window later ([`crate::execute`], 2).
#[test]
fn each_step_of_an_element_is_done_to_a_batch_before_the_next_step() {
    let lines = 2000;
    let all: Vec<_> = (0..lines).collect();
    for executor in executors() {
        let memory = Memory::new(lines);
        let seen = one_element(&executor, &memory, "^(r0,r0)", AddressSequence::Sequential, &all);
        let batch = usize::try_from(executor.settings.open_in(lines)).unwrap();
        let steps = |batch: &[u64]| [0, 1].map(|op| batch.iter().map(|&line| (line, op)).collect::<Vec<_>>()).concat();
        let expected: Vec<_> = all.chunks(batch).flat_map(steps).collect();
        assert!(batch < all.len() / 2, "several batches");
        assert_eq!(seen.iter().map(|seen| (seen.line.0, seen.op)).collect::<Vec<_>>(), expected, "{executor:?}");
    }
}

#[test]
fn a_region_of_one_line_is_tested() {
    for executor in executors() {
        let memory = Memory::new(1);
        for order in [AddressSequence::Sequential, AddressSequence::Strided] {
            let seen = one_element(&executor, &memory, "v(r0,w1,r1,w0,r0)", order, &[0]);
            assert_eq!(seen.iter().map(|mismatch| mismatch.op).collect::<Vec<_>>(), [0], "{executor:?}");
        }
        memory.content();
    }
}

#[test]
fn whoever_watches_is_told_of_all_operations_in_small_parts() {
    let pass = pass("*(w0); ^(r0,w1); v(r1,w0,r0)", AddressSequence::Sequential);
    for executor in executors() {
        let memory = Memory::new(20_000);
        let mut recorder = Recorder::default();
        let outcome = run(&executor, &memory, &pass, &mut recorder);
        assert_eq!(recorder.calls.iter().sum::<u64>(), 6 * 20_000);
        assert_eq!(outcome.operations, 6 * 20_000);
        assert!(recorder.calls.iter().all(|&operations| operations <= 4 * 4096), "{:?}", recorder.calls);
    }
}

#[test]
fn a_run_stops_where_it_is_told_to() {
    let pass = pass("*(w0); Del; ^(r0,w1)", AddressSequence::Strided);
    for executor in executors() {
        let memory = Memory::new(20_000);
        let mut recorder = Recorder { stop_after: Some(10_000), ..Recorder::default() };
        let outcome = run(&executor, &memory, &pass, &mut recorder);
        assert!(!outcome.completed && recorder.pauses.is_empty());
        assert!((10_000..20_000).contains(&outcome.operations), "{outcome:?}");

        let mut recorder = Recorder { stop_at_pause: true, ..Recorder::default() };
        let outcome = run(&executor, &memory, &pass, &mut recorder);
        assert_eq!(outcome, MarchOutcome { completed: false, mismatches: 0, operations: 20_000 });
        memory.content();
    }
}

#[test]
fn an_emulated_fault_is_found_beside_a_real_one_and_told_from_it() {
    let cell = FaultCell { line: RegionLine(5), bit: LineBit::new(0).unwrap() };
    let faults = vec![PlacedFault::permanent(FaultKind::StuckAt { cell, value: false })];
    for executor in executors() {
        let memory = Memory::new(64);
        let mut emulator = Emulator::new(faults.clone(), 0);
        let mut recorder = Recorder::default();
        let pass = pass("*(w0); ^(r0,w1); v(r1)", AddressSequence::Sequential);
        let outcome = executor.run(&mut memory.region(), &pass, Some(&mut emulator), &mut recorder);
        let reported: Vec<_> = recorder.mismatches.iter().map(|m| (m.line, m.element, m.emulated)).collect();
        assert_eq!(reported, [(cell.line, 1, true)], "background bit 0 is 1, so r0 finds the stuck 0: {outcome:?}");
        assert_eq!(recorder.mismatches[0].bits(), cell.bits());
    }
}

/// The rest itself is the caller's; a cell that leaks has then lost its value.
#[test]
fn a_part_of_a_pass_does_its_elements_only_and_after_a_rest_leaks_show() {
    let cell = FaultCell { line: RegionLine(5), bit: LineBit::new(0).unwrap() };
    let pass = pass("*(w0); Del; *(r0)", AddressSequence::Sequential);
    for executor in executors() {
        let after = executor.settings.retention;
        let leak = PlacedFault::permanent(FaultKind::Retention { cell, loses: true, after });
        for rested in [false, true] {
            let (memory, mut emulator) = (Memory::new(64), Emulator::new(vec![leak], 0));
            let mut recorder = Recorder::default();
            for part in
                [Part { pass: &pass, elements: 0..1, rested: false }, Part { pass: &pass, elements: 2..3, rested }]
            {
                let outcome = executor.run_part(&mut memory.region(), &part, Some(&mut emulator), &mut recorder);
                assert_eq!((outcome.completed, outcome.operations), (true, 64), "{executor:?}");
            }
            let seen: Vec<_> = recorder.mismatches.iter().map(|seen| (seen.line, seen.element)).collect();
            let expected: &[_] = if rested { &[(cell.line, 2)] } else { &[] };
            assert_eq!((seen.as_slice(), recorder.pauses.len()), (expected, 0), "{executor:?}");
        }
    }
}

#[test]
#[should_panic(expected = "emulated faults lie in the region, whose last line is 63")]
fn a_fault_outside_the_region_is_a_bug_of_the_caller() {
    let cell = FaultCell { line: RegionLine(64), bit: LineBit::new(0).unwrap() };
    let mut emulator = Emulator::new(vec![PlacedFault::permanent(FaultKind::StuckAt { cell, value: false })], 0);
    let executor = executors().next().unwrap();
    let memory = Memory::new(64);
    let pass = pass("*(w0)", AddressSequence::Sequential);
    executor.run(&mut memory.region(), &pass, Some(&mut emulator), &mut Recorder::default());
}

#[test]
fn a_block_of_claimed_memory_is_a_region() {
    let claimed = rampart_linux::Block::claim(rampart_memory::Bytes::new(64 << 10), rampart_linux::PageKind::Base);
    let Some(mut block) = rampart_skips::granted(&[rampart_skips::Feature::SmallPages], claimed) else { return };
    let executor = executors().next().unwrap();
    let mut region = Region::from(&mut block);
    assert_eq!((region.lines(), region.bytes().get()), (1024, 64 << 10));
    let pass = pass("*(w0); ^(r0,w1); v(r1)", AddressSequence::Strided);
    let outcome = executor.run(&mut region, &pass, None, &mut Recorder::default());
    assert_eq!(outcome, MarchOutcome { completed: true, mismatches: 0, operations: 4 * 1024 });
}

proptest! {
    /// So [`crate::order`] proves for all pairs of a region that one of the two orders keeps them apart.
    #[test]
    fn the_window_is_harmless_in_every_region_of_2_mib_and_more(lines in (2_u64 << 20) / 64..(64 << 30) / 64) {
        for method in Method::ALL {
            let window = MarchSettings::new(method).window(lines);
            prop_assert!(window <= Visit::safe_window(lines), "{} in {} lines: {}", method, lines, window);
        }
    }
}

#[test]
fn a_line_is_prefetched_as_far_ahead_as_the_window_allows() {
    let ahead = |method, mib: u64| MarchSettings::new(method).ahead_in((mib << 20) / 64);
    assert_eq!([1, 2, 3, 4, 64].map(|mib| ahead(Method::FlushInGroups, mib)), [16, 16, 45, 64, 64]);
    assert_eq!([1, 2, 64].map(|mib| ahead(Method::FlushBehind, mib)), [16; 3]);
    assert_eq!(MarchSettings::new(Method::FlushInGroups).window((64 << 20) / 64), 512 + 64 + 47);
}

#[test]
fn two_orders_keep_every_pair_outside_the_window_once_from_2_mib_on() {
    for method in Method::ALL {
        let settings = MarchSettings::new(method);
        for mib in [2, 3, 4, 8, 16, 64, 1024] {
            let lines = (mib << 20) / 64;
            assert!(settings.keeps_order(lines), "{mib} MiB");
            let columns = settings.visit(AddressSequence::Strided, lines).columns().count() as u64;
            assert_eq!(columns, 2 * settings.window(lines) + 1, "{mib} MiB");
        }
        assert!(!settings.keeps_order(64));
        assert!(settings.window((64 << 20) / 64) <= Visit::safe_window((64 << 20) / 64));
        assert_eq!(settings.visit(AddressSequence::Strided, 1).columns().count(), 1);
    }
}
