//! All engines and both methods against the reference model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use rampart_memory::fault::{
    Emulator, FaultCell, FaultKind, Idempotent, Persistence, PlacedFault, TransitionDirection,
};
use rampart_memory::{LineBit, LineData, RegionLine};

use super::Memory;
use super::naive::{self, Lines};
use crate::execute::{Executor, MarchEngine, MarchOutcome, MarchSettings, Method, Mismatch, Region, Watch};
use crate::test::arbitrary::any_test;
use crate::{AddressSequence, Aim, Background, Element, MarchTest, Op, Pass};

const DELAY: Duration = Duration::from_millis(5);

/// Flips bits of the memory at the end of elements, and keeps what is reported to it.
struct Saboteur<'m> {
    memory: &'m Memory,
    /// The bits of the memory to flip after this many operations.
    flips: BTreeMap<u64, Vec<FaultCell>>,
    operations: u64,
    mismatches: Vec<Mismatch>,
    pauses: Vec<Duration>,
}

impl Watch for Saboteur<'_> {
    fn mismatch(&mut self, mismatch: &Mismatch) {
        self.mismatches.push(*mismatch);
    }

    fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
        self.operations += operations;
        for cell in self.flips.get(&self.operations).into_iter().flatten() {
            let data = self.memory.get(cell.line);
            self.memory.set(cell.line, data.with_bit(cell.bit, !data.bit(cell.bit)));
        }
        ControlFlow::Continue(())
    }

    fn pause(&mut self, delay: Duration) -> ControlFlow<()> {
        self.pauses.push(delay);
        ControlFlow::Continue(())
    }
}

/// A pass, and the faults during it.
#[derive(Clone, Debug)]
struct Case {
    lines: u64,
    /// The region is a list of pages, the last first.
    pages: bool,
    open: u64,
    pass: Pass,
    /// Bits that flip at the end of an element.
    flips: Vec<(usize, FaultCell)>,
    faults: Vec<PlacedFault>,
}

impl Case {
    fn saboteur<'m>(&self, memory: &'m Memory) -> Saboteur<'m> {
        let mut ends = Vec::new();
        let mut operations = 0;
        for element in self.pass.test.elements() {
            if let Element::Sweep { ops, .. } = element {
                operations += ops.len() as u64 * self.lines;
                ends.push(operations);
            }
        }
        let mut flips: BTreeMap<u64, Vec<FaultCell>> = BTreeMap::new();
        for (element, cell) in &self.flips {
            flips.entry(ends[element % ends.len()]).or_default().push(*cell);
        }
        Saboteur { memory, flips, operations: 0, mismatches: Vec::new(), pauses: Vec::new() }
    }

    fn settings(&self, method: Method) -> MarchSettings {
        MarchSettings { open: self.open, delay: DELAY, ..MarchSettings::new(method) }
    }
}

/// The result of a run: its reports, in the order of elements, operations and lines, and the content of the memory.
#[derive(Debug, PartialEq)]
struct Traces {
    mismatches: Vec<Mismatch>,
    pauses: Vec<Duration>,
    operations: u64,
    content: Vec<LineData>,
}

impl Traces {
    fn of(saboteur: Saboteur<'_>) -> Self {
        let Saboteur { memory, operations, mut mismatches, pauses, .. } = saboteur;
        mismatches.sort_by_key(|mismatch| (mismatch.element, mismatch.op, mismatch.line));
        Self { mismatches, pauses, operations, content: memory.content() }
    }
}

fn naively(case: &Case) -> Traces {
    let memory = Memory::new(case.lines);
    let mut emulator = Emulator::new(case.faults.clone(), 1);
    let mut saboteur = case.saboteur(&memory);
    let visit = case.settings(Method::FlushBehind).visit(case.pass.order, case.lines);
    let lines = Lines { memory: &memory, pages_reversed: case.pages };
    assert!(naive::run(lines, &case.pass, visit, DELAY, &mut emulator, &mut saboteur));
    Traces::of(saboteur)
}

fn execute(case: &Case, engine: MarchEngine, method: Method) -> (MarchOutcome, Traces) {
    let memory = Memory::new(case.lines);
    let mut emulator = Emulator::new(case.faults.clone(), 1);
    let mut saboteur = case.saboteur(&memory);
    let executor = Executor { engine, settings: case.settings(method) };
    let pages = memory.pages_reversed();
    let mut region = if case.pages {
        // SAFETY: the pages are the memory's own, each once; only the saboteur touches them, as a fault would.
        unsafe { Region::from_pages(&pages) }
    } else {
        memory.region()
    };
    let outcome = executor.run(&mut region, &case.pass, Some(&mut emulator), &mut saboteur);
    (outcome, Traces::of(saboteur))
}

fn agrees_with_naive(case: &Case) -> Result<(), TestCaseError> {
    let expected = naively(case);
    for engine in MarchEngine::all_available() {
        for method in Method::ALL {
            let (outcome, traces) = execute(case, engine, method);
            prop_assert!(outcome.completed);
            prop_assert_eq!(outcome.operations, expected.operations);
            prop_assert_eq!(outcome.mismatches, expected.mismatches.len() as u64);
            prop_assert_eq!(&traces, &expected, "{}, {:?}", engine, method);
        }
    }
    Ok(())
}

/// Any sound test; if `wild`, every third of its reads expects the wrong value.
fn march_test() -> impl Strategy<Value = MarchTest> {
    (any_test(), prop::bool::weighted(0.2)).prop_map(|(test, wild)| {
        let mut elements = test.elements().to_vec();
        let ops = elements.iter_mut().flat_map(|element| match element {
            Element::Sweep { ops, .. } => ops.as_mut_slice(),
            Element::Delay => &mut [],
        });
        let reads = ops.filter_map(|op| match op {
            Op::Read(value) => Some(value),
            Op::Write(_) => None,
        });
        reads.step_by(3).for_each(|value| *value ^= wild);
        MarchTest::from_elements(elements)
    })
}

fn cell(lines: u64) -> impl Strategy<Value = FaultCell> {
    // First and last lines are as likely as all others.
    let line = prop_oneof![2 => 0..lines, 1 => Just(0), 1 => Just(lines - 1)];
    (line, 0..LineBit::COUNT)
        .prop_map(|(line, bit)| FaultCell { line: RegionLine(line), bit: LineBit::new(bit).unwrap() })
}

fn fault(lines: u64) -> impl Strategy<Value = PlacedFault> {
    let on = prop_oneof![Just(TransitionDirection::Up), Just(TransitionDirection::Down)];
    let kind =
        (0..5, cell(lines), cell(lines), on, any::<bool>()).prop_map(|(kind, cell, other, on, value)| match kind {
            0 => FaultKind::StuckAt { cell, value },
            1 => FaultKind::Transition { cell, blocked: on },
            2 => FaultKind::Idempotent(Idempotent { aggressor: cell, on, victim: other, value }),
            3 => FaultKind::State { aggressor: cell, holds: value, victim: other, reads: on.from() },
            _ => FaultKind::Retention { cell, loses: value, after: DELAY },
        });
    let persistence = prop_oneof![
        3 => Just(Persistence::Permanent),
        1 => Just(Persistence::Intermittent { probability: 0.5.try_into().unwrap() }),
    ];
    (kind, persistence).prop_map(|(kind, persistence)| PlacedFault { kind, persistence })
}

fn case(sizes: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Case> {
    let open = prop_oneof![Just(1), Just(2), Just(7), Just(64), Just(MarchSettings::OPEN)];
    let order = prop_oneof![Just(AddressSequence::Sequential), Just(AddressSequence::Strided)];
    let data = any::<[u64; 8]>().prop_map(LineData);
    (sizes, any::<bool>(), open, march_test(), order, data).prop_flat_map(|(lines, pages, open, test, order, data)| {
        let background = Background { name: "random".to_owned(), data };
        let pass = Pass { test, background, order, aim: Aim::BetweenLines };
        let flips = prop::collection::vec((0_usize..8, cell(lines)), 0..5);
        let faults = prop::collection::vec(fault(lines), 0..6);
        (flips, faults).prop_map(move |(flips, faults)| Case {
            lines,
            pages: pages && lines % 64 == 0,
            open,
            pass: pass.clone(),
            flips,
            faults,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_engine_and_method_sees_what_the_naive_loop_sees(
        case in case(prop_oneof![1_u64..400, (1_u64..8).prop_map(|pages| pages * 64)])
    ) {
        agrees_with_naive(&case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn so_it_is_in_regions_of_many_stretches(case in case(8000_u64..12_000)) {
        agrees_with_naive(&case)?;
    }
}
