//! Memory that a program has locked in RAM (mlock(2)), beside or below our memory.

#![expect(unsafe_code, reason = "system calls about memory")]

use rustix::io::Result;
use rustix::mm::{self, MlockFlags};

use crate::userfaultfd::Area;

/// Whether memory is mlocked: pages move only between two mlocked places, or between two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mlocked {
    /// None is.
    No,
    /// Ours is; other memory of the process may be.
    Yes,
    /// Ours is not; other memory of the process may be.
    OthersMayBe,
}

impl Mlocked {
    /// Makes the source or destination of moved pages match our memory. A refusal of the kernel here is repeated when
    /// they move.
    ///
    /// # Safety
    /// The area is of memory of this process.
    pub(crate) unsafe fn make_alike(self, area: Area) {
        // SAFETY: guaranteed by the caller.
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

/// Gives frames of mlocked memory back, where MADV_DONTNEED is refused (Linux 5.18).
///
/// # Safety
/// As for MADV_DONTNEED.
pub(crate) unsafe fn discard_mlocked(area: Area) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { mm::madvise(area.start.as_ptr().cast(), area.bytes, mm::Advice::LinuxDontneedLocked) }
}
