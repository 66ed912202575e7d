//! Moves a locked page of the file to another frame.
//!
//! **Problem.** A page moves to another frame when it leaves the file, but then its old frame is the next one that the
//! kernel hands out, probably to the same page. **Idea.** Something else refers to the frame first: a pipe, to which
//! vmsplice(2) lends pages without a copy. **Why this way.** It needs no privilege, no mapping and no table of ours;
//! and the kernel releases the frame when the process ends.

#![expect(unsafe_code, reason = "system calls")]

use std::os::fd::{AsRawFd, OwnedFd};

use rampart_memory::Frame;
use rustix::io::{Errno, Result, read};
use rustix::mm::Advice;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};

use super::{SharedRange, guarded};
use crate::{Error, PAGE_BYTES, Pagemap};

/// A frame that has no page any more, and that nobody gets as long as this lives.
#[derive(Debug)]
pub struct HeldFrame {
    /// The end of a pipe that is never emptied.
    pipe: OwnedFd,
    frame: Option<Frame>,
}

impl HeldFrame {
    /// Returns the frame; `None` if the kernel does not show it.
    #[must_use]
    pub const fn frame(&self) -> Option<Frame> {
        self.frame
    }

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
    /// Moves a locked page to another frame, of zeros. Not for the pool of huge pages, which are larger. `pagemap`
    /// names the frame that it has left.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory. The page may have no frame then, and gets one at
    /// its next use.
    pub fn replace(&self, page: u64, pagemap: Option<&Pagemap>) -> std::result::Result<HeldFrame, Error> {
        if self.is_huge() {
            return Err(guarded("put on another frame a huge page of")(Errno::OPNOTSUPP));
        }
        let held = self.hold(page, pagemap).map_err(guarded("hold the frame of a page of"))?;
        self.replace_lost(page).map(|()| held)
    }

    /// Asks the kernel to move a locked page to another frame and to retire the old one. See
    /// [`SharedRange::retire`].
    pub(crate) fn soft_offline(&self, page: u64) -> Result<()> {
        let start = usize::try_from(page).expect("a page in memory") * PAGE_BYTES;
        self.behind.advise(start..start + PAGE_BYTES, Advice::LinuxSoftOffline)
    }

    fn hold(&self, page: u64, pagemap: Option<&Pagemap>) -> Result<HeldFrame> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let lent = libc::iovec { iov_base: self.behind(page).as_ptr().cast(), iov_len: PAGE_BYTES };
        // SAFETY: the page lies behind, readable, and the pipe is never emptied.
        let spliced = unsafe { libc::vmsplice(write.as_raw_fd(), &raw const lent, 1, 0) };
        match usize::try_from(spliced) {
            Ok(PAGE_BYTES) => {
                // The kernel moves no page that a pipe refers to, so the page keeps its frame.
                let mut found = Vec::new();
                let frame = pagemap.and_then(|pagemap| pagemap.frames_of(self.behind(page), 1, &mut found).ok());
                Ok(HeldFrame { pipe: read, frame: frame.and_then(|()| *found.first()?) })
            }
            Ok(_) => Err(Errno::IO),
            Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}
