//! Each kind of fault and each persistence, worked out by hand.

use super::*;
use crate::fault::{AddressFault, FaultCell, Idempotent, LineSpan, Probability, Wired, WordPattern};
use crate::{LINE_WORDS, LineBit};

pub(super) const ZEROS: LineData = LineData::ZERO;
pub(super) const ONES: LineData = LineData([u64::MAX; LINE_WORDS]);

/// Good memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory(pub(super) Vec<LineData>);

impl LineAccess for Memory {
    fn load(&mut self, line: RegionLine) -> LineData {
        self.0[usize::try_from(line.0).unwrap()]
    }

    fn store(&mut self, line: RegionLine, data: LineData) {
        self.0[usize::try_from(line.0).unwrap()] = data;
    }
}

/// Eight lines of memory with faults.
struct Bench {
    memory: Memory,
    emulator: Emulator,
}

impl Bench {
    fn with(persistence: Persistence, kind: FaultKind) -> Self {
        let emulator = Emulator::new(vec![PlacedFault { kind, persistence }], 1);
        Self { memory: Memory(vec![ZEROS; 8]), emulator }
    }

    fn new(kind: FaultKind) -> Self {
        Self::with(Persistence::Permanent, kind)
    }

    fn write(&mut self, line: u64, data: LineData) {
        self.emulator.write(&mut self.memory, RegionLine(line), data);
    }

    fn read(&mut self, line: u64) -> LineData {
        self.emulator.read(&mut self.memory, RegionLine(line))
    }

    fn pause(&mut self, millis: u64) {
        self.emulator.pause(&mut self.memory, Duration::from_millis(millis));
    }
}

fn bit(index: u16) -> LineBit {
    LineBit::new(index).unwrap()
}

fn cell(line: u64, index: u16) -> FaultCell {
    FaultCell { line: RegionLine(line), bit: bit(index) }
}

fn span(first: u64, last: u64) -> LineSpan {
    LineSpan { first: RegionLine(first), last: RegionLine(last) }
}

#[test]
fn a_stuck_bit_reads_as_it_is_stuck_whatever_is_written() {
    let mut bench = Bench::new(FaultKind::StuckAt { cell: cell(2, 65), value: true });
    assert_eq!(bench.read(2), ZEROS.with_bit(bit(65), true), "before the first write too");
    bench.write(2, ONES);
    assert_eq!(bench.read(2), ONES);
    bench.write(2, ZEROS);
    assert_eq!(bench.read(2), ZEROS.with_bit(bit(65), true));
    bench.write(3, ZEROS);
    assert_eq!(bench.read(3), ZEROS);
}

#[test]
fn stuck_bits_of_a_word_read_as_they_are_stuck() {
    let stuck = WordPattern::new(7, 0b1011, 0b0001).unwrap();
    let mut bench = Bench::new(FaultKind::MultiBit { line: RegionLine(1), stuck });
    bench.write(1, ZEROS);
    assert_eq!(bench.read(1).0[7], 0b0001);
    bench.write(1, ONES);
    assert_eq!(bench.read(1).0[7], !0b1010);
    assert_eq!(bench.read(1).0[..7], ONES.0[..7]);
}

#[test]
fn a_transition_fault_blocks_one_way_and_lets_the_other_pass() {
    let mut bench = Bench::new(FaultKind::Transition { cell: cell(0, 3), blocked: TransitionDirection::Up });
    bench.write(0, ONES);
    assert_eq!(bench.read(0), ONES.with_bit(bit(3), false));
    bench.memory.0[0] = ONES;
    bench.write(0, ONES);
    assert_eq!(bench.read(0), ONES, "a cell that is already up stays up");
    bench.write(0, ZEROS);
    assert_eq!(bench.read(0), ZEROS);

    let mut bench = Bench::new(FaultKind::Transition { cell: cell(0, 3), blocked: TransitionDirection::Down });
    bench.write(0, ONES);
    bench.write(0, ZEROS);
    assert_eq!(bench.read(0), ZEROS.with_bit(bit(3), true));
}

#[test]
fn an_inversion_coupling_flips_its_victim_at_one_change_of_the_aggressor() {
    let mut bench =
        Bench::new(FaultKind::Inversion { aggressor: cell(1, 0), on: TransitionDirection::Up, victim: cell(5, 9) });
    bench.write(1, ONES);
    assert_eq!(bench.read(5), ZEROS.with_bit(bit(9), true));
    bench.write(1, ONES);
    bench.write(1, ZEROS);
    assert_eq!(bench.read(5), ZEROS.with_bit(bit(9), true), "neither no change nor the other change acts");
    bench.write(1, ONES);
    assert_eq!(bench.read(5), ZEROS);
    assert_eq!(bench.read(1), ONES, "the aggressor is sound");
}

#[test]
fn an_idempotent_coupling_forces_its_victim() {
    let coupling = Idempotent { aggressor: cell(1, 0), on: TransitionDirection::Down, victim: cell(5, 9), value: true };
    let mut bench = Bench::new(FaultKind::Idempotent(coupling));
    bench.write(1, ONES);
    assert_eq!(bench.read(5), ZEROS);
    bench.write(1, ZEROS);
    assert_eq!(bench.read(5), ZEROS.with_bit(bit(9), true));
    bench.write(5, ZEROS);
    assert_eq!(bench.read(5), ZEROS, "a write to the victim repairs it");
    bench.write(5, ONES);
    bench.write(1, ONES);
    bench.write(1, ZEROS);
    assert_eq!(bench.read(5), ONES, "it holds the value already");
}

#[test]
fn a_coupling_inside_a_line_dominates_what_is_written_to_its_victim() {
    let coupling =
        Idempotent { aggressor: cell(4, 0), on: TransitionDirection::Up, victim: cell(4, 500), value: false };
    let mut bench = Bench::new(FaultKind::Idempotent(coupling));
    bench.write(4, ONES);
    assert_eq!(bench.read(4), ONES.with_bit(bit(500), false));
    bench.write(4, ONES);
    assert_eq!(bench.read(4), ONES, "the aggressor did not change");

    let kind = FaultKind::Inversion { aggressor: cell(4, 0), on: TransitionDirection::Up, victim: cell(4, 500) };
    let mut bench = Bench::new(kind);
    bench.write(4, ONES);
    assert_eq!(bench.read(4), ONES.with_bit(bit(500), false));
}

#[test]
fn a_state_coupling_changes_what_is_read_and_not_what_is_held() {
    for victim in [cell(6, 7), cell(1, 7)] {
        let kind = FaultKind::State { aggressor: cell(1, 0), holds: true, victim, reads: false };
        let mut bench = Bench::new(kind);
        let line = victim.line.0;
        bench.write(line, ONES);
        bench.write(1, ONES);
        assert_eq!(bench.read(line), ONES.with_bit(bit(7), false));
        assert_eq!(bench.memory.load(victim.line), ONES);
        bench.write(1, ONES.with_bit(bit(0), false));
        assert!(bench.read(line).bit(bit(7)), "the aggressor holds the other state");
    }
}

#[test]
fn an_address_without_cells_loses_writes_and_floats() {
    let fault = |floating| FaultKind::Address(AddressFault::NoCell { line: RegionLine(2), floating });
    for (floating, reads) in [(Floating::Zeros, ZEROS), (Floating::Ones, ONES)] {
        let mut bench = Bench::new(fault(floating));
        bench.write(2, reads.inverted());
        assert_eq!(bench.read(2), reads);
        assert_eq!(bench.memory.0[2], ZEROS, "the write is lost");
    }
    let mut bench = Bench::new(fault(Floating::LastOnBus(span(1, 3))));
    bench.write(2, ONES);
    assert_eq!(bench.read(2), ONES, "what was written is still on the bus");
    assert_eq!(bench.read(1), ZEROS);
    assert_eq!(bench.read(2), ZEROS, "what was read elsewhere is on the bus");
    assert_eq!(bench.emulator.lines(), [1, 2, 3].map(RegionLine));
}

#[test]
fn cells_taken_by_another_address_follow_its_writes() {
    let taken =
        AddressFault::Taken { line: RegionLine(2), by: RegionLine(5), floating: Floating::Ones, wired: Wired::And };
    let mut bench = Bench::new(FaultKind::Address(taken));
    bench.memory.0[5] = ONES;
    assert_eq!(bench.read(5), ZEROS, "both lines' cells answer, and a 0 wins");
    bench.write(5, ONES);
    assert_eq!((bench.memory.0[2], bench.read(5)), (ONES, ONES));
    bench.write(2, ZEROS);
    assert_eq!((bench.memory.0[2], bench.read(2)), (ONES, ONES), "the write is lost, the read floats");
}

#[test]
fn an_address_that_reaches_other_cells_instead_leaves_its_own_alone() {
    let fault = AddressFault::Instead { line: RegionLine(2), other: RegionLine(3) };
    let mut bench = Bench::new(FaultKind::Address(fault));
    bench.write(3, ZEROS);
    bench.write(2, ONES);
    assert_eq!((bench.read(3), bench.read(2)), (ONES, ONES));
    assert_eq!(bench.memory.0[2], ZEROS);
}

#[test]
fn an_address_that_reaches_two_lines_writes_both_and_reads_them_wired() {
    for (wired, reads) in [(Wired::And, ZEROS), (Wired::Or, ONES)] {
        let fault = AddressFault::Also { line: RegionLine(2), other: RegionLine(3), wired };
        let mut bench = Bench::new(FaultKind::Address(fault));
        bench.write(2, ONES);
        assert_eq!(bench.read(3), ONES);
        bench.write(3, ZEROS);
        assert_eq!(bench.memory.0[2], ONES);
        assert_eq!(bench.read(2), reads);
    }
}

#[test]
fn a_stuck_open_bit_reads_what_its_sense_amplifier_read_last() {
    let mut bench = Bench::new(FaultKind::StuckOpen { cell: cell(2, 8), column: span(1, 3) });
    bench.write(1, ONES);
    bench.write(3, ZEROS);
    bench.write(2, ONES);
    assert_eq!(bench.memory.0[2], ONES.with_bit(bit(8), false), "the write does not reach the cell");
    assert_eq!(bench.read(3), ZEROS);
    assert_eq!(bench.read(2), ONES.with_bit(bit(8), false));
    assert_eq!(bench.read(1), ONES);
    assert_eq!(bench.read(2), ONES);
    bench.write(3, ZEROS);
    assert_eq!(bench.read(2), ONES, "a write does not pass the sense amplifier");
    assert_eq!(bench.emulator.lines(), [1, 2, 3].map(RegionLine));
}

#[test]
fn a_leaking_bit_loses_its_value_if_it_is_not_written_in_time() {
    let after = Duration::from_millis(100);
    let mut bench = Bench::new(FaultKind::Retention { cell: cell(0, 1), loses: true, after });
    bench.write(0, ONES);
    bench.pause(99);
    assert_eq!(bench.read(0), ONES);
    bench.pause(1);
    assert_eq!(bench.read(0), ONES.with_bit(bit(1), false), "pauses add up, and a read does not refresh");
    bench.write(0, ONES);
    bench.pause(99);
    assert_eq!(bench.read(0), ONES, "a write starts anew");
    bench.write(0, ZEROS);
    bench.pause(1000);
    assert_eq!(bench.read(0), ZEROS, "the other value is kept");
}

#[test]
fn linked_couplings_mask_each_other() {
    let first = Idempotent { aggressor: cell(1, 0), on: TransitionDirection::Up, victim: cell(3, 0), value: true };
    let second = Idempotent { aggressor: cell(2, 0), on: TransitionDirection::Up, victim: cell(3, 0), value: false };
    let mut bench = Bench::new(FaultKind::Linked { first, second });
    bench.write(1, ONES);
    assert_eq!(bench.read(3), ZEROS.with_bit(bit(0), true));
    bench.write(2, ONES);
    assert_eq!(bench.read(3), ZEROS, "the second undoes the first");
}

#[test]
fn an_intermittent_fault_acts_with_its_probability() {
    let tries = 1000;
    for (probability, expected) in [(0.0, 0..=0), (0.5, 400..=600), (1.0, tries..=tries)] {
        let persistence = Persistence::Intermittent { probability: Probability::try_from(probability).unwrap() };
        let mut bench = Bench::with(persistence, FaultKind::StuckAt { cell: cell(0, 0), value: true });
        let wrong = (0..tries).filter(|_| bench.read(0) != ZEROS).count();
        assert!(expected.contains(&wrong), "{probability}: {wrong}");
    }
}

#[test]
fn a_fault_that_would_change_nothing_draws_nothing() {
    let persistence = Persistence::Intermittent { probability: Probability::try_from(0.5).unwrap() };
    let bench = || Bench::with(persistence, FaultKind::StuckAt { cell: cell(0, 0), value: true });
    let answers = |bench: &mut Bench| (0..100).map(|_| bench.read(0)).collect::<Vec<_>>();
    let (mut fresh, mut used) = (bench(), bench());
    used.write(0, ONES);
    assert_eq!(answers(&mut used), vec![ONES; 100]);
    used.write(0, ZEROS);
    assert_eq!(answers(&mut used), answers(&mut fresh));
}

#[test]
fn a_pattern_sensitive_fault_acts_only_while_its_neighbours_show_the_pattern() {
    let neighbourhood = WordPattern::new(0, 0b101, 0b100).unwrap();
    let persistence = Persistence::PatternSensitive { neighbourhood };
    let mut bench =
        Bench::with(persistence, FaultKind::Transition { cell: cell(0, 1), blocked: TransitionDirection::Up });
    bench.write(0, ONES);
    assert_eq!(bench.read(0), ONES);
    bench.write(0, ZEROS);
    bench.write(0, ONES.with_bit(bit(0), false));
    assert_eq!(bench.read(0), ONES.with_bit(bit(0), false).with_bit(bit(1), false));

    let kind = FaultKind::Idempotent(Idempotent {
        aggressor: cell(3, 0),
        on: TransitionDirection::Up,
        victim: cell(0, 1),
        value: true,
    });
    let mut bench = Bench::with(persistence, kind);
    bench.write(3, ONES);
    assert_eq!(bench.read(0), ZEROS, "the victim's line counts, not the aggressor's");
    bench.write(3, ZEROS);
    bench.write(0, ZEROS.with_bit(bit(2), true));
    bench.write(3, ONES);
    assert_eq!(bench.read(0).0[0], 0b110);
}
