//! Replays of traces that the tests make.

use super::*;
use crate::simulated_banks::tests::MACHINE;
use crate::{AllocatorName, BankSample};
use proptest::prelude::*;
use rampart_memory::{BlockOrder, Frame};

const SETTINGS: ReplaySettings =
    ReplaySettings { machine: MACHINE, length: ReplayLength::Loops(1), survivors_percent: 0, seed: 1 };

fn event(micros: u64, frame: u64, order: u8, change: PageChange) -> PageEvent {
    PageEvent {
        micros,
        frame: Frame::new(frame).unwrap(),
        order: BlockOrder::new(order).unwrap(),
        change,
        cpu: 0,
        process: 1,
    }
}

/// Runs a test with a replay and its machine.
fn with_machine(test: impl FnOnce(&mut SimulatedBanks<'_>)) {
    on_machine(MACHINE, test).unwrap();
}

const MOVABLE: PageChange = PageChange::Allocated(Migratetype::Movable);
const UNMOVABLE: PageChange = PageChange::Allocated(Migratetype::Unmovable);

fn last(report: &ReplayReport) -> BankSample {
    *report.samples.last().unwrap()
}

#[test]
fn a_page_of_the_kernel_keeps_its_bank_and_one_of_a_program_does_not() {
    let empty = [event(0, 1, 0, MOVABLE), event(1, 1, 0, PageChange::Freed)];
    let seen = last(&replay(&[empty.to_vec()], SETTINGS).unwrap());
    assert_eq!((seen.removable, seen.empty, seen.optimum, seen.offlinable), (8, 8, 7, 7));
    let program = last(&replay(&[vec![event(0, 1, 10, MOVABLE)]], SETTINGS).unwrap());
    assert_eq!((program.removable, program.empty, program.free), (8, 7, Bytes::from_mib(252)));
    let kernel = last(&replay(&[vec![event(0, 1, 0, UNMOVABLE)]], SETTINGS).unwrap());
    assert_eq!((kernel.removable, kernel.empty, kernel.offlinable), (7, 7, 7));
}

#[test]
fn what_moves_is_that_of_the_emptiest_banks() {
    // Seven banks in use by a few pages each: with 5 % kept free, all but one can go.
    let trace: Vec<PageEvent> = (0..7).map(|block| event(block, block, 10, MOVABLE)).collect();
    let seen = last(&replay(&[trace], SETTINGS).unwrap());
    assert_eq!((seen.optimum, seen.offlinable), (6, 6));
    assert!(seen.to_move <= Bytes::from_mib(28), "{seen:?}");
}

#[test]
fn a_free_that_the_trace_lacks_is_made_up_and_one_without_its_allocation_is_counted() {
    let trace = vec![event(0, 1, 3, MOVABLE), event(1, 1, 3, MOVABLE), event(2, 9, 0, PageChange::Freed)];
    let report = replay(&[trace], SETTINGS).unwrap();
    assert_eq!((report.requests, report.refused, report.unknown_frees, report.implied_frees), (2, 0, 1, 1));
    assert_eq!(last(&report).free, Bytes::new((256 << 20) - 8 * 4096));
}

/// A block that was in use when the recording began.
fn before(frame: u64, order: u8, change: PageChange) -> PageEvent {
    PageEvent { process: PageEvent::BEFORE, ..event(0, frame, order, change) }
}

#[test]
fn a_block_may_be_freed_in_other_sizes_than_it_was_allocated_in() {
    let free = |trace: &[PageEvent]| {
        let report = replay(&[trace.to_vec()], SETTINGS).unwrap();
        ((256 << 20) - last(&report).free.get()) / 4096
    };
    let in_parts = [
        event(0, 512, 9, MOVABLE),
        event(1, 512, 8, PageChange::Freed),
        event(2, 768, 7, PageChange::Freed),
        event(3, 896, 7, PageChange::Freed),
    ];
    assert_eq!(free(&in_parts[..3]), 512, "until its last frame is free, a block stays");
    assert_eq!(free(&in_parts), 0);
    // Single frames of the beginning that were one block, and one of which the kernel allocated again.
    let singles = [before(8, 0, UNMOVABLE), before(9, 0, UNMOVABLE), before(10, 0, MOVABLE)];
    let as_one = [&singles[..], &[event(1, 8, 1, PageChange::Freed)]].concat();
    assert_eq!(free(&as_one), 1);
    let again = [&singles[..], &[event(1, 8, 2, MOVABLE), event(2, 8, 2, PageChange::Freed)]].concat();
    assert_eq!(free(&again), 0);
}

#[test]
fn each_replay_begins_with_what_was_in_use_and_what_stays_in_use_stays_where_it_is() {
    let trace = vec![
        before(0, 10, UNMOVABLE),
        before(1024, 10, MOVABLE),
        before(2048, 10, MOVABLE),
        event(1, 1024, 10, PageChange::Freed),
        event(2, 4096, 10, UNMOVABLE),
        event(3, 2048, 10, PageChange::Freed),
        event(4, 2048, 10, UNMOVABLE),
    ];
    with_machine(|machine| {
        let mut replay = Replay::new(SETTINGS);
        let mut places = Vec::new();
        for _ in 0..3 {
            replay.run(&SplitTrace::of(&trace), machine);
            assert_eq!(machine.frames() - machine.free_frames(), 3 * 1024);
            places.push(replay.live.values_mut().map(|held| held.block).min());
        }
        assert_eq!([places[1], places[2]], [places[0]; 2]);
        // At first all three; then the two whose frames are free, or another's, at the end.
        assert_eq!(machine.report().requests, (3 + 2) + 2 * (2 + 2));
        assert_eq!((machine.report().unknown_frees, machine.report().implied_frees), (0, 0));
        // What another trace left is no longer there.
        replay.run(&SplitTrace::of(&[event(0, 9000, 10, MOVABLE)]), machine);
        replay.run(&SplitTrace::of(&trace), machine);
        assert_eq!(machine.frames() - machine.free_frames(), 3 * 1024);
    });
}

#[test]
fn a_part_of_a_larger_block_does_not_stay_as_a_block_of_its_own() {
    let trace = [
        before(8, 2, MOVABLE),
        event(1, 8, 2, PageChange::Freed),
        event(2, 8, 3, MOVABLE),
        event(3, 12, 2, PageChange::Freed),
    ];
    with_machine(|machine| {
        let mut replay = Replay::new(SETTINGS);
        replay.run(&SplitTrace::of(&trace), machine);
        assert_eq!(machine.frames() - machine.free_frames(), 8);
        replay.warm_up(warm_start(&trace), machine);
        assert_eq!(machine.frames() - machine.free_frames(), 4);
    });
}

#[test]
fn what_was_in_use_lies_where_it_lay_unless_its_frames_are_taken() {
    let kernel = |trace: &[PageEvent], allocator| {
        let machine = MachineSettings { allocator, ..MACHINE };
        let report = replay(&[trace.to_vec()], ReplaySettings { machine, ..SETTINGS }).unwrap();
        let sections: Vec<u64> = report.footprint.kernel.iter().map(|bytes| bytes.get() / 4096).collect();
        sections
    };
    let end = event(1, 0, 0, MOVABLE);
    let apart = [before(8, 3, UNMOVABLE), before(60_000, 0, UNMOVABLE), before(60_001, 0, UNMOVABLE), end];
    assert_eq!(kernel(&apart, AllocatorName::Buddy), [8, 2]);
    assert_eq!(kernel(&apart, AllocatorName::Fullest), [10, 0]);
    // This machine has no such frames.
    assert_eq!(kernel(&[before(1 << 20, 0, UNMOVABLE), end], AllocatorName::Buddy), [1, 0]);
}

/// Else the kernel's later pages would find room there, and taint no other bank.
#[test]
fn free_frames_of_a_cpu_that_looked_like_the_kernels_are_no_memory_of_the_kernel() {
    let trace = [before(8, 0, UNMOVABLE), before(9, 0, UNMOVABLE), event(1, 9, 0, MOVABLE)];
    let report = replay(&[trace.to_vec()], SETTINGS).unwrap();
    assert_eq!((report.requests, report.implied_frees), (2, 0));
    assert_eq!(report.footprint.kernel.iter().map(|bytes| bytes.get()).sum::<u64>(), 4096);
}

#[test]
fn the_banks_are_counted_once_what_was_in_use_is() {
    let warm = (0..1000).map(|frame| before(frame, 0, MOVABLE));
    let trace: Vec<PageEvent> = warm.chain([event(5, 5000, 0, MOVABLE)]).collect();
    let report = replay(&[trace], SETTINGS).unwrap();
    assert_eq!(report.samples.len(), 1);
    assert_eq!(last(&report).free, Bytes::new((256 << 20) - 1001 * 4096));
}

#[test]
fn a_machine_that_is_smaller_than_what_was_in_use_is_refused() {
    let trace: Vec<PageEvent> = (0..65).map(|block| before(block * 1024, 10, MOVABLE)).collect();
    let refused = replay(&[vec![event(0, 0, 0, MOVABLE)], trace], SETTINGS).unwrap_err().to_string();
    assert_eq!(
        refused,
        "a trace begins with 260 MiB in use, and the simulated machine has 256 MiB: give it more memory"
    );
}

#[test]
fn a_machine_fits_its_traces_with_a_quarter_to_spare() {
    // Each event is 4 MiB.
    let trace = |blocks: u64, freed: u64| -> Vec<PageEvent> {
        let allocated = (0..blocks).map(|block| before(block * 1024, 10, MOVABLE));
        allocated.chain((0..freed).map(|block| event(1, block * 1024, 10, PageChange::Freed))).collect()
    };
    let fitting = |traces: &[Vec<PageEvent>]| fitting_memory(traces).get() >> 20;
    assert_eq!([fitting(&[]), fitting(&[trace(1, 0)]), fitting(&[trace(768, 768)])], [4096; 3]);
    assert_eq!([fitting(&[trace(769, 769)]), fitting(&[trace(769, 0), trace(1, 0)])], [8192; 2]);
    // What was freed is not in use, and what is allocated again is in use once.
    let again = [trace(700, 700), trace(700, 0), trace(700, 0)].concat();
    assert_eq!(
        [fitting(&[again]), fitting(&[trace(3 << 9, 0)]), fitting(&[trace((3 << 9) + 1, 0)])],
        [4096, 8192, 16384]
    );
}

#[test]
fn survivors_are_those_of_the_rule() {
    let trace = vec![event(0, 1, 10, MOVABLE), event(1, 2000, 10, UNMOVABLE), event(2, 9000, 0, PageChange::Freed)];
    let free_at_end = |survivors_percent, loops| {
        let settings = ReplaySettings { survivors_percent, length: ReplayLength::Loops(loops), ..SETTINGS };
        last(&replay(std::slice::from_ref(&trace), settings).unwrap()).free
    };
    // The second time, the movable block of the first is still there.
    assert_eq!([free_at_end(0, 1), free_at_end(0, 2)], [248, 244].map(Bytes::from_mib));
    assert_eq!([free_at_end(100, 2), free_at_end(100, 3)], [240, 236].map(Bytes::from_mib));
}

#[test]
fn cached_memory_lives_on_only_where_a_quarter_of_the_machine_is_free() {
    let trace: Vec<PageEvent> = (0..52).map(|block| event(block, block * 1024, 10, MOVABLE)).collect();
    with_machine(|machine| {
        let mut replay = Replay::new(SETTINGS);
        replay.run(&SplitTrace::of(&trace), machine);
        replay.leave(machine);
        let cached: u64 = replay.cached.iter().map(|held| held.block.count()).sum();
        assert!(machine.free_frames() > machine.frames() / 4 && cached > machine.frames() / 2, "{cached}");
    });
}

#[test]
fn a_machine_that_is_full_refuses_and_goes_on() {
    let trace: Vec<PageEvent> = (0..80).map(|block| event(block, block * 1024, 10, MOVABLE)).collect();
    let report = replay(&[trace], SETTINGS).unwrap();
    assert!(report.refused > 16 && last(&report).free <= Bytes::from_mib(8), "{report:?}");
}

/// [Panwar15, figure 5.2]: pages of the kernel among those of programs.
#[test]
fn an_allocator_with_pools_leaves_most_banks_without_the_kernel() {
    let trace: Vec<PageEvent> = (0..24_000)
        .map(|page| event(page, page, 0, if page % 50 == 0 { UNMOVABLE } else { MOVABLE }))
        // Programs end; the kernel keeps its pages.
        .chain((0..24_000).filter(|page| page % 50 != 0).map(|page| event(24_000 + page, page, 0, PageChange::Freed)))
        .collect();
    let removable = |allocator, loops| {
        let settings = ReplaySettings {
            machine: MachineSettings { allocator, ..MACHINE },
            length: ReplayLength::Loops(loops),
            survivors_percent: 100,
            ..SETTINGS
        };
        last(&replay(std::slice::from_ref(&trace), settings).unwrap()).removable
    };
    for allocator in [AllocatorName::Array, AllocatorName::List, AllocatorName::Adaptive, AllocatorName::Fullest] {
        assert_eq!(removable(allocator, 4), 7, "{allocator:?}");
    }
    assert!(removable(AllocatorName::Buddy, 4) < 7);
}

#[test]
fn a_bank_is_on_between_the_times_of_its_events() {
    let trace = vec![event(0, 0, 0, UNMOVABLE), event(100, 1, 0, MOVABLE), event(400, 1, 0, PageChange::Freed)];
    let machine = MachineSettings { allocator: AllocatorName::Adaptive, migrates: false, ..MACHINE };
    let settings = ReplaySettings { machine, length: ReplayLength::Loops(2), survivors_percent: 100, ..SETTINGS };
    let times = replay(&[trace], settings).unwrap().times;
    // The first page of the kernel lies in the bank in two zones, and one of the others is on for 300 µs in each loop.
    assert_eq!((times.on_micros, times.off_micros, times.changes), (800 + 600, 8 * 800 - 1400, 4));
}

#[test]
fn traces_are_replayed_until_the_time_has_passed() {
    let trace = vec![event(0, 0, 0, MOVABLE), event(400, 1, 0, MOVABLE)];
    let micros = |length, trace: &Vec<PageEvent>| {
        replay(std::slice::from_ref(trace), ReplaySettings { length, ..SETTINGS }).unwrap().micros
    };
    let of = |wanted| micros(ReplayLength::Micros(wanted), &trace);
    assert_eq!([of(0), of(399), of(400), of(401), of(1000)], [400, 400, 400, 800, 1200]);
    let timeless = vec![event(0, 0, 0, MOVABLE)];
    assert_eq!(micros(ReplayLength::Micros(1000), &timeless), 0, "a trace without time has an end too");
}

#[test]
fn what_is_no_machine_is_refused() {
    let refused = |memory, bank| {
        let settings = ReplaySettings {
            machine: MachineSettings { memory: Bytes::from_mib(memory), bank: Bytes::from_mib(bank), ..MACHINE },
            ..SETTINGS
        };
        replay(&[], settings).unwrap_err().to_string()
    };
    for (memory, bank) in [(0, 32), (16, 32), (48, 32), (256, 2), (256, 48)] {
        assert!(refused(memory, bank).starts_with("a machine is made up of whole banks"), "{memory} {bank}");
    }
}

proptest! {
    /// The counts of each bank are those of the blocks in use, and the same seed gives the same replay.
    #[test]
    fn no_frame_is_lost_or_counted_twice(
        steps in proptest::collection::vec((0_u64..60, 0_u8..=10, 0_usize..3, any::<bool>()), 1..400),
        survivors_percent in 0_u32..=100
    ) {
        let event = |(micros, (frame, order, kind, frees)): (u64, (u64, u8, usize, bool))| {
            let change = if frees { PageChange::Freed } else { PageChange::Allocated(Migratetype::ALL[kind]) };
            event(micros, frame, order, change)
        };
        let trace: Vec<PageEvent> = (0..).zip(steps).map(event).collect();
        let settings = ReplaySettings { survivors_percent, length: ReplayLength::Loops(2), ..SETTINGS };
        let mut counts = Vec::new();
        let first = on_machine(MACHINE, |machine| {
            let mut replay = Replay::new(settings);
            for _ in 0..2 {
                replay.run(&SplitTrace::of(&trace), machine);
                let live: u64 = replay.live.values_mut().map(|held| held.block.count()).sum();
                let left = replay.cached.iter().chain(&replay.kept).map(|held| held.block.count());
                let held = live + left.sum::<u64>();
                counts.push((machine.frames() - machine.free_frames(), held));
            }
        });
        prop_assert!(counts.iter().all(|(used, held)| used == held), "{:?}", counts);
        let again = replay(std::slice::from_ref(&trace), settings).unwrap();
        prop_assert_eq!(&again.samples, &first.unwrap().samples);
        prop_assert!(again.samples.iter().all(|seen| seen.offlinable <= seen.optimum && seen.empty <= seen.removable));
    }
}
