//! Memory that a program has locked in RAM (mlock(2)), where ours is beside or below it.

#![expect(unsafe_code, reason = "system calls about memory")]

use rustix::io::Result;
use rustix::mm::{self, MlockFlags};

use crate::userfaultfd::Area;

/// Whether memory is mlocked: pages move only between memory that is and memory that is, or between memory that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mlocked {
    /// None is.
    No,
    /// Ours is; other memory of the process may be or not.
    Yes,
    /// Ours is not; other memory of the process may be.
    OthersMayBe,
}

impl Mlocked {
    /// Makes memory that pages move to or from like ours. What the kernel refuses here it refuses again when they move.
    ///
    /// # Safety
    /// The area is of memory of this process.
    pub(crate) unsafe fn make_alike(self, area: Area) {
        // SAFETY: the caller's promise.
        let _ = unsafe {
            match self {
                Self::No => Ok(()),
                Self::Yes => mlock(area),
                Self::OthersMayBe => munlock(area),
            }
        };
    }
}

/// Mlocks memory: pages stay in RAM from their first touch on.
///
/// # Safety
/// The area is of memory of this process.
pub(crate) unsafe fn mlock(area: Area) -> Result<()> {
    // SAFETY: it changes neither content nor addresses.
    unsafe { mm::mlock_with(area.start.as_ptr().cast(), area.bytes, MlockFlags::ONFAULT) }
}

/// Ends [`mlock`].
///
/// # Safety
/// As of [`mlock`].
pub(crate) unsafe fn munlock(area: Area) -> Result<()> {
    // SAFETY: it changes neither content nor addresses.
    unsafe { mm::munlock(area.start.as_ptr().cast(), area.bytes) }
}

/// Gives frames back of memory that is mlocked, where MADV_DONTNEED is refused (Linux 5.18).
///
/// # Safety
/// As for MADV_DONTNEED.
pub(crate) unsafe fn discard_mlocked(area: Area) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { mm::madvise(area.start.as_ptr().cast(), area.bytes, mm::Advice::LinuxDontneedLocked) }
}
