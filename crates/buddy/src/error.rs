//! The errors of making an allocator.

use rampart_memory::Frame;

/// Why no allocator can be made for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// a machine needs memory: give at least one zone
    NoZone,
    /// a machine needs a CPU: give at least one
    NoCpu,
    /// a machine of {0} CPUs is larger than per-CPU lists are kept for: give at most 65536
    TooManyCpus(u32),
    /// two zones have frame {0} in common: give each frame to one zone
    Overlap(Frame),
    /// the memory for the allocator's own structures is too small: ask the allocator how much it needs
    TooLittleMemory,
    /// a zone of {0} frames is too large: give at most 2147483648, or cut it in two
    TooLarge(u64),
    /// a set of banks of {0} frames is too large: give at most 4294967295
    SetTooLarge(u64),
    /// bank {0} is in two sets of banks: name each bank once
    BankInTwoSets(u64),
}
