//! Errors while a program gets its heap.

use rampart_memory::Bytes;
use rustix::io::Errno;

/// Why the heap cannot be in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// cannot reserve {bytes} of addresses: {cause}; raise the limit (`ulimit -v`) or set RAMPART_GUARD_RANGE lower
    Reserve {
        /// The least number of bytes that was requested.
        bytes: Bytes,
        /// The kernel's error.
        cause: Errno,
    },
    /// RAMPART_GUARD_RANGE is not a size of at least 64 MiB: write a number and a unit, such as 64GiB
    RangeSize,
    /// {0} threads keep out of the heap already: the guard may have no more
    TooManyPrivate(usize),
}
