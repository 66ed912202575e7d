//! A way to stop handlers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::Error;

/// Ends every [`super::Userfaultfd::wait`] that has it, now and later.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// A new one, not set.
    ///
    /// # Errors
    /// [`Error::Messages`] if this process has too many open files.
    pub fn new() -> Result<Self, Error> {
        match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
            Ok(event) => Ok(Self(event)),
            Err(errno) => Err(Error::Messages { cause: errno.into() }),
        }
    }

    /// Sets it, for good. Allocates nothing and takes no lock, so a signal handler may do it.
    pub fn set(&self) {
        // Fails only if it was set 2^64 - 2 times before.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
