//! Blocks: memory claimed for a test.
//!
//! **Problem.** Memory under test must be ours alone, all of it present, and stay in its frames until the verdict; and
//! claiming it must never hurt other programs. **Idea.** A [`Block`] is a range of anonymous memory that is completely
//! populated or absent, that can be pinned ([`Block::pin`]) and given back in three ways: lazily ([`Block::offer`]),
//! page by page ([`Block::discard`]), or by drop. **Why this way.** A claim in blocks can stop between two of them;
//! higher layers decide how many to take, and when to give them back.

pub(crate) mod mapping;
mod page_kind;
mod pin;
mod pinning;
pub(crate) mod registered;

use std::ops::Range;
use std::ptr::NonNull;

use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rustix::io::Errno;
use rustix::mm::Advice;

use self::mapping::Mapping;
pub use self::page_kind::PageKind;
use self::pin::Pin;
pub use self::pinning::{PinRefusal, PinReport, Pinning};
use crate::memory_loss::SurvivingAccess;
use crate::pagemap::Pagemap;
use crate::{Error, PAGE_BYTES, check_page_size};

/// Completely present memory of this process, at a multiple of 2 MiB.
///
/// It is accessed only through the raw pointer [`Block::base`], because memory under test may change by itself. It is
/// not copied to child processes, not written to core dumps, and given back to the kernel on drop.
#[derive(Debug)]
pub struct Block {
    // Dropped in this order: pages are unpinned before they are unmapped.
    pin: Pin,
    mapping: Mapping,
    kind: PageKind,
}

impl Block {
    /// Claims `bytes`, a multiple of [`PageKind::granule`]. Every page has a frame and holds zeros.
    ///
    /// The kernel may reclaim others' memory to satisfy a claim, and below its minimal watermark or at a control
    /// group's limit it kills a process: ask [`crate::MemoryState`] before, and claim in small blocks.
    ///
    /// # Errors
    /// [`Error::BlockSize`] for a size that cannot be, [`Error::PageSize`] on a kernel with other pages than 4 KiB, and
    /// [`Error::Claim`] if the kernel has not that much; nothing is kept then.
    pub fn claim(bytes: Bytes, kind: PageKind) -> Result<Self, Error> {
        Self::claim_in_sight(bytes, kind, |_| ())
    }

    /// As [`Block::claim`]. `mapped` gets the first address, a number and no pointer, before any page there has a
    /// frame: others can see by it how far the claim has come ([`Pagemap::in_use`]).
    ///
    /// # Errors
    /// Those of [`Block::claim`].
    pub fn claim_in_sight(bytes: Bytes, kind: PageKind, mapped: impl FnOnce(u64)) -> Result<Self, Error> {
        check_page_size()?;
        let size = block_size(bytes, kind.granule())?;
        let refused = |errno: Errno| Error::Claim { bytes, cause: errno.into() };
        if bytes > installed() {
            // A kernel that overcommits without bounds would map it, and kill programs to populate it.
            return Err(refused(Errno::NOMEM));
        }
        let mapping = populated(size, kind, mapped).map_err(refused)?;
        Ok(Self::of(mapping, kind))
    }

    /// A block of completely present memory.
    pub(crate) const fn of(mapping: Mapping, kind: PageKind) -> Self {
        Self { pin: Pin::None, mapping, kind }
    }

    /// The mapping of an unpinned block; `None` if it is pinned, and then it is given back.
    pub(crate) fn into_mapping(self) -> Option<Mapping> {
        let Self { pin, mapping, .. } = self;
        (pin.pinning() == Pinning::None).then_some(mapping)
    }

    /// The first byte.
    ///
    /// Memory under test must be read and written by volatile or assembly accesses only, and no reference to it may
    /// exist. The pointer is valid as long as the block lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Begins to access it from this thread, which has no other access. An error of the hardware that it cannot correct
    /// ends the process no longer.
    #[must_use]
    pub fn access(&self) -> SurvivingAccess {
        SurvivingAccess::to_own(self.base(), usize::try_from(self.bytes().get()).expect("a block is in memory"))
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.mapping.bytes() as u64)
    }

    /// The number of pages of 4 KiB.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.bytes().frames()
    }

    /// The kind of its pages.
    #[must_use]
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Sets `frames` to the frame of each page, `None` for unknown ones.
    ///
    /// A pin may itself move pages, out of memory that must stay movable: read frames after [`Block::pin`].
    ///
    /// # Errors
    /// [`Error::Read`] if the kernel does not answer.
    pub fn frames(&self, pagemap: &Pagemap, frames: &mut Vec<Option<Frame>>) -> Result<(), Error> {
        pagemap.frames_of(self.base(), self.pages(), frames)
    }

    /// Pins the pages by the best available means; a better pin than before, or the same.
    pub fn pin(&mut self) -> PinReport {
        let mut refusals = Vec::new();
        for wanted in [Pinning::Registered, Pinning::HugeTlb, Pinning::Locked] {
            let possible = wanted != Pinning::HugeTlb || self.kind == PageKind::HugeTlb;
            if !possible || self.pinning() >= wanted {
                continue;
            }
            match self.pin_by(wanted) {
                Ok(()) => break,
                Err(refusal) => refusals.push(refusal),
            }
        }
        PinReport { pinning: self.pinning(), refusals }
    }

    /// Pins the pages by one means, in place of the present one.
    ///
    /// # Errors
    /// Why the kernel refused; they are pinned as before then.
    pub fn pin_by(&mut self, wanted: Pinning) -> Result<(), PinRefusal> {
        if self.pinning() != wanted {
            let pin = Pin::take(wanted, &self.mapping, self.kind)?;
            self.unpin();
            self.pin = pin;
        }
        Ok(())
    }

    /// The present pin.
    #[must_use]
    pub fn pinning(&self) -> Pinning {
        self.pin.pinning()
    }

    /// Unpins the pages; they stay ours, and the kernel may move them.
    pub fn unpin(&mut self) {
        if matches!(std::mem::take(&mut self.pin), Pin::Locked) {
            // Refused only to a process that is out of mappings; the pages stay locked then, and giving them back
            // reports it.
            let _ = self.mapping.unlock();
        }
    }

    /// Offers all pages to the kernel, which takes them when it needs memory and not before (`MADV_FREE`). Each keeps
    /// its content until then, and reads as zeros afterwards; a write before then keeps it ours.
    ///
    /// # Errors
    /// [`Error::Pinned`] if the block is pinned, [`Error::GiveBack`] for pages of the huge-page pool.
    pub fn offer(&mut self) -> Result<(), Error> {
        self.give_back(0..self.pages(), Advice::LinuxFree)
    }

    /// Gives the frames of some pages back to the kernel at once. The pages get other frames, of zeros, when they are
    /// next touched.
    ///
    /// # Errors
    /// [`Error::Pinned`] if the block is pinned, [`Error::PageOutside`] beyond the block, [`Error::GiveBack`] if the
    /// kernel refuses, as for a part of a page of the huge-page pool.
    pub fn discard(&mut self, pages: Range<u64>) -> Result<(), Error> {
        self.give_back(pages, Advice::LinuxDontNeed)
    }

    fn give_back(&mut self, pages: Range<u64>, advice: Advice) -> Result<(), Error> {
        if self.pinning() != Pinning::None {
            return Err(Error::Pinned);
        }
        let bytes = self.offset(pages.start)?..self.offset(pages.end)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.mapping.advise(bytes, advice).map_err(|errno| Error::GiveBack { cause: errno.into() })
    }

    /// The frame of one page; `None` if it is unknown.
    ///
    /// # Errors
    /// [`Error::PageOutside`] beyond the block, [`Error::Read`] if the kernel does not answer.
    pub fn frame_of(&self, page: u64, pagemap: &Pagemap) -> Result<Option<Frame>, Error> {
        let mut frames = Vec::with_capacity(1);
        pagemap.frames_of(self.mapping.at(self.offset_inside(page)?), 1, &mut frames)?;
        Ok(frames[0])
    }

    /// Asks the kernel to move one page to another frame and to retire the old one. See [`crate::Retirer::retire_own`].
    pub(crate) fn soft_offline(&mut self, page: u64) -> rustix::io::Result<()> {
        let start = self.offset_inside(page).map_err(|_| Errno::INVAL)?;
        self.mapping.advise(start..start + PAGE_BYTES, Advice::LinuxSoftOffline)
    }

    /// Gives back all but some pages, which are kept as blocks of their own, in the order of their addresses and pinned
    /// as well as this one was.
    ///
    /// For a bad frame that the kernel refuses to retire: holding it keeps it from everybody else. The kernel keeps the
    /// rest of a transparent huge page as long as a part of it is pinned, and pages of the huge-page pool are kept
    /// whole. The pages stay pinned all the time, unless that takes more locked memory than this process may have; read
    /// their frames again.
    ///
    /// # Errors
    /// [`Error::PageOutside`] beyond the block; the whole block was given back then.
    pub fn keep_only(mut self, pages: &[u64]) -> Result<Vec<Self>, Error> {
        let granule = usize::try_from(self.kind.granule().get()).expect("a granule fits in memory");
        let mut offsets = pages.iter().map(|&page| self.offset_inside(page)).collect::<Result<Vec<_>, _>>()?;
        offsets.iter_mut().for_each(|offset| *offset -= *offset % granule);
        offsets.sort_unstable();
        offsets.dedup();

        let pinned = self.pinning();
        if pinned == Pinning::Locked {
            self.unpin(); // its parts are locked anew below; a lock holds no frame, so the gap loses none
        }
        let Self { pin, mut mapping, kind } = self;
        let mut kept = Vec::with_capacity(offsets.len());
        for offset in offsets.into_iter().rev() {
            drop(mapping.split_off(offset + granule));
            let mut block = Self { pin: Pin::None, mapping: mapping.split_off(offset), kind };
            if pinned != Pinning::None {
                block.pin();
            }
            kept.push(block);
        }
        drop(pin);
        for block in kept.iter_mut().filter(|block| block.pinning() < pinned) {
            block.pin();
        }
        kept.reverse();
        Ok(kept)
    }

    /// The start of a page, in bytes; the block's end for the page after its last.
    fn offset(&self, page: u64) -> Result<usize, Error> {
        let pages = self.pages();
        let outside = Error::PageOutside { page, pages };
        if page <= pages { Ok(usize::try_from(page * FRAME_BYTES).expect("an offset in memory")) } else { Err(outside) }
    }

    fn offset_inside(&self, page: u64) -> Result<usize, Error> {
        let pages = self.pages();
        if page < pages { self.offset(page) } else { Err(Error::PageOutside { page, pages }) }
    }
}

fn block_size(bytes: Bytes, granule: Bytes) -> Result<usize, Error> {
    let fits = (1..1 << 47).contains(&bytes.get()) && bytes.get().is_multiple_of(granule.get());
    usize::try_from(bytes.get()).ok().filter(|_| fits).ok_or(Error::BlockSize { bytes, granule })
}

/// All memory of the machine.
fn installed() -> Bytes {
    let info = rustix::system::sysinfo();
    Bytes::new(info.totalram.saturating_mul(u64::from(info.mem_unit)))
}

/// Whether this process may retire frames of its own pages: tried on an inaccessible page, so that the kernel makes all
/// checks but finds nothing to retire.
pub(crate) fn may_soft_offline() -> rustix::io::Result<()> {
    let nothing = Mapping::inaccessible(PAGE_BYTES)?;
    match nothing.advise(0..PAGE_BYTES, Advice::LinuxSoftOffline) {
        Err(Errno::FAULT) => Ok(()),
        Ok(()) => Err(Errno::NOSYS), // a sandbox that takes any advice and follows none
        refused => refused,
    }
}

fn populated(bytes: usize, kind: PageKind, mapped: impl FnOnce(u64)) -> rustix::io::Result<Mapping> {
    let mapping = match kind {
        PageKind::Base | PageKind::Huge => Mapping::anonymous(bytes)?,
        PageKind::HugeTlb => Mapping::huge_tlb(bytes)?,
    };
    // A kernel without transparent huge pages refuses both; then all pages are base pages anyway.
    let _ = match kind {
        PageKind::Base => mapping.advise(0..bytes, Advice::LinuxNoHugepage),
        PageKind::Huge => mapping.advise(0..bytes, Advice::LinuxHugepage),
        PageKind::HugeTlb => Ok(()),
    };
    mapped(mapping.base().addr().get() as u64);
    mapping.populate()?;
    Ok(mapping)
}
