//! A heap on the frames of this machine.
//!
//! The kernel hands out any frame, good or bad. So imperfect pages are those that happen to lie on frames with failed
//! lines, and a perfect page on request is one more page whose frame has none: others are kept, unused, so that nobody
//! else gets them either.

#![expect(unsafe_code, reason = "pages are put below the addresses of a heap")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::ptr::NonNull;

use rampart_linux::memory_loss::want_loss_notices;
use rampart_linux::{Error, MovedPage, Pinning, PlacedPages, Roots, count_loss_notices, take_loss_notices};
use rampart_memory::Frame;

use super::{HeapMemory, HeapPageChange, NotMapped, PageFrame};
use crate::geometry::{PAGE, narrow};
use crate::pools::HeapPage;
use crate::wear::FailedLines;

/// The failed lines of a frame, as far as is known.
pub type LinesOfFrame = Box<dyn Fn(Frame) -> FailedLines + Send + Sync>;

/// The pages that are added at a time when perfect ones are asked for.
const MORE: u32 = 16;

/// Pages with the frames of this machine.
pub struct FrameMemory {
    pages: PlacedPages,
    lines_of: LinesOfFrame,
    /// The pages of the heap itself: the first ones.
    own: u32,
    /// The failed lines of all pages.
    failed: Vec<FailedLines>,
    /// Perfect pages that can be borrowed.
    spare: Vec<u32>,
    /// The page below each address, by its offset, and the other way round.
    below: BTreeMap<u32, u32>,
    places: BTreeMap<u32, u32>,
    /// How many notices of lost pages there were when it last looked for them.
    heeded: usize,
}

/// What a heap lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapFrameCounts {
    /// Its pages.
    pub pages: u64,
    /// Of these, on frames with failed lines.
    pub imperfect: u64,
    /// The failed lines.
    pub failed_lines: u64,
    /// How well they are pinned.
    pub pinning: Pinning,
}

impl FrameMemory {
    /// Pages of which so many bytes work as `working` whole pages have. The kernel may be asked for up to four times as
    /// many pages in all.
    ///
    /// # Errors
    /// If the kernel does not give them, or does not tell their frames.
    pub fn new(roots: &Roots, working: u32, lines_of: LinesOfFrame) -> Result<Self, Error> {
        Self::of(PlacedPages::new(roots, 4 * working)?, working, lines_of)
    }

    /// The same, of pages of the caller's.
    ///
    /// # Errors
    /// As of [`FrameMemory::new`].
    pub fn of(pages: PlacedPages, working: u32, lines_of: LinesOfFrame) -> Result<Self, Error> {
        let (spare, failed, below, places) = (Vec::new(), Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut memory = Self { pages, lines_of, own: 0, failed, spare, below, places, heeded: 0 };
        // Without notices, a lost page ends the program when it is read, as it ends others.
        let _no_notices = want_loss_notices();
        let (mut missing, line) = (u64::from(working) * u64::from(u64::BITS), u64::from(u64::BITS));
        while missing > 0 {
            let pages = missing.div_ceil(line);
            memory.add(u32::try_from(pages).expect("no more than there are working pages"))?;
            let new = &memory.failed[memory.own as usize..];
            let working: u64 = new.iter().map(|failed| line - u64::from(failed.count())).sum();
            missing = missing.saturating_sub(working);
            memory.own = narrow(memory.failed.len());
        }
        Ok(memory)
    }

    fn add(&mut self, count: u32) -> Result<(), Error> {
        let added = self.pages.add(count)?;
        let frames = &self.pages.frames()[added.start as usize..added.end as usize];
        self.failed.extend(frames.iter().map(|frame| (self.lines_of)(*frame)));
        Ok(())
    }

    /// What the heap lies on.
    #[must_use]
    pub fn counts(&self) -> HeapFrameCounts {
        let own = &self.failed[..self.own as usize];
        HeapFrameCounts {
            pages: self.own.into(),
            imperfect: own.iter().filter(|failed| !failed.is_perfect()).count() as u64,
            failed_lines: own.iter().map(|failed| u64::from(failed.count())).sum(),
            pinning: self.pages.pinning(),
        }
    }

    /// A perfect page, on request.
    fn map_perfect(&mut self) -> Result<u32, NotMapped> {
        loop {
            if let Some(page) = self.spare.pop() {
                return Ok(page);
            }
            let first = narrow(self.failed.len());
            self.add(MORE).or_else(|_| self.add(1)).map_err(|_| NotMapped::NoPerfectFrame)?;
            let new = (first..narrow(self.failed.len())).rev();
            self.spare.extend(new.filter(|page| self.failed[*page as usize].is_perfect()));
        }
    }

    /// The pages of the file for those of the heap.
    fn numbers(&mut self, pages: &[HeapPage]) -> Result<Vec<u32>, NotMapped> {
        let mut numbers = Vec::with_capacity(pages.len());
        for page in pages {
            match page.number().map_or_else(|| self.map_perfect(), Ok) {
                Ok(number) => numbers.push(number),
                Err(refused) => {
                    numbers.into_iter().for_each(|page| self.give_back(page));
                    return Err(refused);
                }
            }
        }
        Ok(numbers)
    }

    /// A borrowed page that is still perfect can be borrowed again.
    fn give_back(&mut self, page: u32) {
        if page >= self.own && self.failed[page as usize].is_perfect() {
            self.spare.push(page);
        }
    }

    fn put(&mut self, at: u32, numbers: &[u32]) -> Result<(), NotMapped> {
        self.pages.place(at as usize, numbers).map_err(|_| NotMapped::NoMapping)?;
        for (at, page) in (at..).step_by(PAGE as usize).zip(numbers) {
            self.below.insert(at, *page);
            self.places.insert(*page, at);
        }
        Ok(())
    }

    fn take(&mut self, at: u32) {
        if let Some(page) = self.below.remove(&at) {
            self.places.remove(&page);
            self.give_back(page);
        }
    }

    /// The pages that the hardware has lost since the last call, as far as its notices name them: a page has two
    /// addresses.
    fn lost(&mut self) -> Vec<MovedPage> {
        let is_own = |address| self.pages.in_window(address).or(self.page_at(address)).is_some();
        let lost = take_loss_notices(is_own);
        let lost: BTreeSet<u32> =
            lost.into_iter().filter_map(|at| self.pages.in_window(at).or(self.page_at(at))).collect();
        // A page that the kernel does not replace is as it was: whoever reads it ends.
        lost.into_iter().filter_map(|page| self.pages.lose(page).ok()).collect()
    }

    /// The page below an address of the heap.
    fn page_at(&self, address: usize) -> Option<u32> {
        let offset = u32::try_from(self.pages.offset_of(address)?).ok()?;
        self.below.get(&(offset / PAGE * PAGE)).copied()
    }

    /// # Panics
    /// If the kernel does not put a fresh page in the place of a lost one: a collection would end at its touch.
    fn change(&mut self, moved: MovedPage) -> HeapPageChange {
        let MovedPage { page, frame, is_lost } = moved;
        if let Some(at) = self.places.get(&page).filter(|_| is_lost) {
            self.pages.place(*at as usize, &[page]).expect("a mapping in the place of another");
        }
        // The heap has the page again only when it is used no more: until then, nothing is allocated there.
        let failed = if is_lost { FailedLines::ALL } else { (self.lines_of)(frame) };
        let before = std::mem::replace(&mut self.failed[page as usize], failed);
        let lost = if is_lost { failed } else { FailedLines::from_bits(failed.bits() & !before.bits()) };
        self.spare.retain(|spare| *spare != page || failed.is_perfect());
        let of_heap = if page < self.own { HeapPage::own(page) } else { HeapPage::Borrowed };
        HeapPageChange { page: of_heap, at: self.places.get(&page).copied(), failed, lost }
    }
}

impl HeapMemory for FrameMemory {
    fn pages(&self) -> usize {
        self.own as usize
    }

    fn map_failures(&self) -> Vec<FailedLines> {
        self.failed[..self.own as usize].to_vec()
    }

    unsafe fn attach(&mut self, base: NonNull<u8>, bytes: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.pages.attach(base, bytes) };
    }

    fn map_imperfect(&mut self, at: u32, pages: &[HeapPage]) -> Result<(), NotMapped> {
        let numbers = self.numbers(pages)?;
        let put = self.put(at, &numbers);
        if put.is_err() {
            numbers.into_iter().for_each(|page| self.give_back(page));
        }
        put
    }

    fn unmap(&mut self, at: u32, pages: usize) {
        self.pages.clear(at as usize, pages);
        (at..).step_by(PAGE as usize).take(pages).for_each(|at| self.take(at));
    }

    /// # Panics
    /// If the kernel has no page and no mapping left: what is there cannot stay, and cannot go anywhere.
    fn replace(&mut self, at: u32, page: HeapPage, unreadable: FailedLines) {
        let number = self.numbers(&[page]).expect("a perfect page for an object that cannot move")[0];
        if let Some(before) = self.below.get(&at) {
            self.pages.copy(*before, number, !unreadable.bits());
        }
        self.take(at);
        self.put(at, &[number]).expect("a mapping in the place of another");
    }

    fn fail(&mut self, at: u32, line: u32) {
        if let Some(page) = self.below.get(&at) {
            let failed = &mut self.failed[*page as usize];
            *failed = failed.with(line);
        }
    }

    /// # Panics
    /// If the kernel does not tell the frames any more.
    fn up_calls(&mut self) -> Vec<HeapPageChange> {
        let notices = count_loss_notices();
        let mut moved = self.lost();
        // Some notices name no page, or do not come.
        let is_noticed = std::mem::replace(&mut self.heeded, notices) != notices;
        if is_noticed || !self.pages.pinning().holds_frames() {
            moved.extend(self.pages.moved().expect("the kernel tells the frames of pages as it did before"));
        }
        moved.into_iter().map(|moved| self.change(moved)).collect()
    }

    fn frames(&self) -> Vec<PageFrame> {
        let of_page = |(page, frame): (u32, &Frame)| PageFrame { at: self.places.get(&page).copied(), frame: *frame };
        (0..).zip(&self.pages.frames()[..self.own as usize]).map(of_page).collect()
    }
}

impl Debug for FrameMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameMemory").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
