//! The program's addresses of the pages of a guarded range.
//!
//! **Problem.** A guard numbers pages from the start of one range, and some memory of a program cannot be there: the
//! static data of an executable is where its code expects it. **Idea.** A [`Window`]: some pages of the range have
//! other addresses, those of memory that the program has already. That memory is replaced by anonymous memory with the
//! same content, which can be locked and unlocked like the range's own. **Why this way.** A guard uses numbers and sees
//! no difference; only the conversions between numbers and addresses know of windows.

#![expect(unsafe_code, reason = "memory of a program is replaced")]

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use rampart_memory::FRAME_BYTES;
use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MapFlags, MremapFlags, ProtFlags};

use crate::PAGE_BYTES;
use crate::block::mapping::Mapping;
use crate::mlocking::{discard_mlocked, mlock, munlock};
use crate::span::VaultSpan;
use crate::userfaultfd::Area;

/// Pages of a range that lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Their numbers in the range.
    pub span: VaultSpan,
    /// The address of the first of them; a multiple of a page.
    pub address: NonNull<u8>,
}

// SAFETY: it is an address and no more; who uses what lies there must be right to.
unsafe impl Send for Window {}

impl Window {
    fn area(self) -> Area {
        Area { start: self.address, bytes: bytes(self.span.pages()) }
    }
}

/// Replaces memory by private anonymous memory with this content.
///
/// # Safety
/// The area is of whole pages, and its memory may be replaced; nobody writes to it meanwhile. The content can be read,
/// and is as long. Nobody has a reference to either.
pub(crate) unsafe fn replace(area: Area, content: NonNull<u8>, advice: Advice) -> Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping where the kernel chooses.
    let fresh = unsafe { mm::mmap_anonymous(ptr::null_mut(), area.bytes, protection, flags)? };
    // SAFETY: the new mapping is ours, as long, and zeros; the others are as the caller promises. A page of zeros is
    // not touched, so that memory without an end costs nothing.
    unsafe {
        let _ = mm::madvise(fresh, area.bytes, advice);
        let mut page = [0_u64; PAGE_BYTES / 8];
        for offset in (0..area.bytes).step_by(PAGE_BYTES) {
            ptr::copy_nonoverlapping(content.as_ptr().add(offset).cast(), &raw mut page, 1);
            if page.iter().any(|&word| word != 0) {
                ptr::copy_nonoverlapping(&raw const page, fresh.byte_add(offset).cast(), 1);
            }
        }
        let moved = mm::mremap_fixed(fresh, area.bytes, area.bytes, MremapFlags::MAYMOVE, area.start.as_ptr().cast());
        if moved.is_err() {
            let _ = mm::munmap(fresh, area.bytes);
        }
        moved.map(|_| ())
    }
}

/// A range, and windows on other memory.
#[derive(Debug)]
pub(crate) struct ProgramRange {
    mapping: Mapping,
    windows: OnceLock<Box<[Window]>>,
}

impl ProgramRange {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { mapping, windows: OnceLock::new() }
    }

    /// Replaces memory of the program's, window by window, which has the numbers of the windows' pages from then on.
    /// Returns the windows that could be replaced.
    ///
    /// # Safety
    /// Each window's addresses are of private memory that can be read and written, is in no other window or range, and
    /// that nobody uses meanwhile. Afterwards it is used by raw pointers only, or by threads that its faults stop.
    ///
    /// # Panics
    /// For pages outside the range, for overlapping windows, or at a second call.
    pub(crate) unsafe fn show(&self, wanted: &[Window], advice: Advice) -> &[Window] {
        let in_range = |window: &Window| bytes(window.span.end()) <= self.mapping.bytes();
        assert!(wanted.iter().all(in_range), "a window is on pages of the range");
        let apart = |pair: &[Window]| pair[0].span.end() <= pair[1].span.first();
        assert!(wanted.windows(2).all(apart), "windows are on pages of their own, ascending");
        // SAFETY: guaranteed by the caller.
        let replaced = wanted.iter().filter(|window| unsafe { replace(window.area(), window.address, advice) }.is_ok());
        self.windows.set(replaced.copied().collect()).expect("windows are opened once");
        self.windows()
    }

    fn windows(&self) -> &[Window] {
        self.windows.get().map_or(&[], |windows| windows)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Bytes of the range.
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// The addresses of pages in one piece: all in one window or all in none. Panics for others, and for pages outside
    /// the range.
    pub(crate) fn area(&self, span: VaultSpan) -> Area {
        let covers = |window: &&Window| span.first() < window.span.end() && window.span.first() < span.end();
        let Some(window) = self.windows().iter().find(covers) else {
            assert!(bytes(span.end()) <= self.mapping.bytes(), "a span lies in its range");
            return Area { start: self.mapping.at(bytes(span.first())), bytes: bytes(span.pages()) };
        };
        let inside = window.span.first() <= span.first() && span.end() <= window.span.end();
        assert!(inside, "a span lies in a window or beside it");
        // SAFETY: the sum lies in the window, as just asserted.
        let start = unsafe { window.address.add(bytes(span.first() - window.span.first())) };
        Area { start, bytes: bytes(span.pages()) }
    }

    /// A span in pieces each of which has an area.
    pub(crate) fn pieces(&self, span: VaultSpan) -> impl Iterator<Item = VaultSpan> {
        let mut rest = Some(span);
        std::iter::from_fn(move || {
            let span = rest?;
            let borders = self.windows().iter().flat_map(|window| [window.span.first(), window.span.end()]);
            let next = borders.filter(|border| *border > span.first()).min().unwrap_or(span.end());
            let (piece, behind) = span.split(next);
            rest = behind;
            piece
        })
    }

    /// The page of an address.
    pub(crate) fn find(&self, address: usize) -> Option<u64> {
        let in_area = |area: Area, first: u64| {
            let offset = address.checked_sub(area.start.addr().get()).filter(|offset| *offset < area.bytes)?;
            Some(first + offset as u64 / FRAME_BYTES)
        };
        let whole = Area { start: self.mapping.base(), bytes: self.mapping.bytes() };
        let in_window = |window: &Window| in_area(window.area(), window.span.first());
        in_area(whole, 0).or_else(|| self.windows().iter().find_map(in_window))
    }

    /// Mlocks all pages, those in windows too.
    pub(crate) fn mlock(&self) -> Result<()> {
        // SAFETY: the areas are the range's own, or windows.
        self.areas().try_for_each(|area| unsafe { mlock(area) })
    }

    /// Ends [`ProgramRange::mlock`].
    pub(crate) fn munlock(&self) -> Result<()> {
        // SAFETY: the areas are the range's own, or windows.
        self.areas().try_for_each(|area| unsafe { munlock(area) })
    }

    fn areas(&self) -> impl Iterator<Item = Area> {
        self.windows().iter().map(|window| window.area()).chain([self.mapping.area()])
    }

    /// Its addresses, with its windows.
    pub(crate) fn places(&self) -> Vec<Range<usize>> {
        self.areas().map(Area::addresses).collect()
    }

    /// From now on core dumps have these pages.
    pub(crate) fn dump(&self, span: VaultSpan) -> Result<()> {
        self.pieces(span).try_for_each(|piece| self.advise(piece, Advice::LinuxDoDump))
    }

    /// Gives the kernel advice about pages in one piece.
    pub(crate) fn advise(&self, span: VaultSpan, advice: Advice) -> Result<()> {
        let area = self.area(span);
        // SAFETY: the area is of our own mapping or of a window, which are reached by raw pointers or by those whom
        // faults stop, so whatever the advice does to content and frames breaks no promise of the language.
        match unsafe { mm::madvise(area.start.as_ptr().cast(), area.bytes, advice) } {
            // A part is not mapped: it has no frames either.
            Err(Errno::NOMEM) if advice == Advice::LinuxDontNeed => Ok(()),
            // SAFETY: as above.
            Err(Errno::INVAL) if advice == Advice::LinuxDontNeed => unsafe { discard_mlocked(area) },
            other => other,
        }
    }
}

fn bytes(pages: u64) -> usize {
    usize::try_from(pages * FRAME_BYTES).expect("pages in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, pages: u64) -> VaultSpan {
        VaultSpan::new(first, pages).unwrap()
    }

    fn range(pages: usize) -> ProgramRange {
        ProgramRange::new(Mapping::reserved(pages * PAGE_BYTES).unwrap())
    }

    #[test]
    fn memory_behind_a_window_keeps_its_content_and_is_known_by_its_pages_numbers() {
        let (range, memory) = (range(1024), Mapping::reserved(10 * PAGE_BYTES).unwrap());
        // SAFETY: the byte is the mapping's own.
        unsafe { memory.at(3 * PAGE_BYTES + 7).write(9) };
        let windows = [(100, 4, 0), (104, 2, 8)]
            .map(|(first, pages, at)| Window { span: span(first, pages), address: memory.at(at * PAGE_BYTES) });
        // SAFETY: the memory is this test's own.
        assert_eq!(unsafe { range.show(&windows, Advice::LinuxNoHugepage) }, windows);
        // SAFETY: as above.
        assert_eq!(unsafe { memory.at(3 * PAGE_BYTES + 7).read_volatile() }, 9);
        let base = memory.base().addr().get();
        assert_eq!(
            [0, 3, 4, 7, 8, 9].map(|page| range.find(base + page * PAGE_BYTES)),
            [Some(100), Some(103), None, None, Some(104), Some(105)]
        );
        assert_eq!(range.find(range.base().addr().get() + 5 * PAGE_BYTES), Some(5));
        assert_eq!(range.area(span(101, 3)).start, memory.at(PAGE_BYTES));
        assert_eq!(range.area(span(90, 10)).start.addr().get(), range.base().addr().get() + 90 * PAGE_BYTES);
        let pieces: Vec<VaultSpan> = range.pieces(span(50, 200)).collect();
        assert_eq!(pieces, [span(50, 50), span(100, 4), span(104, 2), span(106, 144)]);
        assert_eq!(range.pieces(span(102, 3)).collect::<Vec<_>>(), [span(102, 2), span(104, 1)]);
    }
}
