//! The instruction set that does the work, chosen when the program runs.

use std::fmt;

use super::arch::{self, Flush, Isa};
use super::caches::Caches;
use super::kernel::{self, Difference, Task};
use super::region::Region;

/// An instruction set of this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MarchEngine {
    isa: Isa,
    flush: Flush,
    caches: Caches,
}

impl MarchEngine {
    /// The widest one.
    #[must_use]
    pub fn detect() -> Self {
        Self::all_available()[0]
    }

    /// All instruction sets of this processor, that of [`MarchEngine::detect`] first; never empty.
    #[must_use]
    pub fn all_available() -> Vec<Self> {
        let (flush, caches) = (Flush::detect(), arch::caches());
        Isa::available().into_iter().map(|isa| Self { isa, flush, caches }).collect()
    }

    /// The one of this name, in capitals or not; `None` if this processor has none such.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all_available().into_iter().find(|engine| engine.name().eq_ignore_ascii_case(name))
    }

    /// The manufacturer's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.isa.name()
    }

    /// Writes a region back to the memory and drops it from all caches: the next read of it reaches the memory.
    pub fn evict(self, region: &Region<'_>) {
        for stretch in region.stretches() {
            let count = usize::try_from(stretch.count).expect("lines in memory");
            // SAFETY: they are the stretch's lines, which lie in the region.
            unsafe { kernel::flush(self.flush, stretch.first, stretch.stride, count) };
        }
        arch::fence();
    }

    pub(super) const fn flush(self) -> Flush {
        self.flush
    }

    pub(super) const fn caches(self) -> Caches {
        self.caches
    }

    /// Performs a task.
    ///
    /// # Safety
    /// All lines to visit and to flush lie in one region.
    pub(super) unsafe fn perform(self, task: &Task<'_>) -> Option<Difference> {
        // SAFETY: it is the same contract.
        unsafe { self.isa.perform(task) }
    }
}

impl fmt::Display for MarchEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
