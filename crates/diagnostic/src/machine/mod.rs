//! The machine under test: the diagnostic's only interface to Linux.

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
pub(crate) mod fake_module;
#[cfg(test)]
pub(crate) mod moving_pages;
pub mod pins;
pub mod reach;
pub mod reserve;
mod zones;

use std::time::Duration;

use rampart_linux::memory_state::ZoneMemory;
use rampart_linux::retire::{RetireOutcome, RetireRefusal, Retirer, Way};
use rampart_linux::{
    Block, CpuNumber, Error as LinuxError, ErrorCounts, FlagTable, FrameClass, FrameFlags, FrameUses, KernelWatermarks,
    MemoryBlocks, MemoryState, MemoryUsage, Pagemap, Pinning, Roots, Topology, cpu,
};
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Frame, FrameRange};

use serde::Serialize;

use self::pins::can_stay;
use self::reserve::Outlook;
pub use self::zones::ZonesOutlook;

/// The frames of the kernel's unit of movable memory: `pageblock_order` of x86-64.
pub const PAGEBLOCK: u64 = 512;

/// This machine, and its clock.
pub struct MachineUnderTest {
    /// The machine's clock.
    pub clock: Box<dyn Clock + Sync>,
    roots: Roots,
    topology: Topology,
    // `None` where this process may not read frame numbers.
    pagemap: Option<Pagemap>,
    retirer: Retirer,
    high_watermark: Bytes,
    /// Memory that another process keeps free for programs and the kernel now.
    kept_free: Box<dyn Fn() -> Bytes + Send + Sync>,
}

impl MachineUnderTest {
    /// Opens the machine on which this process runs.
    #[must_use]
    pub fn this() -> Self {
        Self::below(Roots::default())
    }

    /// Opens a machine whose `proc` and `sys` files are below `roots`.
    pub(crate) fn below(roots: Roots) -> Self {
        Self {
            clock: Box::new(cpu::SystemClock),
            topology: Topology::read(&roots),
            pagemap: Pagemap::open(&roots).ok(),
            retirer: Retirer::new(&roots),
            high_watermark: KernelWatermarks::read(&roots).map_or(Bytes::ZERO, |marks| marks.high),
            kept_free: Box::new(|| Bytes::ZERO),
            roots,
        }
    }

    /// The same machine, on which another process keeps memory free: so much, whenever it is asked.
    #[must_use]
    pub fn beside(self, kept_free: impl Fn() -> Bytes + Send + Sync + 'static) -> Self {
        Self { kept_free: Box::new(kept_free), ..self }
    }

    /// The locations of its `proc` and `sys` files.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Its nodes and CPUs.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The CPUs on which this process may run.
    #[must_use]
    pub fn cpus(&self) -> &[CpuNumber] {
        &self.topology.allowed
    }

    /// Reads the present state of its memory.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn outlook(&self) -> Result<Outlook, LinuxError> {
        let state = MemoryState::read(&self.roots)?;
        Ok(Outlook {
            total: state.total(),
            free: state.free(),
            high_watermark: self.high_watermark,
            stalled: state.pressure.map(|pressure| pressure.some.total),
            kept_free: (self.kept_free)(),
            zones: ZoneMemory::read(&self.roots).and_then(|zones| ZonesOutlook::of(&zones)),
        })
    }

    /// Keeps the pages of a block in their frames as well as possible, without making the kernel move them first.
    pub fn pin(&self, block: &mut Block) -> Pinning {
        let user_pool = ZoneMemory::read(&self.roots).is_some_and(|zones| ZonesOutlook::of(&zones).is_some());
        if user_pool {
            let mut frames = Vec::new();
            self.frames(block, &mut frames);
            if !can_stay(&frames, MemoryBlocks::read(&self.roots).ok().as_ref()) {
                // Refused where little memory may be locked: then the pages may be swapped out too, which shows.
                let _unlocked = block.pin_by(Pinning::Locked);
                return block.pinning();
            }
        }
        block.pin().pinning
    }

    /// The memory blocks; `None` on a kernel without.
    #[must_use]
    pub fn memory_blocks(&self) -> Option<MemoryBlocks> {
        MemoryBlocks::read(&self.roots).ok()
    }

    /// All memory that is offline.
    #[must_use]
    pub fn offline(&self) -> Bytes {
        self.memory_blocks().map_or(Bytes::ZERO, |blocks| blocks.offline())
    }

    /// The frame of the page of this process at an address; `None` if it is unknown.
    #[must_use]
    pub fn frame_at(&self, address: u64) -> Option<Frame> {
        self.pagemap.as_ref()?.frame_at(address).ok()?
    }

    /// The frames of a block's pages, `None` for those that are unknown.
    pub fn frames(&self, block: &Block, frames: &mut Vec<Option<Frame>>) {
        let known = self.pagemap.as_ref().is_some_and(|pagemap| block.frames(pagemap, frames).is_ok());
        if !known {
            frames.clear();
            frames.resize(usize::try_from(block.pages()).expect("pages of a block"), None);
        }
    }

    /// The memory of this process in frames and in swap, claimed memory included; `None` if the kernel does not report
    /// it.
    #[must_use]
    pub fn used_memory(&self) -> Option<Bytes> {
        MemoryUsage::read(&self.roots).ok().map(MemoryUsage::used)
    }

    /// How much of this process's memory at an address has frames or places in swap; all, if the kernel does not
    /// report it.
    #[must_use]
    pub fn in_use(&self, address: u64, bytes: Bytes) -> Bytes {
        let pages = self.pagemap.as_ref().and_then(|pagemap| pagemap.in_use(address, bytes.frames()).ok());
        pages.map_or(bytes, |pages| Bytes::new(pages * FRAME_BYTES))
    }

    /// Total time in which its CPUs ran other programs, since some moment in the past; `None` if the kernel does not
    /// report it.
    #[must_use]
    pub fn others_busy(&self) -> Option<Duration> {
        cpu::busy(&self.roots).ok().map(|all| all.saturating_sub(cpu::own()))
    }

    /// Whether a frame is the kernel's shared zero page; false if its flags cannot be read.
    #[must_use]
    pub fn is_zero_page(&self, frame: Frame) -> bool {
        let flags = FlagTable::open(&self.roots).and_then(|table| table.of(frame));
        flags.ok().flatten().is_some_and(FrameFlags::is_zero_page)
    }

    /// Reads the kernel's present use of frames.
    #[must_use]
    pub fn frame_uses(&self) -> FrameUses {
        FrameUses::read(&self.roots)
    }

    /// Asks the kernel to move the content of a frame elsewhere and to retire the frame.
    #[must_use]
    pub fn retire(&self, frame: Frame) -> Retirement {
        retirement(self.retirer.retire(frame, Way::Soft))
    }

    /// The same for the frame of a page of one of this process's unpinned blocks: through the page, where the kernel
    /// has no file to retire a frame by its number.
    #[must_use]
    pub fn retire_own(&self, frame: Frame, block: &mut Block, page: u64) -> Retirement {
        let by_number = self.retirer.retire(frame, Way::Soft);
        match (&by_number, &self.pagemap) {
            (RetireOutcome::Refused(RetireRefusal::Unable(_)), Some(pagemap)) => {
                retirement(self.retirer.retire_own(frame, block, page, pagemap))
            }
            _ => retirement(by_number),
        }
    }

    /// Whether the kernel shows its mark of bad memory at a frame.
    #[must_use]
    pub fn is_marked(&self, frame: Frame) -> bool {
        self.retirer.is_marked(frame) == Some(true)
    }

    /// The kernel's present counts of memory errors.
    #[must_use]
    pub fn errors(&self) -> ErrorCounts {
        ErrorCounts::read(&self.roots)
    }

    /// The errors that the kernel counted since `before`.
    #[must_use]
    pub fn errors_since(&self, before: &ErrorCounts) -> KernelErrors {
        let after = self.errors();
        match (before.total(), after.total()) {
            (Some(before), Some(after)) => KernelErrors::Counted {
                corrected: after.corrected.saturating_sub(before.corrected),
                uncorrected: after.uncorrected.saturating_sub(before.uncorrected),
            },
            _ => KernelErrors::Absent(after.controllers.err().map_or_else(
                || "its driver was loaded or unloaded during the test".to_owned(),
                |absence| absence.to_string(),
            )),
        }
    }

    /// The present use of each frame of a range; nothing where it cannot be read.
    #[must_use]
    pub fn classes(&self, frames: FrameRange) -> Vec<FrameClass> {
        let classes = FlagTable::open(&self.roots).and_then(|table| table.classes(frames));
        classes.unwrap_or_default()
    }

    /// Counts the frames for which `counted` is true, by their use, without uses of which there are none. `None` if
    /// their flags cannot be read.
    #[must_use]
    pub fn census(&self, counted: impl Fn(Frame) -> bool) -> Option<Vec<(FrameClass, u64)>> {
        let table = FlagTable::open(&self.roots).ok()?;
        let mut counts = FrameClass::ALL.map(|class| (class, 0));
        let scanned = table.scan(|frame, flags| {
            if counted(frame) {
                counts[flags.class() as usize].1 += 1;
            }
        });
        scanned.ok()?;
        Some(counts.into_iter().filter(|&(class, count)| class != FrameClass::Absent && count > 0).collect())
    }
}

fn retirement(outcome: RetireOutcome) -> Retirement {
    match outcome {
        RetireOutcome::Retired(_) => Retirement::Offlined,
        RetireOutcome::Refused(refusal) => Retirement::Refused(refusal.to_string()),
    }
}

/// The memory errors that the kernel counted during a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelErrors {
    /// New errors during the test.
    Counted {
        /// Corrected.
        corrected: u64,
        /// Detected, uncorrected.
        uncorrected: u64,
    },
    /// The kernel keeps no counts here; the text says why.
    Absent(String),
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;

    use rampart_linux::PageKind;

    use super::*;

    /// Without a file to retire frames by their numbers, the kernel is asked through the page. This one has left the
    /// frame, so nobody was asked, and the frame is not said to be retired.
    #[test]
    fn where_frames_cannot_be_retired_by_their_numbers_the_page_decides() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fs::create_dir(roots.proc("self")).unwrap();
        let mut block = Block::claim(PageKind::Base.granule(), PageKind::Base).unwrap();
        let entry: u64 = (1 << 63) | 3;
        let at = block.base().addr().get() as u64 / FRAME_BYTES * size_of::<u64>() as u64;
        File::create(roots.proc("self/pagemap")).unwrap().write_all_at(&entry.to_ne_bytes(), at).unwrap();
        let retirement = MachineUnderTest::below(roots).retire_own(Frame::new(4).unwrap(), &mut block, 0);
        let refused = "the page has left the frame meanwhile; retire the frame by its number";
        assert_eq!(retirement, Retirement::Refused(refused.to_owned()));
    }

    /// Of 64 MiB that the allocator maps anew, one page is written: it is there, with others if the page is huge.
    #[test]
    fn only_pages_that_were_touched_are_in_use() {
        let mut memory = vec![0_u8; 64 << 20];
        memory[32 << 20] = 1;
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(FRAME_BYTES);
        let (machine, bytes) = (MachineUnderTest::this(), Bytes::from_mib(63));
        let in_use = machine.in_use(start, bytes).get();
        match machine.pagemap {
            Some(_) => assert!((FRAME_BYTES..=4 << 20).contains(&in_use), "{in_use}"),
            None => assert_eq!(in_use, bytes.get(), "all that may be in use"),
        }
        drop(memory);
    }
}
