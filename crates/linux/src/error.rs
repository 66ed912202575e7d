//! Errors between Rampart and the kernel.

use std::io;
use std::path::PathBuf;

use rampart_memory::{Bytes, Frame};

use crate::Absence;
use crate::cpu_number::CpuNumber;

/// Why the kernel refused a request. A feature that a machine merely lacks is no error but a [`crate::Absence`].
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// cannot read {path}: {cause}; `rampart status` says what is missing here
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot map {path}: {cause}
    MapFile {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// {path} does not hold {expected}: report this kernel's version and the file's content
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// the firmware's table {name} is left out: {what}
    FirmwareTable {
        /// The table's signature.
        name: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// pages of this kernel have {0}: only pages of 4 KiB can be tested, boot a kernel built with them
    PageSize(Bytes),
    /// cannot claim a block of {bytes}: its size must be a multiple of {granule}, above zero and below 2^47
    BlockSize {
        /// The requested size.
        bytes: Bytes,
        /// The granularity.
        granule: Bytes,
    },
    /// cannot claim {bytes}: {cause}; ask for less, or free memory first
    Claim {
        /// The requested size; all of it was given back.
        bytes: Bytes,
        /// The kernel's error.
        cause: io::Error,
    },
    /// page {page} is outside of a block of {pages} pages
    PageOutside {
        /// The requested page.
        page: u64,
        /// Pages in the block.
        pages: u64,
    },
    /// pages of a pinned block cannot be given back: let go of the pin first
    Pinned,
    /// cannot give back pages: {cause}
    GiveBack {
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot read the flags of frame {frame}: {cause}
    Flags {
        /// The frame.
        frame: Frame,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot run on {cpu}: {cause}; choose one that `rampart status` lists
    Bind {
        /// The requested CPU.
        cpu: CpuNumber,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot change how this thread is scheduled: {cause}
    Schedule {
        /// The kernel's error.
        cause: io::Error,
    },
    /// {0}
    Absent(Absence),
    /// the firmware made no error: {path} did not take what was written ({cause}); the kernel's log may say why
    Make {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot wait for page faults or read them: {cause}; free memory, or raise the limit of open files
    Messages {
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot {action} guarded memory: {cause}; if it is out of memory, raise vm.max_map_count
    Guarded {
        /// The action.
        action: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot {action} the pages of a heap: {cause}; ask for a smaller one, or free memory
    HeapPages {
        /// The action.
        action: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot follow process {number}: {cause}; it may have ended, or the limit of open files be too low
    Process {
        /// The requested process.
        number: u32,
        /// The kernel's error.
        cause: io::Error,
    },
    /// cannot limit the memory of this process: {0}
    Limit(#[source] io::Error),
}
