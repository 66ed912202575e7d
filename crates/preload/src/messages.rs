//! Messages of this library on the program's standard error.
//!
//! Threads of the program and those of the guard do not share a table of open files, so each has a way of its own.

use rustix::fd::AsFd;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Writes to standard error, without the standard library's locks; a closed one is no reason to fail. In a thread of
/// the program.
pub fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

/// Writes to the program's present standard error, if there is one. In a thread of the guard.
pub fn say_from_guard(text: &str) {
    let Ok(program) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    if let Ok(stderr) = pidfd_getfd(program.as_fd(), 2, PidfdGetfdFlags::empty()) {
        // A program whose standard error is full or gone is stopped all the same.
        let _ = rustix::io::write(stderr, text.as_bytes());
    }
}
