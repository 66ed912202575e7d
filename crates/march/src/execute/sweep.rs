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
    pub(super) fn flush(&self, mut positions: Range<u64>) {
        while !positions.is_empty() {
            let stretch = self.stretch(positions.start);
            let count = stretch.count.min(positions.end - positions.start);
            self.ground.flush(stretch, count);
            positions.start += count;
        }
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
