//! What can go wrong with a heap.

use std::io;

/// An error of the heap.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// a heap of {given} bytes is too large: give at most {most}
    TooLarge {
        /// What was asked for.
        given: u64,
        /// The most.
        most: u64,
    },
    /// a heap of {given} bytes is too small: give at least {least}
    TooSmall {
        /// What was asked for.
        given: u64,
        /// The least.
        least: u64,
    },
    /// 4 GiB of address space are not to be had ({0}): raise the limit (`ulimit -v`)
    NoAddressSpace(io::Error),
    /// the memory of the heap is not to be had ({0})
    NoMemory(io::Error),
    /// give a share from 0% to {most}%, or 100%
    NoShare {
        /// The largest, in per cent.
        most: f64,
    },
    /// give a number above 0
    NoRate,
}
