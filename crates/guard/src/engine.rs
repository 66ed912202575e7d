//! The interface between a guard and the machine.

use rampart_codes::{PageData, Pages};
use rampart_memory::{Frame, Timestamp};

use crate::state::layout::{PageIndex, PageSpan};

/// Why pages cannot move.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum EngineRefusal {
    /// a device or another process uses the memory
    Pinned,
    /// the kernel says: {0}
    Kernel(String),
}

/// What is known of the frames below some pages, after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHistory {
    /// The same frames as before.
    Same,
    /// Other frames, untested.
    Untested,
    /// Other frames, all tested, the first of them at this time.
    Tested(Timestamp),
}

/// Whether the first write to unlocked pages is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It stops its thread, until [`GuardEngine::allow_writes`].
    Stop,
    /// It goes unseen.
    GoOn,
}

/// Two ranges of addresses of the same layout: the *program's*, and the *vault*, which the program does not know. Each
/// page is in one of them at a time; a page that was never used is in neither.
///
/// The trait is dyn-compatible, so that a process chooses its engine when it starts.
///
/// The guard holds the lock of the span's block during each call, so calls for one block never overlap. Hardware may
/// change both ranges: nobody holds references to them.
pub trait GuardEngine: Sync {
    /// Unlocks: moves pages from the vault to the program's range. [`GuardEngine::wake`] wakes the threads that wait
    /// for them; an engine may wake them at once.
    ///
    /// # Errors
    /// Why they cannot move; they are in the vault then.
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal>;

    /// As [`GuardEngine::unlock`]; also, the first write to these pages stops, if the machine can do that, from the
    /// moment that they are unlocked: an earlier write would look like a memory error.
    ///
    /// # Errors
    /// As for [`GuardEngine::unlock`].
    fn unlock_watched(&self, span: PageSpan) -> Result<Writes, EngineRefusal> {
        self.unlock(span).map(|()| Writes::GoOn)
    }

    /// As [`GuardEngine::settle`], for a page whose first write stops: it stays so. `false`: that is impossible, and
    /// nothing was done.
    fn settle_watched(&self, _page: PageIndex) -> bool {
        false
    }

    /// Writes to these pages no longer stop, and threads that wait to write go on.
    fn allow_writes(&self, _span: PageSpan) {}

    /// Locks: moves pages from the program's range to the vault. Writes to them no longer stop when they are unlocked
    /// again.
    ///
    /// # Errors
    /// Why they cannot move; all are in the program's range then.
    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal>;

    /// Gives the program a whole block that it never had, zeros on tested frames. Waiting threads are woken as for
    /// [`GuardEngine::unlock`]. [`FrameHistory::Same`] if there are no such frames, or if the program has a page of the
    /// block already: by now it may have other pages too.
    fn supply(&self, _span: PageSpan) -> FrameHistory {
        FrameHistory::Same
    }

    /// Gives the program zero pages where it has none. Waiting threads are woken as for [`GuardEngine::unlock`].
    ///
    /// # Errors
    /// Why there are no pages.
    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal>;

    /// Copies pages in the vault to tested frames, which replace theirs. The program never gets the old frames again
    /// before they are tested. [`FrameHistory::Same`] if there are no tested frames.
    ///
    /// # Errors
    /// Why it is impossible; the pages are on their old frames.
    fn re_place(&self, _span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        Ok(FrameHistory::Same)
    }

    /// A thread faulted on a page of a block that the program has already: another thread unlocked it meanwhile, or the
    /// program gave the page back to the kernel by itself. Wakes the waiting threads.
    ///
    /// # Errors
    /// Why the page cannot be there.
    fn settle(&self, page: PageIndex) -> Result<FrameHistory, EngineRefusal> {
        let filled = self.fill(PageSpan::of_page(page));
        self.wake(PageSpan::of_page(page));
        filled
    }

    /// From now on the program changes the mapping of these pages, which it has, in ways that a guard cannot follow.
    ///
    /// # Errors
    /// Why it cannot.
    fn leave(&self, _span: PageSpan) -> Result<(), EngineRefusal> {
        Ok(())
    }

    /// Returns the frames of pages to the kernel, wherever the pages are. The next touch of each is a fault.
    fn discard(&self, span: PageSpan);

    /// Pages of the program that read as zeros from now on; their next touch may be a fault or not.
    fn zero(&self, span: PageSpan) {
        self.discard(span);
    }

    /// Wakes threads that wait for pages that are already there.
    fn wake(&self, span: PageSpan);

    /// The most blocks that may be unlocked at once; beyond that, the kernel refuses to keep them apart.
    fn most_unlocked(&self) -> usize {
        usize::MAX
    }

    /// Puts a page in the vault on another frame, with this content, which is then in the memory and in no cache. The
    /// old frame is tested; a bad one is not used again.
    ///
    /// # Errors
    /// Why it is impossible; the page's content is then unknown.
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

    /// Flips a bit, 0 to 32767, of a page in the vault: an injected error.
    fn flip(&self, page: PageIndex, bit: u32);

    /// Makes the hardware lose a page in the vault: an injected error. `false`: this is impossible here.
    fn give_up(&self, _page: PageIndex) -> bool {
        false
    }

    /// The frame of a page, if the kernel shows it.
    fn frame(&self, page: PageIndex) -> Option<Frame>;
}
