//! The operating system's side of a heap: what lies below its addresses [Gao13, 3.2].
//!
//! **Problem.** Which lines of a page have failed is a fact of the frame below it, and the operating system decides
//! which frame that is, and may change its mind. **Idea.** A heap asks for imperfect pages and for a map of their
//! failed lines, puts them below the addresses of blocks and large objects, asks for perfect pages when it has none,
//! and hears of each change by an up-call. **Why behind a trait.** [`SimulatedMemory`] is ordinary memory of which
//! lines are said to have failed, for studies and tests, and costs nothing; [`FrameMemory`] has the frames of this
//! machine; a kernel that hands out imperfect pages by itself would be a third. It is called when a block or a large
//! object gets or gives back its pages, never where objects are allocated in a hole.

mod frames;

use std::fmt::Debug;
use std::ptr::NonNull;

use rampart_memory::Frame;

use crate::pools::HeapPage;
use crate::region::{HeapRegion, LOST};
use crate::wear::FailedLines;

pub use frames::{FrameMemory, HeapFrameCounts, LinesOfFrame};

/// Why pages cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMapped {
    /// The kernel has no mapping left.
    NoMapping,
    /// Of the frames that the kernel gives, none is perfect.
    NoPerfectFrame,
}

/// How often pages could not be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts {
    /// For lack of a mapping.
    pub mappings: u64,
    /// For lack of a perfect frame.
    pub perfect_frames: u64,
}

impl RefusalCounts {
    /// Counts one more.
    pub const fn add(&mut self, refused: NotMapped) {
        match refused {
            NotMapped::NoMapping => self.mappings += 1,
            NotMapped::NoPerfectFrame => self.perfect_frames += 1,
        }
    }
}

/// An up-call: a page of the heap is another one than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapPageChange {
    /// The page.
    pub page: HeapPage,
    /// The offset of the address that it lies below; `None` if the heap does not use it now.
    pub at: Option<u32>,
    /// Its failed lines, from now on.
    pub failed: FailedLines,
    /// Those of its lines whose data cannot be trusted any more. All of them have failed, too.
    pub lost: FailedLines,
}

/// The frame of a page of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFrame {
    /// The offset of the address that the page lies below; `None` if the heap does not use it now.
    pub at: Option<u32>,
    /// The frame.
    pub frame: Frame,
}

/// What a heap lies on. All offsets are of addresses in the region of the heap, at the beginning of pages.
pub trait HeapMemory: Debug + Send + Sync {
    /// How many pages the heap is made of.
    fn pages(&self) -> usize;

    /// The failed lines of each of these pages (*map-failures* [Gao13, 3.2.1]).
    fn map_failures(&self) -> Vec<FailedLines>;

    /// The heap begins to use the first `bytes` of a region, from `base` on.
    ///
    /// # Safety
    /// Until this is dropped, these addresses are mapped and belong to the heap alone, and no Rust reference to what is
    /// there exists.
    #[expect(unsafe_code, reason = "addresses are promised")]
    unsafe fn attach(&mut self, base: NonNull<u8>, bytes: usize);

    /// Puts pages below the addresses from an offset on, where there are none. Each page keeps what is in it. A
    /// borrowed page is perfect, of the memory's choice.
    ///
    /// # Errors
    /// If they cannot be put there: none of them is.
    fn map_imperfect(&mut self, at: u32, pages: &[HeapPage]) -> Result<(), NotMapped>;

    /// Takes away what is below so many pages of addresses; there may be nothing below some of them.
    fn unmap(&mut self, at: u32, pages: usize);

    /// Puts a perfect page in the place of the one below an offset, with what is in that, but for lines that nobody may
    /// read any more.
    fn replace(&mut self, at: u32, page: HeapPage, unreadable: FailedLines);

    /// A line of the page at an offset, by its number, has failed: the heap passes the report on.
    fn fail(&mut self, _at: u32, _line: u32) {}

    /// The up-calls for what has changed since the last call [Gao13, 3.2.2] and 3.2.3.
    fn up_calls(&mut self) -> Vec<HeapPageChange>;

    /// The frame of each of its pages, as far as they are known.
    fn frames(&self) -> Vec<PageFrame> {
        Vec::new()
    }
}

/// Ordinary memory, of which lines are said to have failed. It is below all addresses from the start, and never
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedMemory(Vec<FailedLines>);

impl SimulatedMemory {
    /// As many pages as there are sets of failed lines.
    #[must_use]
    pub const fn new(failed: Vec<FailedLines>) -> Self {
        Self(failed)
    }
}

impl HeapMemory for SimulatedMemory {
    fn pages(&self) -> usize {
        self.0.len()
    }

    fn map_failures(&self) -> Vec<FailedLines> {
        self.0.clone()
    }

    #[expect(unsafe_code, reason = "others need the promise")]
    unsafe fn attach(&mut self, _base: NonNull<u8>, _bytes: usize) {}

    fn map_imperfect(&mut self, _at: u32, _pages: &[HeapPage]) -> Result<(), NotMapped> {
        Ok(())
    }

    fn unmap(&mut self, _at: u32, _pages: usize) {}

    fn replace(&mut self, _at: u32, _page: HeapPage, _unreadable: FailedLines) {}

    fn up_calls(&mut self) -> Vec<HeapPageChange> {
        Vec::new()
    }
}

/// Puts a memory below a region, up to an offset. Whoever calls it drops the memory before the region.
#[expect(unsafe_code, reason = "the memory maps over the region")]
pub(crate) fn attach(memory: &mut dyn HeapMemory, region: &HeapRegion, end: u64) {
    let bytes = usize::try_from(end.min(LOST.into())).expect("4 GiB of addresses");
    // SAFETY: a region spans all offsets and is accessed by raw pointers only; the heap has it for itself, and drops
    // its memory first.
    unsafe { memory.attach(region.base(), bytes) };
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Memory of which no page can be mapped.
    #[derive(Debug)]
    pub struct RefusingMemory(pub SimulatedMemory);

    impl HeapMemory for RefusingMemory {
        fn pages(&self) -> usize {
            self.0.pages()
        }

        fn map_failures(&self) -> Vec<FailedLines> {
            self.0.map_failures()
        }

        #[expect(unsafe_code, reason = "others need the promise")]
        unsafe fn attach(&mut self, _base: NonNull<u8>, _bytes: usize) {}

        fn map_imperfect(&mut self, _at: u32, _pages: &[HeapPage]) -> Result<(), NotMapped> {
            Err(NotMapped::NoMapping)
        }

        fn unmap(&mut self, _at: u32, _pages: usize) {
            unreachable!("nothing was mapped")
        }

        fn replace(&mut self, _at: u32, _page: HeapPage, _unreadable: FailedLines) {
            unreachable!("nothing was mapped")
        }

        fn up_calls(&mut self) -> Vec<HeapPageChange> {
            Vec::new()
        }
    }
}
