//! How the kernel schedules a thread.

#![expect(unsafe_code, reason = "no safe wrapper exists for this system call")]

use std::io;

use crate::Error;

/// The kernel's classes for threads that nobody waits for (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduling {
    /// Like every program.
    Normal,
    /// Never preempts a thread that just woke up (`SCHED_BATCH`).
    Batch,
    /// Runs when hardly any other thread needs the CPU (`SCHED_IDLE`).
    Idle,
}

/// Sets the class of the calling thread.
///
/// # Errors
/// [`Error::Schedule`] if the kernel refuses, as kernels before 2.6.39 do without privilege for the way out of
/// [`Scheduling::Idle`].
pub fn schedule_as(class: Scheduling) -> Result<(), Error> {
    let policy = match class {
        Scheduling::Normal => libc::SCHED_OTHER,
        Scheduling::Batch => libc::SCHED_BATCH,
        Scheduling::Idle => libc::SCHED_IDLE,
    };
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live through the call, which only reads them; thread 0 is the calling one.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(Error::Schedule { cause: io::Error::last_os_error() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_that_gives_way_is_scheduled_so() {
        for (class, policy) in [(Scheduling::Batch, libc::SCHED_BATCH), (Scheduling::Idle, libc::SCHED_IDLE)] {
            let seen = thread::spawn(move || {
                schedule_as(class).unwrap();
                // SAFETY: the call takes and returns numbers only; thread 0 is the calling one.
                unsafe { libc::sched_getscheduler(0) }
            });
            assert_eq!(seen.join().unwrap(), policy);
        }
        schedule_as(Scheduling::Normal).unwrap();
    }
}
