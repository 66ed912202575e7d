//! Moves a locked page of the file to another frame.
//!
//! **Problem.** A page moves to another frame when it leaves the file, but then its old frame is the next one that the
//! kernel hands out, probably to the same page. **Idea.** Something else refers to the frame first: a pipe, to which
//! vmsplice(2) lends pages without a copy. **Why this way.** It needs no privilege, no mapping and no table of ours;
//! and the kernel releases the frame when the process ends.

#![expect(unsafe_code, reason = "system calls")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::{Errno, Result, read};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};

use super::{SharedRange, guarded};
use crate::{Error, PAGE_BYTES};

/// A frame that has no page any more, and that nobody gets as long as this lives.
#[derive(Debug)]
pub struct HeldFrame {
    /// The end of a pipe that is never emptied.
    pipe: OwnedFd,
}

impl HeldFrame {
    /// Reads the frame's present content. It is no longer writable.
    ///
    /// # Errors
    /// The kernel's, as without open files to spare.
    pub fn read(&self, content: &mut [u8; PAGE_BYTES]) -> Result<()> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
        // Another pipe refers to the frame for a moment: reading from a pipe removes the page from it.
        let shared = tee(&self.pipe, &into, PAGE_BYTES, SpliceFlags::NONBLOCK)?;
        let whole = shared == PAGE_BYTES && read(&out, content)? == PAGE_BYTES;
        if whole { Ok(()) } else { Err(Errno::IO) }
    }
}

impl SharedRange {
    /// Moves a locked page to another frame, of zeros. Not for the pool of huge pages, which are larger.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory. The page may have no frame then, and gets one at
    /// its next use.
    pub fn replace(&self, page: u64) -> std::result::Result<HeldFrame, Error> {
        if self.is_huge() {
            return Err(guarded("put on another frame a huge page of")(Errno::OPNOTSUPP));
        }
        let held = self.hold(page).map_err(guarded("hold the frame of a page of"))?;
        self.replace_lost(page).map(|()| held)
    }

    fn hold(&self, page: u64) -> Result<HeldFrame> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let lent = libc::iovec { iov_base: self.behind(page).as_ptr().cast(), iov_len: PAGE_BYTES };
        // SAFETY: the page lies behind, readable, and the pipe is never emptied.
        let spliced = unsafe { libc::vmsplice(write.as_raw_fd(), &raw const lent, 1, 0) };
        match usize::try_from(spliced) {
            Ok(PAGE_BYTES) => Ok(HeldFrame { pipe: read }),
            Ok(_) => Err(Errno::IO),
            Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}
