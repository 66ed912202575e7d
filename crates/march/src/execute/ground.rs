//! A region and the ways to its lines: many in the inner loop, a flush of many, or one at a time.

use rampart_memory::RegionLine;

use super::arch;
use super::caches::Caches;
use super::direct::Direct;
use super::engine::Engine;
use super::kernel::{Difference, Task};
use super::region::{Leg, Region, Stretch};
use super::steps::Step;

/// A region and how its lines are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'s> {
    pub engine: Engine,
    pub region: &'s Region<'s>,
    /// Whether to write past the caches.
    pub streaming: bool,
    /// How many lines may be visited and not yet be out of the caches, and how many make a batch; at least 1.
    pub open: u64,
}

impl<'s> Ground<'s> {
    /// One line at a time.
    pub(super) fn direct(&self) -> Direct<'s> {
        Direct::new(self.region, self.engine.flush())
    }

    /// How the lines of a step leave the caches.
    pub(super) fn eviction(&self, step: &Step) -> Eviction {
        match (step, self.engine.caches()) {
            (Step { evict: false, .. }, _) => Eviction::None,
            (Step { read: None, .. }, Caches::Release) if self.streaming => Eviction::None,
            (_, Caches::Release) if self.streaming => Eviction::AtLeisure,
            (_, Caches::Release) => Eviction::Following,
            (_, Caches::Retain) => Eviction::InBursts,
        }
    }

    /// Does a step on the first `count` lines of a stretch, while it prefetches and flushes as many elsewhere.
    pub(super) fn perform(
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

    /// Flushes the first `count` lines of a stretch.
    pub(super) fn flush(&self, stretch: Stretch, count: u64) {
        let mut line = stretch.first;
        for _ in 0..count {
            // SAFETY: it is one of the stretch's lines, which lie in this region.
            unsafe { self.engine.flush().line(line) };
            line = line.wrapping_offset(stretch.stride);
        }
    }

    /// Flushes the whole region, and waits for it.
    pub(super) fn flush_all(&self) {
        let lines = self.region.lines();
        let mut line = 0;
        while line < lines {
            let stretch = self.region.stretch(Leg { line: RegionLine(line), stride: 1, count: lines - line });
            self.flush(stretch, stretch.count);
            line += stretch.count;
        }
        arch::fence();
    }
}

/// How the lines of a step leave the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// By themselves, or not at all.
    None,
    /// Each is flushed in the inner loop, some visits after its own.
    Following,
    /// Many are flushed at once, outside of the inner loop, and no more are open than may be: where the caches retain
    /// lines ([`Caches::Retain`]), of which nobody knows whether what was written to them has reached the DRAM.
    InBursts,
    /// Many are flushed at once, outside of the inner loop, some time later: where a non-temporal store already evicted
    /// them, but a prefetcher may have fetched them again. It does so with the first two lines of a page. Among such
    /// stores, each flush would wait for the stores before it, at a third of the speed.
    AtLeisure,
}
