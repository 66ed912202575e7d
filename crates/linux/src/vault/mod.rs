//! Vaults: memory of a program that is absent until it is asked for.
//!
//! **Problem.** A page guard takes pages away from a running program, keeps them, and gives them back the moment that
//! somebody touches them; the program, its system calls and its devices must notice nothing but time, and the page must
//! stay in the frame that was tested. **Idea.** Two ranges of equal length: the *program's*, which it uses, and the
//! *vault* behind it, which only we know. A page is in one of the two. [`Vault::lock`] moves pages into the vault,
//! [`Vault::unlock`] moves them back, and a touch of a page that is not there stops the toucher and sends a message
//! ([`crate::userfaultfd`]). **Why this way.** A move changes two page-table entries and copies nothing; a page that a
//! device may write to refuses to move, so that no write goes unseen; and a fault of a system call waits like another.
//!
//! FlipSphere [Fiala15, 4.3.1 and 4.4.1] takes the permissions of a page away by `mprotect` and checks it in a signal
//! handler, which needs every system call wrapped [Fiala15, 4.4.7] and every device's buffer named [Fiala15, 4.4.8].
//!
//! All memory is reached by raw pointers, so everything here is safe to call; what must be right is the order:
//!
//! - Operations on one page go one after the other; those on different pages may go at once, from any thread. Who calls
//!   keeps a state for each page and changes it before.
//! - A page that was never touched is in neither range: [`Vault::populate`] or [`Vault::give`] it at its first fault.
//!   A page of the vault that is not there stops whoever reads it, us included, so read what is known to be there.
//! - Nothing that handles faults may lie in the program's range: neither its stack nor anything it allocates.
//!   Nor may the thread control blocks of any thread: the kernel's write at a thread's end gives up where a page is
//!   absent, and `pthread_join` hangs.
//! - After a fork the parent must [`Vault::unshare`] what is busy, and the child must [`Vault::reopen`]. A child that
//!   does not would read zeros in the place of what is locked: [`Vault::keep_from_children`].
//! - Pages do not move between memory that is mlocked and memory that is not: [`Vault::mlock`] is for all ranges, and
//!   what pages move to and from is made like them.
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
    /// The range that nobody else knows of.
    Vault,
}

/// A thread waits at a page of a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// In which range; a fault in [`Side::Vault`] is a mistake of ours.
    pub side: Side,
    /// Which page.
    pub page: u64,
    /// Whether the thread writes.
    pub write: bool,
    /// [`FaultCause::Missing`], or [`FaultCause::Protected`] with [`Tracking::Stopping`].
    pub cause: FaultCause,
    /// The thread, as `gettid(2)` numbers it.
    pub thread: Option<u32>,
}

/// A program's range and the vault behind it; both are unmapped on drop.
#[derive(Debug)]
pub struct Vault {
    // Dropped in this order: a fault in a range without a handler finds zeros, and does not wait for ever.
    program: ProgramRange,
    vault: Mapping,
    /// One huge page, not registered, and empty: where the kernel makes huge pages of zeros, one at a time.
    fresh: Mutex<Mapping>,
    /// What the kernel is asked by, since [`Vault::open`].
    files: OnceLock<Files>,
    /// Whether the ranges are mlocked; held while pages move.
    mlocked: RwLock<Mlocked>,
    options: VaultOptions,
}

/// What the kernel is asked by: open files of the thread that opened the vault, and of those that share its table of
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
    /// [`Error::Absent`] if this kernel or this user cannot do it, [`Error::BlockSize`] for a size that cannot be,
    /// [`Error::Claim`] if there are not so many addresses, [`Error::Guarded`] if they cannot be registered, and
    /// [`Error::Read`] without `/proc`.
    pub fn reserve(bytes: Bytes, options: VaultOptions, roots: &Roots) -> Result<Self, Error> {
        let vault = Self::prepare(bytes, options)?;
        vault.open(roots)?;
        vault.arm()?;
        Ok(vault)
    }

    /// As [`Vault::reserve`], but for now both ranges are ordinary memory: nothing can be moved yet, and the first
    /// touch of a page finds zeros. For a process that has no thread yet to serve faults. Opens no file.
    ///
    /// # Errors
    /// As of [`Vault::reserve`], but for what [`Vault::open`] and [`Vault::arm`] find out.
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
    /// range. The parent's pages are all here, shared until one of the two writes: a page that is [busy] wants
    /// [`Vault::unshare`] before it moves.
    ///
    /// [busy]: crate::userfaultfd::MoveRefusal::Busy
    ///
    /// # Errors
    /// As of [`Vault::reserve`].
    pub fn reopen(&mut self, roots: &Roots) -> Result<(), Error> {
        self.prepare_again()?;
        self.open(roots)?;
        self.arm()
    }

    /// As [`Vault::reopen`], but for now both ranges are ordinary memory, as of [`Vault::prepare`]. The parent's files
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
        // Nothing of a child is mlocked; and another thread may have held it, which the child does not have.
        self.mlocked = RwLock::new(Mlocked::No);
        Ok(())
    }

    /// Opens what the kernel is asked by: the calling thread and those that share its table of open files can move
    /// pages then.
    ///
    /// # Errors
    /// [`Error::Absent`] if this kernel or this user cannot do it, [`Error::Read`] without `/proc`.
    ///
    /// # Panics
    /// If it was done.
    pub fn open(&self, roots: &Roots) -> Result<(), Error> {
        let userfaultfd =
            Userfaultfd::open(self.options.tracking.features(), self.options.least).map_err(Error::Absent)?;
        let files = Files { userfaultfd, scan: PageScan::open(roots)? };
        self.files.set(files).expect("a vault is opened once");
        Ok(())
    }

    /// From now on faults are to be served. Pages that were touched before are the program's.
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
    /// As of [`Vault::arm`].
    pub fn arm_around(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        self.register(Side::Vault, self.span())?;
        self.span().around(odd).try_for_each(|(part, is_odd)| match self.register(Side::Program, part) {
            // What is refused is the program's own affair.
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

    /// Replaces memory that the program has elsewhere by pages of its range, before anything is armed. Returns those of
    /// the windows that could be opened.
    ///
    /// # Safety
    /// Each window's addresses are of private memory that can be read and written, is in no other window or range, and
    /// that nobody uses meanwhile. Afterwards it is used by raw pointers only, or by those whom its faults stop.
    ///
    /// # Panics
    /// For pages that the range has not, that two windows share, or if it was done.
    pub unsafe fn show(&self, wanted: &[Window]) -> &[Window] {
        // SAFETY: the caller's promise.
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

    /// How it was made.
    #[must_use]
    pub fn options(&self) -> VaultOptions {
        self.options
    }

    /// By which way faults are had since it was opened, and so whether those of system calls are.
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

    /// The first byte of the program's range; good as long as the vault lives.
    #[must_use]
    pub fn program_base(&self) -> NonNull<u8> {
        self.program.base()
    }

    /// The first byte of the vault; good as long as the vault lives. A read of a page that is not there waits for a
    /// handler.
    #[must_use]
    pub fn vault_base(&self) -> NonNull<u8> {
        self.vault.base()
    }

    /// The first byte of a page.
    ///
    /// # Panics
    /// If the range has no such page.
    #[must_use]
    pub fn address(&self, side: Side, page: u64) -> NonNull<u8> {
        self.area(side, VaultSpan::page(page).expect("a page of this vault")).start
    }

    /// The page that an address is in.
    #[must_use]
    pub fn find(&self, address: usize) -> Option<(Side, u64)> {
        let in_vault = || {
            let offset = address.checked_sub(self.vault.base().addr().get()).filter(|at| *at < self.vault.bytes())?;
            Some((Side::Vault, offset as u64 / FRAME_BYTES))
        };
        self.program.find(address).map(|page| (Side::Program, page)).or_else(in_vault)
    }

    /// Waits for messages and reads them, or returns that it is told to stop. Any number of threads may do so.
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

    /// Reads the messages that are there, maybe none, without waiting.
    ///
    /// # Errors
    /// As of [`Vault::next`].
    pub fn poll(&self, messages: &mut Messages) -> Result<(), Error> {
        self.userfaultfd().read(messages)
    }

    /// The faults among messages, in order; of other messages a vault gets none.
    pub fn faults<'a>(&'a self, messages: &'a Messages) -> impl Iterator<Item = PageFault> + 'a {
        messages.iter().filter_map(|message| {
            let UffdMessage::Fault(fault) = message else { return None };
            let (side, page) = self.find(fault.address)?;
            Some(PageFault { side, page, write: fault.write, cause: fault.cause, thread: fault.thread })
        })
    }

    /// Lets those who wait in the program's range try again.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn wake(&self, span: VaultSpan) -> Result<(), Error> {
        self.userfaultfd().wake(self.area(Side::Program, span)).map_err(guarded("wake threads at"))
    }

    /// Gives the frames of some pages back to the kernel. The pages are as if never touched.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn discard(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        self.advise(side, span, Advice::LinuxDontNeed).map_err(guarded("discard"))
    }

    /// From now on core dumps have these pages of the program, as far as they are unlocked. What was never used is in
    /// none: the kernel would look at each page of it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn dump(&self, span: VaultSpan) -> Result<(), Error> {
        self.program.dump(span).map_err(guarded("dump"))
    }

    /// Makes pages that are not there fail for good, as if the hardware had given them up: an access gets SIGBUS, a
    /// system call EFAULT. For pages whose content is lost. [`Vault::discard`] ends it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as where a page is there.
    pub fn poison(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        let area = self.area(side, span);
        self.userfaultfd().poison(area, Wake::Now).map_err(guarded("poison"))
    }

    /// Keeps both ranges from children that are made from now on, but for pages of the program that are `odd`: the
    /// program decides about these. A child finds no memory there, and ends if it touches it: it never reads zeros in
    /// the place of what is locked. A fork shares no page then, and nothing needs [`Vault::unshare`]. They ascend.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn keep_from_children(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        self.tell_of_children(Advice::LinuxDontFork, odd)
    }

    /// Ends [`Vault::keep_from_children`], before a fork that is announced.
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

    /// Keeps all pages in RAM from their first touch on, on both sides, and so can pages be moved in a program that has
    /// called mlockall(2). Any thread may ask for it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the process may not lock so much; then nothing is, and other memory of the process may be.
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

    /// What the kernel refuses here cannot be done without.
    fn munlock_all(&self) {
        let _ = self.program.munlock();
        for area in self.hidden() {
            // SAFETY: the ranges are our own.
            let _ = unsafe { mlocking::munlock(area) };
        }
    }

    /// What only we know of.
    fn hidden(&self) -> [Area; 2] {
        [self.vault.area(), self.fresh().area()]
    }

    fn fresh(&self) -> MutexGuard<'_, Mapping> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While this lives, what is mlocked stays so, and what is not is not.
    fn mlocked(&self) -> RwLockReadGuard<'_, Mlocked> {
        self.mlocked.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where all of its memory lies.
    #[must_use]
    pub fn places(&self) -> Vec<Range<usize>> {
        let mut places = self.program.places();
        places.extend(self.hidden().map(Area::addresses));
        places
    }

    /// Begins [`Vault::keep_from_children`] again for some pages of the program. Where the kernel keeps no more pieces
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
            // The kernel keeps no more pieces apart: then the odd ones are as the others.
            .or_else(|_| self.advise_mapped(Side::Program, self.span(), advice))
            .and_then(|()| self.advise_mapped(Side::Vault, self.span(), advice))
            .map_err(guarded("tell what children get of"))
    }

    /// As [`Vault::advise`], of pages some of which the program may have unmapped.
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

    /// A span in pieces that lie in one piece each.
    fn pieces(&self, side: Side, span: VaultSpan) -> impl Iterator<Item = VaultSpan> {
        let windows = (side == Side::Program).then(|| self.program.pieces(span));
        let whole = if windows.is_none() { Some(span) } else { None };
        windows.into_iter().flatten().chain(whole)
    }

    /// Replaces what `frames` holds by the frame of each page, `None` where there is none or it is not known.
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

    /// Where pages are.
    fn area(&self, side: Side, span: VaultSpan) -> Area {
        match side {
            Side::Program => self.program.area(span),
            Side::Vault => area(&self.vault, span),
        }
    }
}

/// Where pages of a range are. Panics for pages that it has not.
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

/// A range that never holds anything for long, so neither a child nor a core dump wants it.
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
