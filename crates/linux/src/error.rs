//! What can go wrong between Rampart and the kernel.

use std::io;
use std::path::PathBuf;

use rampart_memory::{Bytes, Frame};

use crate::Absence;
use crate::cpu_number::Cpu;

/// Why the kernel did not do what was asked. What a machine merely lacks is no error but a [`crate::Absence`].
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// cannot read {path}: {cause}; `rampart status` says what is missing here
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot map {path}: {cause}
    MapFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// {path} does not hold {expected}: report this kernel's version and the file's content
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// pages of this kernel have {0}: only pages of 4 KiB can be tested, boot a kernel built with them
    PageSize(Bytes),
    /// cannot claim a block of {bytes}: its size must be a multiple of {granule}, above zero and below 2^47
    BlockSize {
        /// The size asked for.
        bytes: Bytes,
        /// What it must be a multiple of.
        granule: Bytes,
    },
    /// cannot claim {bytes}: {cause}; ask for less, or free memory first
    Claim {
        /// The size asked for; all of it was given back.
        bytes: Bytes,
        /// What the kernel said.
        cause: io::Error,
    },
    /// page {page} is outside of a block of {pages} pages
    PageOutside {
        /// The page asked for.
        page: u64,
        /// Pages in the block.
        pages: u64,
    },
    /// pages of a pinned block cannot be given back: let go of the pin first
    Pinned,
    /// cannot give back pages: {cause}
    GiveBack {
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot read the flags of frame {frame}: {cause}
    Flags {
        /// The frame.
        frame: Frame,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot run on {cpu}: {cause}; choose one that `rampart status` lists
    Bind {
        /// The CPU asked for.
        cpu: Cpu,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot change how this thread is scheduled: {cause}
    Schedule {
        /// What the kernel said.
        cause: io::Error,
    },
    /// {0}
    Absent(Absence),
    /// the firmware made no error: {path} did not take what was written ({cause}); the kernel's log may say why
    Make {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot wait for page faults or read them: {cause}; free memory, or raise the limit of open files
    Messages {
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot {action} guarded memory: {cause}; if it is out of memory, raise vm.max_map_count
    Guarded {
        /// What was to be done with it.
        action: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot follow process {number}: {cause}; it may have ended, or the limit of open files be too low
    Process {
        /// The process asked for.
        number: u32,
        /// What the kernel said.
        cause: io::Error,
    },
    /// cannot limit the memory of this process: {0}
    Limit(#[source] io::Error),
}
