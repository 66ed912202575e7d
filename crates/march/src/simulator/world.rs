//! A memory of four cells with a fault, and the results of a march test on it.
//!
//! **Problem.** A fault counts as found only if the test finds it whatever the cells held before, whatever the sense
//! amplifier remembers, and whichever way each ⇕ is run: 2^(5+k) runs for a test with k such elements. **Idea.** Follow
//! all runs at once as the *set* of memories that have shown no error yet. An element maps a set to a set; a memory
//! that returns a wrong value leaves it. **Why it is fast.** Equal memories are kept once, so the first write reduces
//! the set to one or two, and ⇕ elements do not multiply it; and cells without any part in the fault are left out.

use super::fault::{AddressFault, CELLS, Cell, CellSet, Fault, Floating, Primitive, Sensitizer, Wired};
use crate::{Direction, Element, MarchTest, Op};

/// One possible state of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct World {
    /// Bit `c` is the value of cell `c`.
    cells: u8,
    /// What the sense amplifier remembers.
    latch: bool,
    /// The operation before, if it was a write.
    written: Option<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    cell: Cell,
    from: bool,
    to: bool,
}

/// The operation just done to the memory, for a primitive to examine.
#[derive(Clone, Copy)]
enum Operation {
    Pause,
    Read(Cell),
    Write(Cell, bool),
}

/// Whether the test finds the fault, whatever the memory held before and whichever way ⇕ is run.
pub(super) fn detects(test: &MarchTest, fault: &Fault) -> bool {
    let cells = fault.cells_concerned();
    let mut unseen = World::possible(fault, &cells);
    for element in test.elements() {
        unseen = match element {
            Element::Delay => unseen.into_iter().map(|world| world.pause(fault)).collect(),
            Element::Sweep { direction, ops } => sweep_all(&unseen, fault, &cells, *direction, ops),
        };
        if !fault.hinges_on_the_access_before() {
            unseen.iter_mut().for_each(World::forget_the_last_access);
        }
        unseen.sort_unstable();
        unseen.dedup();
    }
    unseen.is_empty()
}

fn sweep_all(worlds: &[World], fault: &Fault, cells: &[Cell], direction: Direction, ops: &[Op]) -> Vec<World> {
    let mut swept = Vec::with_capacity(2 * worlds.len());
    if direction != Direction::Down {
        swept.extend(worlds.iter().filter_map(|world| world.sweep(fault, cells.iter(), ops)));
    }
    if direction != Direction::Up {
        swept.extend(worlds.iter().filter_map(|world| world.sweep(fault, cells.iter().rev(), ops)));
    }
    swept
}

impl World {
    /// Every state in which these cells of a memory with this fault may start; the others hold 0.
    fn possible(fault: &Fault, cells: &[Cell]) -> Vec<Self> {
        let simulated: CellSet = cells.iter().map(|cell| cell.alone()).sum();
        let latches = if fault.hinges_on_the_access_before() { &[false, true][..] } else { &[false] };
        let start = |cells| latches.iter().map(move |&latch| Self { cells, latch, written: None });
        let states = (0..1 << CELLS).filter(|state| state & !simulated == 0);
        let mut worlds: Vec<_> = states.flat_map(start).collect();
        if let Fault::Primitives(primitives) = fault {
            worlds.iter_mut().for_each(|world| world.settle(primitives));
        }
        worlds
    }

    /// Forgets the last access where no fault depends on it, so that equivalent states compare equal.
    const fn forget_the_last_access(&mut self) {
        self.latch = false;
        self.written = None;
    }

    /// The state after all operations on each cell in turn, or `None` if a read returned a wrong value.
    fn sweep<'c>(mut self, fault: &Fault, order: impl Iterator<Item = &'c Cell>, ops: &[Op]) -> Option<Self> {
        for &cell in order {
            for op in ops {
                match *op {
                    Op::Write(value) => self.write(fault, cell, value),
                    Op::Read(expected) if self.read(fault, cell) == expected => {}
                    Op::Read(_) => return None,
                }
            }
        }
        Some(self)
    }

    fn pause(mut self, fault: &Fault) -> Self {
        if let Fault::Primitives(primitives) = fault {
            let before = self;
            self.invert_victims(primitives, &before, Operation::Pause);
            self.settle(primitives);
        }
        self.written = None;
        self
    }

    fn write(&mut self, fault: &Fault, cell: Cell, value: bool) {
        match fault {
            // No read ever sees what a cut-off cell holds.
            Fault::StuckOpen(_) => self.set(cell.alone(), value),
            Fault::Address(address) => self.write_through(address, cell, value),
            Fault::Primitives(primitives) => {
                let before = *self;
                self.set(cell.alone(), value);
                self.invert_victims(primitives, &before, Operation::Write(cell, value));
                self.settle(primitives);
                self.written = Some(Written { cell, from: before.holds(cell), to: value });
            }
        }
    }

    fn read(&mut self, fault: &Fault, cell: Cell) -> bool {
        match fault {
            Fault::StuckOpen(open) if *open == cell => self.latch,
            Fault::StuckOpen(_) => {
                self.latch = self.holds(cell);
                self.latch
            }
            Fault::Address(address) => self.read_through(address, cell),
            Fault::Primitives(primitives) => {
                let (before, operation) = (*self, Operation::Read(cell));
                self.invert_victims(primitives, &before, operation);
                self.settle(primitives);
                self.written = None;
                let misread = primitives.iter().any(|p| p.effect.misreads() && p.fires(&before, operation));
                before.holds(cell) != misread
            }
        }
    }

    fn write_through(&mut self, fault: &AddressFault, address: Cell, value: bool) {
        self.set(fault.reaches[usize::from(address.0)], value);
        self.latch = value;
    }

    fn read_through(&mut self, fault: &AddressFault, address: Cell) -> bool {
        let reached = fault.reaches[usize::from(address.0)];
        let ones = self.cells & reached;
        self.latch = match (reached, fault.floating, fault.wired) {
            (0, Floating::At(value), _) => value,
            (0, Floating::Last, _) => self.latch,
            (_, _, Wired::And) => ones == reached,
            (_, _, Wired::Or) => ones != 0,
        };
        self.latch
    }

    fn invert_victims(&mut self, primitives: &[Primitive], before: &Self, operation: Operation) {
        for primitive in primitives {
            if primitive.effect.inverts() && primitive.fires(before, operation) {
                self.cells ^= primitive.victim.alone();
            }
        }
    }

    /// Applies the faults that act at all times.
    fn settle(&mut self, primitives: &[Primitive]) {
        for primitive in primitives {
            if let Sensitizer::State(value) = primitive.when
                && self.holds(primitive.on) == value
                && primitive.condition_holds(self)
            {
                self.cells ^= primitive.victim.alone();
            }
        }
    }

    const fn holds(&self, cell: Cell) -> bool {
        self.cells >> cell.0 & 1 == 1
    }

    fn set(&mut self, cells: CellSet, value: bool) {
        if value {
            self.cells |= cells;
        } else {
            self.cells &= !cells;
        }
    }
}

impl Primitive {
    /// Whether this operation, on a memory in this state, sensitizes the fault.
    fn fires(&self, before: &World, operation: Operation) -> bool {
        let sensitized = match (self.when, operation) {
            (Sensitizer::Delay(value), Operation::Pause) => before.holds(self.on) == value,
            (Sensitizer::Read(value), Operation::Read(cell)) => cell == self.on && before.holds(cell) == value,
            (Sensitizer::Write(from, to), Operation::Write(cell, value)) => {
                cell == self.on && before.holds(cell) == from && value == to
            }
            (Sensitizer::WriteRead(from, to), Operation::Read(cell)) => {
                cell == self.on && before.holds(cell) == to && before.written == Some(Written { cell, from, to })
            }
            _ => false,
        };
        sensitized && self.condition_holds(before)
    }

    fn condition_holds(&self, world: &World) -> bool {
        self.given.is_none_or(|(cell, value)| world.holds(cell) == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::NAMED;
    use crate::simulator::{Kind, list};

    /// The reference model of [`detects`]: every start of all cells and every choice of directions separately.
    fn detects_one_by_one(test: &MarchTest, fault: &Fault) -> bool {
        let choices = test.elements().iter().filter(|e| matches!(e, Element::Sweep { direction: Direction::Any, .. }));
        let choices = choices.count();
        World::possible(fault, &[0, 1, 2, 3].map(Cell))
            .into_iter()
            .all(|world| (0..1 << choices).all(|ways| run_finds(test, fault, world, ways)))
    }

    fn run_finds(test: &MarchTest, fault: &Fault, mut world: World, mut ways: u32) -> bool {
        for element in test.elements() {
            match element {
                Element::Delay => world = world.pause(fault),
                Element::Sweep { direction, ops } => {
                    let descend = match direction {
                        Direction::Up => false,
                        Direction::Down => true,
                        Direction::Any => {
                            let way = ways & 1 == 1;
                            ways >>= 1;
                            way
                        }
                    };
                    let order = if descend { [3, 2, 1, 0] } else { [0, 1, 2, 3] };
                    match world.sweep(fault, order.map(Cell).iter(), ops) {
                        Some(next) => world = next,
                        None => return true,
                    }
                }
            }
        }
        false
    }

    #[test]
    fn following_all_runs_at_once_is_following_each() {
        let faults: Vec<_> = Kind::ALL.into_iter().flat_map(list::faults).collect();
        for named in NAMED {
            let test = named.test();
            // A sample of the faults keeps this quick; 29 is prime to the lengths of the runs in which they are listed.
            for fault in faults.iter().step_by(29) {
                let (together, each) = (detects(&test, fault), detects_one_by_one(&test, fault));
                assert_eq!(together, each, "{} on {fault:?}", named.name);
            }
        }
    }
}
