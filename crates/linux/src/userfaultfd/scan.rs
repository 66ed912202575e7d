//! What is known of each page of a range, in runs of equal pages: `PAGEMAP_SCAN` (Linux 6.7).
//!
//! **Problem.** Which pages are there, and which were written since they were write-protected, is asked of thousands of
//! pages and many times a second. **Idea.** One request walks the page table and returns runs, and may write-protect
//! what it finds in the same walk. **Why this way.** `/proc/self/pagemap` answers with 8 bytes a page and does not know
//! of userfaultfd's write protection.

#![expect(unsafe_code, reason = "the kernel is told where to write")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

use super::{Area, abi};
use crate::{Error, Roots, check_page_size};

/// Runs that one request returns at most.
const BATCH: usize = 32;

const WRITTEN: u64 = 1 << 1;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

/// The page table of the process that opened it; a child process needs one of its own.
#[derive(Debug)]
pub struct PageScan {
    file: OwnedFd,
}

/// Which pages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those that are in memory or in swap, and those that are poisoned.
    Present,
    /// Those of them that were written since they were write-protected, or never were protected.
    Written,
}

/// Pages side by side of which the same is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first byte's address.
    pub start: usize,
    /// How many bytes.
    pub bytes: usize,
    /// What is known.
    pub state: PageState,
}

/// What is known of a page that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// It was written since it was write-protected, or never was protected.
    pub written: bool,
    /// It has no frame of its own but the kernel's shared one of zeros.
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
        opened.map(|file| Self { file }).map_err(|errno| Error::Read { path, cause: errno.into() })
    }

    /// The runs of an area, by ascending address. An area that changes meanwhile is seen at different times.
    #[must_use]
    pub fn runs(&self, area: Area, wanted: Wanted) -> Runs<'_> {
        let start = area.start.addr().get() as u64;
        let scan = abi::Scan { start, end: start + area.bytes as u64, ..wanted.scan() };
        Runs { page_table: self, scan, regions: [abi::Region::default(); BATCH], found: 0, given: 0 }
    }

    /// Write-protects the pages of an area that are there, so that the kernel notes who is written
    /// ([`super::Features::WRITE_PROTECT_ASYNC`]).
    ///
    /// # Errors
    /// What the kernel says: EPERM if the area is not registered for it.
    pub fn protect(&self, area: Area) -> Result<()> {
        // Takes the runs too, which nobody wants: a request without room for them marks the holes as well.
        let mut runs = self.runs(area, Wanted::Present);
        runs.scan.flags = abi::SCAN_PROTECT | abi::SCAN_CHECK_ASYNC;
        runs.try_for_each(|run| run.map(drop))
    }

    fn ask(&self, scan: &mut abi::Scan) -> Result<usize> {
        // SAFETY: the structure is the request's own. It names no memory for the kernel to write but room that the
        // callers of this private function own, with its length, and no content of other pages changes.
        let count = unsafe { abi::ask(self.file.as_fd(), abi::PAGEMAP_SCAN, scan)? };
        Ok(usize::try_from(count).expect("a count of runs"))
    }
}

impl Wanted {
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
pub struct Runs<'a> {
    page_table: &'a PageScan,
    /// What is asked next: from the first page on that was not looked at.
    scan: abi::Scan,
    regions: [abi::Region; BATCH],
    found: usize,
    given: usize,
}

impl Runs<'_> {
    fn refill(&mut self) -> Result<()> {
        self.scan.regions = self.regions.as_mut_ptr().expose_provenance() as u64;
        self.scan.regions_length = BATCH as u64;
        (self.given, self.found) = (0, 0);
        let found = self.page_table.ask(&mut self.scan);
        // On an error there is no telling where the walk would go on.
        self.scan.start = if found.is_ok() { self.scan.walk_end } else { self.scan.end };
        self.found = found?;
        Ok(())
    }
}

impl Iterator for Runs<'_> {
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
    fn of(region: abi::Region) -> Self {
        let address = |address| usize::try_from(address).expect("an address of this process");
        let is = |category| region.categories & category != 0;
        let state = PageState { written: is(WRITTEN), zero: is(ZERO), huge: is(HUGE), swapped: is(SWAPPED) };
        Self { start: address(region.start), bytes: address(region.end - region.start), state }
    }
}
