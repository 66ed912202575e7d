//! Pages as addresses and never as references, since faulty memory may change at any time.

use std::marker::PhantomData;
use std::ptr::NonNull;

use rampart_memory::{LINE_WORDS, LineData};

use crate::{LINE_BYTES, PAGE_BYTES, PAGE_LINES, PageData};

/// A page of 4 KiB: proof that nobody else writes it or holds a reference to it. Only faulty memory may change it.
#[derive(Debug)]
pub struct Page<'a> {
    base: NonNull<u8>,
    owner: PhantomData<&'a mut PageData>,
}

impl<'a> Page<'a> {
    /// The page at `base`. Panics if that is not at a multiple of 64.
    ///
    /// # Safety
    /// As long as the page lives:
    /// 1. its 4096 bytes are readable memory of this process, and writable if it is to be corrected;
    /// 2. no other thread and no device writes them;
    /// 3. nobody uses a mutable reference to any part of them.
    #[must_use]
    pub unsafe fn from_raw(base: NonNull<u8>) -> Self {
        assert!(base.as_ptr().addr().is_multiple_of(LINE_BYTES), "a page consists of lines");
        Self { base, owner: PhantomData }
    }

    /// Its address; a multiple of 64.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its content.
    #[must_use]
    pub fn read(&self) -> PageData {
        let words = self.base.as_ptr().cast::<u64>();
        // SAFETY: the page is 512 aligned words that may be read (`from_raw`, 1). The reads are volatile: whatever the
        // memory holds now is returned.
        let word = |index: usize| unsafe { words.add(index).read_volatile() }.to_le();
        PageData { lines: std::array::from_fn(|line| LineData(std::array::from_fn(|i| word(line * LINE_WORDS + i)))) }
    }

    /// Overwrites a line, 0 to 63.
    pub(crate) fn write_line(&mut self, line: usize, data: &LineData) {
        assert!(line < PAGE_LINES, "a page has no line {line}");
        for (i, word) in data.0.into_iter().enumerate() {
            // SAFETY: the word lies in the page, which may be written, and nobody else uses it (`from_raw`).
            unsafe { self.base.as_ptr().cast::<u64>().add(line * LINE_WORDS + i).write_volatile(u64::from_le(word)) };
        }
    }
}

impl<'a> From<&'a mut PageData> for Page<'a> {
    fn from(data: &'a mut PageData) -> Self {
        // SAFETY: 1. it is a page of ours, readable, writable and aligned; 2. and 3. it is borrowed mutably for the
        // page's life.
        unsafe { Self::from_raw(NonNull::from(data).cast()) }
    }
}

/// Consecutive pages, numbered from 0.
#[derive(Debug)]
pub struct Pages<'a> {
    base: NonNull<u8>,
    count: usize,
    owner: PhantomData<&'a mut [PageData]>,
}

impl<'a> Pages<'a> {
    /// `count` pages from `base` on. Panics if `base` is not a multiple of 64, or if the pages extend over half the
    /// address space.
    ///
    /// # Safety
    /// As for [`Page::from_raw`], for each page.
    #[must_use]
    pub unsafe fn from_raw(base: NonNull<u8>, count: usize) -> Self {
        assert!(base.as_ptr().addr().is_multiple_of(LINE_BYTES), "pages consist of lines");
        assert!(count <= isize::MAX.unsigned_abs() / PAGE_BYTES, "pages lie inside the addresses");
        Self { base, count, owner: PhantomData }
    }

    /// The number of pages.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// One page, to be read or corrected. Panics beyond the last.
    #[must_use]
    pub fn page(&mut self, index: usize) -> Page<'_> {
        Page { base: self.at(index), owner: PhantomData }
    }

    /// The address of one page.
    pub(super) fn at(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.count, "page {index} is one of {}", self.count);
        // SAFETY: the page is one of these, as just asserted, so it lies in their memory (`from_raw`).
        unsafe { self.base.add(index * PAGE_BYTES) }
    }
}

impl<'a> From<&'a mut [PageData]> for Pages<'a> {
    fn from(data: &'a mut [PageData]) -> Self {
        let count = data.len();
        // SAFETY: as for one page of ours.
        unsafe { Self::from_raw(NonNull::from(data).cast(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_written_where_it_is() {
        let mut data = [PageData::from_seed(0), PageData::from_seed(1)];
        let good = data.clone();
        let mut pages = Pages::from(&mut data[..]);
        assert_eq!(pages.count(), 2);
        assert_eq!((pages.page(0).read(), pages.page(1).read()), (good[0].clone(), good[1].clone()));
        pages.page(1).write_line(63, &LineData::ZERO);
        let mut changed = good.clone();
        changed[1].lines[63] = LineData::ZERO;
        assert_eq!(data, changed);
    }

    #[test]
    #[should_panic(expected = "page 2 is one of 2")]
    fn there_is_no_page_beyond_the_last() {
        let mut data = [PageData::ZERO, PageData::ZERO];
        let _ = Pages::from(&mut data[..]).page(2);
    }

    #[test]
    #[should_panic(expected = "a page consists of lines")]
    fn a_page_begins_with_a_line() {
        // SAFETY: it panics before the page is used.
        let _ = unsafe { Page::from_raw(NonNull::without_provenance(32.try_into().expect("not 0"))) };
    }
}
