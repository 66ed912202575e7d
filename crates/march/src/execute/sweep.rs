//! One element over one region.
//!
//! ```text
//! lines with emulated faults, in order:  all operations on one, then on the next
//! the others, batch after batch:         each step over the batch, which then leaves the caches
//! ```
//!
//! Emulated faults affect each other's lines only, so these lines may be visited by themselves, in exactly the order of
//! the notation. What the emulator answers to a read is compared by the inner loop, as what the memory answers is: an
//! injected fault is found only if the loop that tests the memory would find it there.

use std::iter;
use std::ops::{ControlFlow, Range};

use rampart_memory::fault::Emulator;
use rampart_memory::{LineData, RegionLine};

use super::ground::Ground;
use super::region::Stretch;
use super::steps::{Read, Step};
use super::walk::Walk;
use super::watch::{Log, Mismatch};
use crate::AddressSequence;

/// An element on its region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep<'s> {
    pub ground: Ground<'s>,
    pub order: AddressSequence,
    /// The element's index in its test.
    pub element: usize,
    pub walk: Walk,
    pub steps: &'s [Step],
    /// The positions of the lines with emulated faults, ascending.
    pub emulated: &'s [u64],
}

impl Sweep<'_> {
    /// All operations on each line with emulated faults, in the order of the notation.
    pub(super) fn emulate(&self, emulator: &mut Emulator, log: &mut Log<'_>) -> ControlFlow<()> {
        let memory = &mut self.ground.direct();
        for &position in self.emulated {
            let line = self.walk.leg(position).line;
            for step in self.steps {
                if let Some(read) = &step.read {
                    let found = emulator.read(memory, line);
                    if let Some(found) = self.ground.perform_on(step, found) {
                        let reread = emulator.read(memory, line);
                        log.mismatch(&Mismatch { emulated: true, ..self.mismatch(line, read, found, reread) });
                    }
                }
                if let Some(data) = step.write {
                    emulator.write(memory, line, data);
                }
                log.did(step.operations())?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether each step is done to a batch of lines before the next step.
    pub(super) const fn in_batches(&self) -> bool {
        self.steps.len() > 1
    }

    /// Flushes the lines at some positions.
    pub(super) fn flush(&self, positions: Range<u64>) {
        self.stretches(positions).for_each(|stretch| self.ground.flush(stretch));
    }

    /// The lines at some positions.
    fn stretches(&self, positions: Range<u64>) -> impl Iterator<Item = Stretch> + '_ {
        let mut rest = positions;
        iter::from_fn(move || {
            let first = rest.next()?;
            let stretch = self.stretch(first);
            let end = rest.end.min(first + stretch.count);
            rest.start = end;
            Some(Stretch { count: end - first, ..stretch })
        })
    }

    /// The lines from a position on that are a constant distance apart.
    pub(super) fn stretch(&self, position: u64) -> Stretch {
        self.ground.region.stretch(self.walk.leg(position))
    }

    /// A mismatch at a read of this element, of a line without emulated faults.
    pub(super) fn mismatch(&self, line: RegionLine, read: &Read, found: LineData, reread: LineData) -> Mismatch {
        let (expected, op, element, order) = (read.expected, read.op, self.element, self.order);
        Mismatch { line, expected, found, reread, element, op, order, emulated: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::execute::tests::Memory;
    use crate::execute::{Executor, MarchEngine, MarchSettings, Method, Region};

    #[test]
    fn the_stretches_of_a_range_of_positions_are_the_lines_there() {
        let memory = Memory::new(640);
        let pages = memory.pages_reversed();
        let executor = Executor { engine: MarchEngine::detect(), settings: MarchSettings::new(Method::FlushBehind) };
        // SAFETY: the pages are the memory's own, each once, and nobody uses them.
        for mut region in [memory.region(), unsafe { Region::from_pages(&pages) }] {
            for order in [AddressSequence::Sequential, AddressSequence::Strided] {
                for direction in [Direction::Up, Direction::Down] {
                    let sweep = executor.sweep(&mut region, order, direction);
                    for range in [0..640, 0..0, 5..6, 60..70, 64..128, 100..639] {
                        let seen = sweep.stretches(range.clone()).flat_map(|stretch| {
                            (0..)
                                .take(usize::try_from(stretch.count).unwrap())
                                .map(move |line| stretch.first.wrapping_byte_offset(line * stretch.stride))
                        });
                        let there = range.clone().map(|at| sweep.ground.region.at(sweep.walk.leg(at).line));
                        assert_eq!(seen.collect::<Vec<_>>(), there.collect::<Vec<_>>(), "{order}, {range:?}");
                    }
                }
            }
        }
    }
}
