//! Retires frames that a range knows: below a locked page, or held by a pipe.
//!
//! **Problem.** A bad frame that a process merely holds can go to any other as soon as the process ends. **Idea.** Ask
//! the kernel to retire it while it is held. Below a locked page it is retired softly, as any other page's. A frame
//! that only a pipe refers to cannot be moved, so it is retired as if the hardware had reported an error in it. **Why
//! this way.** The kernel marks such a frame before it finds that it cannot drop it. It reports that as a failure, but
//! never gives a marked frame out.
//!
//! Source: Linux, mm/memory-failure.c.

use std::fs::{File, OpenOptions};

use rampart_memory::Frame;

use super::{HeldFrame, SharedRange};
use crate::retire::{RetireOutcome, RetireRefusal, Retirer, Way, goes_on_after_errors, write_address};
use crate::{Pagemap, Roots};

impl SharedRange {
    /// Softly retires the frame of a locked page, which keeps its content on another frame. The program cannot touch it
    /// meanwhile.
    #[must_use]
    pub fn retire(&self, retirer: &Retirer, frame: Frame, page: u64, pagemap: &Pagemap) -> RetireOutcome {
        let mut found = Vec::new();
        let advised = match pagemap.frames_of(self.behind(page), 1, &mut found) {
            Ok(()) if found == [Some(frame)] => self.soft_offline(page).map_err(RetireRefusal::Kernel),
            _ => Err(RetireRefusal::Moved),
        };
        retirer.judge(frame, advised)
    }
}

/// Retires frames hard to which only this process refers. The file for it is opened at the start, so this also works in
/// a process that may open no file later.
#[derive(Debug)]
pub struct HeldFrameRetirer(File);

impl HeldFrameRetirer {
    /// `None` where the kernel does not retire frames, shows no mark, or stops the machine at an error
    /// (`vm.memory_failure_recovery`).
    #[must_use]
    pub fn open(roots: &Roots, retirer: &Retirer) -> Option<Self> {
        // Asked first: every guarded process begins here, and only root's sees marks.
        retirer.sees_marks().then_some(())?;
        let file = OpenOptions::new().write(true).open(Way::Hard.file(roots)).ok()?;
        goes_on_after_errors(roots).then_some(Self(file))
    }

    /// Retires a held frame. The kernel refuses to drop its content, as somebody refers to it, but marks it; so nobody
    /// gets the frame when it is released.
    #[must_use]
    pub fn retire(&self, retirer: &Retirer, held: &HeldFrame) -> RetireOutcome {
        let Some(frame) = held.frame() else { return RetireOutcome::Refused(RetireRefusal::Moved) };
        retirer.judge(frame, write_address(&self.0, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn held_frames_are_retired_only_where_the_kernel_marks_frames_and_goes_on() {
        for (has_flags, recovery, opens) in [(true, "1\n", true), (true, "0\n", false), (false, "1\n", false)] {
            let folder = tempfile::tempdir().unwrap();
            let roots = Roots::new(folder.path(), folder.path());
            fs::create_dir_all(roots.sys("devices/system/memory")).unwrap();
            fs::write(Way::Hard.file(&roots), "").unwrap();
            if has_flags {
                fs::write(roots.proc("kpageflags"), [0; 8]).unwrap();
            }
            let opened = || HeldFrameRetirer::open(&roots, &Retirer::new(&roots)).is_some();
            assert!(!opened(), "it does not say whether it goes on");
            fs::create_dir_all(roots.proc("sys/vm")).unwrap();
            fs::write(roots.proc("sys/vm/memory_failure_recovery"), recovery).unwrap();
            assert_eq!(opened(), opens);
            fs::remove_file(Way::Hard.file(&roots)).unwrap();
            assert!(!opened());
        }
    }
}
