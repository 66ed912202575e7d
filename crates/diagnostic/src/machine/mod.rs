//! The machine under test: the diagnostic's interface to Linux.

pub mod reserve;

use std::time::Duration;

use rampart_linux::retire::{RetireOutcome, RetireRefusal, Retirer, Way};
use rampart_linux::{
    Block, CpuNumber, Error as LinuxError, ErrorCounts, FlagTable, FrameClass, FrameFlags, FrameUses, KernelWatermarks,
    MemoryState, Pagemap, Roots, Topology, cpu,
};
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Clock, Frame};

use serde::Serialize;

use self::reserve::Outlook;

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
}

impl MachineUnderTest {
    /// The machine on which this process runs.
    #[must_use]
    pub fn this() -> Self {
        Self::below(Roots::default())
    }

    /// A machine whose files are elsewhere.
    pub(crate) fn below(roots: Roots) -> Self {
        Self {
            clock: Box::new(cpu::SystemClock),
            topology: Topology::read(&roots),
            pagemap: Pagemap::open(&roots).ok(),
            retirer: Retirer::new(&roots),
            high_watermark: KernelWatermarks::read(&roots).map_or(Bytes::ZERO, |marks| marks.high),
            roots,
        }
    }

    /// The roots of its files.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Its nodes and CPUs.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// CPUs on which this process may run.
    #[must_use]
    pub fn cpus(&self) -> &[CpuNumber] {
        &self.topology.allowed
    }

    /// Its memory at this moment.
    ///
    /// # Errors
    /// If the kernel does not show it.
    pub fn outlook(&self) -> Result<Outlook, LinuxError> {
        let state = MemoryState::read(&self.roots)?;
        Ok(Outlook {
            total: state.total(),
            free: state.free(),
            high_watermark: self.high_watermark,
            stalled: state.pressure.map(|pressure| pressure.some.total),
        })
    }

    /// The frames of a block's pages, `None` for unknown ones.
    pub fn frames(&self, block: &Block, frames: &mut Vec<Option<Frame>>) {
        let known = self.pagemap.as_ref().is_some_and(|pagemap| block.frames(pagemap, frames).is_ok());
        if !known {
            frames.clear();
            frames.resize(usize::try_from(block.pages()).expect("pages of a block"), None);
        }
    }

    /// This process' memory in frames, if the kernel shows it.
    #[must_use]
    pub fn resident(&self) -> Option<Bytes> {
        cpu::resident(&self.roots).ok()
    }

    /// Time in which its CPUs ran other programs, added up since some moment in the past; `None` if the kernel does not
    /// show it.
    #[must_use]
    pub fn others_busy(&self) -> Option<Duration> {
        cpu::busy(&self.roots).ok().map(|all| all.saturating_sub(cpu::own()))
    }

    /// Whether a frame is one of zeros that the kernel shows to all programs. Without readable flags, it counts as
    /// none.
    #[must_use]
    pub fn is_zero_page(&self, frame: Frame) -> bool {
        let flags = FlagTable::open(&self.roots).and_then(|table| table.of(frame));
        flags.ok().flatten().is_some_and(FrameFlags::is_zero_page)
    }

    /// The kernel's present use of frames.
    #[must_use]
    pub fn frame_uses(&self) -> FrameUses {
        FrameUses::read(&self.roots)
    }

    /// Lets the kernel move a frame's content and never use the frame again, if it can.
    #[must_use]
    pub fn retire(&self, frame: Frame) -> Retirement {
        retirement(self.retirer.retire(frame, Way::Soft))
    }

    /// The same for the frame of a page of an own, unpinned block: by the page if there is no file for it.
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

    /// The kernel's present counts of memory errors.
    #[must_use]
    pub fn errors(&self) -> ErrorCounts {
        ErrorCounts::read(&self.roots)
    }

    /// Errors that the kernel counted since `before`.
    #[must_use]
    pub fn errors_since(&self, before: &ErrorCounts) -> KernelErrors {
        let after = self.errors();
        match (before.total(), after.total()) {
            (Some(before), Some(after)) => KernelErrors::Counted {
                corrected: after.corrected.saturating_sub(before.corrected),
                uncorrected: after.uncorrected.saturating_sub(before.uncorrected),
            },
            _ => KernelErrors::Absent(
                after
                    .controllers
                    .err()
                    .map_or_else(|| "its driver came or went".to_owned(), |absence| absence.to_string()),
            ),
        }
    }

    /// Counts the frames that `counted` selects, by their use; `None` if their flags cannot be read.
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

/// The kernel's counts during the test.
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
    /// The kernel has no counts here.
    Absent(String),
}
