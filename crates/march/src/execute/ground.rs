//! A region and the ways to its lines: many in the inner loop, a flush of many, or one at a time.

use rampart_memory::{LINES_PER_FRAME, LineData};

use super::Method;
use super::arch;
use super::caches::Caches;
use super::direct::Direct;
use super::engine::MarchEngine;
use super::kernel::{self, Difference, Task, Way};
use super::region::{Region, Stretch};
use super::steps::Step;
use super::walk::Walk;

/// The pages of a small region, 2 MiB: the cache-bypass check sweeps as many as in such a region.
pub(super) const SMALL_PAGES: usize = 512;

/// Regions of fewer lines are below what that check has seen.
pub(super) const SMALL: u64 = SMALL_PAGES as u64 * LINES_PER_FRAME;

/// A region and how its lines are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'s> {
    pub engine: MarchEngine,
    pub region: &'s Region<'s>,
    pub method: Method,
    /// The most lines that may be visited and not yet be out of the caches, and the lines of a batch; at least 1.
    pub open: u64,
    /// The distance of the prefetch, in visits.
    pub ahead: u64,
}

impl<'s> Ground<'s> {
    /// One line at a time.
    pub(super) fn direct(&self) -> Direct<'s> {
        Direct::new(self.region, self.engine.flush())
    }

    /// How the lines of a step leave the caches.
    pub(super) fn eviction(&self, step: &Step) -> Eviction {
        Eviction::of(self.method, self.engine.caches(), step)
    }

    /// Performs a step on the first `count` lines of a stretch, and prefetches and flushes as many elsewhere.
    pub(super) fn perform(
        &self,
        step: &Step,
        here: Stretch,
        ahead: *const u8,
        behind: Option<*mut u8>,
        count: u64,
    ) -> Option<Difference> {
        let behind = behind.map(<*mut u8>::cast_const);
        let count = usize::try_from(count).expect("lines in memory");
        let task = Task { ahead, behind, stride: here.stride, count, ..self.task(step, here.first) };
        // SAFETY: the lines to visit and those to flush are parts of stretches of this region.
        unsafe { self.engine.perform(&task) }
    }

    /// Performs a step on a line outside of the region that holds `content`: what the inner loop finds in such a line.
    /// The content that it read if that is not as expected.
    pub(super) fn perform_on(&self, step: &Step, mut content: LineData) -> Option<LineData> {
        let task = self.task(step, (&raw mut content).cast());
        // SAFETY: the one line to visit is a variable of ours, which nothing else refers to meanwhile; none is flushed.
        let difference = unsafe { self.engine.perform(&task) };
        // A write past the caches is done before the variable's place is used again.
        arch::fence();
        difference.map(|difference| difference.found)
    }

    /// A step on one line, without a flush.
    fn task<'t>(&self, step: &'t Step, here: *mut u8) -> Task<'t> {
        Task {
            here,
            ahead: here,
            behind: None,
            stride: 0,
            count: 1,
            read: step.read.as_ref().map(|read| &read.expected),
            write: step.write.as_ref(),
            way: match self.method {
                Method::FlushBehind => Way::EachLine,
                Method::FlushInGroups => Way::InGroups,
                Method::NonTemporal => Way::PastTheCaches,
            },
            flush: self.engine.flush(),
        }
    }

    /// Flushes the lines of a stretch.
    pub(super) fn flush(&self, stretch: Stretch) {
        let count = usize::try_from(stretch.count).expect("lines in memory");
        // SAFETY: they are the stretch's lines, which lie in this region.
        unsafe { kernel::flush(self.engine.flush(), stretch.first, stretch.stride, count) };
    }
}

/// How the lines of a step leave the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// Without a flush, or not at all.
    None,
    /// Each is flushed in the inner loop, some visits after its own, alone or with some others.
    Following,
    /// Many lines are flushed at once, outside of the inner loop, before more than the limit are open. For caches that
    /// retain lines ([`Caches::Retain`]): nobody knows whether the written data has reached the DRAM.
    InBursts,
    /// Many lines are flushed at once, outside of the inner loop, some time later. For lines that a non-temporal store
    /// already evicted but that a prefetcher may have fetched again, as it does with the first two lines of a page. A
    /// flush among such stores waits for the stores before it, at a third of the speed.
    AtLeisure,
}

impl Eviction {
    /// How the lines of a step leave these caches.
    const fn of(method: Method, caches: Caches, step: &Step) -> Self {
        match (method, caches) {
            _ if !step.evict => Self::None,
            (Method::FlushInGroups, _) | (Method::FlushBehind, Caches::Release) => Self::Following,
            (Method::NonTemporal, Caches::Release) if step.read.is_some() => Self::AtLeisure,
            (Method::NonTemporal, Caches::Release) => Self::None,
            (Method::FlushBehind | Method::NonTemporal, Caches::Retain) => Self::InBursts,
        }
    }

    /// Whether all of a region's lines are flushed once more after an element, because prefetchers fetched some again.
    /// They do where neighbours are visited at different times. Of lines that were flushed in groups, they were seen to
    /// do so in small regions only, where a line is flushed shortly before its neighbour is visited.
    pub(super) fn is_repeated(self, method: Method, walk: &Walk, lines: u64) -> bool {
        self != Self::None && walk.is_strided() && (method != Method::FlushInGroups || lines < SMALL)
    }

    /// How many lines the next flush outside of the inner loop leaves open, if `lag` lines were visited and not flushed
    /// and `open` may be; `None` if it is too early for one.
    pub(super) const fn leaves_open(self, lag: u64, open: u64) -> Option<u64> {
        match self {
            // The flush of the inner loop fell back by the lines that were not visited there.
            Self::Following => Some(open),
            // Whole pages, so that prefetchers do not fetch the flushed lines again.
            Self::InBursts if lag >= open => Some(open / 2 / LINES_PER_FRAME * LINES_PER_FRAME),
            Self::AtLeisure if lag >= 2 * open => Some(open),
            Self::None | Self::InBursts | Self::AtLeisure => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::steps::Read;
    use crate::{AddressSequence, Direction, Visit};

    #[test]
    fn a_small_region_has_2_mib() {
        assert_eq!(SMALL, (2 << 20) / 64);
    }

    /// On paper: what must not stay is flushed somehow, except for what a non-temporal store takes past caches that
    /// keep nothing of it.
    #[test]
    fn lines_leave_the_caches_by_the_method_and_by_what_the_caches_do() {
        let read = || Some(Read { op: 0, expected: LineData::ZERO });
        let of = |method, read, evict| {
            let step = Step { read, write: None, evict };
            [Caches::Release, Caches::Retain].map(|caches| Eviction::of(method, caches, &step))
        };
        for method in Method::ALL {
            assert_eq!(
                (of(method, None, false), of(method, read(), false)),
                ([Eviction::None; 2], [Eviction::None; 2])
            );
        }
        assert_eq!(of(Method::FlushInGroups, None, true), [Eviction::Following; 2]);
        assert_eq!(of(Method::FlushBehind, None, true), [Eviction::Following, Eviction::InBursts]);
        assert_eq!(of(Method::NonTemporal, None, true), [Eviction::None, Eviction::InBursts]);
        assert_eq!(of(Method::NonTemporal, read(), true), [Eviction::AtLeisure, Eviction::InBursts]);
    }

    #[test]
    fn lines_are_flushed_once_more_where_prefetchers_fetch_neighbours_again() {
        let walk = |order| Walk::new(Visit::new(order, 100, 7), 100, Direction::Up);
        let [sequential, strided] = [AddressSequence::Sequential, AddressSequence::Strided].map(walk);
        for method in Method::ALL {
            for eviction in [Eviction::Following, Eviction::InBursts, Eviction::AtLeisure] {
                assert!(eviction.is_repeated(method, &strided, SMALL - 1), "{method}");
                assert!(!eviction.is_repeated(method, &sequential, SMALL - 1), "{method}");
                let in_a_large_one = method != Method::FlushInGroups;
                assert_eq!(eviction.is_repeated(method, &strided, SMALL), in_a_large_one, "{method}");
            }
            assert!(!Eviction::None.is_repeated(method, &strided, SMALL - 1), "{method}");
        }
    }

    #[test]
    fn lines_are_flushed_outside_of_the_inner_loop_when_enough_are_open() {
        let leaves = |eviction: Eviction, lags: [u64; 5]| lags.map(|lag| eviction.leaves_open(lag, 512));
        let lags = [0, 511, 512, 1023, 1024];
        assert_eq!(leaves(Eviction::None, lags), [None; 5]);
        assert_eq!(leaves(Eviction::Following, lags), [Some(512); 5]);
        assert_eq!(leaves(Eviction::InBursts, lags), [None, None, Some(256), Some(256), Some(256)]);
        assert_eq!(leaves(Eviction::AtLeisure, lags), [None, None, None, None, Some(512)]);
        let after_burst = [64, 127, 128, 320, 4096].map(|open| Eviction::InBursts.leaves_open(open, open));
        assert_eq!(after_burst, [0, 0, 64, 128, 2048].map(Some), "half of them, in whole pages");
    }
}
