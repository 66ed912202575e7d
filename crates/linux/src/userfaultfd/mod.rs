//! Page faults that this program resolves itself: userfaultfd.
//!
//! **Problem.** A page that is verified before its use must be absent until then, and anything that touches it, a
//! thread or the kernel in the middle of its system call, must wait and not fail. **Idea.** The kernel stops a fault in
//! a registered range, sends a message, and goes on when the page is present: moved from elsewhere in this process,
//! with its frame (`UFFDIO_MOVE`, Linux 6.8), copied, or mapped from a file. **Why this way.** A signal handler
//! (`mprotect` and SIGSEGV) never sees the faults of system calls, which fail with EFAULT instead; and nobody moves a
//! page that a device uses: the kernel answers that it is busy, where `mprotect` would say nothing.
//!
//! This module is the kernel's interface with types. Its requests change memory that this process uses, so they are
//! `unsafe`; [`crate::vault`] is the safe owner of two ranges.
//!
//! Source: Linux, Documentation/admin-guide/mm/userfaultfd.rst and pagemap.rst.

#![expect(unsafe_code, reason = "select(2) takes files by their numbers")]

mod abi;
mod features;
mod message;
mod open;
mod requests;
mod route;
mod scan;
mod stop;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{FdSetElement, FdSetIter, PollFd, PollFlags, fd_set_insert, fd_set_num_elements, poll, select};
use rustix::io::{Errno, read};

use crate::Error;

pub use features::{Features, Modes};
pub use message::{FaultCause, Messages, UffdFault, UffdMessage};
pub use requests::{Area, MoveError, MoveRefusal, Wake};
pub use route::{Reach, Route};
pub use scan::{PageFilter, PageRun, PageRuns, PageScan, PageState};
pub use stop::Stop;

/// The faults of this process' registered ranges; once it is dropped, they are no longer resolved.
///
/// It stands for the memory of the process that opened it: a child process needs one of its own.
#[derive(Debug)]
pub struct Userfaultfd {
    descriptor: OwnedFd,
    features: Features,
    route: Route,
}

/// Why a handler stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There are messages, unless another handler is faster.
    Messages,
    /// [`Stop::set`] was called.
    Stopped,
}

impl Userfaultfd {
    /// The requested features.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Its way of opening, and so whose faults it sees.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Waits until there are messages, or until it must stop, which has priority.
    ///
    /// # Errors
    /// [`Error::Messages`] if the kernel is out of memory.
    pub fn wait(&self, stop: &Stop) -> Result<Waited, Error> {
        let mut ready = [PollFd::new(&self.descriptor, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        loop {
            match poll(&mut ready, None) {
                Ok(_) if !ready[1].revents().is_empty() => return Ok(Waited::Stopped),
                Ok(_) => return Ok(Waited::Messages),
                Err(Errno::INTR) => {}
                // The process may have fewer files open than these two.
                Err(Errno::INVAL) => return self.wait_below_limit(stop),
                Err(errno) => return Err(Error::Messages { cause: errno.into() }),
            }
        }
    }

    /// As [`Userfaultfd::wait`], with a limit of open files below two, as sandboxes set it: poll(2) refuses more files
    /// than that, select(2) does not check.
    fn wait_below_limit(&self, stop: &Stop) -> Result<Waited, Error> {
        let files = [self.descriptor.as_raw_fd(), stop.as_fd().as_raw_fd()];
        let refused = |errno: Errno| Error::Messages { cause: errno.into() };
        let end = files.into_iter().max().map_or(0, |last| last + 1);
        loop {
            let mut ready = vec![FdSetElement::default(); fd_set_num_elements(files.len(), end)];
            files.iter().for_each(|file| fd_set_insert(&mut ready, *file));
            // SAFETY: both files are open as long as they are borrowed here.
            match unsafe { select(end, Some(&mut ready), None, None, None) } {
                Ok(_) if FdSetIter::new(&ready).any(|file| file == files[1]) => return Ok(Waited::Stopped),
                Ok(_) => return Ok(Waited::Messages),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
    }

    /// Reads as many messages as there are and fit, without waiting; there may be none.
    ///
    /// # Errors
    /// [`Error::Messages`] if the kernel refuses.
    pub fn read(&self, messages: &mut Messages) -> Result<(), Error> {
        match read(&self.descriptor, messages.room()) {
            Ok(bytes) => messages.filled(bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(Error::Messages { cause: errno.into() }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::FORKS;
