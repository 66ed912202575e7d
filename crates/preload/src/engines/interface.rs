//! What is asked of an engine and of the memory that it takes away: one trait each.

#![allow(unsafe_code, reason = "a method whose caller promises something")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use rampart_guard::accesses::Touch;
use rampart_guard::{FaultOutcome, GuardEngine, PageIndex};
use rampart_linux::userfaultfd::{FaultCause, Stop};
use rampart_linux::vault::{PageFault, Side, VaultSpan};
use rampart_linux::{Error, Window};
use rampart_memory::{Bytes, FRAME_BYTES, Frame};

use crate::frames::known_bad::KnownBadPages;
use crate::frames::pool::TestedFramePool;
use crate::frames::suspects::SuspectTester;
use crate::reporting::published::Published;

use super::mailbox::Mailbox;

/// What this library asks of an engine, beside what the guard asks.
pub trait ProcessEngine: GuardEngine {
    /// This thread reads a locked page just now that the hardware gave up: the page reads as zeros from now on, which
    /// are seen to be wrong unless they are right. Returns which page it was, and its frame where the kernel says;
    /// `None` if the address is not of a locked page, or if the kernel reads locked pages for this engine, and no
    /// thread does.
    fn replace_lost(&self, _address: usize) -> Option<(PageIndex, Option<Frame>)> {
        None
    }
}

/// Serves a fault: its page, whether it is read or written, and the thread where that is known.
pub type Serve<'a> = &'a dyn Fn(PageIndex, Touch, Option<u32>) -> FaultOutcome;

/// Serves the first write to a page whose writes stop.
pub type ServeWrite<'a> = &'a dyn Fn(PageIndex) -> FaultOutcome;

/// One range, and how its pages are taken away. It lives as long as the process.
pub trait GuardedMemory: Send + Sync {
    /// Takes memory that the program has elsewhere for pages of the range, before it is armed. Returns what was taken.
    ///
    /// # Safety
    /// As of [`rampart_linux::vault::Vault::show`].
    unsafe fn show(&self, windows: &[Window]) -> &[Window];

    /// In a child process, after a fork, where all is open: it is ordinary memory again. Pages that were left to the
    /// program keep the rights that it gave them.
    fn prepare_again(&mut self, left: &[VaultSpan]) -> Result<(), Error>;

    /// In a child process where all is open and no guard begins: it is ordinary memory, with room for more.
    fn stay_alone(&self, _left: &[VaultSpan]) -> Result<(), Error> {
        // What was never used is memory that no userfaultfd knows of in this process.
        Ok(())
    }

    /// Whether the kernel counts what is locked as data of the process: private memory that may be written.
    fn locks_data(&self) -> bool {
        false
    }

    /// After all was opened: what is locked by permissions, or of a file, is ordinary memory, of the first `used` bytes
    /// even what the program never touched.
    fn let_go(&self, used: Bytes, left: &[VaultSpan]) -> Result<(), Error>;

    /// Once it was let go: gives the program pages that it never had.
    fn give(&self, _span: VaultSpan) -> Result<(), Error> {
        Ok(())
    }

    /// Opens what the kernel is asked by, in the calling thread's table of files.
    fn open(&self) -> Result<(), Error>;

    /// The content of pages is not needed, before it is armed.
    fn forget(&self, span: VaultSpan) -> Result<(), Error>;

    /// From now on core dumps have these pages.
    fn dump(&self, span: VaultSpan) -> Result<(), Error>;

    /// From now on the first touch of a page is a fault; `used` bytes from the start on are there already.
    fn arm(&self, used: Bytes, left: &[VaultSpan]) -> Result<(), Error>;

    /// Calls `each` for the pages of `used` that were used before it was armed; ascending, and maybe for some that were
    /// not.
    fn each_used(&self, used: VaultSpan, each: &mut dyn FnMut(u64)) -> Result<(), Error>;

    /// Where the range begins.
    fn base(&self) -> NonNull<u8>;

    /// How many pages the range has.
    fn pages(&self) -> u64;

    /// How long the range is.
    fn bytes(&self) -> Bytes {
        Bytes::new(self.pages() * FRAME_BYTES)
    }

    /// The page of the program's range that an address is in.
    fn find(&self, address: usize) -> Option<u64>;

    /// Where the program knows a page.
    fn address(&self, page: PageIndex) -> usize;

    /// The pages at these addresses, as far as they are of the program's range.
    fn pages_at(&self, addresses: Range<usize>) -> Option<VaultSpan> {
        let first = self.find(addresses.start)?;
        VaultSpan::new(first, addresses.len() as u64 / FRAME_BYTES)
    }

    /// Where faults are signals: how a signal handler has them served.
    fn mailbox(&self) -> Option<&Mailbox> {
        None
    }

    /// Whether a page that a device uses is locked like any other.
    fn misses_devices(&self) -> bool {
        true
    }

    /// Whether a locked page is not where the program knows it, for whoever reads its memory without a fault.
    fn hides_what_is_locked(&self) -> bool {
        true
    }

    /// After all was opened, before a fork: a child gets a copy of everything. Ends with [`GuardedMemory::unsplit`], or
    /// never where nothing is locked any more. In a thread that has the guard's files.
    fn split(&self) -> Result<(), Error> {
        Ok(())
    }

    /// In the parent, after the fork.
    fn unsplit(&self) {}

    /// From now on a child that nobody announces finds no page that can be locked, and ends where it touches one; but
    /// for pages that the program decides about. Nothing is to be done where a locked page ends such a child by itself.
    fn keep_from_children(&self, _odd: &[VaultSpan]) -> Result<(), Error> {
        Ok(())
    }

    /// Ends [`GuardedMemory::keep_from_children`].
    fn give_to_children(&self, _odd: &[VaultSpan]) -> Result<(), Error> {
        Ok(())
    }

    /// Begins [`GuardedMemory::keep_from_children`] again for pages that the program decided about.
    fn take_from_children(&self, _span: VaultSpan) -> Result<(), Error> {
        Ok(())
    }

    /// Keeps all of it in RAM, as mlockall(2) does: each page from its first touch on.
    fn mlock(&self) -> Result<(), Error>;

    /// Before all memory of the process is let go.
    fn munlock(&self) {}

    /// Where it lies, with all that stands behind it.
    fn places(&self) -> Vec<Range<usize>>;

    /// Waits for faults and has them served, and first writes to what is watched, until it is to stop.
    ///
    /// # Errors
    /// Why no more can be served: whoever faults next would wait for ever.
    fn serve(&self, stop: &Stop, serve: Serve<'_>, written: ServeWrite<'_>) -> Result<(), Error>;

    /// Tested frames to put below it, if they are wished for; only what moves can be put elsewhere.
    fn pool(
        &'static self,
        _shared: &'static Published,
        _known: &'static KnownBadPages,
    ) -> Result<Option<&'static TestedFramePool>, String> {
        Ok(None)
    }

    /// What the guard asks of it.
    fn engine(
        &'static self,
        pool: Option<&'static TestedFramePool>,
        known: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Box<dyn ProcessEngine>;
}

/// Has a fault served that a userfaultfd reports.
pub fn serve_fault(fault: PageFault, serve: Serve<'_>, written: ServeWrite<'_>) {
    assert_eq!(fault.side, Side::Program, "nobody reads what is not in the vault");
    let touch = if fault.write { Touch::Write } else { Touch::Read };
    match fault.cause {
        FaultCause::Protected => written(PageIndex(fault.page)),
        FaultCause::Missing | FaultCause::Minor => serve(PageIndex(fault.page), touch, fault.thread),
    };
}
