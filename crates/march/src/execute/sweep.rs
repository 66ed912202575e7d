//! One element over one region.
//!
//! ```text
//! lines with emulated faults, in order:  all operations on one, then on the next
//! the others, batch after batch:         each step over the batch, which then leaves the caches
//! ```
//!
//! Emulated faults act on each other's lines only, so these lines may be visited by themselves, in the very order of the
//! notation; and the loop over the others does not know of them.

use std::ops::{ControlFlow, Range};

use rampart_memory::fault::{Emulator, LineAccess};
use rampart_memory::{LineData, RegionLine};

use super::direct::Direct;
use super::engine::Engine;
use super::kernel::{Difference, Task};
use super::region::{Region, Stretch};
use super::steps::{Read, Step};
use super::walk::Walk;
use super::watch::{Log, Mismatch};
use super::{AHEAD, arch};
use crate::Order;

/// How many lines the inner loop visits before whoever watches may stop it: 256 KiB.
const MOST_AT_ONCE: u64 = 4096;

/// A region and how its lines are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'s> {
    pub engine: Engine,
    pub region: &'s Region<'s>,
    /// Whether to write past the caches.
    pub streaming: bool,
    /// How many lines may be visited and not yet be out of the caches; at least 1.
    pub open: u64,
}

impl<'s> Ground<'s> {
    /// One line at a time.
    pub(super) fn direct(&self) -> Direct<'s> {
        Direct::new(self.region, self.engine.flush())
    }

    /// How the lines of a step leave the caches.
    fn eviction(&self, step: &Step) -> Eviction {
        let writes_evict = self.streaming && arch::STREAMING_EVICTS;
        match step {
            Step { evict: false, .. } => Eviction::None,
            Step { read: None, .. } if writes_evict => Eviction::None,
            _ if writes_evict => Eviction::InBursts,
            _ => Eviction::Following,
        }
    }

    /// Does a step on the first `count` lines of a stretch, while it prefetches and flushes as many elsewhere.
    fn perform(
        &self,
        step: &Step,
        here: Stretch,
        ahead: *const u8,
        behind: Option<*mut u8>,
        count: u64,
    ) -> Option<Difference> {
        let task = Task {
            here: here.first,
            ahead,
            behind: behind.map(<*mut u8>::cast_const),
            stride: here.stride,
            count: usize::try_from(count).expect("lines in memory"),
            read: step.read.as_ref().map(|read| &read.expected),
            write: step.write.as_ref(),
            streaming: self.streaming,
            flush: self.engine.flush(),
        };
        // SAFETY: the lines to visit and those to flush are parts of stretches of this region.
        unsafe { self.engine.perform(&task) }
    }

    fn flush(&self, stretch: Stretch, count: u64) {
        let mut line = stretch.first;
        for _ in 0..count {
            // SAFETY: it is one of the stretch's lines, which lie in this region.
            unsafe { self.engine.flush().line(line) };
            line = line.wrapping_offset(stretch.stride);
        }
    }
}

/// How the lines of a step leave the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eviction {
    /// By themselves, or not at all.
    None,
    /// Each is flushed in the inner loop, some visits after its own.
    Following,
    /// Many are flushed at once, outside of the inner loop: where a write already evicted them, but a prefetcher may have
    /// fetched them again. It does so with the first two lines of a page. Among non-temporal stores, each flush would
    /// wait for the stores before it, at a third of the speed.
    InBursts,
}

/// An element on its ground.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep<'s> {
    pub ground: Ground<'s>,
    pub order: Order,
    /// The element's place in its test.
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
                    if found != read.expected {
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

    /// All operations on all other lines.
    pub(super) fn run(&self, log: &mut Log<'_>) -> ControlFlow<()> {
        let lines = self.ground.region.lines();
        let batch = if self.steps.len() == 1 { lines } else { self.ground.open };
        let mut start = 0;
        while start < lines {
            let end = lines.min(start + batch);
            for step in self.steps {
                self.step(step, start..end, log)?;
            }
            start = end;
        }
        ControlFlow::Continue(())
    }

    /// One step on the lines at some positions, except those with emulated faults.
    pub(super) fn step(&self, step: &Step, positions: Range<u64>, log: &mut Log<'_>) -> ControlFlow<()> {
        Front::new(self, step, positions).run(log)
    }

    fn mismatch(&self, line: RegionLine, read: &Read, found: LineData, reread: LineData) -> Mismatch {
        let (expected, op, element, order) = (read.expected, read.op, self.element, self.order);
        Mismatch { line, expected, found, reread, element, op, order, emulated: false }
    }
}

/// How far a step has come in a range of positions: those before `flushed` are out of the caches, those before `at` are
/// visited.
struct Front<'s> {
    sweep: &'s Sweep<'s>,
    step: &'s Step,
    eviction: Eviction,
    /// How far the flush stays behind the visits.
    open: u64,
    flushed: u64,
    at: u64,
    end: u64,
}

impl<'s> Front<'s> {
    fn new(sweep: &'s Sweep<'s>, step: &'s Step, range: Range<u64>) -> Self {
        let open = if sweep.steps.len() > 1 {
            std::env::var("TRAIL").map_or(1, |t| sweep.ground.open / t.parse::<u64>().unwrap())
        } else {
            sweep.ground.open
        };
        let eviction = sweep.ground.eviction(step);
        Self { sweep, step, eviction, open, flushed: range.start, at: range.start, end: range.end }
    }

    fn run(mut self, log: &mut Log<'_>) -> ControlFlow<()> {
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
        arch::fence();
        ControlFlow::Continue(())
    }

    /// Flushes what the inner loop did not.
    fn catch_up(&mut self) {
        let due = match self.eviction {
            Eviction::None => false,
            // It fell back by the lines that were not visited in the inner loop.
            Eviction::Following => true,
            Eviction::InBursts => self.at - self.flushed >= 2 * self.open,
        };
        if due {
            self.flush_until(self.at.saturating_sub(self.open));
        }
    }

    /// The next position to leave out, or the end.
    fn next_emulated(&self) -> u64 {
        let emulated = self.sweep.emulated;
        let next = emulated.partition_point(|&position| position < self.at);
        emulated.get(next).map_or(self.end, |&position| position.min(self.end))
    }

    /// Visits lines up to `stop` at most: until one of the three places comes to the end of its column or page, or to a
    /// line that is not as expected, whose content it returns.
    fn visit(&mut self, stop: u64) -> Option<LineData> {
        let here = self.stretch(self.at);
        let ahead = if self.at + AHEAD < self.end { self.stretch(self.at + AHEAD) } else { here };
        let lag = self.at - self.flushed;
        let follows = self.eviction == Eviction::Following;
        let behind = (follows && lag >= self.open).then(|| self.stretch(self.flushed));
        let unflushed = match behind {
            Some(behind) => behind.count,
            None if follows => self.open - lag,
            None => MOST_AT_ONCE,
        };
        let count = (stop - self.at).min(here.count).min(ahead.count).min(unflushed).min(MOST_AT_ONCE);

        let difference =
            self.sweep.ground.perform(self.step, here, ahead.first, behind.map(|behind| behind.first), count);
        let visited = difference.map_or(count, |difference| difference.after as u64);
        self.at += visited;
        if behind.is_some() {
            self.flushed += visited;
        }
        difference.map(|difference| difference.found)
    }

    /// Reads the line again, tells of it, and does to it what is left to do at this visit.
    fn report(&self, found: LineData, log: &mut Log<'_>) {
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
        while self.flushed < position {
            let stretch = self.stretch(self.flushed);
            let count = stretch.count.min(position - self.flushed);
            self.sweep.ground.flush(stretch, count);
            self.flushed += count;
        }
    }

    fn stretch(&self, position: u64) -> Stretch {
        self.sweep.ground.region.stretch(self.sweep.walk.leg(position))
    }
}
