//! Memory registered as fixed buffers of an `io_uring` that is never used for anything else.

#![expect(unsafe_code, reason = "the kernel is given addresses")]

use std::ops::Range;

use io_uring::IoUring;
use rustix::io::Errno;

use super::mapping::Mapping;
use super::pinning::PinRefusal;

/// The largest buffer that the kernel registers: 1 GiB (`io_uring_register(2)`, IORING_REGISTER_BUFFERS).
const BUFFER_BYTES: usize = 1 << 30;

/// A ring that holds one mapping registered. Costs one file descriptor, a few pages of the kernel, and 16 bytes of the
/// kernel's for each page pinned (fewer for huge pages).
pub(crate) struct Registration(Box<IoUring>);

impl Registration {
    /// Registers all of a mapping, which must outlive the registration.
    pub(super) fn take(mapping: &Mapping) -> Result<Self, PinRefusal> {
        Self::of_part(mapping, 0..mapping.bytes())
    }

    /// Registers a part of a mapping, which must outlive the registration.
    pub(crate) fn of_part(mapping: &Mapping, part: Range<usize>) -> Result<Self, PinRefusal> {
        let ring = IoUring::new(1).map_err(|cause| PinRefusal::Ring(errno(&cause)))?;
        let buffers: Vec<_> = part
            .clone()
            .step_by(BUFFER_BYTES)
            .map(|start| libc::iovec {
                iov_base: mapping.at(start).as_ptr().cast(),
                iov_len: BUFFER_BYTES.min(part.end - start),
            })
            .collect();
        // SAFETY: the buffers are exactly the mapping's own bytes. The kernel holds their frames by itself, and no
        // request is ever queued, so nothing is read or written through the ring, even after the mapping is gone.
        unsafe { ring.submitter().register_buffers(&buffers) }.map_err(|cause| PinRefusal::Register(errno(&cause)))?;
        Ok(Self(Box::new(ring)))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Closing the ring unpins too, but only later, in a worker of the kernel; memory that is given back under
        // pressure is needed now.
        let _ = self.0.submitter().unregister_buffers();
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registration")
    }
}

fn errno(cause: &std::io::Error) -> Errno {
    Errno::from_io_error(cause).unwrap_or(Errno::IO)
}
