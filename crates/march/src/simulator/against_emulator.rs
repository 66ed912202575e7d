//! The simulator and the emulator were written independently; they must agree on every fault that both know.

use std::time::Duration;

use rampart_memory::fault::{self, FaultKind, Idempotent, LineSpan, PlacedFault};
use rampart_memory::{LineBit, RegionLine};

use super::fault::{AddressFault, CELLS, Cell, Effect, Fault, Floating, Primitive, Sensitizer, Wired, cells};
use super::{Kind, list, world};
use crate::coverage::guarantees;
use crate::execute::{MarchSettings, Method};
use crate::named::NAMED;
use crate::{AddressSequence, Direction, Element, Fidelity, MarchTest, Plan};

const DELAY: Duration = Duration::from_millis(100);

const REGION: LineSpan = LineSpan { first: RegionLine(0), last: RegionLine(CELLS as u64 - 1) };

const fn line(cell: Cell) -> RegionLine {
    RegionLine(cell.0 as u64)
}

fn placed(cell: Cell) -> fault::FaultCell {
    fault::FaultCell { line: line(cell), bit: LineBit::new(300).expect("below 512") }
}

/// The simulator's fault as a fault of the emulator.
fn emulated(fault: &Fault) -> FaultKind {
    match fault {
        Fault::StuckOpen(cell) => FaultKind::StuckOpen { cell: placed(*cell), column: REGION },
        Fault::Address(address) => FaultKind::Address(emulated_address(address)),
        Fault::Primitives(primitives) => match primitives[..] {
            [first, second] => FaultKind::Linked { first: idempotent(&first), second: idempotent(&second) },
            [primitive] => emulated_primitive(&primitive),
            _ => panic!("{fault:?} is one primitive or two"),
        },
    }
}

fn emulated_primitive(primitive: &Primitive) -> FaultKind {
    let (on, victim) = (placed(primitive.on), placed(primitive.victim));
    match (primitive.when, primitive.given) {
        (Sensitizer::State(lost), None) => FaultKind::StuckAt { cell: victim, value: !lost },
        (Sensitizer::Delay(loses), None) => FaultKind::Retention { cell: victim, loses, after: DELAY },
        (Sensitizer::Write(from, to), None) => {
            let change = fault::TransitionDirection::of(from, to).expect("a transition");
            if on == victim {
                FaultKind::Transition { cell: victim, blocked: change }
            } else {
                FaultKind::Inversion { aggressor: on, on: change, victim }
            }
        }
        (Sensitizer::Read(value), Some((aggressor, holds))) if primitive.effect == Effect::Misreads => {
            FaultKind::State { aggressor: placed(aggressor), holds, victim, reads: !value }
        }
        _ => FaultKind::Idempotent(idempotent(primitive)),
    }
}

fn idempotent(primitive: &Primitive) -> Idempotent {
    let (Sensitizer::Write(from, to), Some((_, loses))) = (primitive.when, primitive.given) else {
        panic!("{primitive:?} is a CFid");
    };
    let on = fault::TransitionDirection::of(from, to).expect("a CFid is set off by a change");
    Idempotent { aggressor: placed(primitive.on), on, victim: placed(primitive.victim), value: !loses }
}

fn emulated_address(address: &AddressFault) -> fault::AddressFault {
    let floating = match address.floating {
        Floating::At(false) => fault::Floating::Zeros,
        Floating::At(true) => fault::Floating::Ones,
        Floating::Last => fault::Floating::LastOnBus(REGION),
    };
    let wired = match address.wired {
        Wired::And => fault::Wired::And,
        Wired::Or => fault::Wired::Or,
    };
    let reaching =
        |wanted: &dyn Fn(Cell, u8) -> bool| cells().find(|&cell| wanted(cell, address.reaches[usize::from(cell.0)]));
    let none = reaching(&|_, cells| cells == 0);
    let two = reaching(&|_, cells| cells.count_ones() == 2);
    let other_than = |cell: Cell| {
        let reached = address.reaches[usize::from(cell.0)] & !(1 << cell.0);
        line(cells().find(|other| reached == 1 << other.0).expect("one other cell"))
    };
    match (none.map(line), two) {
        (Some(line), None) => fault::AddressFault::NoCell { line, floating },
        (Some(line), Some(by)) => fault::AddressFault::Taken { line, by: self::line(by), floating, wired },
        (None, Some(address)) => fault::AddressFault::Also { line: line(address), other: other_than(address), wired },
        (None, None) => {
            let misled = reaching(&|cell, cells| cells != 1 << cell.0).expect("an address is wrong");
            fault::AddressFault::Instead { line: line(misled), other: other_than(misled) }
        }
    }
}

/// The test with every choice of directions for its ⇕.
fn directed(test: &MarchTest) -> Vec<MarchTest> {
    let mut tests: Vec<Vec<Element>> = vec![vec![]];
    for element in test.elements() {
        let choices = match element {
            Element::Sweep { direction: Direction::Any, ops } => [Direction::Up, Direction::Down]
                .map(|direction| Element::Sweep { direction, ops: ops.clone() })
                .to_vec(),
            _ => vec![element.clone()],
        };
        let with = |choice: &Element| {
            tests.iter().map(|test| [test.as_slice(), std::slice::from_ref(choice)].concat()).collect()
        };
        tests = choices.iter().flat_map(|choice| -> Vec<_> { with(choice) }).collect();
    }
    tests.into_iter().map(MarchTest::from_elements).collect()
}

#[test]
fn the_emulator_promises_what_the_simulator_proves() {
    let kinds = [
        Kind::StuckAt,
        Kind::Transition,
        Kind::Address,
        Kind::StuckOpen,
        Kind::Retention,
        Kind::Inversion,
        Kind::Idempotent,
        Kind::State,
        Kind::LinkedIdempotent,
    ];
    let faults: Vec<_> = kinds.into_iter().flat_map(list::faults).collect();
    assert_eq!(faults.len(), 388);
    let settings = MarchSettings { delay: DELAY, ..MarchSettings::new(Method::NonTemporal) };
    for named in NAMED {
        let plans: Vec<_> = directed(&named.test())
            .into_iter()
            .map(|test| Plan::new(test, Fidelity::MIN, &[AddressSequence::Sequential], 0))
            .collect();
        for fault in &faults {
            let placed = PlacedFault::permanent(emulated(fault));
            let guaranteed = plans.iter().all(|plan| guarantees(plan, &placed, u64::from(CELLS), &settings));
            assert_eq!(guaranteed, world::detects(&named.test(), fault), "{}: {placed}", named.name);
        }
    }
}
