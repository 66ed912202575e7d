//! A launcher that hangs.
//!
//! **Problem.** That of Open MPI 4.1 with PMIx 4.2 may wait for a lock of its own for ever when a process dies: all
//! processes have ended, and it does not. **Idea.** Such a launcher no longer waits for its children, so all of them
//! are zombies. **Why this way.** A launcher that works waits for each child at once, on one node or on several.

use std::fs;
use std::time::{Duration, Instant};

use rampart_linux::process::Process;

const PAUSE: Duration = Duration::from_secs(1);

/// After so many looks in a row it is taken for one that hangs.
const MOST_LOOKS: u32 = 10;

const SIGKILL: i32 = 9;

/// Looks after a launcher.
pub struct LauncherWatch {
    launcher: u32,
    next: Instant,
    looks: u32,
}

impl LauncherWatch {
    pub fn of(launcher: u32) -> Self {
        Self { launcher, next: Instant::now() + PAUSE, looks: 0 }
    }

    /// Kills a launcher that hangs.
    pub fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PAUSE;
        self.looks = if has_only_zombies(self.launcher) { self.looks + 1 } else { 0 };
        if self.looks == MOST_LOOKS {
            eprintln!("rampart: all processes of the launcher have ended, and it hangs: it is killed");
            Process::find(self.launcher).into_iter().for_each(|process| process.pass_on(SIGKILL));
        }
    }
}

/// Whether it has children, and all of them have ended (proc_pid_task(5), proc_pid_stat(5)).
fn has_only_zombies(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists: String = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    let is_zombie = |child: &str| {
        let status = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    };
    !lists.trim().is_empty() && lists.split_whitespace().all(is_zombie)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_launcher_that_waits_for_no_child_hangs_and_one_with_a_child_or_without_does_not() {
        let hangs_in_the_end = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let mut watch = LauncherWatch::of(child.id());
            while child.try_wait().unwrap().is_none() && watch.looks < MOST_LOOKS {
                // No pause.
                watch.next = Instant::now();
                watch.look();
                std::thread::sleep(Duration::from_millis(10));
            }
            child.wait().unwrap().code().is_none()
        };
        assert!(hangs_in_the_end("true & exec sleep 60"));
        assert!(!hangs_in_the_end("true & sleep 0.5 & exec sleep 0.3"));
        assert!(!hangs_in_the_end("exec sleep 0.3"));
    }
}
