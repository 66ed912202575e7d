//! A notice as soon as the kernel begins to reclaim memory.
//!
//! **Problem.** Whoever looks at free memory from time to time may come too late: a fast burst uses up all of it
//! between two looks. **Idea.** The kernel has an event for the moment at which it wakes its reclaimer because a node's
//! free memory is low, and one for each allocation that must reclaim for itself. A trace of our own with just these
//! events can be waited for. **Why this way.** It costs nothing as long as there is memory. The triggers of
//! `/proc/pressure/memory` are checked only every 50 ms (a tenth of the shortest window, kernel/sched/psi.c).
//!
//! The kernel no longer wakes a reclaimer that failed 16 times (`wakeup_kswapd` in mm/vmscan.c): hence both events.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::instance::TraceInstance;
use crate::{Absence, Roots};

/// The options of a kernel that has the events.
const KERNEL: &str = "CONFIG_FTRACE and CONFIG_EVENT_TRACING";

const EVENTS: [&str; 2] = ["events/vmscan/mm_vmscan_wakeup_kswapd", "events/vmscan/mm_vmscan_direct_reclaim_begin"];

/// Larger blocks may be lacking although much memory is free (`PAGE_ALLOC_COSTLY_ORDER`).
const FILTER: &str = "order <= 3";

/// Only that something happened counts, not how often: the smallest buffer does.
const BUFFER_KIB: &str = "4";

/// So much text is taken away at most before the next wait.
const MOST_READS: usize = 256;

/// Begins with its opening and ends when it is dropped.
#[derive(Debug)]
pub struct ReclaimNotice {
    // Dropped before the instance: one that is being read cannot be removed.
    pipe: File,
    _instance: TraceInstance,
}

impl ReclaimNotice {
    /// Makes a trace instance, and switches the events on.
    ///
    /// # Errors
    /// Why there are no such events, or not for this user.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        Self::open_by(roots, |folder| fs::create_dir(folder))
    }

    /// `make` makes the folder of an instance; the kernel then fills it.
    fn open_by(roots: &Roots, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<Self, Absence> {
        let instance = TraceInstance::create(roots, KERNEL, make)?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        let pipe = instance.open("trace_pipe")?;
        for event in EVENTS {
            instance.write(&format!("{event}/filter"), FILTER)?;
            instance.write(&format!("{event}/enable"), "1")?;
        }
        Ok(Self { pipe, _instance: instance })
    }

    /// Waits until the kernel reclaims, at most for this time. Returns whether it does; what happened before is
    /// forgotten then.
    pub fn wait(&self, most: Duration) -> bool {
        let timeout = Timespec::try_from(most).ok();
        let ready = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], timeout.as_ref());
        let came = ready.is_ok_and(|ready| ready > 0);
        if came {
            self.forget();
        }
        came
    }

    fn forget(&self) {
        let (mut pipe, mut text) = (&self.pipe, [0; 4096]);
        for _ in 0..MOST_READS {
            if !pipe.read(&mut text).is_ok_and(|read| read > 0) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::folder;

    /// A tracefs whose pipe is a FIFO: what a test writes to it is what the kernel says.
    fn machine() -> (tempfile::TempDir, Roots) {
        let folder_of_test = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder_of_test.path(), folder_of_test.path());
        fs::create_dir_all(folder(&roots).join("instances")).unwrap();
        (folder_of_test, roots)
    }

    fn filled(folder: &Path) -> io::Result<()> {
        for event in EVENTS {
            fs::create_dir_all(folder.join(event))?;
            for file in ["filter", "enable"] {
                fs::write(folder.join(event).join(file), "")?;
            }
        }
        fs::write(folder.join("buffer_size_kb"), "")?;
        let pipe = folder.join("trace_pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
        Ok(())
    }

    #[test]
    fn a_notice_ends_the_wait_once() {
        let (_folder, roots) = machine();
        let notice = ReclaimNotice::open_by(&roots, filled).unwrap();
        let instance = folder(&roots).join(format!("instances/rampart-{}", std::process::id()));
        for event in EVENTS {
            let of_event = |file: &str| fs::read_to_string(instance.join(event).join(file)).unwrap();
            assert_eq!((of_event("filter").as_str(), of_event("enable").as_str()), ("order <= 3", "1"));
        }
        assert!(!notice.wait(Duration::from_millis(1)));
        let mut kernel = fs::OpenOptions::new().write(true).open(instance.join("trace_pipe")).unwrap();
        io::Write::write_all(&mut kernel, &[b'x'; 9000]).unwrap();
        assert!(notice.wait(Duration::from_secs(9)));
        assert!(!notice.wait(Duration::from_millis(1)), "all of it was taken away");
    }

    #[test]
    fn a_kernel_without_these_events_is_named() {
        let (_folder, roots) = machine();
        let absence = ReclaimNotice::open_by(&roots, |folder| fs::create_dir(folder)).unwrap_err();
        assert!(absence.to_string().contains("buffer_size_kb"), "{absence}");
    }
}
