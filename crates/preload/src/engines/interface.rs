//! The two traits of an engine: for the engine itself, and for its memory.

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

/// This library's requirements of an engine, besides the guard's.
pub trait ProcessEngine: GuardEngine {
    /// This thread is reading a locked page that the hardware lost: the page reads as zeros from now on, which the
    /// codes show to be wrong unless they are right. Returns the page, and its frame if the kernel shows it; `None` if
    /// the address is in no locked page, or if the kernel reads locked pages for this engine, and no thread does.
    fn replace_lost(&self, _address: usize) -> Option<(PageIndex, Option<Frame>)> {
        None
    }
}

/// Serves a fault: its page, whether it is read or written, and the thread if it is known.
pub type Serve<'a> = &'a dyn Fn(PageIndex, Touch, Option<u32>) -> FaultOutcome;

/// Serves the first write to a page whose writes stop.
pub type ServeWrite<'a> = &'a dyn Fn(PageIndex) -> FaultOutcome;

/// One range, and the way to lock its pages. It lives as long as the process.
pub trait GuardedMemory: Send + Sync {
    /// Replaces pages of the range by memory that the program has elsewhere, before the range is armed. Returns the
    /// replaced ones.
    ///
    /// # Safety
    /// As for [`rampart_linux::vault::Vault::show`].
    unsafe fn show(&self, windows: &[Window]) -> &[Window];

    /// In a child process, after a fork, with everything unlocked: it becomes ordinary memory again. Excluded pages
    /// keep the protection that the program gave them.
    fn prepare_again(&mut self, left: &[VaultSpan]) -> Result<(), Error>;

    /// In a child process with everything unlocked and without a guard: it is ordinary memory, with room for more.
    fn stay_alone(&self, _left: &[VaultSpan]) -> Result<(), Error> {
        // No userfaultfd in this process knows of memory that was never used.
        Ok(())
    }

    /// Whether the kernel counts locked pages as data of the process: private writable memory.
    fn locks_data(&self) -> bool {
        false
    }

    /// After everything was unlocked: makes memory that is locked by protections, or belongs to a file, ordinary
    /// memory; of the first `used` bytes, even untouched memory.
    fn let_go(&self, used: Bytes, left: &[VaultSpan]) -> Result<(), Error>;

    /// Once it was let go: gives the program untouched pages.
    fn give(&self, _span: VaultSpan) -> Result<(), Error> {
        Ok(())
    }

    /// Opens its files for requests to the kernel, in the calling thread's table of files.
    fn open(&self) -> Result<(), Error>;

    /// The content of pages is not needed, before the range is armed.
    fn forget(&self, span: VaultSpan) -> Result<(), Error>;

    /// From now on core dumps include these pages.
    fn dump(&self, span: VaultSpan) -> Result<(), Error>;

    /// From now on the first touch of a page is a fault; `used` bytes from the start are there already.
    fn arm(&self, used: Bytes, left: &[VaultSpan]) -> Result<(), Error>;

    /// Calls `each` for the pages of `used` that were used before it was armed; ascending, and possibly for some that
    /// were not.
    fn each_used(&self, used: VaultSpan, each: &mut dyn FnMut(u64)) -> Result<(), Error>;

    /// The start of the range.
    fn base(&self) -> NonNull<u8>;

    /// The number of pages of the range.
    fn pages(&self) -> u64;

    /// The length of the range.
    fn bytes(&self) -> Bytes {
        Bytes::new(self.pages() * FRAME_BYTES)
    }

    /// The page of the program's range at an address.
    fn find(&self, address: usize) -> Option<u64>;

    /// The program's address of a page.
    fn address(&self, page: PageIndex) -> usize;

    /// The pages at these addresses, as far as they are in the program's range.
    fn pages_at(&self, addresses: Range<usize>) -> Option<VaultSpan> {
        let first = self.find(addresses.start)?;
        VaultSpan::new(first, addresses.len() as u64 / FRAME_BYTES)
    }

    /// Where faults are signals: how a signal handler gets them served.
    fn mailbox(&self) -> Option<&Mailbox> {
        None
    }

    /// Whether a page that a device uses is locked like any other.
    fn misses_devices(&self) -> bool {
        true
    }

    /// Whether a locked page is not at its address, for readers of the process' memory that cause no fault.
    fn hides_what_is_locked(&self) -> bool {
        true
    }

    /// After everything was unlocked, before a fork: gives a child a copy of everything. Ends with
    /// [`GuardedMemory::unsplit`], or never if nothing is locked any more. In a thread that has the guard's files.
    fn split(&self) -> Result<(), Error> {
        Ok(())
    }

    /// In the parent, after the fork.
    fn unsplit(&self) {}

    /// From now on an unannounced child finds no page that can be locked, and ends where it touches one; except for
    /// pages whose inheritance the program has set. Does nothing if a locked page ends such a child by itself.
    fn keep_from_children(&self, _odd: &[VaultSpan]) -> Result<(), Error> {
        Ok(())
    }

    /// Ends [`GuardedMemory::keep_from_children`].
    fn give_to_children(&self, _odd: &[VaultSpan]) -> Result<(), Error> {
        Ok(())
    }

    /// Begins [`GuardedMemory::keep_from_children`] again for pages whose inheritance the program has set.
    fn take_from_children(&self, _span: VaultSpan) -> Result<(), Error> {
        Ok(())
    }

    /// Keeps all of it in RAM, as mlockall(2) does: each page from its first touch on.
    fn mlock(&self) -> Result<(), Error>;

    /// Before the program unlocks all its memory (munlockall).
    fn munlock(&self) {}

    /// All its addresses, hidden ranges included.
    fn places(&self) -> Vec<Range<usize>>;

    /// Waits for faults and first writes to watched pages, and has them served, until it is to stop.
    ///
    /// # Errors
    /// Why no more can be served: a thread that faults next would wait for ever.
    fn serve(&self, stop: &Stop, serve: Serve<'_>, written: ServeWrite<'_>) -> Result<(), Error>;

    /// A pool of tested frames for it, if requested; only an engine that moves pages has one.
    fn pool(
        &'static self,
        _shared: &'static Published,
        _known: &'static KnownBadPages,
    ) -> Result<Option<&'static TestedFramePool>, String> {
        Ok(None)
    }

    /// The engine for the guard.
    fn engine(
        &'static self,
        pool: Option<&'static TestedFramePool>,
        known: &'static KnownBadPages,
        suspects: Arc<SuspectTester>,
    ) -> Box<dyn ProcessEngine>;
}

/// Serves a fault that a userfaultfd reports.
pub fn serve_fault(fault: PageFault, serve: Serve<'_>, written: ServeWrite<'_>) {
    assert_eq!(fault.side, Side::Program, "nobody reads what is not in the vault");
    let touch = if fault.write { Touch::Write } else { Touch::Read };
    match fault.cause {
        FaultCause::Protected => written(PageIndex(fault.page)),
        FaultCause::Missing | FaultCause::Minor => serve(PageIndex(fault.page), touch, fault.thread),
    };
}
