//! Pages whose frames are known, each of which can be put at any address.
//!
//! **Problem.** A heap that leaves out single lines must know the frame below each of its pages, keep it there, and put
//! whole pages that lie anywhere below one large object. **Idea.** The pages are those of a file in memory
//! (memfd_create(2)). All of them are mapped once in a *window*, in the order of their numbers, where they are pinned,
//! and where their frames are read by one call; and each is mapped once more at the address where it is used. **Why
//! this way.** mremap(2) of anonymous pages takes twice as long for scattered pages (10.6 against 5.8 µs a page on the
//! machine where both were measured, there and back), needs addresses to park what is not in use, and a fork would give
//! the parent other frames at its next writes.
//!
//! Pins are those of [`crate::block`]: with an io_uring, frames never change. Without, mlock(2) keeps pages in memory,
//! but compaction may move them: [`PlacedPages::moved`] finds out which ones it did.

#![expect(unsafe_code, reason = "pages are mapped at addresses of others")]

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rampart_memory::Frame;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::block::mapping::{HUGE_BYTES, Mapping};
use crate::block::registered::Registration;
use crate::mlocking::mlock;
use crate::pagemap::Pagemap;
use crate::userfaultfd::Area;
use crate::{Absence, Error, PAGE_BYTES, Pinning, Roots};

/// A page below which the kernel has put another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedPage {
    /// The page.
    pub page: u32,
    /// Its frame now.
    pub frame: Frame,
    /// The hardware has lost what was in it, and it holds zeros now.
    pub is_lost: bool,
}

/// The pages.
#[derive(Debug)]
pub struct PlacedPages {
    /// Dropped before what they pin.
    pins: Vec<Registration>,
    window: Mapping,
    file: OwnedFd,
    pagemap: Pagemap,
    /// The frame of each page that there is.
    frames: Vec<Frame>,
    pinning: Pinning,
    /// Where pages are put.
    over: Option<Area>,
}

// SAFETY: the addresses where pages are put belong to the process and not to a thread; all that changes what is there
// needs the pages exclusively.
unsafe impl Send for PlacedPages {}
// SAFETY: as for `Send`; what takes a shared reference reads fields only.
unsafe impl Sync for PlacedPages {}

impl PlacedPages {
    /// No pages yet, and at most so many.
    ///
    /// # Errors
    /// [`Error::HeapPages`] without address space, [`Error::Read`] without a page map.
    pub fn new(roots: &Roots, most: u32) -> Result<Self, Error> {
        let bytes = most as usize * PAGE_BYTES;
        let pagemap = Pagemap::open(roots)?;
        let window = Mapping::inaccessible(bytes).map_err(refused("find addresses for"))?;
        let file = memfd_create(c"rampart-heap", MemfdFlags::CLOEXEC).map_err(refused("make a file in memory for"))?;
        ftruncate(&file, bytes as u64).map_err(refused("make a file in memory as long as"))?;
        let area = window.area();
        // SAFETY: the window is ours, nothing is in it yet, and it is only reached by raw pointers.
        unsafe { map_shared(area, &file, 0, MapFlags::empty()) }.map_err(refused("map"))?;
        // A child would share the pages, and a huge page has frames of its own.
        window.hide().map_err(refused("hide"))?;
        let _kernel_without_huge_pages = window.advise(0..bytes, Advice::LinuxNoHugepage);
        let pinning = Pinning::Registered;
        Ok(Self { pins: Vec::new(), window, file, pagemap, frames: Vec::new(), pinning, over: None })
    }

    /// Adds pages, with frames, pinned as well as it is possible here. Returns their numbers.
    ///
    /// # Errors
    /// [`Error::HeapPages`] without memory, [`Error::Absent`] if the kernel does not tell their frames.
    pub fn add(&mut self, count: u32) -> Result<Range<u32>, Error> {
        let first = self.frames.len();
        let part = self.part(first, first + count as usize).ok_or(refused("add")(Errno::NOMEM))?;
        self.window.advise(part.clone(), Advice::LinuxPopulateWrite).map_err(refused("fill"))?;
        // Whoever may not know the frames need not lock them.
        self.frames_in(part.clone())?;
        self.pin(part.clone())?;
        let frames = self.frames_in(part)?;
        self.frames.extend(frames);
        Ok(number(first)..number(self.frames.len()))
    }

    fn frames_in(&self, part: Range<usize>) -> Result<Vec<Frame>, Error> {
        let mut frames = Vec::new();
        let pages = part.len() / PAGE_BYTES;
        self.pagemap.frames_of(self.window.at(part.start), pages as u64, &mut frames)?;
        frames.into_iter().map(|frame| frame.ok_or_else(hidden)).collect()
    }

    fn part(&self, first: usize, end: usize) -> Option<Range<usize>> {
        let part = first * PAGE_BYTES..end * PAGE_BYTES;
        (part.end <= self.window.bytes()).then_some(part)
    }

    fn pin(&mut self, part: Range<usize>) -> Result<(), Error> {
        if self.pinning == Pinning::Registered {
            match Registration::of_part(&self.window, part.clone()) {
                Ok(pin) => {
                    self.pins.push(pin);
                    return Ok(());
                }
                Err(_) => self.pinning = Pinning::Locked,
            }
        }
        let area = Area { start: self.window.at(part.start), bytes: part.len() };
        // SAFETY: the part lies in the window.
        unsafe { mlock(area) }.map_err(refused("lock"))
    }

    /// Keeps pages in memory only, so that the kernel may move those that are added from now on: for tests.
    pub fn only_lock(&mut self) {
        self.pinning = Pinning::Locked;
    }

    /// How well all pages are pinned.
    #[must_use]
    pub const fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// The frame of each page, by their numbers.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// From now on, pages are put at these addresses. What is there, and is not replaced, stays.
    ///
    /// # Safety
    /// Until the pages are dropped, the addresses must be mapped, belong to the caller, and be used by raw pointers
    /// only. `base` must be aligned to pages.
    pub unsafe fn attach(&mut self, base: NonNull<u8>, bytes: usize) {
        self.detach();
        self.over = Some(Area { start: base, bytes });
    }

    /// Puts pages from an offset on, in this order. Each keeps what is in it.
    ///
    /// # Errors
    /// If the kernel has no mapping left (`vm.max_map_count`); none of them is there then.
    pub fn place(&mut self, offset: usize, pages: &[u32]) -> Result<(), Error> {
        let mut at = offset;
        for run in pages.chunk_by(|one, next| one + 1 == *next) {
            assert!((run[run.len() - 1] as usize) < self.frames.len(), "a page that there is");
            let area = self.area(at, run.len());
            // SAFETY: `attach` was promised the addresses.
            let mapped = unsafe { map_shared(area, &self.file, u64::from(run[0]), MapFlags::POPULATE) };
            if let Err(errno) = mapped {
                self.clear(offset, (at - offset) / PAGE_BYTES);
                return Err(refused("map")(errno));
            }
            at += area.bytes;
        }
        Ok(())
    }

    /// Takes away what is there, of so many pages from an offset on: a touch is a fault from now on.
    pub fn clear(&mut self, offset: usize, pages: usize) {
        if pages > 0 {
            // SAFETY: `attach` was promised the addresses. If the kernel has no mapping left, a page stays where
            // nobody uses it.
            let _ = unsafe { map_nothing(self.area(offset, pages), ProtFlags::empty()) };
        }
    }

    fn area(&self, offset: usize, pages: usize) -> Area {
        let over = self.over.expect("pages are put where they were attached");
        let bytes = pages * PAGE_BYTES;
        assert!(offset.is_multiple_of(PAGE_BYTES) && offset + bytes <= over.bytes, "it lies in the region");
        // SAFETY: the sum lies in the region, as just asserted.
        Area { start: unsafe { over.start.add(offset) }, bytes }
    }

    fn detach(&mut self) {
        if let Some(over) = self.over.take() {
            // SAFETY: `attach` was promised the addresses until now.
            let _ = unsafe { map_nothing(over, ProtFlags::READ | ProtFlags::WRITE) };
        }
    }

    /// Copies the lines of a page whose bits are set to another.
    pub fn copy(&mut self, from: u32, to: u32, lines: u64) {
        const LINE: usize = PAGE_BYTES / u64::BITS as usize;
        let [from, to] = [from, to].map(|page| self.window.at(page as usize * PAGE_BYTES));
        for line in (0..u64::BITS as usize).filter(|line| lines >> line & 1 == 1) {
            // SAFETY: both lines lie in the window, whose pages there are; they do not overlap, or are the same.
            unsafe { from.add(line * LINE).copy_to(to.add(line * LINE), LINE) };
        }
    }

    /// Another mapping of all pages, whether there are frames for them yet or not.
    ///
    /// # Errors
    /// [`Error::HeapPages`] without address space.
    pub fn view(&self) -> Result<PageView, Error> {
        let mapping = Mapping::reserved(self.window.bytes()).map_err(refused("find addresses for"))?;
        // SAFETY: the mapping is ours, nothing is in it yet, and it is only reached by raw pointers.
        unsafe { map_shared(mapping.area(), &self.file, 0, MapFlags::empty()) }.map_err(refused("map"))?;
        Ok(PageView(mapping))
    }

    /// The pages that have another frame than at the last call. One whose content the hardware has lost gets a fresh
    /// frame.
    ///
    /// # Errors
    /// As of [`PlacedPages::add`].
    pub fn moved(&mut self) -> Result<Vec<MovedPage>, Error> {
        let mut now = Vec::new();
        self.pagemap.frames_of(self.window.base(), self.frames.len() as u64, &mut now)?;
        let mut moved = Vec::new();
        for (page, now) in (0..).zip(now) {
            if now == Some(self.frames[page as usize]) {
                continue;
            }
            let (frame, is_lost) = match now {
                Some(frame) => (frame, false),
                None => self.fault_in(page)?,
            };
            if is_lost || frame != self.frames[page as usize] {
                self.frames[page as usize] = frame;
                moved.push(MovedPage { page, frame, is_lost });
            }
        }
        Ok(moved)
    }

    /// The frame of a page that has none at the moment, and whether its content is lost.
    fn fault_in(&mut self, page: u32) -> Result<(Frame, bool), Error> {
        let at = page as usize * PAGE_BYTES..(page as usize + 1) * PAGE_BYTES;
        // A lost page is an error here, and no signal.
        let is_lost = match self.window.advise(at.clone(), Advice::LinuxPopulateRead) {
            Ok(()) => false,
            Err(Errno::HWPOISON | Errno::FAULT) => true,
            Err(other) => return Err(refused("fault in")(other)),
        };
        if is_lost {
            self.renew(page)?;
        }
        let frame = self.pagemap.frame_at(self.window.at(at.start).addr().get() as u64)?;
        Ok((frame.ok_or_else(hidden)?, is_lost))
    }

    /// The hardware has lost a page: it gets another frame, of zeros.
    ///
    /// # Errors
    /// As of [`PlacedPages::add`].
    pub fn lose(&mut self, page: u32) -> Result<MovedPage, Error> {
        self.renew(page)?;
        let at = self.window.at(page as usize * PAGE_BYTES).addr().get() as u64;
        let frame = self.pagemap.frame_at(at)?.ok_or_else(hidden)?;
        self.frames[page as usize] = frame;
        Ok(MovedPage { page, frame, is_lost: true })
    }

    /// The page at an address, if that is in the window.
    #[must_use]
    pub fn in_window(&self, address: usize) -> Option<u32> {
        let page = self.window.area().addresses().contains(&address);
        page.then(|| number((address - self.window.base().addr().get()) / PAGE_BYTES))
    }

    /// The offset of an address, if pages are put there.
    #[must_use]
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        let over = self.over?.addresses();
        over.contains(&address).then(|| address - over.start)
    }

    /// Gives a page another frame, of zeros. Where it was put, it stays; but if the hardware had lost it, it must be
    /// put there again: a hole in a file leaves marks of lost pages in page tables as they are (`zap_pte_range` in
    /// mm/memory.c).
    ///
    /// # Errors
    /// [`Error::HeapPages`] without memory.
    pub fn renew(&mut self, page: u32) -> Result<(), Error> {
        let (start, bytes) = (page as usize * PAGE_BYTES, PAGE_BYTES);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, start as u64, bytes as u64).map_err(refused("renew"))?;
        let area = Area { start: self.window.at(start), bytes };
        // SAFETY: the page lies in the window, which is ours, and its content is gone.
        unsafe { map_shared(area, &self.file, u64::from(page), MapFlags::empty()) }.map_err(refused("map"))?;
        self.window.advise(start..start + bytes, Advice::LinuxDontFork).map_err(refused("hide"))?;
        let _kernel_without_huge_pages = self.window.advise(start..start + bytes, Advice::LinuxNoHugepage);
        self.window.advise(start..start + bytes, Advice::LinuxPopulateWrite).map_err(refused("fill"))
    }
}

/// Another mapping of pages, by which they are seen beside their user: for tests.
#[derive(Debug)]
pub struct PageView(Mapping);

impl PageView {
    /// Reads a byte of a page.
    #[must_use]
    pub fn read(&self, page: u32, byte: usize) -> u8 {
        // SAFETY: the byte lies in the mapping; all accesses are by raw pointers.
        unsafe { self.0.at(page as usize * PAGE_BYTES + byte).read_volatile() }
    }

    /// Writes a byte of a page.
    pub fn write(&self, page: u32, byte: usize, value: u8) {
        // SAFETY: as for `read`.
        unsafe { self.0.at(page as usize * PAGE_BYTES + byte).write_volatile(value) };
    }

    /// Makes pages from a multiple of 512 on huge ones, of other frames (Linux 6.1).
    ///
    /// # Errors
    /// The kernel's, as for pages that are pinned.
    pub fn make_huge(&self, first: u32, huge: u32) -> io::Result<()> {
        let bytes = first as usize * PAGE_BYTES..first as usize * PAGE_BYTES + huge as usize * HUGE_BYTES;
        assert!(first.is_multiple_of(512) && bytes.end <= self.0.bytes(), "huge pages are aligned");
        // SAFETY: the range lies in the mapping, and huge pages keep what is in it.
        let made = unsafe { libc::madvise(self.0.at(bytes.start).as_ptr().cast(), bytes.len(), libc::MADV_COLLAPSE) };
        if made == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for PlacedPages {
    fn drop(&mut self) {
        self.detach();
    }
}

fn number(page: usize) -> u32 {
    u32::try_from(page).expect("fewer pages than u32")
}

fn refused(action: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::HeapPages { action, cause: errno.into() }
}

fn hidden() -> Error {
    let reason = "the kernel does not tell this process which frames its pages have (/proc/self/pagemap)";
    Error::Absent(Absence::new(reason, "run as root, outside of a container"))
}

/// Maps pages of a file, from one on, over existing memory.
///
/// # Safety
/// The existing memory is ours, and its content is not needed.
unsafe fn map_shared(area: Area, file: &OwnedFd, page: u64, more: MapFlags) -> rustix::io::Result<()> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED | more;
    let offset = page * PAGE_BYTES as u64;
    // SAFETY: guaranteed by the caller.
    unsafe { mm::mmap(area.start.as_ptr().cast::<c_void>(), area.bytes, access, flags, file, offset) }.map(drop)
}

/// Maps fresh memory over existing memory.
///
/// # Safety
/// As of [`map_shared`].
unsafe fn map_nothing(area: Area, access: ProtFlags) -> rustix::io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: guaranteed by the caller.
    unsafe { mm::mmap_anonymous(area.start.as_ptr().cast(), area.bytes, access, flags) }.map(drop)
}
