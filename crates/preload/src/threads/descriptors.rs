//! The guard's open files, in a table that only its own threads have.
//!
//! **Problem.** A program may close every file that it has not opened itself, as daemons do, or count them; and once
//! the last descriptor of a userfaultfd is closed, locked pages read as zeros. **Idea.** The kernel gives each thread a
//! table of open files, which threads usually share (unshare(2), `CLONE_FILES`). The guard's threads share another,
//! which starts empty. **Why this way.** The program sees and does the same as without a guard, and needs no tracking.
//! These threads do all work that needs one of these files.

#![allow(unsafe_code, reason = "a system call that rustix does not have")]

use std::ffi::c_uint;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, Result};

/// From now on the calling thread, and each that it starts, has a table of open files of its own. It keeps no file of
/// the program's open: a process that waits for the end of a pipe waits for the program only.
///
/// # Errors
/// The kernel's error.
pub fn take_own_table() -> Result<()> {
    // SAFETY: it takes three integers. What it closes is closed in a table that no other thread has, and this one is
    // new and holds no file.
    let refused = unsafe { libc::syscall(libc::SYS_close_range, 0, c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if refused != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // A habitual write to standard error must not reach a file that has the number 2 by chance.
    for _ in 0..3 {
        std::mem::forget(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()));
    }
    Ok(())
}
