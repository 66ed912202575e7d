//! Accesses to one line at a time, from and to the DRAM: for lines that were read wrong, and for lines with emulated
//! faults.

use rampart_memory::fault::LineAccess;
use rampart_memory::{LINE_WORDS, LineData, RegionLine};

use super::arch::{self, Flush};
use super::region::Region;

/// The lines of a region; each access includes the flush and the fence that make it reach the DRAM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct<'s> {
    region: &'s Region<'s>,
    flush: Flush,
}

impl<'s> Direct<'s> {
    pub(super) fn new(region: &'s Region<'s>, flush: Flush) -> Self {
        Self { region, flush }
    }

    /// Drops a line from the caches.
    fn evict(self, line: RegionLine) {
        // SAFETY: `at` answers with lines of the region only.
        unsafe { self.flush.line(self.region.at(line)) };
        arch::fence();
    }
}

impl LineAccess for Direct<'_> {
    fn load(&mut self, line: RegionLine) -> LineData {
        self.evict(line);
        let words = self.region.at(line).cast::<u64>();
        // SAFETY: a line of a region is 8 aligned words that may be read (`Region::from_raw`).
        LineData(std::array::from_fn(|i| unsafe { words.add(i).read_volatile() }))
    }

    fn store(&mut self, line: RegionLine, data: LineData) {
        let words = self.region.at(line).cast::<u64>();
        for i in 0..LINE_WORDS {
            // SAFETY: a line of a region is 8 aligned words that may be written (`Region::from_raw`).
            unsafe { words.add(i).write_volatile(data.0[i]) };
        }
        self.evict(line);
    }
}
