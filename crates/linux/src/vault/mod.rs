//! Vaults: memory of a program that is absent until it is touched.
//!
//! **Problem.** A page guard takes pages away from a running program, keeps them, and gives them back the moment that
//! somebody touches them; the program, its system calls and its devices must notice nothing but time, and the page must
//! stay in the frame that was tested. **Idea.** Two ranges of equal length: the *program's*, which it uses, and the
//! *vault*, which only we know. A page is in one of the two. [`Vault::lock`] moves pages into the vault,
//! [`Vault::unlock`] moves them back, and a touch of an absent page stops the toucher and sends a message
//! ([`crate::userfaultfd`]). **Why this way.** A move changes two page-table entries and copies nothing; a page that a
//! device may write to refuses to move, so no write goes unseen; and a fault of a system call waits like another.
//!
//! FlipSphere [Fiala15, 4.3.1 and 4.4.1] removes the protection bits of a page by `mprotect` and verifies it in a
//! signal handler, which requires wrapping every system call [Fiala15, 4.4.7] and naming every device's buffer
//! [Fiala15, 4.4.8].
//!
//! All memory is accessed by raw pointers, so everything here is safe to call; only the order must be right:
//!
//! - Operations on one page are sequential; those on different pages may run at once, from any thread. The caller keeps
//!   a state for each page and changes it before.
//! - An untouched page is in neither range: [`Vault::populate`] or [`Vault::give`] it at its first fault. An absent
//!   page of the vault stops its reader, us included, so read only pages that are known to be present.
//! - Nothing that handles faults may be in the program's range: neither its stack nor its allocations. Nor may the
//!   thread control blocks of any thread: the kernel's write at a thread's end fails on an absent page, and
//!   `pthread_join` hangs.
//! - After a fork the parent must [`Vault::unshare`] busy pages, and the child must [`Vault::reopen`]. A child that
//!   does not would read zeros in the place of locked pages: [`Vault::keep_from_children`].
//! - Pages do not move between mlocked and other memory: [`Vault::mlock`] is for all ranges, and sources and
//!   destinations of pages are made alike.
//!
//! Faults take no allocation: neither reading messages nor locking, unlocking, populating and giving.

#![expect(unsafe_code, reason = "a vault owns its ranges, which makes requests about them sound")]

mod moves;
mod options;
mod taking;
mod unlocking;
mod writes;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rustix::io::Errno;
use rustix::mm::Advice;

use crate::block::mapping::{HUGE_BYTES, Mapping};
use crate::mlocking::{self, Mlocked};
use crate::program::{ProgramRange, Window};
use crate::userfaultfd::{Area, FaultCause, Messages, PageScan, Route, Stop, UffdMessage, Userfaultfd, Waited, Wake};
use crate::{Error, PageKind, Pagemap, Roots, check_page_size};

pub use crate::span::{HUGE_PAGES, VaultSpan};
pub use moves::{Fate, MoveCounts};
pub use options::{Tracking, VaultOptions};

/// The two places that a page can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The range that the program uses.
    Program,
    /// The range that only we know.
    Vault,
}

/// A thread waits at a page of a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The range; a fault in [`Side::Vault`] is our own bug.
    pub side: Side,
    /// The page.
    pub page: u64,
    /// Whether the thread writes.
    pub write: bool,
    /// [`FaultCause::Missing`], or [`FaultCause::Protected`] with [`Tracking::Stopping`].
    pub cause: FaultCause,
    /// The thread, as `gettid(2)` numbers it.
    pub thread: Option<u32>,
}

/// A program's range and its vault; both are unmapped on drop.
#[derive(Debug)]
pub struct Vault {
    // Dropped in this order: a fault in a range without a handler finds zeros, and does not wait for ever.
    program: ProgramRange,
    vault: Mapping,
    /// One huge page, not registered, and empty: here the kernel makes huge pages of zeros, one at a time.
    fresh: Mutex<Mapping>,
    /// The files for requests to the kernel, since [`Vault::open`].
    files: OnceLock<Files>,
    /// Whether the ranges are mlocked; held while pages move.
    mlocked: RwLock<Mlocked>,
    options: VaultOptions,
}

/// The files for requests to the kernel: open in the thread that opened the vault, and in those that share its table of
/// files.
#[derive(Debug)]
struct Files {
    userfaultfd: Userfaultfd,
    scan: PageScan,
}

// SAFETY: what a vault owns belongs to the process and not to a thread. Its mappings' bytes are touched through raw
// pointers only, and what `&self` offers are system calls, which the kernel orders.
unsafe impl Sync for Vault {}

impl Vault {
    /// Reserves two ranges of `bytes`, a multiple of a page, at multiples of 2 MiB. No page has a frame yet, and the
    /// first touch of each is a fault that must be served.
    ///
    /// # Errors
    /// [`Error::Absent`] if this kernel or this user cannot do it, [`Error::BlockSize`] for an invalid size,
    /// [`Error::Claim`] if there are not so many addresses, [`Error::Guarded`] if they cannot be registered, and
    /// [`Error::Read`] without `/proc`.
    pub fn reserve(bytes: Bytes, options: VaultOptions, roots: &Roots) -> Result<Self, Error> {
        let vault = Self::prepare(bytes, options)?;
        vault.open(roots)?;
        vault.arm()?;
        Ok(vault)
    }

    /// As [`Vault::reserve`], but both ranges are ordinary memory at first: nothing can be moved yet, and the first
    /// touch of a page finds zeros. For a process that has no thread yet to serve faults. Opens no file.
    ///
    /// # Errors
    /// As for [`Vault::reserve`], without those of [`Vault::open`] and [`Vault::arm`].
    pub fn prepare(bytes: Bytes, options: VaultOptions) -> Result<Self, Error> {
        check_page_size()?;
        let granule = options.kind.granule();
        let fits = (1..1 << 45).contains(&bytes.get()) && bytes.get().is_multiple_of(granule.get());
        let size = usize::try_from(bytes.get()).ok().filter(|_| fits).ok_or(Error::BlockSize { bytes, granule })?;
        if options.kind == PageKind::HugeTlb {
            return Err(guarded("move pages of the huge-page pool as")(Errno::OPNOTSUPP));
        }
        let range = || ranged(size, options.kind);
        let fresh = Mutex::new(spare(HUGE_BYTES, options.kind)?);
        let program = ProgramRange::new(range()?);
        let mlocked = RwLock::new(Mlocked::No);
        Ok(Self { program, vault: range()?, fresh, files: OnceLock::new(), mlocked, options })
    }

    /// Takes over the faults of both ranges in a child process, after a fork and before anything touches the program's
    /// range. The parent's pages are all here, shared until one of the two writes: a [busy] page needs
    /// [`Vault::unshare`] before it moves.
    ///
    /// [busy]: crate::userfaultfd::MoveRefusal::Busy
    ///
    /// # Errors
    /// As for [`Vault::reserve`].
    pub fn reopen(&mut self, roots: &Roots) -> Result<(), Error> {
        self.prepare_again()?;
        self.open(roots)?;
        self.arm()
    }

    /// As [`Vault::reopen`], but both ranges are ordinary memory at first, as of [`Vault::prepare`]. The parent's files
    /// are not closed here: their numbers may be those of other files by now, if the thread that opened the vault had a
    /// table of its own.
    ///
    /// # Errors
    /// [`Error::Claim`] if there are not so many addresses.
    pub fn prepare_again(&mut self) -> Result<(), Error> {
        std::mem::forget(self.files.take());
        let fresh = Mutex::new(spare(HUGE_BYTES, self.options.kind)?);
        // A child does not get the parent's, whose addresses may be others' by now.
        std::mem::forget(std::mem::replace(&mut self.fresh, fresh));
        // Nothing of a child is mlocked; and another thread may have held the lock, which the child lacks.
        self.mlocked = RwLock::new(Mlocked::No);
        Ok(())
    }

    /// Opens the files for requests to the kernel: then the calling thread and those that share its table of open files
    /// can move pages.
    ///
    /// # Errors
    /// [`Error::Absent`] if this kernel or this user cannot do it, [`Error::Read`] without `/proc`.
    ///
    /// # Panics
    /// At a second call.
    pub fn open(&self, roots: &Roots) -> Result<(), Error> {
        let userfaultfd =
            Userfaultfd::open(self.options.tracking.features(), self.options.least).map_err(Error::Absent)?;
        let files = Files { userfaultfd, scan: PageScan::open(roots)? };
        self.files.set(files).expect("a vault is opened once");
        Ok(())
    }

    /// From now on faults must be served. Pages that were touched before are the program's.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the ranges cannot be registered.
    pub fn arm(&self) -> Result<(), Error> {
        self.arm_around(&[])
    }

    /// As [`Vault::arm`]. Pages of the program that are `odd` may be other memory by now, such as that of a file: then
    /// their faults are the kernel's. They ascend.
    ///
    /// # Errors
    /// As for [`Vault::arm`].
    pub fn arm_around(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        self.register(Side::Vault, self.span())?;
        self.span().around(odd).try_for_each(|(part, is_odd)| match self.register(Side::Program, part) {
            // A refusal there is the program's own affair.
            Err(_) if is_odd => Ok(()),
            other => other,
        })
    }

    fn register(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        self.pieces(side, span).try_for_each(|piece| {
            // SAFETY: the ranges are our own, and windows are as they were promised: reached by raw pointers only, or
            // by those whom faults stop.
            unsafe { self.userfaultfd().register(self.area(side, piece), self.options.tracking.modes()) }
                .map_err(guarded("take over the page faults of"))
        })
    }

    /// Replaces memory that the program has elsewhere by pages of its range, before anything is armed. Returns the
    /// windows that could be replaced.
    ///
    /// # Safety
    /// Each window's addresses are of private memory that can be read and written, is in no other window or range, and
    /// that nobody uses meanwhile. Afterwards it is used by raw pointers only, or by threads that its faults stop.
    ///
    /// # Panics
    /// For pages outside the range, for overlapping windows, or at a second call.
    pub unsafe fn show(&self, wanted: &[Window]) -> &[Window] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.program.show(wanted, pages_advice(self.options.kind)) }
    }

    fn files(&self) -> &Files {
        self.files.get().expect("a vault is opened before its pages are moved")
    }

    fn userfaultfd(&self) -> &Userfaultfd {
        &self.files().userfaultfd
    }

    fn scan(&self) -> &PageScan {
        &self.files().scan
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> VaultOptions {
        self.options
    }

    /// The way in which faults are received since it was opened, and so whether those of system calls are.
    #[must_use]
    pub fn route(&self) -> Route {
        self.userfaultfd().route()
    }

    /// Pages of 4 KiB in each range.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.program.bytes() as u64 / FRAME_BYTES
    }

    /// All pages.
    #[must_use]
    pub fn span(&self) -> VaultSpan {
        VaultSpan::new(0, self.pages()).expect("a vault has pages, and no more than there are addresses")
    }

    /// The first byte of the program's range; valid as long as the vault lives.
    #[must_use]
    pub fn program_base(&self) -> NonNull<u8> {
        self.program.base()
    }

    /// The first byte of the vault; valid as long as the vault lives. A read of an absent page waits for a handler.
    #[must_use]
    pub fn vault_base(&self) -> NonNull<u8> {
        self.vault.base()
    }

    /// The first byte of a page.
    ///
    /// # Panics
    /// Outside the range.
    #[must_use]
    pub fn address(&self, side: Side, page: u64) -> NonNull<u8> {
        self.area(side, VaultSpan::page(page).expect("a page of this vault")).start
    }

    /// The page of an address.
    #[must_use]
    pub fn find(&self, address: usize) -> Option<(Side, u64)> {
        let in_vault = || {
            let offset = address.checked_sub(self.vault.base().addr().get()).filter(|at| *at < self.vault.bytes())?;
            Some((Side::Vault, offset as u64 / FRAME_BYTES))
        };
        self.program.find(address).map(|page| (Side::Program, page)).or_else(in_vault)
    }

    /// Waits for messages and reads them, or returns that it must stop. Any number of threads may do so.
    ///
    /// # Errors
    /// [`Error::Messages`] if the kernel is out of memory.
    pub fn next(&self, messages: &mut Messages, stop: &Stop) -> Result<Waited, Error> {
        loop {
            if self.userfaultfd().wait(stop)? == Waited::Stopped {
                return Ok(Waited::Stopped);
            }
            self.userfaultfd().read(messages)?;
            if !messages.is_empty() {
                return Ok(Waited::Messages);
            }
        }
    }

    /// Reads the present messages, maybe none, without waiting.
    ///
    /// # Errors
    /// As for [`Vault::next`].
    pub fn poll(&self, messages: &mut Messages) -> Result<(), Error> {
        self.userfaultfd().read(messages)
    }

    /// The faults among messages, in order; a vault gets no other messages.
    pub fn faults<'a>(&'a self, messages: &'a Messages) -> impl Iterator<Item = PageFault> + 'a {
        messages.iter().filter_map(|message| {
            let UffdMessage::Fault(fault) = message else { return None };
            let (side, page) = self.find(fault.address)?;
            Some(PageFault { side, page, write: fault.write, cause: fault.cause, thread: fault.thread })
        })
    }

    /// Wakes threads that wait in the program's range.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn wake(&self, span: VaultSpan) -> Result<(), Error> {
        self.userfaultfd().wake(self.area(Side::Program, span)).map_err(guarded("wake threads at"))
    }

    /// Returns the frames of some pages to the kernel. The pages are untouched again.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn discard(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        self.advise(side, span, Advice::LinuxDontNeed).map_err(guarded("discard"))
    }

    /// From now on core dumps include these pages of the program, as far as they are unlocked. Untouched memory is left
    /// out: the kernel would look at each page of it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn dump(&self, span: VaultSpan) -> Result<(), Error> {
        self.program.dump(span).map_err(guarded("dump"))
    }

    /// Makes absent pages fail for good, as if the hardware had lost them: an access gets SIGBUS, a system call EFAULT.
    /// For pages whose content is lost. [`Vault::discard`] ends it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as for a present page.
    pub fn poison(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        let area = self.area(side, span);
        self.userfaultfd().poison(area, Wake::Now).map_err(guarded("poison"))
    }

    /// Keeps both ranges from children that are made from now on, except for pages of the program that are `odd`: the
    /// program has set their inheritance. A child finds no memory there, and ends if it touches it: it never reads
    /// zeros in the place of locked pages. A fork shares no page then, and nothing needs [`Vault::unshare`]. They
    /// ascend.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn keep_from_children(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        self.tell_of_children(Advice::LinuxDontFork, odd)
    }

    /// Ends [`Vault::keep_from_children`], before an announced fork.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn give_to_children(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        self.tell_of_children(Advice::LinuxDoFork, odd)
    }

    /// Ends [`Vault::keep_from_children`] for some pages of the program.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn leave_to_children(&self, span: VaultSpan) -> Result<(), Error> {
        self.advise_mapped(Side::Program, span, Advice::LinuxDoFork).map_err(guarded("give children"))
    }

    /// Keeps all pages in RAM from their first touch on, on both sides, so that pages can be moved in a program that
    /// has called mlockall(2). Any thread may call it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the process may not mlock so much; then nothing is mlocked, and other memory of the
    /// process may be.
    pub fn mlock(&self) -> Result<(), Error> {
        let mut mlocked = self.mlocked.write().unwrap_or_else(PoisonError::into_inner);
        *mlocked = Mlocked::OthersMayBe;
        // SAFETY: the ranges are our own.
        let hidden = || self.hidden().into_iter().try_for_each(|area| unsafe { mlocking::mlock(area) });
        if let Err(errno) = self.program.mlock().and_then(|()| hidden()) {
            self.munlock_all();
            return Err(guarded("lock into RAM")(errno));
        }
        *mlocked = Mlocked::Yes;
        Ok(())
    }

    /// Ends [`Vault::mlock`]. Other memory of the process may be mlocked all the same.
    pub fn munlock(&self) {
        let mut mlocked = self.mlocked.write().unwrap_or_else(PoisonError::into_inner);
        self.munlock_all();
        *mlocked = Mlocked::OthersMayBe;
    }

    /// A refusal of the kernel here has no remedy.
    fn munlock_all(&self) {
        let _ = self.program.munlock();
        for area in self.hidden() {
            // SAFETY: the ranges are our own.
            let _ = unsafe { mlocking::munlock(area) };
        }
    }

    /// The ranges that only we know.
    fn hidden(&self) -> [Area; 2] {
        [self.vault.area(), self.fresh().area()]
    }

    fn fresh(&self) -> MutexGuard<'_, Mapping> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While this lives, memory stays mlocked or not.
    fn mlocked(&self) -> RwLockReadGuard<'_, Mlocked> {
        self.mlocked.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of all of its memory.
    #[must_use]
    pub fn places(&self) -> Vec<Range<usize>> {
        let mut places = self.program.places();
        places.extend(self.hidden().map(Area::addresses));
        places
    }

    /// Begins [`Vault::keep_from_children`] again for some pages of the program. If the kernel keeps no more pieces
    /// apart, for all.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn take_from_children(&self, span: VaultSpan) -> Result<(), Error> {
        self.advise_mapped(Side::Program, span, Advice::LinuxDontFork).or_else(|_| self.keep_from_children(&[]))
    }

    fn tell_of_children(&self, advice: Advice, odd: &[VaultSpan]) -> Result<(), Error> {
        let ours = || self.span().around(odd).filter(|(_, is_odd)| !is_odd).map(|(part, _)| part);
        ours()
            .try_for_each(|part| self.advise_mapped(Side::Program, part, advice))
            // The kernel keeps no more pieces apart: then the odd ones are treated as the others.
            .or_else(|_| self.advise_mapped(Side::Program, self.span(), advice))
            .and_then(|()| self.advise_mapped(Side::Vault, self.span(), advice))
            .map_err(guarded("set what children get of"))
    }

    /// As [`Vault::advise`], for pages some of which the program may have unmapped.
    fn advise_mapped(&self, side: Side, span: VaultSpan, advice: Advice) -> rustix::io::Result<()> {
        self.pieces(side, span).try_for_each(|piece| match self.advise(side, piece, advice) {
            Err(Errno::NOMEM) => Ok(()), // what is mapped was advised
            other => other,
        })
    }

    fn advise(&self, side: Side, span: VaultSpan, advice: Advice) -> rustix::io::Result<()> {
        self.pieces(side, span).try_for_each(|piece| match side {
            Side::Program => self.program.advise(piece, advice),
            Side::Vault => {
                let start = usize::try_from(piece.offset().get()).expect("an offset in memory");
                self.vault.advise(start..start + self.area(side, piece).bytes, advice)
            }
        })
    }

    /// A span in pieces that are each in one piece of memory.
    fn pieces(&self, side: Side, span: VaultSpan) -> impl Iterator<Item = VaultSpan> {
        let windows = (side == Side::Program).then(|| self.program.pieces(span));
        let whole = if windows.is_none() { Some(span) } else { None };
        windows.into_iter().flatten().chain(whole)
    }

    /// Sets `frames` to the frame of each page, `None` without one or for an unknown one.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn frames(
        &self,
        side: Side,
        span: VaultSpan,
        pagemap: &Pagemap,
        frames: &mut Vec<Option<Frame>>,
    ) -> Result<(), Error> {
        pagemap.frames_of(self.area(side, span).start, span.pages(), frames)
    }

    /// The addresses of pages.
    fn area(&self, side: Side, span: VaultSpan) -> Area {
        match side {
            Side::Program => self.program.area(span),
            Side::Vault => area(&self.vault, span),
        }
    }
}

/// The addresses of pages of a range. Panics outside the range.
fn area(mapping: &Mapping, span: VaultSpan) -> Area {
    let [offset, bytes, end] = [span.offset(), span.bytes(), Bytes::new(span.end() * FRAME_BYTES)]
        .map(|count| usize::try_from(count.get()).expect("an offset in memory"));
    assert!(end <= mapping.bytes(), "a span lies in its vault");
    Area { start: mapping.at(offset), bytes }
}

fn ranged(bytes: usize, kind: PageKind) -> Result<Mapping, Error> {
    let mapping = Mapping::reserved(bytes)
        .map_err(|errno| Error::Claim { bytes: Bytes::new(bytes as u64), cause: errno.into() })?;
    // A kernel without transparent huge pages refuses both; then all pages are base pages anyway.
    let _ = mapping.advise(0..bytes, pages_advice(kind));
    Ok(mapping)
}

fn pages_advice(kind: PageKind) -> Advice {
    if kind == PageKind::Base { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage }
}

/// A range that never holds anything for long, and is left out of children and core dumps.
fn spare(bytes: usize, kind: PageKind) -> Result<Mapping, Error> {
    let mapping = ranged(bytes, kind)?;
    mapping.hide().map_err(guarded("hide spare pages of"))?;
    Ok(mapping)
}

fn guarded(action: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::Guarded { action, cause: errno.into() }
}

#[cfg(test)]
mod tests;
