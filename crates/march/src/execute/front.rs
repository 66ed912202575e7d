//! The steps of an element, each over a range of positions: three positions that move together.
//!
//! ```text
//!          flushed              at      at + ahead
//! ─────────────┼────────────────┼───────────┼──────────  positions
//!  out of the  │    visited,    │  being    │  not yet
//!  caches      │    open        │ prefetched│  touched
//! ```
//!
//! The inner loop takes as many lines as all three have left in their columns or pages, and moves all three.

use std::ops::{ControlFlow, Range};

use rampart_memory::fault::LineAccess;
use rampart_memory::{LINES_PER_FRAME, LineData};

use super::arch;
use super::ground::{Eviction, Ground};
use super::region::Stretch;
use super::steps::Step;
use super::sweep::Sweep;
use super::watch::Log;

/// The distance of the flush behind the visits in a batch, in lines.
const OPEN_IN_BATCH: u64 = LINES_PER_FRAME;

/// The most lines that the inner loop visits before the watcher may stop it: 256 KiB.
const MOST_AT_ONCE: u64 = 4096;

impl Sweep<'_> {
    /// All operations on the lines without emulated faults.
    pub(super) fn run(&self, log: &mut Log<'_>) -> ControlFlow<()> {
        let lines = self.ground.region.lines();
        let batch = if self.in_batches() { self.ground.open } else { lines };
        let mut start = 0;
        while start < lines {
            let end = lines.min(start + batch);
            for step in self.steps {
                self.step(step, start..end, log)?;
            }
            start = end;
        }
        let Ground { engine, method, region, .. } = self.ground;
        if self.steps.last().is_some_and(|step| self.ground.eviction(step).is_repeated(method, &self.walk, lines)) {
            engine.evict(region);
        }
        ControlFlow::Continue(())
    }

    /// One step on the lines at some positions, except those with emulated faults.
    pub(super) fn step(&self, step: &Step, positions: Range<u64>, log: &mut Log<'_>) -> ControlFlow<()> {
        Front::new(self, step, positions).run(log)
    }
}

/// The progress of a step in a range of positions: those before `flushed` are out of the caches, those before `at` are
/// visited.
pub(super) struct Front<'s> {
    sweep: &'s Sweep<'s>,
    step: &'s Step,
    eviction: Eviction,
    /// The distance of the flush behind the visits.
    open: u64,
    flushed: u64,
    at: u64,
    end: u64,
}

impl<'s> Front<'s> {
    pub(super) fn new(sweep: &'s Sweep<'s>, step: &'s Step, range: Range<u64>) -> Self {
        // The flush at the end of a batch overlaps with nothing, so in a batch the flush follows closely.
        let open = if sweep.in_batches() { sweep.ground.open.min(OPEN_IN_BATCH) } else { sweep.ground.open };
        let eviction = sweep.ground.eviction(step);
        Self { sweep, step, eviction, open, flushed: range.start, at: range.start, end: range.end }
    }

    pub(super) fn run(mut self, log: &mut Log<'_>) -> ControlFlow<()> {
        while self.at < self.end {
            let before = self.at;
            let stop = self.next_emulated();
            if stop == before {
                self.at += 1;
                continue;
            }
            self.catch_up();
            if let Some(found) = self.visit(stop) {
                self.report(found, log);
                self.at += 1;
            }
            log.did((self.at - before) * self.step.operations())?;
        }
        if self.eviction != Eviction::None {
            self.flush_until(self.end);
        }
        debug_assert!(self.eviction == Eviction::None || self.flushed == self.end, "no line that was visited is open");
        arch::fence();
        ControlFlow::Continue(())
    }

    /// Flushes the lines that the inner loop did not flush.
    fn catch_up(&mut self) {
        let Some(stays) = self.eviction.leaves_open(self.lag(), self.open) else { return };
        self.flush_until(self.at.saturating_sub(stays));
        if self.eviction == Eviction::InBursts {
            // Accesses during flushes keep some of the flushed lines in the caches.
            arch::fence();
        }
    }

    /// The visited lines that are not flushed.
    const fn lag(&self) -> u64 {
        self.at - self.flushed
    }

    /// The next position with emulated faults, or the end.
    fn next_emulated(&self) -> u64 {
        let emulated = self.sweep.emulated;
        let next = emulated.partition_point(|&position| position < self.at);
        emulated.get(next).map_or(self.end, |&position| position.min(self.end))
    }

    /// Visits lines up to `stop` at most: until one of the three positions comes to the end of its column or page, or
    /// to a line that is not as expected; returns that line's content.
    fn visit(&mut self, stop: u64) -> Option<LineData> {
        let here = self.stretch(self.at);
        let ahead = self.at + self.sweep.ground.ahead;
        let ahead = if ahead < self.end { self.stretch(ahead) } else { here };
        let lag = self.lag();
        let follows = self.eviction == Eviction::Following;
        let behind = (follows && lag >= self.open).then(|| self.stretch(self.flushed));
        let unflushed = match (behind, self.eviction) {
            (Some(behind), _) => behind.count,
            (None, Eviction::Following | Eviction::InBursts) => self.open - lag,
            (None, Eviction::None | Eviction::AtLeisure) => MOST_AT_ONCE,
        };
        let count = (stop - self.at).min(here.count).min(ahead.count).min(unflushed).min(MOST_AT_ONCE);

        let difference =
            self.sweep.ground.perform(self.step, here, ahead.first, behind.map(|behind| behind.first), count);
        let visited = difference.map_or(count, |difference| difference.after as u64);
        self.at += visited;
        if behind.is_some() {
            self.flushed += visited;
        }
        let is_bounded = matches!(self.eviction, Eviction::Following | Eviction::InBursts);
        debug_assert!(!is_bounded || self.at - self.flushed <= self.open, "no more lines are open than may be");
        difference.map(|difference| difference.found)
    }

    /// Reads the line again, reports it whatever the second read returns, and does the rest of this visit's operations
    /// on it.
    pub(super) fn report(&self, found: LineData, log: &mut Log<'_>) {
        let Sweep { ground, walk, .. } = self.sweep;
        let read = self.step.read.as_ref().expect("only a read differs");
        let line = walk.leg(self.at).line;
        let reread = ground.direct().load(line);
        log.mismatch(&self.sweep.mismatch(line, read, found, reread));
        if self.step.write.is_some() {
            let here = self.stretch(self.at);
            ground.perform(&Step { read: None, ..self.step.clone() }, here, here.first, None, 1);
        }
    }

    fn flush_until(&mut self, position: u64) {
        if self.flushed < position {
            self.sweep.flush(self.flushed..position);
            self.flushed = position;
        }
    }

    fn stretch(&self, position: u64) -> Stretch {
        self.sweep.stretch(position)
    }
}
