//! Memory that stays in its place and is inaccessible until it is unlocked: `mprotect`.
//!
//! **Problem.** A page guard must also work where the kernel moves no pages: before Linux 6.8, in a container without
//! userfaultfd, as an ordinary user. **Idea.** A locked page keeps its place and loses its protection bits, so that a
//! touch is a SIGSEGV; the guard reads and corrects it through `/proc/self/mem`, which ignores protections. **Why this
//! way.** It is FlipSphere's way [Fiala15, 4.3.1], except for the read: FlipSphere first makes the faulting page
//! readable and then verifies it, when other threads may read it too. Here nobody else can see the page, and a copy is
//! verified, made by the same loads from the same frames.
//!
//! Two things are lost compared with a [vault](crate::vault): a system call on a locked page fails with EFAULT, and a
//! device that writes to one goes unseen. And the kernel keeps one record for each run of pages with equal protection,
//! up to `vm.max_map_count` of them; see [`Protected::most_runs`].

#![expect(unsafe_code, reason = "permissions of memory that is ours are changed")]

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags, MremapFlags, mprotect, mremap_fixed};

use crate::block::mapping::Mapping;
use crate::program::{ProgramRange, Window};
use crate::roots::number;
use crate::span::VaultSpan;
use crate::userfaultfd::Area;
use crate::{Block, Error, PAGE_BYTES, PageKind, Pagemap, Roots, check_page_size};

/// Runs of pages in reserve for a program that makes as many mappings as it may.
const RESERVED: usize = 512;

/// The kernel's default, if it does not show its limit.
const USUAL_MAPS: u64 = 65_530;

/// A program's range, parts of which can be locked; unmapped on drop. Operations on one page must be sequential.
#[derive(Debug)]
pub struct Protected {
    program: ProgramRange,
    /// The kind of its pages.
    advice: Advice,
    /// This process' memory, since [`Protected::open`].
    memory: OnceLock<OwnedFd>,
    /// Runs of pages that the kernel keeps apart in reserve: released when it would refuse to keep one more apart.
    reserve: Mutex<Option<Mapping>>,
    most_runs: usize,
}

// SAFETY: it belongs to the process and not to a thread. Its bytes are touched by the kernel for us only, and what
// `&self` offers are system calls, which the kernel orders.
unsafe impl Sync for Protected {}

impl Protected {
    /// Reserves `bytes`, a multiple of a page, at a multiple of 2 MiB. At first it is ordinary memory, and no file is
    /// open.
    ///
    /// # Errors
    /// [`Error::BlockSize`] for an invalid size, [`Error::Claim`] if there are not so many addresses.
    pub fn prepare(bytes: Bytes, kind: PageKind, roots: &Roots) -> Result<Self, Error> {
        check_page_size()?;
        let granule = Bytes::new(FRAME_BYTES);
        let fits = (1..1 << 45).contains(&bytes.get()) && bytes.get().is_multiple_of(granule.get());
        let size = usize::try_from(bytes.get()).ok().filter(|_| fits).ok_or(Error::BlockSize { bytes, granule })?;
        let mapping = Mapping::reserved(size).map_err(|errno| Error::Claim { bytes, cause: errno.into() })?;
        let advice = if kind == PageKind::Base { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage };
        // A kernel without transparent huge pages refuses both; then all pages are base pages anyway.
        let _ = mapping.advise(0..size, advice);
        let maps = number(&roots.proc("sys/vm/max_map_count")).unwrap_or(USUAL_MAPS);
        // Half of them are the program's own.
        Ok(Self {
            program: ProgramRange::new(mapping),
            advice,
            memory: OnceLock::new(),
            reserve: Mutex::new(reserve()),
            most_runs: usize::try_from(maps / 2).unwrap_or(usize::MAX).max(16),
        })
    }

    /// Opens the file for reading locked pages, in the calling thread's table of files.
    ///
    /// # Errors
    /// [`Error::Read`] if a process may not read its own memory by `/proc/self/mem`.
    ///
    /// # Panics
    /// At a second call.
    pub fn open(&self, roots: &Roots) -> Result<(), Error> {
        let path = roots.proc("self/mem");
        let opened = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let memory = opened.map_err(|errno| Error::Read { path, cause: errno.into() })?;
        self.memory.set(memory).expect("a range is opened once");
        Ok(())
    }

    fn memory(&self) -> &OwnedFd {
        self.memory.get().expect("a range is opened before it is looked at")
    }

    /// Takes over in a child process, after a fork, where it is ordinary memory again, except for spans that keep their
    /// protection. The parent's file is not closed here: its number may be that of another by now, if the thread that
    /// opened it had a table of its own.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn prepare_again(&mut self, kept: &[VaultSpan]) -> Result<(), Error> {
        std::mem::forget(self.memory.take());
        // Another thread may have held it, which the child lacks; the parent's is here too.
        let reserve = self.reserve.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.reserve = Mutex::new(reserve);
        self.unlock_first(self.pages(), kept)
    }

    /// Unlocks the first pages, except for spans that keep their protection.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn unlock_first(&self, pages: u64, kept: &[VaultSpan]) -> Result<(), Error> {
        let Some(first) = VaultSpan::new(0, pages) else { return Ok(()) };
        first.around(kept).filter(|(_, is_kept)| !is_kept).try_for_each(|(part, _)| self.unlock(part))
    }

    /// The first byte; valid as long as the range lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.program.base()
    }

    /// Keeps all pages in RAM from their first touch on.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the process may not lock so much.
    pub fn mlock(&self) -> Result<(), Error> {
        self.program.mlock().map_err(guarded("lock into RAM"))
    }

    /// From now on core dumps include these pages of the program, locked or not. Untouched memory is left out: the
    /// kernel would look at each page of it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn dump(&self, span: VaultSpan) -> Result<(), Error> {
        self.program.dump(span).map_err(guarded("dump"))
    }

    /// The addresses of its memory.
    #[must_use]
    pub fn places(&self) -> Vec<Range<usize>> {
        self.program.places()
    }

    /// Pages of 4 KiB.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.program.bytes() as u64 / FRAME_BYTES
    }

    /// The guaranteed number of runs of pages with their own protection before the kernel refuses to keep more apart.
    #[must_use]
    pub fn most_runs(&self) -> usize {
        self.most_runs
    }

    /// The first byte of a page, at the program's address.
    ///
    /// # Panics
    /// Outside the range.
    #[must_use]
    pub fn address(&self, page: u64) -> NonNull<u8> {
        self.program.area(VaultSpan::page(page).expect("a page of this range")).start
    }

    /// The page of an address.
    #[must_use]
    pub fn find(&self, address: usize) -> Option<u64> {
        self.program.find(address)
    }

    /// Replaces memory that the program has elsewhere by pages of its range, before anything is locked. Returns the
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
        unsafe { self.program.show(wanted, self.advice) }
    }

    /// Locks pages: a touch is a SIGSEGV, in a system call EFAULT. Their content stays.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as for more runs of pages than it keeps; nothing is done then.
    pub fn lock(&self, span: VaultSpan) -> Result<(), Error> {
        self.permit(span, MprotectFlags::empty()).map_err(guarded("take the permissions of"))
    }

    /// Unlocks pages.
    ///
    /// # Errors
    /// As for [`Protected::lock`].
    pub fn unlock(&self, span: VaultSpan) -> Result<(), Error> {
        let unlock = || self.permit(span, MprotectFlags::READ | MprotectFlags::WRITE);
        unlock()
            .or_else(|errno| {
                // The program has made as many mappings as a process may.
                let given_up = self.reserve.lock().unwrap_or_else(PoisonError::into_inner).take();
                if given_up.is_none() {
                    return Err(errno);
                }
                drop(given_up);
                unlock()
            })
            .map_err(guarded("give permissions to"))
    }

    /// Gives the frames of some pages back to the kernel. They read as zeros from now on.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn discard(&self, span: VaultSpan) -> Result<(), Error> {
        self.program.advise(span, Advice::LinuxDontNeed).map_err(guarded("discard"))
    }

    /// Copies pages, locked or not, to `to`, which is as long. By system calls alone, like [`Protected::write`]: a
    /// thread that serves faults waits for nobody, including the locks of a C library.
    ///
    /// # Errors
    /// The kernel's, such as EIO for a page that the hardware lost.
    pub fn read(&self, span: VaultSpan, to: &mut [u8]) -> io::Result<()> {
        let Area { start, bytes } = self.program.area(span);
        assert_eq!(to.len(), bytes, "room for the pages");
        let (at, mut done) = (start.addr().get() as u64, 0);
        while done < bytes {
            match rustix::io::pread(self.memory(), &mut to[done..], at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => done += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Writes bytes to a page, locked or not, from `offset` on.
    ///
    /// # Errors
    /// As for [`Protected::read`].
    pub fn write(&self, page: u64, offset: usize, from: &[u8]) -> io::Result<()> {
        assert!(offset + from.len() <= PAGE_BYTES, "bytes of one page");
        let Area { start, .. } = self.program.area(VaultSpan::page(page).expect("a page of this range"));
        let (at, mut done) = ((start.addr().get() + offset) as u64, 0);
        while done < from.len() {
            match rustix::io::pwrite(self.memory(), &from[done..], at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Puts the page of a block, frame and content, in the place of a locked page, and locks it. Returns the old page
    /// as a block of its own (Linux 5.7). The kernel keeps one more record for each such page.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses; the page may have no frame then, and gets one at its next use.
    ///
    /// # Panics
    /// If the block is not of one page.
    pub fn exchange(&self, page: u64, fresh: Block) -> Result<Block, Error> {
        let area = self.program.area(VaultSpan::page(page).expect("a page of this range"));
        let fresh = fresh.into_mapping().ok_or(Errno::BUSY).map_err(guarded("exchange pages of"))?;
        assert_eq!(fresh.bytes(), PAGE_BYTES, "one page");
        let old = self.exchange_mappings(area, fresh).map_err(guarded("exchange pages of"))?;
        Ok(Block::of(old, PageKind::Base))
    }

    /// Exchanges two locked pages.
    fn exchange_mappings(&self, area: Area, fresh: Mapping) -> rustix::io::Result<Mapping> {
        fresh.show()?;
        let (old, new) = (area.start.as_ptr().cast(), fresh.base().as_ptr().cast());
        // The kernel reads the given address, which rustix leaves out if there is none.
        let place = Mapping::inaccessible(PAGE_BYTES)?;
        let out = place.base().as_ptr().cast();
        // SAFETY: the page is our own mapping's or a window's, and nobody can touch it while it is locked; the block's
        // is ours, and the place too. What is moved there is mapped nowhere else, and is not used before it is a
        // mapping of its own.
        unsafe {
            mprotect(new, PAGE_BYTES, MprotectFlags::empty())?;
            let moves = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
            mremap_fixed(old, PAGE_BYTES, PAGE_BYTES, moves, out)?;
            if let Err(errno) = mremap_fixed(new, PAGE_BYTES, PAGE_BYTES, MremapFlags::MAYMOVE, old) {
                // If that fails as well, the page has no frame, and its content stays where it is.
                let back = mremap_fixed(out, PAGE_BYTES, PAGE_BYTES, MremapFlags::MAYMOVE, old);
                // Its addresses are unused then.
                if back.is_ok() {
                    std::mem::forget(place);
                }
                return Err(errno);
            }
            // Its addresses are unused, or somebody else's, by now.
            std::mem::forget(fresh);
            mprotect(out, PAGE_BYTES, MprotectFlags::READ | MprotectFlags::WRITE)?;
            place.hide().map(|()| place)
        }
    }

    /// Replaces what `frames` holds by the frame of each page, `None` where there is none or it is not known.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn frames(&self, span: VaultSpan, pagemap: &Pagemap, frames: &mut Vec<Option<Frame>>) -> Result<(), Error> {
        pagemap.frames_of(self.program.area(span).start, span.pages(), frames)
    }

    fn permit(&self, span: VaultSpan, access: MprotectFlags) -> rustix::io::Result<()> {
        self.program.pieces(span).try_for_each(|piece| {
            let Area { start, bytes } = self.program.area(piece);
            // SAFETY: the pages are our own mapping's or a window's, and are reached by raw pointers only; whoever
            // touches one without the right to it gets a signal.
            unsafe { mprotect(start.as_ptr().cast(), bytes, access) }
        })
    }
}

/// As many runs as [`RESERVED`], each of a page; `None` if the kernel already refuses so many.
fn reserve() -> Option<Mapping> {
    let mapping = Mapping::inaccessible(RESERVED * PAGE_BYTES).ok()?;
    for page in (0..RESERVED).step_by(2) {
        // SAFETY: the page is of a mapping of our own, which nobody uses.
        unsafe { mprotect(mapping.at(page * PAGE_BYTES).as_ptr().cast(), PAGE_BYTES, MprotectFlags::READ) }.ok()?;
    }
    Some(mapping)
}

fn guarded(action: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::Guarded { action, cause: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    fn range(pages: u64) -> Protected {
        let range = Protected::prepare(Bytes::new(pages * FRAME_BYTES), PageKind::Base, &Roots::default());
        let range = range.expect("any user may");
        range.open(&Roots::default()).expect("any user may");
        range
    }

    fn span(first: u64, pages: u64) -> VaultSpan {
        VaultSpan::new(first, pages).expect("some pages")
    }

    #[test]
    fn what_is_locked_keeps_its_content_is_seen_and_mended_and_no_system_call_can_use_it() {
        let range = range(8);
        let byte = |page: u64| range.program.area(span(page, 1)).start.as_ptr();
        // SAFETY: the pages are the range's own, which is writable memory.
        (0..8).for_each(|page| unsafe { byte(page).write_volatile(u8::try_from(page).expect("few") + 1) });
        range.lock(span(2, 3)).unwrap();
        let zero = File::open("/dev/zero").unwrap();
        // SAFETY: the byte is the range's own, if the kernel writes there at all.
        let read = unsafe { libc::pread(zero.as_raw_fd(), byte(3).cast(), 1, 0) };
        assert_eq!((read, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
        let mut copy = vec![0; 3 * PAGE_BYTES];
        range.read(span(2, 3), &mut copy).unwrap();
        assert_eq!([copy[0], copy[PAGE_BYTES], copy[2 * PAGE_BYTES]], [3, 4, 5]);
        range.write(3, 0, &[77]).unwrap();
        range.unlock(span(2, 3)).unwrap();
        // SAFETY: as above, and the page is unlocked again.
        assert_eq!([2, 3, 4].map(|page| unsafe { byte(page).read_volatile() }), [3, 77, 5]);
        range.discard(span(3, 1)).unwrap();
        // SAFETY: as above.
        assert_eq!([3, 4].map(|page| unsafe { byte(page).read_volatile() }), [0, 5]);
    }

    #[test]
    fn a_locked_page_is_exchanged_for_another_and_its_neighbours_stay() {
        let range = range(8);
        let byte = |page: u64| range.program.area(span(page, 1)).start.as_ptr();
        // SAFETY: the pages are the range's own, which is writable memory.
        (0..8).for_each(|page| unsafe { byte(page).write_volatile(u8::try_from(page).expect("few") + 1) });
        range.lock(span(2, 3)).unwrap();
        let fresh = Block::claim(Bytes::new(FRAME_BYTES), PageKind::Base).unwrap();
        // SAFETY: the block is ours.
        unsafe { fresh.base().write_volatile(77) };
        let old = range.exchange(3, fresh).unwrap();
        // SAFETY: as above.
        assert_eq!((unsafe { old.base().read_volatile() }, old.pages()), (4, 1));
        let mut copy = vec![0; 3 * PAGE_BYTES];
        range.read(span(2, 3), &mut copy).unwrap();
        assert_eq!([copy[0], copy[PAGE_BYTES], copy[2 * PAGE_BYTES]], [3, 77, 5]);
        // It is locked as before.
        let zero = File::open("/dev/zero").unwrap();
        // SAFETY: the byte is the range's own, if the kernel writes there at all.
        assert_eq!(unsafe { libc::pread(zero.as_raw_fd(), byte(3).cast(), 1, 0) }, -1);
        range.unlock(span(2, 3)).unwrap();
        drop(old);
        // SAFETY: the pages are the range's own, and unlocked.
        assert_eq!([1, 2, 3, 4, 5].map(|page| unsafe { byte(page).read_volatile() }), [2, 3, 77, 5, 6]);
    }

    #[test]
    fn an_address_is_found_in_its_page() {
        let range = range(8);
        let base = range.base().addr().get();
        assert_eq!([0, 4095, 4096, 8 * 4096 - 1].map(|at| range.find(base + at)), [Some(0), Some(0), Some(1), Some(7)]);
        assert_eq!([base - 1, base + 8 * 4096].map(|at| range.find(at)), [None, None]);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for bytes in [0, 1, 4097, 1 << 46] {
            let refused = Protected::prepare(Bytes::new(bytes), PageKind::Base, &Roots::default());
            assert!(matches!(refused, Err(Error::BlockSize { .. })), "{bytes}");
        }
    }
}
