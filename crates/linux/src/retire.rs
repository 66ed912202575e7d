//! Retirement: asking the kernel never to use a frame again.
//!
//! **Problem.** A bad frame that is merely given back is the next one that the kernel hands out. **Idea.** Linux can
//! retire a frame: *soft*, which moves its content elsewhere first and harms nobody, and *hard*, which drops the
//! content and kills programs that touch it, as if the hardware had reported an error. **Why this way.** Kernels have
//! reported success and kept the frame, so the kernel's own mark is read back where it can be read.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-memory-page-offline and mm/memory-failure.c.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rampart_memory::Frame;
use rustix::io::Errno;
use serde::Serialize;

use crate::frame_flags::FlagTable;
use crate::pagemap::Pagemap;
use crate::{Absence, Block, Roots};

/// The options of a kernel that can retire frames.
pub(crate) const KERNEL: &str = "CONFIG_MEMORY_FAILURE and CONFIG_MEMORY_HOTPLUG";

/// The way of retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Way {
    /// Its content is moved elsewhere first. Nobody is harmed; a frame that cannot be moved is refused.
    Soft,
    /// Its content is lost. `SIGBUS` kills a program that touches it again: release blocks that hold it first.
    Hard,
}

impl Way {
    /// The file that takes a physical address.
    pub(crate) fn file(self, roots: &Roots) -> PathBuf {
        roots.sys(match self {
            Self::Soft => "devices/system/memory/soft_offline_page",
            Self::Hard => "devices/system/memory/hard_offline_page",
        })
    }
}

/// The result of an attempt to retire a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetireOutcome {
    /// The kernel retired the frame.
    Retired(RetireEvidence),
    /// The kernel refused; hold the frame instead ([`Block::keep_only`]).
    Refused(RetireRefusal),
}

/// The evidence of a retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RetireEvidence {
    /// The frame bears the kernel's mark `KPF_HWPOISON`.
    Marked,
    /// The kernel reported success; its mark cannot be read here.
    Said,
}

/// Why a frame was not retired.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum RetireRefusal {
    /// {0}
    Unable(Absence),
    /// the kernel refused: {0}; the frame may be pinned or the kernel's own, try again when it is free
    Kernel(Errno),
    /// the kernel said that it retired the frame, but did not mark it; treat it as in use
    NotMarked,
    /// the page has left the frame meanwhile; retire the frame by its number
    Moved,
}

/// Retires frames, and checks that they are.
#[derive(Debug)]
pub struct Retirer {
    roots: Roots,
    flags: Option<FlagTable>,
}

/// Names a frame to the kernel by this file of a [`Way`].
pub(crate) fn write_address(file: &File, frame: Frame) -> Result<(), RetireRefusal> {
    file.write_all_at(format!("{:#x}", frame.address()).as_bytes(), 0)
        .map_err(|cause| RetireRefusal::Kernel(Errno::from_io_error(&cause).unwrap_or(Errno::IO)))
}

impl Retirer {
    /// Checks the features of this machine; each attempt reports missing ones.
    #[must_use]
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), flags: FlagTable::open(roots).ok() }
    }

    /// Retires a frame by its number, whoever uses it.
    ///
    /// For a frame of an own block: unpin it first, because a pinned page cannot be moved, and give it back only
    /// afterwards, because old kernels (seen on 5.10) refuse a frame that was just freed and is on a CPU's list.
    #[must_use]
    pub fn retire(&self, frame: Frame, way: Way) -> RetireOutcome {
        let path = way.file(&self.roots);
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|cause| RetireRefusal::Unable(Absence::of_file(&path, &cause, KERNEL)));
        self.judge(frame, written.and_then(|file| write_address(&file, frame)))
    }

    /// Softly retires the frame of a page of an own, unpinned block: for kernels that can retire but have no file for
    /// it. The page is on another frame afterwards.
    #[must_use]
    pub fn retire_own(&self, frame: Frame, block: &mut Block, page: u64, pagemap: &Pagemap) -> RetireOutcome {
        let advised = match block.frame_of(page, pagemap) {
            Ok(Some(found)) if found == frame => block.soft_offline(page).map_err(RetireRefusal::Kernel),
            _ => Err(RetireRefusal::Moved),
        };
        self.judge(frame, advised)
    }

    /// Whether the kernel shows its mark here.
    pub(crate) const fn sees_marks(&self) -> bool {
        self.flags.is_some()
    }

    /// Whether the kernel marks the frame as retired; `None` if its mark cannot be read.
    #[must_use]
    pub fn is_marked(&self, frame: Frame) -> Option<bool> {
        let flags = self.flags.as_ref()?.of(frame).ok()??;
        Some(flags.is_poisoned())
    }

    /// Returns the outcome, by the kernel's answer and its mark.
    pub(crate) fn judge(&self, frame: Frame, asked: Result<(), RetireRefusal>) -> RetireOutcome {
        match (asked, self.is_marked(frame)) {
            // Some kernels refuse a frame that is already retired, which is fine.
            (_, Some(true)) => RetireOutcome::Retired(RetireEvidence::Marked),
            (Ok(()), None) => RetireOutcome::Retired(RetireEvidence::Said),
            (Ok(()), Some(false)) => RetireOutcome::Refused(RetireRefusal::NotMarked),
            (Err(refusal), _) => RetireOutcome::Refused(refusal),
        }
    }
}

/// Whether the machine goes on after an error in a frame; false also where the kernel does not say. Else it stops
/// (`vm.memory_failure_recovery`), also at an error that a program reports.
#[must_use]
pub(crate) fn goes_on_after_errors(roots: &Roots) -> bool {
    fs::read_to_string(roots.proc("sys/vm/memory_failure_recovery")).is_ok_and(|recovers| recovers.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FRAME: u64 = 3;
    const POISONED: u64 = 1 << 19;

    /// A machine whose kernel retires frames; `flags` are those of frame 3.
    fn machine(flags: Option<u64>) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fs::create_dir_all(roots.sys("devices/system/memory")).unwrap();
        for way in [Way::Soft, Way::Hard] {
            fs::write(way.file(&roots), "").unwrap();
        }
        if let Some(flags) = flags {
            let bytes: Vec<u8> = [0, 0, 0, flags].iter().flat_map(|flags| flags.to_ne_bytes()).collect();
            fs::write(roots.proc("kpageflags"), bytes).unwrap();
        }
        (folder, roots)
    }

    fn retire(roots: &Roots, way: Way) -> RetireOutcome {
        Retirer::new(roots).retire(Frame::new(FRAME).unwrap(), way)
    }

    #[test]
    fn the_kernel_is_given_the_physical_address() {
        for way in [Way::Soft, Way::Hard] {
            let (_folder, roots) = machine(None);
            assert_eq!(retire(&roots, way), RetireOutcome::Retired(RetireEvidence::Said));
            assert_eq!(fs::read_to_string(way.file(&roots)).unwrap(), "0x3000");
        }
    }

    #[test]
    fn a_frame_is_retired_when_the_kernel_has_marked_it() {
        let (_folder, roots) = machine(Some(POISONED));
        assert_eq!(retire(&roots, Way::Soft), RetireOutcome::Retired(RetireEvidence::Marked));
    }

    #[test]
    fn a_kernel_that_says_yes_and_does_nothing_is_not_believed() {
        let (_folder, roots) = machine(Some(0));
        assert_eq!(retire(&roots, Way::Soft), RetireOutcome::Refused(RetireRefusal::NotMarked));
    }

    #[test]
    fn a_kernel_that_cannot_retire_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let RetireOutcome::Refused(RetireRefusal::Unable(absence)) =
            retire(&Roots::new(folder.path(), folder.path()), Way::Hard)
        else {
            panic!("there is no file to retire by");
        };
        assert!(absence.reason.contains("hard_offline_page") && absence.remedy.contains("CONFIG_MEMORY_FAILURE"));
    }
}
