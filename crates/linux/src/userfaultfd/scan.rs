//! The state of each page of a range, in runs of equal pages: `PAGEMAP_SCAN` (Linux 6.7).
//!
//! **Problem.** The guard asks for thousands of pages, many times per second, which are present, and which were written
//! since they were write-protected. **Idea.** One request walks the page table and returns runs, and may write-protect
//! matching pages in the same walk. **Why this way.** `/proc/self/pagemap` answers with 8 bytes per page and does not
//! know of userfaultfd's write protection. It is used on older kernels, which lack the request: it does know which
//! pages are present.

#![expect(unsafe_code, reason = "the kernel is told where to write")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result, pread};

use super::{Area, abi};
use crate::{Error, PAGE_BYTES, Roots, check_page_size, pagemap};

/// Runs that one request returns at most.
const BATCH: usize = 32;

/// Entries of the page map that are read at once, where the kernel lacks the request: those of 2 MiB.
const ENTRIES: usize = 512;

const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

/// The page table of the process that opened it; a child process needs one of its own.
#[derive(Debug)]
pub struct PageScan {
    file: OwnedFd,
    /// Whether the kernel has the request, as far as is known.
    has_request: AtomicBool,
}

/// The requested pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFilter {
    /// Those that are in memory or in swap, and those that are poisoned.
    Present,
    /// Those of them that were written since they were write-protected, or never were protected.
    Written,
}

/// Adjacent pages in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first byte's address.
    pub start: usize,
    /// The number of bytes.
    pub bytes: usize,
    /// Their state.
    pub state: PageState,
}

/// The state of a present page. A kernel without the request does not show it: all pages count as written, and none as
/// zero or huge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// It was written since it was write-protected, or never was protected.
    pub written: bool,
    /// Its frame is the kernel's shared zero page.
    pub zero: bool,
    /// It is part of a huge page that one entry of the page table maps.
    pub huge: bool,
    /// It is in swap, or poisoned.
    pub swapped: bool,
}

impl PageScan {
    /// Opens the page table of this process.
    ///
    /// # Errors
    /// [`Error::Read`] where there is none, [`Error::PageSize`] on a kernel with other pages than 4 KiB.
    pub fn open(roots: &Roots) -> std::result::Result<Self, Error> {
        check_page_size()?;
        let path = roots.proc("self/pagemap");
        let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let opened = opened.map(|file| Self { file, has_request: AtomicBool::new(true) });
        opened.map_err(|errno| Error::Read { path, cause: errno.into() })
    }

    /// The runs of an area, by ascending address. An area that changes meanwhile is seen at different times. A kernel
    /// before 6.7 answers only for [`PageFilter::Present`], and with ENOTTY for others.
    #[must_use]
    pub fn runs(&self, area: Area, wanted: PageFilter) -> PageRuns<'_> {
        let start = area.start.addr().get() as u64;
        let scan = abi::Scan { start, end: start + area.bytes as u64, ..wanted.scan() };
        PageRuns { page_table: self, scan, regions: [abi::UffdRegion::default(); BATCH], found: 0, given: 0 }
    }

    /// Write-protects the present pages of an area, so that the kernel records their writers
    /// ([`super::Features::WRITE_PROTECT_ASYNC`]).
    ///
    /// # Errors
    /// The kernel's: EPERM if the area is not registered for it.
    pub fn protect(&self, area: Area) -> Result<()> {
        // The runs are requested too, although nobody needs them: a request without room for them marks the holes as
        // well.
        let mut runs = self.runs(area, PageFilter::Present);
        runs.scan.flags = abi::SCAN_PROTECT | abi::SCAN_CHECK_ASYNC;
        runs.try_for_each(|run| run.map(drop))
    }

    /// The next regions, 0 at the end; and the start of the next request.
    fn find(&self, scan: &mut abi::Scan, regions: &mut [abi::UffdRegion; BATCH]) -> Result<(usize, u64)> {
        if self.has_request.load(Ordering::Relaxed) {
            scan.regions = regions.as_mut_ptr().expose_provenance() as u64;
            scan.regions_length = BATCH as u64;
            match self.ask(scan) {
                Err(Errno::NOTTY) => self.has_request.store(false, Ordering::Relaxed),
                found => return Ok((found?, scan.walk_end)),
            }
        }
        if scan.all_of == 0 && scan.flags == 0 { self.read(scan, regions) } else { Err(Errno::NOTTY) }
    }

    /// As [`PageScan::find`], from entries of the page map.
    fn read(&self, scan: &abi::Scan, regions: &mut [abi::UffdRegion; BATCH]) -> Result<(usize, u64)> {
        let page = PAGE_BYTES as u64;
        let mut bytes = [0; ENTRIES * pagemap::ENTRY_BYTES];
        let pages = usize::try_from((scan.end - scan.start) / page).expect("pages of a process").min(ENTRIES);
        let bytes = &mut bytes[..pages * pagemap::ENTRY_BYTES];
        let read = pread(&self.file, &mut *bytes, scan.start / page * pagemap::ENTRY_BYTES as u64)?;
        let (mut found, mut next) = (0, scan.start);
        for entry in bytes[..read].as_chunks().0 {
            let entry = u64::from_le_bytes(*entry);
            let swapped = if entry & pagemap::SWAPPED == 0 { 0 } else { SWAPPED };
            let there = swapped | if entry & pagemap::PRESENT == 0 { 0 } else { PRESENT };
            if there != 0 {
                let categories = there | WRITTEN;
                match regions[..found].last_mut() {
                    Some(last) if last.end == next && last.categories == categories => last.end += page,
                    _ if found == BATCH => return Ok((found, next)),
                    _ => {
                        regions[found] = abi::UffdRegion { start: next, end: next + page, categories };
                        found += 1;
                    }
                }
            }
            next += page;
        }
        if next == scan.start { Err(Errno::IO) } else { Ok((found, next)) }
    }

    fn ask(&self, scan: &mut abi::Scan) -> Result<usize> {
        // SAFETY: the structure is the request's own. It names no memory for the kernel to write but room that the
        // callers of this private function own, with its length, and no content of other pages changes.
        let count = unsafe { abi::ask(self.file.as_fd(), abi::PAGEMAP_SCAN, scan)? };
        Ok(usize::try_from(count).expect("a count of runs"))
    }
}

impl PageFilter {
    fn scan(self) -> abi::Scan {
        let all_of = match self {
            Self::Present => 0,
            Self::Written => WRITTEN,
        };
        let returned = WRITTEN | PRESENT | SWAPPED | ZERO | HUGE;
        let size = size_of::<abi::Scan>() as u64;
        abi::Scan { size, all_of, any_of: PRESENT | SWAPPED, returned, ..abi::Scan::default() }
    }
}

/// The runs of an area; see [`PageScan::runs`]. Allocates nothing.
#[derive(Debug)]
pub struct PageRuns<'a> {
    page_table: &'a PageScan,
    /// The next request: from the first unvisited page on.
    scan: abi::Scan,
    regions: [abi::UffdRegion; BATCH],
    found: usize,
    given: usize,
}

impl PageRuns<'_> {
    fn refill(&mut self) -> Result<()> {
        (self.given, self.found) = (0, 0);
        let found = self.page_table.find(&mut self.scan, &mut self.regions);
        // After an error, the next position is unknown.
        self.scan.start = found.as_ref().map_or(self.scan.end, |(_, next)| *next);
        self.found = found?.0;
        Ok(())
    }
}

impl Iterator for PageRuns<'_> {
    type Item = Result<PageRun>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.given == self.found {
            if self.scan.start >= self.scan.end {
                return None;
            }
            if let Err(errno) = self.refill() {
                return Some(Err(errno));
            }
        }
        let region = self.regions[self.given];
        self.given += 1;
        Some(Ok(PageRun::of(region)))
    }
}

impl PageRun {
    fn of(region: abi::UffdRegion) -> Self {
        let address = |address| usize::try_from(address).expect("an address of this process");
        let is = |category| region.categories & category != 0;
        let state = PageState { written: is(WRITTEN), zero: is(ZERO), huge: is(HUGE), swapped: is(SWAPPED) };
        Self { start: address(region.start), bytes: address(region.end - region.start), state }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::{Advice, madvise};

    use super::*;
    use crate::block::mapping::Mapping;

    /// The addresses of present pages, by page.
    fn present(scan: &PageScan, area: Area) -> Vec<usize> {
        let runs = scan.runs(area, PageFilter::Present).map(Result::unwrap);
        runs.flat_map(|run| (run.start..run.start + run.bytes).step_by(PAGE_BYTES)).collect()
    }

    #[test]
    fn a_kernel_without_the_request_tells_the_same_pages_and_nothing_of_writes() {
        // Longer than one read, and with more runs than one answer holds.
        let pages = 3 * ENTRIES + 7;
        let memory = Mapping::reserved(pages * PAGE_BYTES).unwrap();
        let area = Area { start: memory.base(), bytes: memory.bytes() };
        // SAFETY: it changes no content.
        unsafe { madvise(area.start.as_ptr().cast(), area.bytes, Advice::LinuxNoHugepage) }.unwrap();
        let there = |page: usize| page % 5 == 1 || (600..700).contains(&page) || page + 1 == pages;
        for page in (0..pages).filter(|page| there(*page)) {
            // SAFETY: the page is mapped, and no reference to it exists.
            unsafe { area.start.add(page * PAGE_BYTES).write_volatile(1) };
        }
        let addresses = |page| area.start.addr().get() + page * PAGE_BYTES;
        let expected: Vec<usize> = (0..pages).filter(|page| there(*page)).map(addresses).collect();
        let scan = PageScan::open(&Roots::default()).unwrap();
        assert_eq!(present(&scan, area), expected);
        scan.has_request.store(false, Ordering::Relaxed);
        assert_eq!(present(&scan, area), expected);
        assert!(scan.runs(area, PageFilter::Present).all(|run| run.unwrap().state.written));
    }

    #[test]
    fn what_only_the_request_tells_is_refused_without_it() {
        let scan = PageScan::open(&Roots::default()).unwrap();
        let memory = Mapping::reserved(PAGE_BYTES).unwrap();
        let area = Area { start: memory.base(), bytes: memory.bytes() };
        // SAFETY: the page is mapped, and no reference to it exists.
        unsafe { area.start.write_volatile(1) };
        scan.has_request.store(false, Ordering::Relaxed);
        let written: Vec<_> = scan.runs(area, PageFilter::Written).collect();
        assert_eq!(written, [Err(Errno::NOTTY)]);
        assert_eq!(scan.protect(area), Err(Errno::NOTTY));
    }
}
