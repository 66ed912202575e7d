//! The basic terms of Rampart, for every layer above.
//!
//! **Problem.** A frame number, a page's address, a line's index and a count of bytes are all integers; mixed up, they
//! retire the wrong memory. **Idea.** One newtype per unit, one owner per fact: only [`FaultMap`] says that a frame is
//! bad, only [`fault`] says how memory can fail. **Why here.** This crate has no I/O and no `unsafe`, so all of it runs
//! in a simulation exactly as on a machine.
//!
//! Without the feature `std` only the numbers are there: frames, blocks, bytes, nodes and times, for kernels.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `rand`/`rand_chacha` (a seed means
//! the same on every platform and version), `serde` (reports and the store).

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

mod block;
mod frame;
mod lifetime;
mod size;
mod time;
mod topology;

#[cfg(feature = "std")]
pub mod erring_nodes;
#[cfg(feature = "std")]
mod error_tally;
#[cfg(feature = "std")]
pub mod fault;
#[cfg(feature = "std")]
pub mod fault_map;
#[cfg(feature = "std")]
mod fidelity;
#[cfg(feature = "std")]
mod line;
#[cfg(feature = "std")]
mod memory_error;
#[cfg(feature = "std")]
mod notation;
#[cfg(feature = "std")]
pub mod source;

pub use block::{BlockOrder, FrameBlock};
pub use frame::{Frame, FrameRange};
pub use lifetime::{FrameState, TestLifetime, Tested};
pub use size::{Bytes, FRAME_BYTES, LINE_BYTES, LINES_PER_FRAME, PAGE_BYTES};
pub use time::{Clock, Timestamp};
pub use topology::{Bank, HotplugBlock, Node};
#[cfg(feature = "std")]
pub use {
    erring_nodes::{ReplicaError, ReplicaErrorOrigin, SuspectNode, suspect_nodes},
    error_tally::{ErrorTally, Suspects},
    fault::{Emulator, LineAccess, PlacedFault},
    fault_map::FaultMap,
    fidelity::{Fidelity, ParseFidelityError},
    line::{LINE_WORDS, LineBit, LineBits, LineData, NoSuchBit, RegionLine},
    memory_error::{DimmLocation, ErrorBatch, McEvent, MemoryError, Severity},
    notation::{ParseFrameError, ParseSizeError},
    source::{BlockVerdict, FrameDemand, FrameSource, FreeList, RePlacementCounts, TestBench, TestConfig},
};
