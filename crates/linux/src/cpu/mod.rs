//! This process on the machine's CPUs: where its threads run, how they yield, and the time.
//!
//! **Problem.** A tester must stay on the CPU whose node holds its memory, and programs must not feel it. **Idea.**
//! Each thread sets its own CPU and its own priority. **Why this way.** Neither needs privilege as long as it only
//! gives something up.

pub mod detours;
mod scheduling;
mod time;
mod tsc;

use std::time::{Duration, SystemTime};

use rampart_memory::{Clock, Timestamp};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

pub use self::scheduling::{Scheduling, schedule_as};
pub use self::time::{busy, own};
pub use self::tsc::Tsc;
use crate::Error;
pub use crate::cpu_number::CpuNumber;

/// Binds the calling thread to one CPU.
///
/// # Errors
/// [`Error::Bind`] if the machine has no such CPU or this process may not run on it.
pub fn bind(cpu: CpuNumber) -> Result<(), Error> {
    bind_to_any(&[cpu])
}

/// Binds the calling thread to some CPUs, among which the kernel chooses.
///
/// # Errors
/// [`Error::Bind`] if the machine lacks one of them, or this process may run on none.
pub fn bind_to_any(cpus: &[CpuNumber]) -> Result<(), Error> {
    let refused = |cpu, errno: Errno| Error::Bind { cpu, cause: errno.into() };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu.0 as usize >= CpuSet::MAX_CPU {
            return Err(refused(cpu, Errno::INVAL));
        }
        set.set(cpu.0 as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| refused(cpus.first().copied().unwrap_or(CpuNumber(0)), errno))
}

/// How much a thread yields to others: 0 is usual, 19 the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Niceness(u8);

impl Niceness {
    /// Yields to all others.
    pub const MOST: Self = Self(19);

    /// A niceness, or `None` above 19.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MOST.0 { Some(Self(value)) } else { None }
    }
}

/// Sets the niceness of the calling thread.
///
/// # Errors
/// [`Error::Schedule`] if the kernel refuses, as it does without privilege for less than the thread has.
pub fn be_nice(niceness: Niceness) -> Result<(), Error> {
    // On Linux `PRIO_PROCESS` with 0 is the calling thread (setpriority(2), "C library/kernel differences").
    setpriority_process(None, i32::from(niceness.0)).map_err(|errno| Error::Schedule { cause: errno.into() })
}

/// Puts the calling thread, and those that it starts, before usual ones, as far as it is allowed: for a thread that
/// others wait for. It then has a niceness of at most -10.
pub fn be_prompt() {
    // A thread without the right to do so goes on. A service manager may have set it already.
    let _refused = getpriority_process(None).and_then(|now| setpriority_process(None, now.min(PROMPT)));
}

/// Such a thread gets nine times as much of a busy CPU as a usual one (sched(7), kernel/sched/core.c).
const PROMPT: i32 = -10;

/// The machine's clock, as set by its administrator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn stopwatch(&self) -> Duration {
        since_boot(ClockId::Monotonic)
    }
}

/// The machine's clock at its creation, continued by the time since boot: nobody can set it, and the time of a
/// suspended machine counts.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began: Timestamp,
    booted: Duration,
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self { began: SystemClock.now(), booted: since_boot(ClockId::Boottime) }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.began.after(since_boot(ClockId::Boottime).saturating_sub(self.booted))
    }

    fn stopwatch(&self) -> Duration {
        since_boot(ClockId::Monotonic)
    }
}

/// By a clock of the kernel that counts from boot: `Boottime` counts while the machine is suspended, `Monotonic` does
/// not.
fn since_boot(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::try_from(time).expect("the time since boot is not negative")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Roots, Topology};
    use rustix::thread::sched_getcpu;
    use std::thread;

    #[test]
    fn a_bound_thread_runs_on_its_cpu() {
        for cpu in Topology::read(&Roots::default()).allowed {
            let ran_on = thread::spawn(move || bind(cpu).map(|()| sched_getcpu())).join().unwrap();
            assert_eq!(ran_on.unwrap(), cpu.0 as usize);
        }
    }

    #[test]
    fn a_cpu_that_no_machine_has_is_refused_by_name() {
        for number in [1023, 1024, u32::MAX] {
            if Topology::read(&Roots::default()).allowed.contains(&CpuNumber(number)) {
                continue;
            }
            let refused = thread::spawn(move || bind(CpuNumber(number))).join().unwrap().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("cannot run on CPU {number}: ")), "{refused}");
        }
    }

    #[test]
    fn niceness_is_the_thread_s_own() {
        let before = getpriority_process(None).unwrap();
        let nice = thread::spawn(|| be_nice(Niceness::MOST).map(|()| getpriority_process(None).unwrap()));
        assert_eq!(nice.join().unwrap().unwrap(), 19);
        assert_eq!(getpriority_process(None).unwrap(), before);
        assert_eq!(Niceness::new(20), None);
    }

    #[test]
    fn the_clock_goes_forward_from_this_century() {
        let (first, second) = (SystemClock.now(), SystemClock.now());
        assert!(first.micros() > 946_684_800_000_000, "1 January 2000");
        assert!(first <= second);
    }

    #[test]
    fn the_steady_clock_starts_with_the_machine_s_and_only_goes_forward() {
        let clock = SteadyClock::default();
        let (first, machine, second) = (clock.now(), SystemClock.now(), clock.now());
        assert!(first <= second && machine.since(first) < Duration::from_secs(60));
    }

    #[test]
    fn a_stopwatch_measures_what_a_thread_sleeps() {
        let clocks: [&dyn Clock; 2] = [&SystemClock, &SteadyClock::default()];
        for clock in clocks {
            let began = clock.stopwatch();
            thread::sleep(Duration::from_millis(3));
            let slept = clock.stopwatch().checked_sub(began).expect("it goes forward");
            assert!((Duration::from_millis(3)..Duration::from_secs(60)).contains(&slept), "{slept:?}");
        }
    }

    #[test]
    fn a_thread_bound_to_some_cpus_runs_on_one_of_them() {
        let cpus = Topology::read(&Roots::default()).allowed;
        let ran_on = {
            let cpus = cpus.clone();
            thread::spawn(move || bind_to_any(&cpus).map(|()| sched_getcpu())).join().unwrap().unwrap()
        };
        assert!(cpus.iter().any(|cpu| cpu.0 as usize == ran_on));
        assert!(thread::spawn(|| bind_to_any(&[])).join().unwrap().is_err());
    }
}
