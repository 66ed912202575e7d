//! The guard's open files, in a table that only its own threads have.
//!
//! **Problem.** A program may close every file that it has not opened itself, as daemons do, or count them; and once
//! the last descriptor of a userfaultfd is closed, what is locked reads as zeros. **Idea.** The kernel gives each
//! thread a table of open files, which threads usually share (unshare(2), `CLONE_FILES`). The guard's threads share
//! another, which starts empty. **Why this way.** What the program sees and does is as without a guard, and nothing of
//! it needs to be watched. What wants one of these files is done by these threads.

#![allow(unsafe_code, reason = "a system call that rustix does not have")]

use std::ffi::c_uint;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, Result};

/// From now on the calling thread, and each that it starts, has a table of open files of its own. Nothing of the
/// program is kept open there: who waits for the end of a pipe waits for the program only.
///
/// # Errors
/// What the kernel says.
pub fn take_own_table() -> Result<()> {
    // SAFETY: it takes three integers. What it closes is closed in a table that no other thread has, and this one is
    // new and holds no file.
    let refused = unsafe { libc::syscall(libc::SYS_close_range, 0, c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if refused != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // What is written to standard error by habit must not reach a file that is called 2 by chance.
    for _ in 0..3 {
        std::mem::forget(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()));
    }
    Ok(())
}
