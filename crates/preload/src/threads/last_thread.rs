//! A program whose threads have all ended, each by itself.
//!
//! **Problem.** exit(2) as a system call ends one thread, and a process ends with its last one; the guard's never end.
//! The C library's count is adjusted ([`super::unregistered`]), but a program may not use the C library: in seccomp's
//! strict mode it may make no other call, and a forbidden call ends its thread alone. **Idea.** The maintenance thread
//! checks ten times per second whether the first thread has ended, and only then whether the program has others. **Why
//! this way.** That costs one read of a file that is open anyway; and the kernel shows how the process would have
//! ended, which is how its first thread did (proc_pid_stat(5), `exit_code`).

#![allow(unsafe_code, reason = "ends the process as the kernel would have")]

use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::io::pread;

use super::signal_mask::Signals;

/// The period of checks.
const GLANCE: Duration = Duration::from_millis(100);

/// The exit status of a first thread, as in wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(i32);

/// The program's threads, seen by one of the guard's.
pub struct ProgramThreads {
    /// Of the first thread and of all, opened at the start: a program may enter a root without `/proc`.
    first: Option<OwnedFd>,
    all: Option<OwnedFd>,
    /// The number of the guard's threads.
    guards: usize,
    looked: Instant,
}

impl ProgramThreads {
    /// This process. Without `/proc` nothing is seen.
    pub fn of_this_process(guards: usize) -> Self {
        let opened = |path, flags| open(path, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty()).ok();
        let first = opened("/proc/self/stat", OFlags::empty());
        let all = opened("/proc/self/task", OFlags::DIRECTORY);
        Self { first, all, guards, looked: Instant::now() }
    }

    /// Its exit status, if it is time to check and it has ended.
    pub fn look(&mut self) -> Option<Status> {
        if self.looked.elapsed() < GLANCE {
            return None;
        }
        self.looked = Instant::now();
        let mut line = [0; 1024];
        let read = pread(self.first.as_ref()?, &mut line, 0).ok()?;
        let status = ended(std::str::from_utf8(&line[..read]).ok()?)?;
        (self.threads()? <= self.guards + 1).then_some(status)
    }

    /// The number of threads, including an ended first one that waits for the others.
    fn threads(&self) -> Option<usize> {
        let entries = Dir::read_from(self.all.as_ref()?).ok()?;
        let is_thread = |name: &std::ffi::CStr| name.to_bytes().iter().all(u8::is_ascii_digit);
        Some(entries.filter_map(Result::ok).filter(|entry| is_thread(entry.file_name())).count())
    }
}

/// The exit status of the thread in this line of proc_pid_stat(5), if it has ended. Its name may hold anything.
fn ended(line: &str) -> Option<Status> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    let is_over = words.next()? == "Z";
    words.next_back().filter(|_| is_over)?.parse().ok().map(Status)
}

impl Status {
    /// Ends the process with this status.
    pub fn end(self) -> ! {
        let signal = self.0 & 0x7f;
        if signal != 0 {
            let default = [0_u64; 4];
            // SAFETY: the default action is all zeros, in the kernel's layout too, whose masks have 8 bytes. The
            // signal is blocked in all threads that are left until this one takes it.
            unsafe {
                libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, 0_usize, 8_usize);
                Signals::take(signal);
                libc::raise(signal);
            }
        }
        // SAFETY: it ends the process and runs nothing of the program's.
        unsafe { libc::_exit(if signal == 0 { self.0 >> 8 & 0xff } else { 128 + signal }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_told_from_others_by_its_line() {
        let line = |state: &str, status: i32| format!("7 (a) Z (b) {state} 1 7 7 0 -1 4194304 81 0 0 {status}\n");
        assert_eq!(ended(&line("S", 0)), None);
        assert_eq!(ended(&line("Z", 0)), Some(Status(0)));
        assert_eq!(ended(&line("Z", 9)), Some(Status(9)));
        assert_eq!(ended(&line("Z", 3 << 8)), Some(Status(3 << 8)));
        assert_eq!(ended("nonsense"), None);
    }

    #[test]
    fn this_process_has_threads_and_has_not_ended() {
        let mut program = ProgramThreads::of_this_process(0);
        assert!(program.threads() >= Some(1));
        program.looked -= GLANCE;
        assert_eq!(program.look(), None);
    }
}
