//! Owned anonymous memory: the calls that get it from the kernel and give it back.
//!
//! **Problem.** Memory under test may change at any moment by itself, so no reference or slice to it may exist.
//! **Idea.** A [`Mapping`] owns a range of addresses and only ever hands out its first address as a raw pointer. **Why
//! this way.** Without any references, every advice that the kernel takes on the range is sound, whatever it does to
//! the content.

#![expect(unsafe_code, reason = "mapping memory is what this module is for")]

use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::PAGE_BYTES;
use crate::mlocking::discard_mlocked;
use crate::userfaultfd::Area;

/// Bytes in a huge page: the memory that one entry of a second-level page table maps, on x86-64 and on aarch64 with 4
/// KiB pages.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Bytes that one call populates, so that a claim stops soon after memory runs short.
const POPULATE_BYTES: usize = 64 << 20;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Private anonymous memory of this process, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process and not to a thread, and its one owner may be any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` (a multiple of the page) at an address that is a multiple of [`HUGE_BYTES`]; nothing is populated.
    pub(crate) fn anonymous(bytes: usize) -> Result<Self> {
        let mapping = Self::aligned(bytes, MapFlags::PRIVATE)?;
        mapping.hide()?;
        Ok(mapping)
    }

    /// As [`Mapping::anonymous`], for addresses that may far exceed the memory; copied to children. Core dumps leave it
    /// out until a part is used (`MADV_DODUMP`): the kernel looks at each page that it dumps, and a TiB has 2^28 of
    /// them.
    pub(crate) fn reserved(bytes: usize) -> Result<Self> {
        let mapping = Self::aligned(bytes, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        mapping.advise(0..bytes, Advice::LinuxDontDump)?;
        Ok(mapping)
    }

    fn aligned(bytes: usize, flags: MapFlags) -> Result<Self> {
        let mut before = Self::map(bytes.checked_add(HUGE_BYTES).ok_or(Errno::NOMEM)?, READ_WRITE, flags)?;
        let mut mapping = before.split_off(before.base.as_ptr().align_offset(HUGE_BYTES));
        drop(mapping.split_off(bytes));
        drop(before);
        Ok(mapping)
    }

    /// `bytes` (a multiple of [`HUGE_BYTES`]) of the kernel's reserved huge pages.
    pub(crate) fn huge_tlb(bytes: usize) -> Result<Self> {
        let mapping = Self::map(bytes, READ_WRITE, MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB)?;
        mapping.hide()?;
        Ok(mapping)
    }

    /// `bytes` (a multiple of the page) that nobody can read or write.
    pub(crate) fn inaccessible(bytes: usize) -> Result<Self> {
        Self::map(bytes, ProtFlags::empty(), MapFlags::PRIVATE)
    }

    fn map(bytes: usize, access: ProtFlags, flags: MapFlags) -> Result<Self> {
        // SAFETY: no address is asked for, so the kernel replaces no mapping that exists.
        let base = unsafe { mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags)? };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        Ok(Self { base, bytes })
    }

    /// Undoes [`Mapping::hide`].
    pub(crate) fn show(&self) -> Result<()> {
        self.advise(0..self.bytes, Advice::LinuxDoFork)?;
        self.advise(0..self.bytes, Advice::LinuxDoDump)
    }

    pub(crate) fn hide(&self) -> Result<()> {
        self.advise(0..self.bytes, Advice::LinuxDontFork)?;
        self.advise(0..self.bytes, Advice::LinuxDontDump)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address `offset` bytes on.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "an offset lies inside its mapping");
        // SAFETY: the sum lies inside this mapping, as just asserted.
        unsafe { self.base.add(offset) }
    }

    /// Gives the kernel advice about a part of the mapping, in bytes.
    pub(crate) fn advise(&self, part: Range<usize>, advice: Advice) -> Result<()> {
        assert!(part.start <= part.end && part.end <= self.bytes, "advice is about the mapping's own bytes");
        let area = Area { start: self.at(part.start), bytes: part.end - part.start };
        // SAFETY: the range is inside this mapping, which we own, and no reference to its bytes exists, so whatever the
        // advice does to content and frames breaks no promise of the language.
        unsafe {
            match mm::madvise(area.start.as_ptr().cast(), area.bytes, advice) {
                Err(Errno::INVAL) if advice == Advice::LinuxDontNeed => discard_mlocked(area),
                other => other,
            }
        }
    }

    /// Lets a part of an inaccessible mapping be read and written.
    pub(crate) fn open(&self, part: Range<usize>) -> Result<()> {
        assert!(part.start < part.end && part.end <= self.bytes, "a part of the mapping");
        let access = mm::MprotectFlags::READ | mm::MprotectFlags::WRITE;
        // SAFETY: the range is inside this mapping, which we own; more permissions break no promise.
        unsafe { mm::mprotect(self.at(part.start).as_ptr().cast(), part.end - part.start, access) }
    }

    /// The whole mapping.
    pub(crate) fn area(&self) -> Area {
        Area { start: self.base, bytes: self.bytes }
    }

    /// Gives every page a frame; on an error some may have one.
    pub(crate) fn populate(&self) -> Result<()> {
        let mut start = 0;
        while start < self.bytes {
            let part = start..self.bytes.min(start + POPULATE_BYTES);
            start = part.end;
            match self.advise(part.clone(), Advice::LinuxPopulateWrite) {
                Err(Errno::INVAL) => self.touch(part), // a kernel before 5.14
                result => result?,
            }
        }
        Ok(())
    }

    /// Gives every page of a part a frame by writing to it.
    fn touch(&self, part: Range<usize>) {
        for offset in part.step_by(PAGE_BYTES) {
            // SAFETY: the byte is inside this mapping, which is writable, and no reference to it exists.
            unsafe { self.at(offset).write_volatile(0) };
        }
    }

    /// Writes a byte and reads another.
    #[cfg(test)]
    pub(crate) fn write_and_read(&self, write: usize, read: usize) {
        // SAFETY: both bytes are inside this mapping, which is writable, and no reference to them exists.
        unsafe {
            self.at(write).write_volatile(1);
            self.at(read).read_volatile();
        }
    }

    /// Keeps the whole mapping in memory; it may still move to other frames.
    pub(crate) fn lock(&self) -> Result<()> {
        // SAFETY: locking changes neither content nor addresses.
        unsafe { mm::mlock(self.base.as_ptr().cast(), self.bytes) }
    }

    /// Ends [`Mapping::lock`].
    pub(crate) fn unlock(&self) -> Result<()> {
        // SAFETY: unlocking changes neither content nor addresses.
        unsafe { mm::munlock(self.base.as_ptr().cast(), self.bytes) }
    }

    /// Splits the mapping in two: this keeps the first `at` bytes, a multiple of its pages' size.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.bytes && at.is_multiple_of(PAGE_BYTES), "a mapping is split between two of its pages");
        // SAFETY: the sum lies inside this mapping or just behind it, as just asserted.
        let rest = Self { base: unsafe { self.base.add(at) }, bytes: self.bytes - at };
        self.bytes = at;
        rest
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: the range is ours alone, and nobody can use it after this: `base` was handed out as a raw pointer,
        // whose users promise that the mapping outlives their accesses.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        if unmapped.is_err() {
            // The kernel would have to split a mapping and may hold no more of them. The addresses are lost then, the
            // memory is not. If that fails as well, there is nothing left to try.
            let _ = self.unlock();
            let _ = self.advise(0..self.bytes, Advice::LinuxDontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 700;

    /// The number of pages with a frame.
    fn present(mapping: &Mapping) -> usize {
        let mut pages = vec![0_u8; mapping.bytes / PAGE_BYTES];
        // SAFETY: the range is the mapping's own, and there is a byte of `pages` for each of its pages.
        let result = unsafe { libc::mincore(mapping.base.as_ptr().cast(), mapping.bytes, pages.as_mut_ptr()) };
        assert_eq!(result, 0);
        pages.iter().filter(|&&page| page & 1 == 1).count()
    }

    #[test]
    fn a_kernel_that_cannot_populate_is_made_to_by_touching() {
        let [populated, touched] = [(); 2].map(|()| Mapping::anonymous(PAGES * PAGE_BYTES).unwrap());
        assert_eq!((present(&populated), present(&touched)), (0, 0));
        populated.populate().unwrap();
        touched.touch(0..touched.bytes);
        assert_eq!((present(&populated), present(&touched)), (PAGES, PAGES));
    }

    #[test]
    fn the_parts_of_a_mapping_are_given_back_one_by_one() {
        let mut first = Mapping::anonymous(PAGES * PAGE_BYTES).unwrap();
        first.populate().unwrap();
        let end = first.base.addr().get() + first.bytes;
        let mut second = first.split_off(100 * PAGE_BYTES);
        drop(second.split_off(second.bytes));
        let third = second.split_off(50 * PAGE_BYTES);
        assert_eq!([&first, &second, &third].map(|part| part.bytes / PAGE_BYTES), [100, 50, 550]);
        assert_eq!(third.base.addr().get() + third.bytes, end);
        drop(second);
        assert_eq!(present(&first) + present(&third), 650);
    }

    #[test]
    fn nobody_may_retire_what_is_not_there() {
        let nothing = Mapping::inaccessible(PAGE_BYTES).unwrap();
        assert!(nothing.advise(0..PAGE_BYTES, Advice::LinuxSoftOffline).is_err());
    }
}
