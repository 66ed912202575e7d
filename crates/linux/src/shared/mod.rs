//! Memory whose mapping in the program can be emptied and refilled: a file in memory that is mapped twice.
//!
//! **Problem.** A move between two ranges ([`crate::vault`]) changes two page tables, and interrupts all CPUs that run
//! threads of the program each time; and kernels before Linux 6.8 cannot move at all. **Idea.** The pages belong to a
//! file in memory (memfd_create(2)), which the program has mapped and, *behind* it, so have we. Locking a page removes
//! it from the program's page table: it stays in the file, and the next touch is a *minor fault*, a message to us
//! (`UFFDIO_REGISTER_MODE_MINOR`, Linux 5.14). Unlocking puts it back (`UFFDIO_CONTINUE`). **Why this way.** Nothing is
//! copied, the guard reads locked pages in their own frames, system calls wait for a fault as threads do, and unlocking
//! interrupts no other CPU. Pages may come from the pool of huge pages, where 2 MiB are one entry.
//!
//! A file is shared with children, and lacks much of the kernel's behaviour for anonymous memory that a program relies
//! on. So a page is in one of two kinds of memory: *of the file*, which can be locked, or *ordinary*, private and
//! anonymous as the program believes it to be.
//!
//! - Everything is ordinary at first. An untouched page becomes the file's at its first fault ([`SharedRange::fill`]),
//!   a used one when it is first locked: write protection stops writers, the content is copied to the file, and the
//!   file takes the place.
//! - [`SharedRange::leave`] makes a page ordinary again, for good: it can be mlocked, moved and protected.
//! - Before a fork everything becomes ordinary ([`SharedRange::split`]), so that the child has what children have: a
//!   copy, made when one of the two writes. Each has a file of its own afterwards. This costs the parent two copies of
//!   its used memory, which is why programs that fork often need another engine.
//!
//! A page of the file can be unlocked so that its first write stops ([`SharedRange::unlock_watched`]): until that
//! message it is known to be unchanged.
//!
//! A child of an unannounced fork finds no page of the file, and ends if it touches one.
//!
//! Compared with a vault, a device that writes to a page goes unseen. The caller keeps pages unlocked while a device
//! uses them.
//!
//! All memory is accessed by raw pointers, so everything here is safe to call; operations on one page must be
//! sequential, except for [`SharedRange::discard`], which any thread may call.
//!
//! Source: Linux, Documentation/admin-guide/mm/userfaultfd.rst and hugetlbpage.rst.

#![expect(unsafe_code, reason = "a range owns its two mappings, which makes requests about them sound")]

mod kinds;
mod locking;
mod replacing;
mod retiring;
mod which;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{OnceLock, RwLock, RwLockReadGuard};

use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::block::mapping::Mapping;
use crate::mlocking;
use crate::program::{ProgramRange, Window};
use crate::roots::number;
use crate::userfaultfd::{Area, Features, Messages, Modes, PageScan, Reach, Stop, UffdMessage, Userfaultfd, Waited};
use crate::vault::{HUGE_PAGES, PageFault, Side, VaultSpan};
use crate::{Error, PageKind, Pagemap, Roots, check_page_size};

pub use self::replacing::HeldFrame;
pub use self::retiring::HeldFrameRetirer;
use self::which::PageSet;

/// A program's range, and the file behind it; both are unmapped on drop.
#[derive(Debug)]
pub struct SharedRange {
    program: ProgramRange,
    /// The same pages, where nobody else reads.
    behind: Mapping,
    kind: PageKind,
    /// Pages that are the file's.
    of_file: PageSet,
    files: OnceLock<Files>,
    /// Whether everything is ordinary and stays so, as during a fork.
    split: RwLock<bool>,
}

/// The files for requests to the kernel: open in the thread that opened the range, and in those that share its table of
/// files.
#[derive(Debug)]
struct Files {
    userfaultfd: Userfaultfd,
    /// Whether writes to pages of the file can be stopped (Linux 5.19).
    stops_writes: bool,
    /// Whether they can be from the moment that a page is given (Linux 6.4), as far as known.
    gives_watched: AtomicBool,
    scan: PageScan,
    memory: OwnedFd,
}

// SAFETY: it belongs to the process and not to a thread. Its bytes are touched through raw pointers only, and what
// `&self` offers are system calls, which the kernel orders, and copies between pages that nobody can touch meanwhile.
unsafe impl Sync for SharedRange {}

/// Whether the administrator allows a process pages of the pool of huge pages.
#[must_use]
pub fn has_huge_pages(roots: &Roots) -> bool {
    let path = |name: &str| roots.sys(format!("kernel/mm/hugepages/hugepages-2048kB/{name}"));
    ["free_hugepages", "nr_overcommit_hugepages"].iter().any(|name| number(&path(name)).is_some_and(|pages| pages > 0))
}

impl SharedRange {
    /// Reserves `bytes`, a multiple of a page and for [`PageKind::HugeTlb`] of 2 MiB, at a multiple of 2 MiB. At first
    /// it is ordinary memory, and no file is open.
    ///
    /// # Errors
    /// [`Error::BlockSize`] for an invalid size, [`Error::Claim`] if there are not so many addresses.
    pub fn prepare(bytes: Bytes, kind: PageKind) -> Result<Self, Error> {
        check_page_size()?;
        let granule = kind.granule();
        let fits = (1..1 << 45).contains(&bytes.get()) && bytes.get().is_multiple_of(granule.get());
        let size = usize::try_from(bytes.get()).ok().filter(|_| fits).ok_or(Error::BlockSize { bytes, granule })?;
        Ok(Self {
            program: ProgramRange::new(reserved(size)?),
            behind: hidden(size)?,
            kind,
            of_file: PageSet::none(bytes.frames()),
            files: OnceLock::new(),
            split: RwLock::new(false),
        })
    }

    /// Takes over in a child process, after a fork before which everything was [split](SharedRange::split): it is
    /// ordinary memory. The parent's files are not closed here: their numbers may be those of other files by now, if
    /// the thread that opened them had a table of its own.
    ///
    /// # Errors
    /// [`Error::Claim`] if there are not so many addresses.
    pub fn prepare_again(&mut self) -> Result<(), Error> {
        std::mem::forget(self.files.take());
        let behind = hidden(self.behind.bytes())?;
        // A child does not get the parent's, whose addresses may be others' by now.
        std::mem::forget(std::mem::replace(&mut self.behind, behind));
        self.of_file = PageSet::none(self.pages());
        // Another thread may have held it, which the child lacks.
        self.split = RwLock::new(false);
        Ok(())
    }

    /// Creates the file, and opens the files for requests: then the calling thread and those that share its table of
    /// open files can lock pages. Without pages in the pool of huge pages, the file has pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::Absent`] if this kernel or this user cannot do it, [`Error::Read`] without `/proc`, [`Error::Guarded`]
    /// if there can be no such file.
    ///
    /// # Panics
    /// At a second call.
    pub fn open(&self, roots: &Roots) -> Result<(), Error> {
        let features = Features::MINOR_SHARED
            .union(Features::WRITE_PROTECT)
            .union(Features::THREAD_ID)
            .union(if self.is_huge() { Features::MINOR_HUGETLB } else { Features::NONE });
        let and_writes = Userfaultfd::open(features.union(Features::WRITE_PROTECT_SHARED), Reach::Everything);
        let stops_writes = and_writes.is_ok();
        let userfaultfd =
            and_writes.or_else(|_| Userfaultfd::open(features, Reach::Everything)).map_err(Error::Absent)?;
        let pool = if self.is_huge() { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
        let memory =
            memfd_create(c"rampart", MemfdFlags::CLOEXEC | pool).map_err(guarded("make a file in memory for"))?;
        ftruncate(&memory, self.behind.bytes() as u64).map_err(guarded("make a file in memory as long as"))?;
        let whole = Area { start: self.behind.base(), bytes: self.behind.bytes() };
        // SAFETY: what lies behind is our own, and reached by raw pointers only.
        unsafe { map_over(whole, &memory, 0) }.map_err(guarded("map a file behind"))?;
        self.behind.hide().map_err(guarded("hide what lies behind"))?;
        let gives_watched = AtomicBool::new(stops_writes);
        let files = Files { userfaultfd, stops_writes, gives_watched, scan: PageScan::open(roots)?, memory };
        self.files.set(files).expect("a range is opened once");
        Ok(())
    }

    /// From now on the first touch of an absent page is a fault that must be served. Pages of the program that are
    /// `odd` may be other memory by now, such as that of a file: then their faults are the kernel's. They ascend.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the range cannot be registered.
    pub fn arm(&self, odd: &[VaultSpan]) -> Result<(), Error> {
        for (part, is_odd) in self.span().around(odd) {
            for piece in self.program.pieces(part) {
                match self.register(self.program.area(piece), Modes::MISSING) {
                    // A refusal there is the program's own affair.
                    Err(errno) if !is_odd => return Err(guarded("take over the page faults of")(errno)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn register(&self, area: Area, modes: Modes) -> rustix::io::Result<()> {
        // SAFETY: the range is our own, and windows are as they were promised: reached by raw pointers only, or by
        // those whom faults stop.
        unsafe { self.files().userfaultfd.register(area, modes) }
    }

    /// Replaces memory that the program has elsewhere by pages of its range, before anything is armed. Returns the
    /// windows that could be replaced.
    ///
    /// # Safety
    /// As for [`Vault::show`](crate::vault::Vault::show).
    pub unsafe fn show(&self, wanted: &[Window]) -> &[Window] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.program.show(wanted, Advice::LinuxNoHugepage) }
    }

    fn files(&self) -> &Files {
        self.files.get().expect("a range is opened before its pages are locked")
    }

    /// The modes in which pages of the file are registered.
    fn of_file_modes(&self) -> Modes {
        let modes = Modes::MISSING.union(Modes::MINOR);
        if self.files().stops_writes { modes.union(Modes::WRITE_PROTECT) } else { modes }
    }

    /// While this lives, every page keeps its kind, unless its holder changes it.
    fn is_split(&self) -> RwLockReadGuard<'_, bool> {
        self.split.read().expect("no panic")
    }

    /// Whether its pages are of the pool of huge pages.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.kind == PageKind::HugeTlb
    }

    /// The pages in the same entry of the page table of a file as this one.
    fn entry(&self, page: u64) -> VaultSpan {
        let (first, count) = if self.is_huge() { (page / HUGE_PAGES * HUGE_PAGES, HUGE_PAGES) } else { (page, 1) };
        VaultSpan::new(first, count).expect("pages of this range")
    }

    /// The pages in the same entries of the page table of a file as these.
    fn entries(&self, span: VaultSpan) -> VaultSpan {
        let (first, end) = (self.entry(span.first()).first(), self.entry(span.end() - 1).end());
        VaultSpan::new(first, end - first).expect("pages of this range")
    }

    /// Keeps all pages in RAM from their first touch on, locked ones too. Memory that is mapped later is treated as
    /// other new memory of the process.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the process may not mlock so much.
    pub fn mlock(&self) -> Result<(), Error> {
        // SAFETY: what lies behind is our own.
        let behind = || unsafe { mlocking::mlock(self.behind.area()) };
        self.program.mlock().and_then(|()| behind()).map_err(guarded("lock into RAM"))
    }

    /// From now on core dumps include these pages of the program, as far as they are unlocked. Untouched memory is left
    /// out: the kernel would look at each page of it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn dump(&self, span: VaultSpan) -> Result<(), Error> {
        self.program.dump(span).map_err(guarded("dump"))
    }

    /// The addresses of all of its memory.
    #[must_use]
    pub fn places(&self) -> Vec<Range<usize>> {
        let mut places = self.program.places();
        places.push(self.behind.area().addresses());
        places
    }

    /// Pages of 4 KiB.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.program.bytes() as u64 / FRAME_BYTES
    }

    /// All pages.
    fn span(&self) -> VaultSpan {
        VaultSpan::new(0, self.pages()).expect("a range has pages, and no more than there are addresses")
    }

    /// The first byte of the program's range; valid as long as the range lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.program.base()
    }

    /// The first byte of a page, at the program's address.
    ///
    /// # Panics
    /// Outside the range.
    #[must_use]
    pub fn address(&self, page: u64) -> NonNull<u8> {
        self.program.area(VaultSpan::page(page).expect("a page of this range")).start
    }

    /// The first byte of a page in the file, which can be read and written while the page is locked.
    ///
    /// # Panics
    /// As for [`SharedRange::address`].
    #[must_use]
    pub fn behind(&self, page: u64) -> NonNull<u8> {
        self.behind.at(usize::try_from(page * FRAME_BYTES).expect("an offset in memory"))
    }

    /// The page of an address.
    #[must_use]
    pub fn find(&self, address: usize) -> Option<u64> {
        self.program.find(address)
    }

    /// The page of an address in the second mapping.
    #[must_use]
    pub fn find_behind(&self, address: usize) -> Option<u64> {
        let offset =
            address.checked_sub(self.behind.base().addr().get()).filter(|offset| *offset < self.behind.bytes())?;
        Some(offset as u64 / FRAME_BYTES)
    }

    /// Calls `each` for the runs of present pages, ascending, before anything is locked.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn present(&self, span: VaultSpan, mut each: impl FnMut(VaultSpan)) -> Result<(), Error> {
        self.each_present(span, |run| {
            each(run);
            Ok(())
        })
        .map_err(guarded("look up pages of"))
    }

    /// Waits for messages and reads them, or returns that it must stop.
    ///
    /// # Errors
    /// [`Error::Messages`] if the kernel is out of memory.
    pub fn next(&self, messages: &mut Messages, stop: &Stop) -> Result<Waited, Error> {
        let waited = self.files().userfaultfd.wait(stop)?;
        if waited == Waited::Messages {
            self.files().userfaultfd.read(messages)?;
        }
        Ok(waited)
    }

    /// The faults among messages, in order; a range gets no other messages.
    pub fn faults<'a>(&'a self, messages: &'a Messages) -> impl Iterator<Item = PageFault> + 'a {
        messages.iter().filter_map(|message| {
            let UffdMessage::Fault(fault) = message else { return None };
            let page = self.find(fault.address)?;
            let (side, write, cause, thread) = (Side::Program, fault.write, fault.cause, fault.thread);
            Some(PageFault { side, page, write, cause, thread })
        })
    }

    /// The frame of a page of the file; `None` if it is unknown.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn frame(&self, page: u64, pagemap: &Pagemap) -> Result<Option<Frame>, Error> {
        let (mut frames, start) = (Vec::new(), self.behind(page));
        // SAFETY: the byte is of the mapping behind; it is read so that our own page table has the page.
        unsafe { start.read_volatile() };
        pagemap.frames_of(start, 1, &mut frames)?;
        Ok(frames.first().copied().flatten())
    }
}

/// Maps a file in memory over existing memory.
///
/// # Safety
/// The existing memory is ours, and its content is not needed.
unsafe fn map_over(area: Area, memory: &OwnedFd, offset: u64) -> rustix::io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: guaranteed by the caller.
    unsafe { mm::mmap(area.start.as_ptr().cast(), area.bytes, protection, flags, memory, offset) }.map(drop)
}

/// As [`map_over`]; children that are made from now on find nothing there: they would share the file, and write to
/// their parent's memory. Those of an announced fork come after [`SharedRange::split`].
///
/// # Safety
/// As for [`map_over`].
unsafe fn map_for_us_alone(area: Area, memory: &OwnedFd, offset: u64) -> rustix::io::Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        map_over(area, memory, offset)?;
        // A mapping of its own, which is not split for this: the kernel has no reason to refuse.
        mm::madvise(area.start.as_ptr().cast(), area.bytes, Advice::LinuxDontFork)
    }
}

/// Maps private zeroed memory over existing memory.
///
/// # Safety
/// As for [`map_over`].
unsafe fn map_zeros_over(area: Area) -> rustix::io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: guaranteed by the caller.
    unsafe { mm::mmap_anonymous(area.start.as_ptr().cast(), area.bytes, protection, flags) }.map(drop)
}

fn reserved(bytes: usize) -> Result<Mapping, Error> {
    let mapping = Mapping::reserved(bytes)
        .map_err(|errno| Error::Claim { bytes: Bytes::new(bytes as u64), cause: errno.into() })?;
    // Write protection of a part would split a huge page, and the file has its own.
    let _ = mapping.advise(0..bytes, Advice::LinuxNoHugepage);
    Ok(mapping)
}

/// A range that is left out of children and core dumps.
fn hidden(bytes: usize) -> Result<Mapping, Error> {
    let mapping = reserved(bytes)?;
    mapping.hide().map_err(guarded("hide what lies behind"))?;
    Ok(mapping)
}

fn guarded(action: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::Guarded { action, cause: errno.into() }
}

#[cfg(test)]
mod tests;
