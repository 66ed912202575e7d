//! Other processes: waiting for their end without polling, and the signals that end, stop and continue them.
//!
//! **Problem.** A process's number may be another's once it has ended, and checking every few milliseconds whether it
//! still runs takes CPU time from it. **Idea.** A file descriptor that stands for the process (pidfd_open(2)). **Why
//! this way.** It never means another process, it can be waited for with a limit, and the process need not be a child.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::Error;

/// A process.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process of this number. An ended child is found until it was waited for.
    ///
    /// # Errors
    /// [`Error::Process`] if there is none, or this process may open no more files.
    pub fn find(number: u32) -> Result<Self, Error> {
        let found = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
        let found = found.and_then(|process| pidfd_open(process, PidfdFlags::empty()));
        found.map(Self).map_err(|cause| Error::Process { number, cause: cause.into() })
    }

    /// Whether it has ended; waits for that until so much time has passed or a signal interrupts this thread.
    #[must_use]
    pub fn has_ended(&self, at_most: Duration) -> bool {
        let limit = Timespec::try_from(at_most).ok();
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Sends it the signal of this number, if the number has a name. As for the other signals, an ended process, or
    /// another user's, is ignored.
    pub fn pass_on(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            self.signal(signal);
        }
    }

    /// Asks it to end, by SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it until it is continued, by SIGSTOP.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues it, by SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let _gone = pidfd_send_signal(&self.0, signal);
    }
}

/// Whether the process of this number has released its memory: it is gone, or only its exit code is left. A process
/// that cannot be examined counts as alive.
#[must_use]
pub fn has_ended(number: u32) -> bool {
    // EINVAL and ENOENT: a thread of another process has the number by now.
    let is_gone = |cause: &std::io::Error| {
        let gone = [Errno::SRCH, Errno::INVAL, Errno::NOENT].map(|errno| Some(errno.raw_os_error()));
        gone.contains(&cause.raw_os_error())
    };
    match Process::find(number) {
        Ok(process) => process.has_ended(Duration::ZERO),
        Err(Error::Process { cause, .. }) => is_gone(&cause),
        Err(_) => false,
    }
}

/// Whether this process may open so many more files, tried by opening them for a moment.
#[must_use]
pub fn may_open(files: usize) -> bool {
    let opened: Result<Vec<OwnedFd>, Errno> = (0..files).map(|_| pidfd_open(getpid(), PidfdFlags::empty())).collect();
    !matches!(opened, Err(Errno::MFILE))
}

/// The program of this command ignores a signal from its beginning on, whatever this process does with it.
#[allow(unsafe_code, reason = "what is done between fork and exec may be harmful")]
pub fn ignore_in_program(command: &mut Command, signal: i32) {
    // SAFETY: signal(2) may be called between fork and exec (signal-safety(7)), and nothing else is.
    unsafe {
        command.pre_exec(move || match libc::signal(signal, libc::SIG_IGN) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Child;

    const LONG: Duration = Duration::from_secs(60);

    fn sleeping(seconds: &str) -> (Child, Process) {
        let child = Command::new("sleep").arg(seconds).spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        (child, process)
    }

    #[test]
    fn a_process_that_is_asked_ends() {
        let (mut child, process) = sleeping("60");
        assert!(!process.has_ended(Duration::ZERO));
        process.pass_on(15);
        assert!(process.has_ended(LONG));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        process.pass_on(15);
        assert!(process.has_ended(Duration::ZERO));
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_has_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()) && !has_ended(std::process::id()));
        assert!(has_ended(u32::MAX), "no process has this number");
    }

    #[test]
    fn more_files_than_the_limit_cannot_be_opened() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(may_open(8));
        assert!(most > 1 << 20 || !may_open(usize::try_from(most).unwrap()), "some are open already");
    }

    #[test]
    fn a_signal_is_passed_on_by_its_number() {
        let (mut child, process) = sleeping("60");
        process.pass_on(10);
        assert!(process.has_ended(LONG));
        assert_eq!(child.wait().unwrap().signal(), Some(10));
    }

    #[test]
    fn a_process_that_is_stopped_does_not_end_until_it_goes_on() {
        let (mut child, process) = sleeping("0.05");
        process.stop();
        assert!(!process.has_ended(Duration::from_millis(200)));
        process.go_on();
        assert!(process.has_ended(LONG));
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_number_of_no_process_is_refused() {
        for number in [0, u32::MAX, 1 << 30] {
            assert!(matches!(Process::find(number), Err(Error::Process { number: named, .. }) if named == number));
        }
    }
}
