//! The basic terms of Rampart, for every layer above.
//!
//! **Problem.** A frame number, a page's address, a line's index and a count of bytes are all integers; mixed up, they
//! retire the wrong memory. **Idea.** One newtype per unit, one owner per fact: only [`FaultMap`] says that a frame is
//! bad, only [`fault`] says how memory can fail. **Why here.** This crate has no I/O and no `unsafe`, so all of it runs
//! in a simulation exactly as on a machine.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `rand`/`rand_chacha` (a seed means
//! the same on every platform and version), `serde` (reports and the store).

#![forbid(unsafe_code)]

mod block;
mod error_tally;
pub mod fault;
pub mod fault_map;
mod fidelity;
mod frame;
mod lifetime;
mod line;
mod memory_error;
mod size;
pub mod source;
mod time;
mod topology;

pub use block::{BlockOrder, FrameBlock};
pub use error_tally::{ErrorTally, Suspects};
pub use fault::{Emulator, LineAccess, PlacedFault};
pub use fault_map::FaultMap;
pub use fidelity::{Fidelity, ParseFidelityError};
pub use frame::{Frame, FrameRange, ParseFrameError};
pub use lifetime::{FrameState, TestLifetime, Tested};
pub use line::{LINE_WORDS, LineBit, LineBits, LineData, NoSuchBit, RegionLine};
pub use memory_error::{DimmLocation, ErrorBatch, McEvent, MemoryError, Severity};
pub use size::{Bytes, FRAME_BYTES, LINE_BYTES, LINES_PER_FRAME, PAGE_BYTES, ParseSizeError};
pub use source::{BlockVerdict, FrameDemand, FrameSource, FreeList, RePlacementCounts, TestBench, TestConfig};
pub use time::{Clock, Timestamp};
pub use topology::{Bank, HotplugBlock, Node};
