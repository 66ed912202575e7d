//! Why a test could not begin.

use rampart_linux::Absence;
use rampart_march::execute::bypass::NoneBypasses;
use rampart_memory::Bytes;
use rampart_memory::fault::TooManyFaults;

/// Why a test could not begin.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// --memory {requested} is more than the {claimable} that can be tested now: ask for less, or stop programs first
    TooMuchMemory {
        /// The requested value.
        requested: Bytes,
        /// The memory that could be claimed.
        claimable: Bytes,
    },
    /// no free memory can be tested beside the reserve that programs need: stop programs first
    NothingFree,
    /// --threads {requested} is more than the {allowed} CPUs that this process may use: ask for fewer
    TooManyThreads {
        /// The requested value.
        requested: usize,
        /// The number of permitted CPUs.
        allowed: usize,
    },
    /// memory cannot be tested here, since reads come from a cache ({0}; 5 % are allowed): try when the machine is
    /// idle, or test with memtest86+ before it boots
    NoneBypasses(NoneBypasses),
    /// --method {method} reads a cache here ({seen}; 5 % are allowed): leave --method out
    MethodReadsCache {
        /// The value of the option.
        method: &'static str,
        /// The measurement.
        seen: NoneBypasses,
    },
    /// the kernel module cannot be used: {0}
    NoModule(Absence),
    /// this kernel does not say where its memory is (/sys/devices/system/memory): leave --source kernel out
    NoMemoryBlocks,
    /// none of the chosen frames is memory that is online: `rampart banks` shows where memory is
    NoSuchFrames,
    /// there is no DIMM {name:?} here: name one of {known}
    UnknownDimm {
        /// The name that was given.
        name: String,
        /// All names.
        known: String,
    },
    /// {name:?} is the name of several DIMMs: name one of {known}
    AmbiguousDimm {
        /// The name that was given.
        name: String,
        /// The names that each of them has alone.
        known: String,
    },
    /// the frames of DIMM {name:?} are unknown: {why}; list them in a file and name it by --dimm-map
    UnplacedDimm {
        /// The name that was given.
        name: String,
        /// What is missing.
        why: String,
    },
    /// --inject: {0}
    Inject(#[from] TooManyFaults),
    /// {0}
    Linux(#[from] rampart_linux::Error),
}
