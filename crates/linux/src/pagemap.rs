//! The frames of this process' pages: `/proc/self/pagemap`.
//!
//! **Problem.** A verdict about memory must name frames, and programs only see pages. **Idea.** For each page of a
//! process, the kernel shows a 64-bit entry with its frame number, to processes with `CAP_SYS_ADMIN`; to others the
//! number reads as 0. **Why this way.** Frame numbers are read before and after a test: a page whose frame changed was
//! not tested, and that costs one read of 8 bytes per page.
//!
//! Source: Linux, Documentation/admin-guide/mm/pagemap.rst.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use rampart_memory::Frame;

use crate::frame_flags::entries;
use crate::{Error, FlagTable, PAGE_BYTES, Roots, check_page_size};

pub(crate) const ENTRY_BYTES: usize = size_of::<u64>();

/// Entries read by one call: those of 32 MiB, in a buffer of 64 KiB.
const CHUNK: usize = 8192;

/// Bit 63 of an entry: the page has a frame.
pub(crate) const PRESENT: u64 = 1 << 63;

/// Bits 0 to 54 of an entry: the frame number, if the page has one and the reader may know it.
const NUMBER: u64 = (1 << 55) - 1;

/// Bit 62 of an entry: the page table has an entry there that is no frame.
pub(crate) const SWAPPED: u64 = 1 << 62;

/// Bit 56 of an entry: the frame belongs to this page alone. The kernel's shared frame of zeros has no such mark.
const EXCLUSIVE: u64 = 1 << 56;

/// Bits 0 to 4 of such an entry are its type; the frame number of a page that the hardware lost follows.
const TYPE_BITS: u32 = 5;

/// The backing of a private page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// None: it was never used, or given back.
    Nothing,
    /// A frame of its own.
    Own,
    /// A shared frame: the kernel's frame of zeros, or that of a forked process.
    Shared,
    /// A place in swap, or a page that the hardware lost.
    Elsewhere,
}

/// The open page map of this process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    path: PathBuf,
}

impl Pagemap {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::Read`] where it does not exist, [`Error::PageSize`] on a kernel with other pages than 4 KiB.
    pub fn open(roots: &Roots) -> Result<Self, Error> {
        check_page_size()?;
        let path = roots.proc("self/pagemap");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(cause) => Err(Error::Read { path, cause }),
        }
    }

    /// Sets `frames` to the frames of `pages` pages from `base`: `None` for a page without a frame, or with one that
    /// this process may not know.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer; `frames` is empty then.
    pub fn frames_of(&self, base: NonNull<u8>, pages: u64, frames: &mut Vec<Option<Frame>>) -> Result<(), Error> {
        frames.clear();
        let mut left = usize::try_from(pages).expect("the pages of a process fit a usize");
        let mut at = (base.addr().get() / PAGE_BYTES * ENTRY_BYTES) as u64;
        let mut buffer = vec![0; left.min(CHUNK) * ENTRY_BYTES];
        frames.reserve_exact(left);
        while left > 0 {
            let part = &mut buffer[..left.min(CHUNK) * ENTRY_BYTES];
            if let Err(cause) = self.file.read_exact_at(part, at) {
                frames.clear();
                return Err(Error::Read { path: self.path.clone(), cause });
            }
            frames.extend(entries(part).map(frame_of));
            left -= part.len() / ENTRY_BYTES;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// The frame of the page at `address`, a number and no pointer, as it may be under test; `None` for a page
    /// without a frame, or with one that this process may not know.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn frame_at(&self, address: u64) -> Result<Option<Frame>, Error> {
        self.entry_at(address).map(frame_of)
    }

    /// The frame of the page at `address`, if the hardware reported it lost and the kernel took it away for that: then
    /// the page has none any more, and its next reader gets SIGBUS. Also `None` if this process may not know it.
    ///
    /// The entry has the number where others have their place in swap, so it counts only if the kernel marks that frame
    /// as poisoned.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn lost_frame(&self, address: NonNull<u8>, flags: &FlagTable) -> Result<Option<Frame>, Error> {
        let entry = self.entry(address)?;
        let number = (entry & NUMBER) >> TYPE_BITS;
        let Some(frame) = Frame::new(number).filter(|_| entry & (PRESENT | SWAPPED) == SWAPPED) else {
            return Ok(None);
        };
        Ok(flags.of(frame)?.filter(|flags| flags.is_poisoned()).map(|_| frame))
    }

    /// The backing of the page at `address`, which needs no privilege.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn backing(&self, address: NonNull<u8>) -> Result<Backing, Error> {
        Ok(match self.entry(address)? {
            entry if entry & PRESENT == 0 && entry & SWAPPED == 0 => Backing::Nothing,
            entry if entry & PRESENT == 0 => Backing::Elsewhere,
            entry if entry & EXCLUSIVE == 0 => Backing::Shared,
            _ => Backing::Own,
        })
    }

    /// How many of `pages` pages from `address` on have a frame or a place in swap, which needs no privilege. There
    /// may be other memory, or none: only entries are read.
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn in_use(&self, address: u64, pages: u64) -> Result<u64, Error> {
        let mut left = usize::try_from(pages).expect("the pages of a process fit a usize");
        let mut at = address / PAGE_BYTES as u64 * ENTRY_BYTES as u64;
        let mut buffer = vec![0; left.min(CHUNK) * ENTRY_BYTES];
        let mut used = 0;
        while left > 0 {
            let part = &mut buffer[..left.min(CHUNK) * ENTRY_BYTES];
            let read = self.file.read_exact_at(part, at);
            read.map_err(|cause| Error::Read { path: self.path.clone(), cause })?;
            used += entries(part).filter(|entry| entry & (PRESENT | SWAPPED) != 0).count() as u64;
            left -= part.len() / ENTRY_BYTES;
            at += part.len() as u64;
        }
        Ok(used)
    }

    fn entry(&self, address: NonNull<u8>) -> Result<u64, Error> {
        self.entry_at(address.addr().get() as u64)
    }

    fn entry_at(&self, address: u64) -> Result<u64, Error> {
        let mut entry = [0; ENTRY_BYTES];
        let at = address / PAGE_BYTES as u64 * ENTRY_BYTES as u64;
        let read = self.file.read_exact_at(&mut entry, at);
        read.map_err(|cause| Error::Read { path: self.path.clone(), cause })?;
        Ok(u64::from_ne_bytes(entry))
    }
}

/// The frame of an entry. Number 0 means that the reader may not know it: no program ever gets frame 0.
fn frame_of(entry: u64) -> Option<Frame> {
    let number = entry & NUMBER;
    if entry & PRESENT == 0 || number == 0 { None } else { Frame::new(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// The page map of a fake process whose pages from `first` on have these entries. The file is sparse.
    fn process(first: u64, entries: &[u64]) -> (tempfile::TempDir, Pagemap) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("self")).unwrap();
        let file = File::create(folder.path().join("self/pagemap")).unwrap();
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        file.write_all_at(&bytes, first * 8).unwrap();
        let pagemap = Pagemap::open(&Roots::new(folder.path(), folder.path())).unwrap();
        (folder, pagemap)
    }

    fn address(page: u64) -> NonNull<u8> {
        NonNull::without_provenance((usize::try_from(page).unwrap() * PAGE_BYTES).try_into().unwrap())
    }

    #[test]
    fn an_entry_names_a_frame_if_the_page_is_present_and_the_number_is_shown() {
        let frame = |entry| frame_of(entry).map(Frame::number);
        assert_eq!(frame(PRESENT | 0x1234), Some(0x1234));
        assert_eq!(
            frame(PRESENT | 1 << 55 | 1 << 61 | 0x1234),
            Some(0x1234),
            "soft-dirty and file bits are not the number"
        );
        assert_eq!(frame(PRESENT), None, "hidden");
        assert_eq!(frame(1 << 62 | 0x1234), None, "swapped out");
        assert_eq!(frame(u64::MAX), None, "no machine has such a frame");
    }

    #[test]
    fn a_page_that_the_hardware_gave_up_is_known_by_its_frame() {
        let lost = |frame: u64| SWAPPED | frame << TYPE_BITS | 0x1d;
        let (folder, pagemap) = process(16, &[lost(7), lost(8), PRESENT | 7, 0]);
        let flags: Vec<u8> = (0..10_u64).flat_map(|frame| (u64::from(frame == 7) << 19).to_ne_bytes()).collect();
        fs::write(folder.path().join("kpageflags"), flags).unwrap();
        let flags = FlagTable::open(&Roots::new(folder.path(), folder.path())).unwrap();
        let frames = [16, 17, 18, 19].map(|page| pagemap.lost_frame(address(page), &flags).unwrap());
        assert_eq!(frames, [Frame::new(7), None, None, None], "frame 8 is sound: it is a place in swap");
    }

    #[test]
    fn a_page_that_was_written_has_a_frame_of_its_own_and_one_that_was_only_read_has_that_of_zeros() {
        let pagemap = Pagemap::open(&Roots::default()).unwrap();
        let pages = crate::block::mapping::Mapping::anonymous(3 * PAGE_BYTES).unwrap();
        let _ = pages.advise(0..pages.bytes(), rustix::mm::Advice::LinuxNoHugepage);
        pages.write_and_read(PAGE_BYTES, 2 * PAGE_BYTES);
        let backing = [0, 1, 2].map(|page| pagemap.backing(pages.at(page * PAGE_BYTES)).unwrap());
        assert_eq!(backing, [Backing::Nothing, Backing::Own, Backing::Shared]);
        let (_folder, pagemap) = process(16, &[SWAPPED]);
        assert_eq!(pagemap.backing(address(16)).unwrap(), Backing::Elsewhere);
    }

    #[test]
    fn pages_with_a_frame_or_a_place_in_swap_are_in_use() {
        let (_folder, pagemap) = process(16, &[PRESENT, 0, SWAPPED | 9, PRESENT | 7, EXCLUSIVE]);
        let from = 16 * PAGE_BYTES as u64;
        assert_eq!([0, 1, 2, 5].map(|pages| pagemap.in_use(from, pages).unwrap()), [0, 1, 1, 3]);
        let most = CHUNK as u64 + 20;
        let (_folder, pagemap) = process(16, &vec![PRESENT; CHUNK + 20]);
        assert_eq!(pagemap.in_use(from, most).unwrap(), most, "in more than one read");
        assert!(matches!(pagemap.in_use(from, most + 1), Err(Error::Read { .. })), "the file ends");
    }

    #[test]
    fn a_process_without_pages_there_has_no_frames() {
        let (_folder, pagemap) = process(16, &[PRESENT | 7]);
        let mut frames = vec![Frame::new(1)];
        pagemap.frames_of(address(16), 0, &mut frames).unwrap();
        assert!(frames.is_empty());
        assert!(matches!(pagemap.frames_of(address(16), 2, &mut frames), Err(Error::Read { .. })), "the file ends");
        assert!(frames.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn reading_in_chunks_finds_what_reading_one_by_one_finds(
            seed in any::<u64>(), first in 1_u64..1 << 20, pages in CHUNK - 2..2 * CHUNK + 3,
        ) {
            let entry = |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) & (PRESENT | 0xff_ffff);
            let entries: Vec<u64> = (0..pages as u64).map(entry).collect();
            let (_folder, pagemap) = process(first, &entries);
            let mut chunked = Vec::new();
            pagemap.frames_of(address(first), pages as u64, &mut chunked).unwrap();
            let mut single = Vec::new();
            for (page, found) in (first..).zip(&chunked) {
                pagemap.frames_of(address(page), 1, &mut single).unwrap();
                prop_assert_eq!(&single[..], std::slice::from_ref(found));
            }
            prop_assert_eq!(chunked, entries.iter().copied().map(frame_of).collect::<Vec<_>>());
        }
    }
}
