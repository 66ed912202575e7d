//! Requests about ranges: register them, and resolve their faults.
//!
//! Every request takes addresses that are multiples of a page. A request that fails midway reports its progress.

#![expect(unsafe_code, reason = "requests change memory of this process")]

use std::ptr::NonNull;
use std::thread;

use rampart_memory::Bytes;
use rustix::io::{Errno, Result};
use rustix::ioctl::Opcode;

use super::{Modes, Userfaultfd, abi};

/// How often a request is repeated that the kernel asks to repeat and that makes no progress; a few milliseconds.
///
/// It asks so while pages move to another frame, and as long as a message about changed addresses is not read, which
/// may wait for the very thread that repeats.
const PATIENCE: u32 = 10_000;

/// A range of addresses of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first byte.
    pub start: NonNull<u8>,
    /// The number of bytes.
    pub bytes: usize,
}

impl Area {
    /// As numbers.
    pub(crate) fn addresses(self) -> std::ops::Range<usize> {
        self.start.addr().get()..self.start.addr().get() + self.bytes
    }

    fn range(self) -> abi::UffdRange {
        abi::UffdRange { start: self.start.addr().get() as u64, bytes: self.bytes as u64 }
    }
}

/// Whether threads that wait at the pages go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// They do.
    Now,
    /// They wait until [`Userfaultfd::wake`].
    Later,
}

impl Wake {
    fn flag(self, dont: u64) -> u64 {
        match self {
            Self::Now => 0,
            Self::Later => dont,
        }
    }
}

/// a move stopped after {moved}: {refusal}
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct MoveError {
    /// The bytes moved before; the refusal is about the next page.
    pub moved: Bytes,
    /// The refusal.
    pub refusal: MoveRefusal,
}

/// Why a page does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum MoveRefusal {
    /// the page is pinned for a device or shared with a child process: leave it where it is
    Busy,
    /// there is a page at the destination already
    Occupied,
    /// there is no page at the source
    Missing,
    /// the page is poisoned, and its content is lost: discard it
    Poisoned,
    /// it is in a block of huge pages, which a part would split: give it from a block of base pages
    Splits,
    /// the address space is changing: read the messages, then move again
    Changing,
    /// the kernel refuses: {0}
    Kernel(Errno),
}

impl From<Errno> for MoveRefusal {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::BUSY => Self::Busy,
            Errno::EXIST => Self::Occupied,
            Errno::NOENT => Self::Missing,
            Errno::FAULT => Self::Poisoned,
            Errno::AGAIN => Self::Changing,
            other => Self::Kernel(other),
        }
    }
}

impl Userfaultfd {
    /// Takes over the faults of a range.
    ///
    /// # Safety
    /// No reference to the range's bytes exists as long as it is registered.
    ///
    /// # Errors
    /// The kernel's: EBUSY if the range has another handler, EINVAL if a mode needs a feature that was not requested or
    /// memory of another kind, EPERM if the range may not be written.
    pub unsafe fn register(&self, area: Area, modes: Modes) -> Result<()> {
        let mut register = abi::Register { range: area.range(), modes: modes.bits(), requests: 0 };
        // SAFETY: the structure is the request's own; the caller vouches for the range.
        unsafe { self.ask(abi::REGISTER, &mut register) }
    }

    /// Ends [`Userfaultfd::register`]; threads that wait in the range go on, and find zeros for absent pages.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unregister(&self, area: Area) -> Result<()> {
        // SAFETY: the structure is the request's own, and pages stay as they are.
        unsafe { self.ask(abi::UNREGISTER, &mut area.range()) }
    }

    /// Wakes threads that wait in a range; a page that is still absent stops them again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wake(&self, area: Area) -> Result<()> {
        // SAFETY: the structure is the request's own, and pages stay as they are.
        unsafe { self.ask(abi::WAKE, &mut area.range()) }
    }

    /// Moves pages with their frames from `from` on to a registered range without pages. Both are private anonymous
    /// memory, and either both or none is mlocked. Moved pages are not write-protected. A huge page moves whole if it
    /// goes from and to multiples of its size and there are no base pages at the destination, nor were; else it is
    /// split, and its parts that hold only zeros become the kernel's shared zero page.
    ///
    /// # Safety
    /// No reference to the bytes at either place exists.
    ///
    /// # Errors
    /// The progress and the refusal.
    pub unsafe fn move_pages(&self, from: NonNull<u8>, to: Area, wake: Wake) -> std::result::Result<(), MoveError> {
        let mode = wake.flag(abi::DONT_WAKE);
        // SAFETY: by this function's own condition.
        let moved = unsafe { self.transfer(abi::MOVE, from, to, mode) };
        moved.map_err(|(moved, errno)| MoveError { moved: Bytes::new(moved), refusal: errno.into() })
    }

    /// Fills absent pages with copies of the bytes from `from` on.
    ///
    /// # Safety
    /// The source may be read, and no reference to the destination's bytes exists.
    ///
    /// # Errors
    /// The kernel's: EEXIST if a page is present; those before it are filled.
    pub unsafe fn copy(&self, from: NonNull<u8>, to: Area, wake: Wake) -> Result<()> {
        let mode = wake.flag(abi::DONT_WAKE);
        // SAFETY: by this function's own condition.
        unsafe { self.transfer(abi::COPY, from, to, mode) }.map_err(|(_, errno)| errno)
    }

    /// [`Userfaultfd::copy`] to pages that are write-protected from the first moment on.
    ///
    /// # Safety
    /// As of [`Userfaultfd::copy`].
    ///
    /// # Errors
    /// As of [`Userfaultfd::copy`].
    pub unsafe fn copy_protected(&self, from: NonNull<u8>, to: Area, wake: Wake) -> Result<()> {
        let mode = wake.flag(abi::DONT_WAKE) | abi::MAP_PROTECTED;
        // SAFETY: by this function's own condition.
        unsafe { self.transfer(abi::COPY, from, to, mode) }.map_err(|(_, errno)| errno)
    }

    /// Maps the kernel's shared zero page where no page is. The first write to it gets a frame without a message.
    ///
    /// # Safety
    /// No reference to the range's bytes exists.
    ///
    /// # Errors
    /// The kernel's: EEXIST if a page is present.
    pub unsafe fn zero_pages(&self, area: Area, wake: Wake) -> Result<()> {
        // SAFETY: by this function's own condition.
        unsafe { self.fill(abi::ZERO_PAGE, area, wake.flag(abi::DONT_WAKE)) }
    }

    /// Maps the file's pages of a range that is registered for minor faults, write-protected if `protected`.
    ///
    /// # Safety
    /// No reference to the range's bytes exists.
    ///
    /// # Errors
    /// The kernel's: EEXIST if a page is mapped, EFAULT if there is none in the file.
    pub unsafe fn map_file_pages(&self, area: Area, protected: bool, wake: Wake) -> Result<()> {
        let protect = if protected { abi::MAP_PROTECTED } else { 0 };
        // SAFETY: by this function's own condition.
        unsafe { self.fill(abi::CONTINUE, area, wake.flag(abi::DONT_WAKE) | protect) }
    }

    /// Makes absent pages fail: an access gets SIGBUS, a system call EFAULT ([`super::Features::POISON`]).
    ///
    /// # Errors
    /// The kernel's: EEXIST if a page is present.
    pub fn poison(&self, area: Area, wake: Wake) -> Result<()> {
        // SAFETY: no page is changed, and an access that could not be served ends in a signal.
        unsafe { self.fill(abi::POISON, area, wake.flag(abi::DONT_WAKE)) }
    }

    /// Write-protects the pages of a range. Without [`super::Features::WRITE_PROTECT_HOLES`], absent pages stay
    /// unchanged.
    ///
    /// # Errors
    /// The kernel's: ENOENT if the range is not registered for it.
    pub fn protect(&self, area: Area) -> Result<()> {
        self.write_protect(area, abi::PROTECT)
    }

    /// Ends [`Userfaultfd::protect`]. A huge page stays whole if all of it is in the range.
    ///
    /// # Errors
    /// As for [`Userfaultfd::protect`].
    pub fn allow_writes(&self, area: Area, wake: Wake) -> Result<()> {
        self.write_protect(area, wake.flag(abi::PROTECT_DONT_WAKE))
    }

    fn write_protect(&self, area: Area, mode: u64) -> Result<()> {
        let mut request = abi::WriteProtect { range: area.range(), mode };
        // SAFETY: the structure is the request's own, and no content changes.
        until_done(|_| (unsafe { self.ask(abi::WRITE_PROTECT, &mut request) }, 0)).map_err(|(_, errno)| errno)
    }

    /// A copy or a move of a whole area; on an error, with the bytes done.
    ///
    /// # Safety
    /// As for the public function that sends this opcode.
    unsafe fn transfer(&self, opcode: Opcode, from: NonNull<u8>, to: Area, mode: u64) -> Outcome {
        let from = from.addr().get() as u64;
        let abi::UffdRange { start, bytes } = to.range();
        until_done(|done| {
            let mut request = abi::Transfer { to: start + done, from: from + done, bytes: bytes - done, mode, done: 0 };
            // SAFETY: the structure is the request's own; the caller vouches for the rest.
            (unsafe { self.ask(opcode, &mut request) }, request.done)
        })
    }

    /// As [`Self::transfer`], for requests without a source.
    ///
    /// # Safety
    /// As for the public function that sends this opcode.
    unsafe fn fill(&self, opcode: Opcode, area: Area, mode: u64) -> Result<()> {
        let abi::UffdRange { start, bytes } = area.range();
        let filled = until_done(|done| {
            let range = abi::UffdRange { start: start + done, bytes: bytes - done };
            let mut request = abi::Fill { range, mode, done: 0 };
            // SAFETY: the structure is the request's own; the caller vouches for the rest.
            (unsafe { self.ask(opcode, &mut request) }, request.done)
        });
        filled.map_err(|(_, errno)| errno)
    }

    /// # Safety
    /// As of [`abi::ask`].
    unsafe fn ask<T>(&self, opcode: Opcode, argument: &mut T) -> Result<()> {
        // SAFETY: by this function's own condition.
        unsafe { abi::ask(self.descriptor(), opcode, argument) }.map(drop)
    }
}

/// Success, or the bytes done before an error.
type Outcome = std::result::Result<(), (u64, Errno)>;

/// Repeats a request, which gets the number of bytes done, until it succeeds, fails or makes no progress for too long.
/// It returns the kernel's result and the additional bytes done; a negative number is an error.
fn until_done(mut request: impl FnMut(u64) -> (Result<()>, i64)) -> Outcome {
    let (mut done, mut idle) = (0, 0);
    loop {
        let (result, more) = request(done);
        match (result, u64::try_from(more)) {
            (Ok(()), _) => return Ok(()),
            (Err(Errno::AGAIN), Ok(more @ 1..)) => {
                done += more;
                idle = 0;
            }
            (Err(Errno::AGAIN), _) if idle < PATIENCE => {
                idle += 1;
                thread::yield_now();
            }
            (Err(errno), _) => return Err((done, errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a request of 10 bytes with these answers of the kernel, and the bytes done before each try.
    fn answered(answers: &[(Result<()>, i64)]) -> (Outcome, Vec<u64>) {
        let (mut tries, mut answers) = (Vec::new(), answers.iter());
        let outcome = until_done(|done| {
            tries.push(done);
            *answers.next().expect("no more is asked than is answered")
        });
        (outcome, tries)
    }

    #[test]
    fn a_request_goes_on_where_it_stopped() {
        let again = Err(Errno::AGAIN);
        assert_eq!(answered(&[(Ok(()), 10)]), (Ok(()), vec![0]));
        assert_eq!(answered(&[(again, 4), (again, -11), (Ok(()), 6)]), (Ok(()), vec![0, 4, 4]));
        assert_eq!(
            answered(&[(again, 4), (again, 2), (Err(Errno::BUSY), -16)]),
            (Err((6, Errno::BUSY)), vec![0, 4, 6])
        );
        assert_eq!(answered(&[(Err(Errno::EXIST), -17)]), (Err((0, Errno::EXIST)), vec![0]));
    }

    #[test]
    fn a_request_that_never_makes_progress_is_given_up() {
        let mut tries = 0;
        let outcome = until_done(|_| {
            tries += 1;
            (Err(Errno::AGAIN), 0)
        });
        assert_eq!((outcome, tries), (Err((0, Errno::AGAIN)), PATIENCE + 1));
    }
}
