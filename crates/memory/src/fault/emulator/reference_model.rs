//! The emulator against naive reference models: a memory of four one-bit cells, as in the exhaustive fault simulators
//! of the literature, and one line as a word.

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::Memory;
use super::*;
use crate::fault::{AddressFault, FaultCell, Idempotent, LineSpan, Wired};
use crate::{LINE_WORDS, LineBit};

const CELLS: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);

fn cell(line: usize) -> FaultCell {
    FaultCell { line: RegionLine(u64::try_from(line).unwrap()), bit: LineBit::new(77).unwrap() }
}

fn place(line: RegionLine) -> usize {
    usize::try_from(line.0).unwrap()
}

fn filled(value: bool) -> LineData {
    LineData([if value { u64::MAX } else { 0 }; LINE_WORDS])
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Write(usize, bool),
    Read(usize),
    Delay,
}

/// Four one-bit cells with one fault, each operation spelled out.
struct ReferenceModel {
    cells: [bool; CELLS],
    sense: bool,
    bus: bool,
    fault: FaultKind,
}

impl ReferenceModel {
    fn write(&mut self, at: usize, value: bool) {
        let before = self.cells;
        self.bus = value;
        if let FaultKind::Address(fault) = self.fault {
            for reached in addressed(fault, at) {
                self.cells[reached] = value;
            }
            return;
        }
        self.cells[at] = value;
        let changed = |cell: FaultCell, on| {
            place(cell.line) == at && before[at] != value && value == (on == TransitionDirection::Up)
        };
        match self.fault {
            FaultKind::Transition { cell, blocked } if changed(cell, blocked) => self.cells[at] = before[at],
            FaultKind::StuckOpen { cell, .. } if place(cell.line) == at => self.cells[at] = before[at],
            FaultKind::Inversion { aggressor, on, victim } if changed(aggressor, on) => {
                self.cells[place(victim.line)] ^= true;
            }
            FaultKind::Idempotent(Idempotent { aggressor, on, victim, value }) if changed(aggressor, on) => {
                self.cells[place(victim.line)] = value;
            }
            FaultKind::Linked { first, second } => {
                for coupling in [first, second] {
                    if changed(coupling.aggressor, coupling.on) {
                        self.cells[place(coupling.victim.line)] = coupling.value;
                    }
                }
            }
            _ => {}
        }
    }

    fn read(&mut self, at: usize) -> bool {
        let held = self.cells[at];
        let answer = match self.fault {
            FaultKind::Address(fault) => self.read_addressed(fault, at),
            FaultKind::StuckAt { cell, value } if place(cell.line) == at => value,
            FaultKind::StuckOpen { cell, .. } if place(cell.line) == at => self.sense,
            FaultKind::State { aggressor, holds, victim, reads }
                if place(victim.line) == at && self.cells[place(aggressor.line)] == holds =>
            {
                reads
            }
            _ => held,
        };
        (self.sense, self.bus) = (answer, answer);
        answer
    }

    fn read_addressed(&self, fault: AddressFault, at: usize) -> bool {
        let reached: Vec<bool> = addressed(fault, at).into_iter().map(|cell| self.cells[cell]).collect();
        match fault {
            AddressFault::NoCell { floating, .. } | AddressFault::Taken { floating, .. } if reached.is_empty() => {
                match floating {
                    Floating::Zeros => false,
                    Floating::Ones => true,
                    Floating::LastOnBus(_) => self.bus,
                }
            }
            AddressFault::Taken { wired: Wired::Or, .. } | AddressFault::Also { wired: Wired::Or, .. } => {
                reached.contains(&true)
            }
            _ => !reached.contains(&false),
        }
    }

    fn delay(&mut self) {
        if let FaultKind::Retention { cell, loses, .. } = self.fault {
            let held = &mut self.cells[place(cell.line)];
            *held = if *held == loses { !loses } else { *held };
        }
    }
}

/// The cells that an address reaches.
fn addressed(fault: AddressFault, at: usize) -> Vec<usize> {
    match fault {
        AddressFault::NoCell { line, .. } | AddressFault::Taken { line, .. } if place(line) == at => vec![],
        AddressFault::Taken { line, by, .. } if place(by) == at => vec![at, place(line)],
        AddressFault::Instead { line, other } if place(line) == at => vec![place(other)],
        AddressFault::Also { line, other, .. } if place(line) == at => vec![at, place(other)],
        _ => vec![at],
    }
}

/// Every fault of two cells that the tables of march tests count.
fn kinds() -> impl Strategy<Value = FaultKind> {
    let all = LineSpan { first: RegionLine(0), last: RegionLine(3) };
    let cells = (0..CELLS, 1..CELLS, 1..CELLS).prop_map(|(v, a, b)| (v, (v + a) % CELLS, (v + b) % CELLS));
    (cells, any::<[bool; 4]>(), 0..12).prop_map(move |((v, a, b), [p, q, r, s], kind)| {
        let direction = |up| if up { TransitionDirection::Up } else { TransitionDirection::Down };
        let (line, other) = (cell(v).line, cell(a).line);
        let wired = if p { Wired::And } else { Wired::Or };
        let floating = if q {
            Floating::LastOnBus(all)
        } else if r {
            Floating::Ones
        } else {
            Floating::Zeros
        };
        let coupling =
            |from, up, value| Idempotent { aggressor: cell(from), on: direction(up), victim: cell(v), value };
        match kind {
            0 => FaultKind::StuckAt { cell: cell(v), value: p },
            1 => FaultKind::Transition { cell: cell(v), blocked: direction(p) },
            2 => FaultKind::Inversion { aggressor: cell(a), on: direction(p), victim: cell(v) },
            3 => FaultKind::Idempotent(coupling(a, p, q)),
            4 => FaultKind::State { aggressor: cell(a), holds: p, victim: cell(v), reads: q },
            5 => FaultKind::Address(AddressFault::NoCell { line, floating }),
            6 => FaultKind::Address(AddressFault::Taken { line, by: other, floating, wired }),
            7 => FaultKind::Address(AddressFault::Instead { line, other }),
            8 => FaultKind::Address(AddressFault::Also { line, other, wired }),
            9 => FaultKind::StuckOpen { cell: cell(v), column: all },
            10 => FaultKind::Retention { cell: cell(v), loses: p, after: PAUSE },
            _ => FaultKind::Linked { first: coupling(a, p, q), second: coupling(b, r, s) },
        }
    })
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        4 => (0..CELLS, any::<bool>()).prop_map(|(at, value)| Operation::Write(at, value)),
        4 => (0..CELLS).prop_map(Operation::Read),
        1 => Just(Operation::Delay),
    ];
    vec(operation, 0..60)
}

/// The coupled bits of a word after a write with a dominating coupling: van de Goor and Tlili's model, written out.
fn written(before: u64, data: u64, aggressor: u32, up: bool, victim: u32, forced: Option<bool>) -> u64 {
    let bit = |word: u64, place: u32| word >> place & 1 == 1;
    if (bit(before, aggressor), bit(data, aggressor)) != (!up, up) {
        return data;
    }
    let value = forced.unwrap_or(!bit(data, victim));
    data & !(1 << victim) | u64::from(value) << victim
}

proptest! {
    #[test]
    fn four_lines_with_a_fault_answer_as_four_cells_with_it(
        kind in kinds(),
        held in any::<[bool; CELLS]>(),
        seed in any::<u64>(),
        operations in operations(),
    ) {
        let bit = cell(0).bit;
        let mut memory = Memory(held.map(filled).to_vec());
        let mut emulator = Emulator::new(vec![PlacedFault::permanent(kind)], seed);
        let mut model = ReferenceModel { cells: held, sense: emulator.sense.bit(bit), bus: emulator.bus.bit(bit), fault: kind };
        for operation in operations {
            match operation {
                Operation::Write(at, value) => {
                    emulator.write(&mut memory, cell(at).line, filled(value));
                    model.write(at, value);
                }
                Operation::Read(at) => {
                    let answer = emulator.read(&mut memory, cell(at).line).bit(bit);
                    prop_assert_eq!(answer, model.read(at), "{} at {:?}", kind, operation);
                }
                Operation::Delay => {
                    emulator.pause(&mut memory, PAUSE);
                    model.delay();
                }
            }
        }
        let left: Vec<bool> = memory.0.iter().map(|line| line.bit(bit)).collect();
        prop_assert_eq!(left, model.cells);
    }

    #[test]
    fn a_coupling_inside_a_line_does_as_in_a_word(
        bits in (0..64_u32, 1..64_u32),
        up in any::<bool>(),
        forced in any::<Option<bool>>(),
        words in vec(any::<u64>(), 1..40),
    ) {
        let (a, v) = (bits.0, (bits.0 + bits.1) % 64);
        let cell = |place: u32| FaultCell { line: RegionLine(0), bit: LineBit::new(u16::try_from(place).unwrap()).unwrap() };
        let on = if up { TransitionDirection::Up } else { TransitionDirection::Down };
        let (aggressor, victim) = (cell(a), cell(v));
        let kind = match forced {
            Some(value) => FaultKind::Idempotent(Idempotent { aggressor, on, victim, value }),
            None => FaultKind::Inversion { aggressor, on, victim },
        };
        let mut memory = Memory(vec![LineData::ZERO]);
        let mut emulator = Emulator::new(vec![PlacedFault::permanent(kind)], 0);
        let mut word = 0;
        for data in words {
            emulator.write(&mut memory, RegionLine(0), LineData([data, 1, 2, 3, 4, 5, 6, 7]));
            word = written(word, data, a, up, v, forced);
            prop_assert_eq!(emulator.read(&mut memory, RegionLine(0)), LineData([word, 1, 2, 3, 4, 5, 6, 7]));
        }
    }
}
