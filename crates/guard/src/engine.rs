//! What a guard asks of the machine.

use rampart_codes::{PageData, Pages};
use rampart_memory::{Frame, Timestamp};

use crate::state::layout::{PageIndex, PageSpan};

/// Why pages stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum EngineRefusal {
    /// a device or another process uses the memory
    Pinned,
    /// the kernel says: {0}
    Kernel(String),
}

/// What is known of the frames below some pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHistory {
    /// They are the same as before.
    Same,
    /// They are others, of which nothing is known.
    Untested,
    /// They are others, which were all tested, the first of them at this time.
    Tested(Timestamp),
}

/// What becomes of the first write to pages that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It stops its thread, until [`GuardEngine::allow_writes`].
    Stop,
    /// It goes unseen.
    GoOn,
}

/// Two ranges of addresses of the same layout: the *program's*, and the *vault*, which the program does not know. Each
/// page is in one of them at a time, or nowhere as long as it was never used.
///
/// The trait is dyn-compatible, so that a process chooses its engine when it starts.
///
/// The guard calls with the lock of the span's block, so that calls for one block never overlap. Both ranges are memory
/// that hardware may change: nobody holds references to it.
pub trait GuardEngine: Sync {
    /// Moves pages from the vault to the program's range. Those who wait for them are to be woken by
    /// [`GuardEngine::wake`], or may be woken at once.
    ///
    /// # Errors
    /// Why they cannot be; they are in the vault then.
    fn open(&self, span: PageSpan) -> Result<(), EngineRefusal>;

    /// As [`GuardEngine::open`], and the first write to these pages stops if the machine can do that. From the moment
    /// that they are open: a write that went before it would be taken for an error of the memory.
    ///
    /// # Errors
    /// As of [`GuardEngine::open`].
    fn open_watched(&self, span: PageSpan) -> Result<Writes, EngineRefusal> {
        self.open(span).map(|()| Writes::GoOn)
    }

    /// As [`GuardEngine::settle`], of a page of which the first write stops: it stays so. `false`: that cannot be, and
    /// nothing was done.
    fn settle_watched(&self, _page: PageIndex) -> bool {
        false
    }

    /// Writes to these pages do not stop any more, and who waits to write goes on.
    fn allow_writes(&self, _span: PageSpan) {}

    /// Moves pages from the program's range to the vault. Writes to them stop no more when they are open again.
    ///
    /// # Errors
    /// Why they cannot be; all are in the program's range then.
    fn close(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal>;

    /// Gives the program a whole block that it never had, zeros on tested frames. Those who wait are woken as of
    /// [`GuardEngine::open`]. [`FrameHistory::Same`] if there are no such frames, or it has a page of it: then it may
    /// have others now as well.
    fn supply(&self, _span: PageSpan) -> FrameHistory {
        FrameHistory::Same
    }

    /// Gives the program pages of zeros where it has none. Those who wait are woken as of [`GuardEngine::open`].
    ///
    /// # Errors
    /// Why they cannot be had.
    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal>;

    /// Copies pages that are in the vault to tested frames, which take their place there. What they were on is never
    /// the program's again before it was tested too. [`FrameHistory::Same`] if there are no tested frames now, or
    /// never.
    ///
    /// # Errors
    /// Why it cannot be; the pages are on the frames that they were on.
    fn renew(&self, _span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        Ok(FrameHistory::Same)
    }

    /// A thread faulted on a page of a block that the program has already, since somebody else opened it meanwhile, or
    /// since the program gave the page back to the kernel by itself. Wakes those who wait.
    ///
    /// # Errors
    /// Why the page cannot be there.
    fn settle(&self, page: PageIndex) -> Result<FrameHistory, EngineRefusal> {
        let filled = self.fill(PageSpan::of_page(page));
        self.wake(PageSpan::of_page(page));
        filled
    }

    /// The program does to the mapping of pages, which it has, what a guard cannot follow, from now on.
    ///
    /// # Errors
    /// Why it cannot.
    fn leave(&self, _span: PageSpan) -> Result<(), EngineRefusal> {
        Ok(())
    }

    /// Gives the frames of pages back to the kernel, wherever the pages are. The next touch of each is a fault.
    fn discard(&self, span: PageSpan);

    /// Pages that the program has read as zeros from now on; their next touch may be a fault or none.
    fn zero(&self, span: PageSpan) {
        self.discard(span);
    }

    /// Wakes those who wait for pages that are there already.
    fn wake(&self, span: PageSpan);

    /// How many blocks may be open at once; beyond that the kernel refuses to keep them apart.
    fn most_open(&self) -> usize {
        usize::MAX
    }

    /// Puts a page that is in the vault on another frame, with this content, which is in the memory afterwards and in
    /// no cache. The frame that it was on is tested; one that fails is nobody's from then on.
    ///
    /// # Errors
    /// Why it cannot be; what the page holds then is not known.
    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), EngineRefusal>;

    /// Whether the program gave a page in the vault back to the kernel, by a system call that the guard did not see: it
    /// reads as zeros.
    fn was_given_back(&self, _page: PageIndex) -> bool {
        false
    }

    /// Calls `look` once, with pages in the vault.
    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>));

    /// Reads a page in the vault.
    fn read(&self, page: PageIndex) -> PageData {
        let mut content = PageData::ZERO;
        self.with_vault(PageSpan::of_page(page), &mut |pages| content = pages.page(0).read());
        content
    }

    /// Flips a bit, 0 to 32767, of a page in the vault: a memory error that is made up.
    fn flip(&self, page: PageIndex, bit: u32);

    /// Has the hardware give up a page in the vault: an error that is made up. `false`: it cannot be made up here.
    fn give_up(&self, _page: PageIndex) -> bool {
        false
    }

    /// The frame of a page, where the kernel says.
    fn frame(&self, page: PageIndex) -> Option<Frame>;
}
