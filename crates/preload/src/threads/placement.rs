//! The CPUs of the guard's threads: the fault handler beside the thread that waits for it, the maintenance thread
//! elsewhere.
//!
//! **Problem.** A fault is served while its thread waits. A fault handler that sleeps on another CPU must be woken
//! there, and the program back here: two interrupts between CPUs for a service of some microseconds. **Idea.** The
//! fault handler follows the faulting thread to its CPU, which is idle then. **Why this way.** The kernel spreads
//! threads that wake each other, because it cannot know that they never run at once. Looking up a thread's CPU costs as
//! much as a fault, so it is done at intervals only.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// For so long, the faulting thread is assumed to stay on its CPU.
const TRUST: Duration = Duration::from_millis(5);

/// The placement of threads.
pub struct Beside {
    /// The process' CPUs; `None` if there is no choice.
    allowed: Option<CpuSet>,
    maintenance: &'static OnceLock<Pid>,
    looked: Option<Instant>,
    at: Option<usize>,
}

impl Beside {
    /// In the fault handler's thread, which has not moved yet.
    pub fn new(maintenance: &'static OnceLock<Pid>) -> Self {
        let allowed = sched_getaffinity(None).ok().filter(|set| set.count() > 1);
        Self { allowed, maintenance, looked: None, at: None }
    }

    /// In the maintenance thread: registers it.
    pub fn is_maintenance(maintenance: &OnceLock<Pid>) {
        let _ = maintenance.set(gettid());
    }

    /// In the fault handler's thread, after it served this thread. A refusal of the kernel changes nothing.
    pub fn served(&mut self, thread: u32) {
        let Some(allowed) = self.allowed else { return };
        if self.looked.is_some_and(|looked| looked.elapsed() < TRUST) {
            return;
        }
        self.looked = Some(Instant::now());
        let Some(cpu) = cpu_of(thread).filter(|&cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)) else { return };
        if self.at.replace(cpu) == Some(cpu) {
            return;
        }
        let mut here = CpuSet::new();
        here.set(cpu);
        let _ = sched_setaffinity(None, &here);
        let mut elsewhere = allowed;
        elsewhere.unset(cpu);
        if let Some(&maintenance) = self.maintenance.get() {
            let _ = sched_setaffinity(Some(maintenance), &elsewhere);
        }
    }
}

/// The last CPU of a thread of this process.
fn cpu_of(thread: u32) -> Option<usize> {
    processor(&fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?)
}

/// The field `processor` of proc_pid_stat(5), the 39th. The second, in brackets, may hold anything.
fn processor(stat: &str) -> Option<usize> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_cpu_is_read_whatever_the_thread_is_called() {
        let rest = (3..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["cat", "a) S 1 2", "(("] {
            assert_eq!(processor(&format!("17 ({name}) {rest}")), Some(39), "{name}");
        }
        assert_eq!(processor("17 (cat) S 1"), None);
    }

    #[test]
    fn where_this_thread_runs_is_one_of_the_cpus_that_it_may_run_on() {
        let thread = u32::try_from(gettid().as_raw_nonzero().get()).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        assert!(cpu_of(thread).is_some_and(|cpu| allowed.is_set(cpu)));
    }
}
