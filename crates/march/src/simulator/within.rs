//! Faults between two bits of one line, which are written and read at once.
//!
//! **Problem.** No order of visits distinguishes the bits of a line; only the background does. **Idea.** A fault
//! between two bits depends only on the values that the background gives these two: four cases. So a line is simulated
//! as two bits, four times, whatever its width and however many backgrounds there are. **One assumption.** When a write
//! changes the aggressor and writes the victim at once, the fault wins, as in [`rampart_memory::fault::emulator`]. If
//! the write won, going from a background to its complement would find few CFid and CFin; those would need changes
//! between the solid background and every other one.

use super::Kind;
use super::fault::{Cell, Primitive, Sensitizer};
use super::list;
use crate::{Element, MarchTest, Op};

/// The kinds that are simulated inside a line.
pub(crate) const KINDS: [Kind; 4] = [Kind::State, Kind::Inversion, Kind::Idempotent, Kind::DisturbByRead];

const AGGRESSOR: Cell = Cell(0);
const VICTIM: Cell = Cell(1);

/// The values that the background gives the aggressor and the victim where the test says 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitPair {
    pub(crate) aggressor: bool,
    pub(crate) victim: bool,
}

/// Two bits of a line, and their values.
type Bits = [bool; 2];

/// The number of faults of a kind between one bit and another; at most 8.
pub(crate) fn count(kind: Kind) -> u32 {
    u32::try_from(faults(kind).len()).expect("a handful")
}

/// The faults that the test finds on a background that gives the two bits these values, whatever the line held before:
/// a bit for each.
pub(crate) fn found(test: &MarchTest, kind: Kind, background: BitPair) -> u8 {
    let faults = faults(kind);
    assert!(faults.len() <= 8, "a kind has a byte");
    let numbered = faults.iter().enumerate();
    numbered.map(|(place, fault)| u8::from(detects(test, fault, background)) << place).sum()
}

fn faults(kind: Kind) -> Vec<Primitive> {
    let between = |fault: &Primitive| {
        fault.victim == VICTIM
            && fault.cells().contains(&AGGRESSOR)
            && fault.cells().iter().all(|cell| [AGGRESSOR, VICTIM].contains(cell))
    };
    list::simple(kind).into_iter().filter(between).collect()
}

fn detects(test: &MarchTest, fault: &Primitive, background: BitPair) -> bool {
    let starts = [[false, false], [false, true], [true, false], [true, true]];
    starts.into_iter().all(|start| run_finds(test, fault, background, start))
}

fn run_finds(test: &MarchTest, fault: &Primitive, background: BitPair, start: Bits) -> bool {
    let data = |value: bool| [background.aggressor ^ value, background.victim ^ value];
    let mut holds = start;
    let sweeps = test.elements().iter().filter_map(|element| match element {
        Element::Sweep { ops, .. } => Some(ops),
        Element::Delay => None,
    });
    for op in sweeps.flatten() {
        match *op {
            Op::Write(value) => holds = after_write(fault, holds, data(value)),
            Op::Read(value) if read(fault, &mut holds) != data(value) => return true,
            Op::Read(_) => {}
        }
    }
    false
}

const fn bit(bits: Bits, cell: Cell) -> bool {
    bits[cell.0 as usize]
}

fn condition_holds(fault: &Primitive, holds: Bits) -> bool {
    fault.given.is_none_or(|(cell, value)| bit(holds, cell) == value)
}

/// The fault acts on the result of the write.
fn after_write(fault: &Primitive, before: Bits, data: Bits) -> Bits {
    let change = Sensitizer::Write(bit(before, fault.on), bit(data, fault.on));
    if fault.when == change && condition_holds(fault, data) { inverted(fault, data) } else { data }
}

fn read(fault: &Primitive, holds: &mut Bits) -> Bits {
    let before = *holds;
    if fault.when != Sensitizer::Read(bit(before, fault.on)) || !condition_holds(fault, before) {
        return before;
    }
    if fault.effect.inverts() {
        *holds = inverted(fault, before);
    }
    if fault.effect.misreads() { inverted(fault, before) } else { before }
}

const fn inverted(fault: &Primitive, mut bits: Bits) -> Bits {
    bits[fault.victim.0 as usize] ^= true;
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::find;

    const EQUAL: BitPair = BitPair { aggressor: false, victim: false };
    const UNEQUAL: BitPair = BitPair { aggressor: false, victim: true };

    /// The faults that a named test finds: the first in the list is the lowest bit.
    fn found(test: &str, kind: Kind, background: BitPair) -> u8 {
        super::found(&find(test).expect(test).test(), kind, background)
    }

    /// On paper: a CFst while the aggressor holds x reads the victim's y wrong. Equal bits are only ever read as 00 and
    /// 11, unequal ones as 01 and 10; faults are listed by x, then y.
    #[test]
    fn state_coupling_is_found_where_the_background_shows_the_two_values() {
        assert_eq!(found("March X", Kind::State, EQUAL), 0b1001);
        assert_eq!(found("March X", Kind::State, UNEQUAL), 0b0110);
    }

    /// On paper: the write that makes the aggressor rise writes the victim too, 1 on equal bits and 0 on unequal ones,
    /// and the fault changes that. Listed: rising and the victim loses 0, loses 1; falling and it loses 0, loses 1.
    #[test]
    fn idempotent_coupling_is_found_where_the_change_leaves_the_victim_what_it_loses() {
        assert_eq!(found("March X", Kind::Idempotent, EQUAL), 0b0110);
        assert_eq!(found("March X", Kind::Idempotent, UNEQUAL), 0b1001);
        assert_eq!(found("March X", Kind::Inversion, EQUAL), 0b11);
        // MATS+ does not read after it falls.
        assert_eq!(found("MATS+", Kind::Inversion, EQUAL), 0b01);
        // So it finds what happens when the aggressor of two unequal bits rises, and not what happens when it falls.
        assert_eq!(found("MATS+", Kind::Idempotent, UNEQUAL), 0b0001);
    }

    /// On paper: a read that disturbs still returns the right line; only a second read in a row sees it.
    #[test]
    fn read_disturbance_inside_a_line_needs_two_reads_in_a_row() {
        assert_eq!(found("March C-", Kind::DisturbByRead, EQUAL), 0);
        assert_eq!(found("March SS", Kind::DisturbByRead, EQUAL), 0b1001);
    }
}
