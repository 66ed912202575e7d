//! The reports of a run, and its result at the end.
//!
//! A region may be wrong in every line, so nothing is collected here: the watcher decides what to keep.

use std::ops::ControlFlow;
use std::time::Duration;

use rampart_memory::{Bytes, LINE_BYTES, LineBits, LineData, RegionLine};
use serde::Serialize;

use crate::AddressSequence;

/// Sees what happens in a run, and may stop it.
pub trait Watch {
    /// A read returned something else than expected.
    fn mismatch(&mut self, mismatch: &Mismatch);

    /// `operations` reads and writes of one line each were done since the last call, at least 1; called every few
    /// hundred KiB and at the end of every element. A run does lines × [`crate::MarchTest::length`] of them. `Break`
    /// stops it.
    fn advanced(&mut self, operations: u64) -> ControlFlow<()>;

    /// A delay of the test: returns when it is over, or with `Break` to stop the run.
    fn pause(&mut self, delay: Duration) -> ControlFlow<()>;
}

/// A line that did not hold what was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Mismatch {
    /// The line of the region.
    pub line: RegionLine,
    /// The expected content.
    pub expected: LineData,
    /// The content that the read returned.
    pub found: LineData,
    /// The content that a second read returned, straight from the DRAM and before the line was written again. It
    /// distinguishes an error of the access from an error of the cell.
    pub reread: LineData,
    /// The element that read it, counted from 0 with delays.
    pub element: usize,
    /// The read's index among the element's operations, counted from 0.
    pub op: usize,
    /// The address sequence of the pass.
    pub order: AddressSequence,
    /// Whether the line is one on which faults are emulated.
    pub emulated: bool,
}

impl Mismatch {
    /// The bits that were wrong.
    #[must_use]
    pub fn bits(&self) -> LineBits {
        self.expected.differs(&self.found)
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MarchOutcome {
    /// Whether every operation was done; if not, the watcher stopped the run.
    pub completed: bool,
    /// The number of mismatches reported.
    pub mismatches: u64,
    /// Reads and writes of one line each.
    pub operations: u64,
}

impl MarchOutcome {
    /// The bytes read and written.
    #[must_use]
    pub const fn moved(&self) -> Bytes {
        Bytes::new(self.operations * LINE_BYTES)
    }
}

/// Ignores everything and stops nothing: for loops that are only timed.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn mismatch(&mut self, _: &Mismatch) {}

    fn advanced(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pause(&mut self, _: Duration) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The most operations between two reports: 256 KiB of (r,w).
const REPORT_EVERY: u64 = 8192;

/// The watcher of a run, and the totals reported to it.
pub(super) struct Log<'w> {
    watch: &'w mut dyn Watch,
    unreported: u64,
    operations: u64,
    mismatches: u64,
}

impl<'w> Log<'w> {
    pub(super) fn new(watch: &'w mut dyn Watch) -> Self {
        Self { watch, unreported: 0, operations: 0, mismatches: 0 }
    }

    pub(super) fn did(&mut self, operations: u64) -> ControlFlow<()> {
        self.unreported += operations;
        if self.unreported >= REPORT_EVERY { self.report() } else { ControlFlow::Continue(()) }
    }

    /// Reports what has not been reported.
    pub(super) fn report(&mut self) -> ControlFlow<()> {
        if self.unreported == 0 {
            return ControlFlow::Continue(());
        }
        self.operations += self.unreported;
        self.watch.advanced(std::mem::take(&mut self.unreported))
    }

    pub(super) fn pause(&mut self, delay: Duration) -> ControlFlow<()> {
        self.watch.pause(delay)
    }

    pub(super) fn mismatch(&mut self, mismatch: &Mismatch) {
        self.mismatches += 1;
        self.watch.mismatch(mismatch);
    }

    pub(super) fn outcome(self, end: ControlFlow<()>) -> MarchOutcome {
        MarchOutcome { completed: end.is_continue(), mismatches: self.mismatches, operations: self.operations }
    }
}
