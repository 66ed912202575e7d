//! A garbage-collected heap on memory with failed lines.

mod collection;
mod collector;
mod error;
mod geometry;
mod heap;
mod native;
mod object;
mod pools;
mod region;
mod space;
mod verify;
pub mod wasmtime;
pub mod wear;

pub use collection::{Collection, Roots};
pub use collector::Survivors;
pub use error::Error;
pub use geometry::{ALIGN, BLOCK_BYTES, BlockIndex, LineSize, ObjectRef};
pub use heap::{Heap, HeapCounts, HeapSettings};
pub use native::{NativeModel, Shape};
pub use object::ObjectModel;
pub use pools::PerfectDemand;
pub use region::{CARD_BYTES, CARDS, Region};
pub use space::LineFailure;
pub use space::allocator::{BumpRange, LocalAllocator};
pub use space::blocks::BlockState;
pub use space::lines::LineState;
pub use verify::{LiveObjects, Violation};
