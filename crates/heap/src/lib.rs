//! A garbage-collected heap on memory with failed lines: failure-aware Sticky Immix [Gao13, 4.2].
//!
//! **Problem.** A page is lost when the first of its 64 lines fails: with 2 % of the lines failed at random, a quarter
//! of the pages is left; with 10 %, one in a thousand. **Idea.** A managed runtime moves objects, and Immix accounts
//! for memory line by line: free or live. A third state, *failed*, is all that it takes to never allocate there, and
//! what moves objects from sparse blocks also moves them from lines that fail. **Why this way.** Compiled code
//! allocates by bumping an offset to a limit, as it would without failures; only who sets the two knows of failed
//! lines. So memory that has not failed costs nothing.
//!
//! | module | owns |
//! |---|---|
//! | [`wear`] | which lines fail, how hardware gathers them, how it reports them |
//! | [`HeapMemory`] | the operating system's side: simulated, or the frames of this machine |
//! | `pools` | the pages: perfect, imperfect, borrowed; what a borrowed one costs |
//! | `space` | blocks of lines, holes, large objects |
//! | `collector` | marking, moving, sweeping |
//! | `pace` | when a full collection is due |
//! | [`ManagedHeap`] | what a runtime calls |
//! | [`SharedHeap`] | the same for many threads, with parallel markers |
//! | `snapshot` | what each line is used for: [`ManagedHeap::snapshot`] |
//! | [`Canaries`] | whether something is written to failed lines |
//! | `verify` | whether a heap is sound: [`ManagedHeap::verify`] |
//! | [`CollectionStress`] | collections where there is still room, to find errors of a runtime |
//! | `native` | objects for runtimes without a model of their own |
//! | [`LeafArray`] | large arrays that need no perfect page |
//! | [`wasmtime`] | what a host hands to a heap that wasmtime makes |
//!
//! ```
//! use rampart_heap::{Collection, ManagedHeap, HeapSettings, LocalAllocator, NativeModel, Shape};
//! use rampart_heap::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};
//!
//! let quarter = FailureShare::new(0.25).unwrap();
//! let pages = draw_failures(256, quarter, ClusterBytes::LINE, 1);
//! let failed = cluster_failures(&pages, RegionPages::Two);
//! let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed)?;
//! let mut local = LocalAllocator::default();
//! let shape = Shape::new(2, 40).unwrap();
//! let at = heap.allocate(&mut local, shape.size()).expect("there is room");
//! let mut roots = [NativeModel::initialize(heap.region(), at, shape).offset()];
//! heap.collect(Collection::Nursery, &mut [&mut local], &mut roots, &mut |_| {});
//! assert_eq!(heap.verify(roots).unwrap().objects, 1);
//! # Ok::<(), rampart_heap::Error>(())
//! ```
//!
//! The example `lisp` is a runtime: it has its own model of objects, roots, a write barrier, and collects when there is
//! no room.
//!
//! With `--cfg rampart_no_failures`, the state *failed* is compiled out, to measure what it costs (`cargo xtask bench
//! heap`): the tables of failed lines, perfect pages for objects that fit no hole, pages that are borrowed, and the
//! search for lost objects. What stays: pages are put together to blocks and large objects one by one, and holes are
//! counted in lines of 64 B.
//!
//! `unsafe` is in `region`, which reads and writes the words of objects, and in `memory`, which maps pages below it.
//!
//! Libraries: `rand` and `rand_chacha` (draws that are the same on every machine), `displaydoc` and `thiserror` (an
//! error's doc comment is its message).

#![deny(unsafe_code)]

mod canaries;
mod collection;
mod collector;
mod error;
mod geometry;
mod heap;
mod leaf_array;
mod memory;
mod native;
mod object;
mod pace;
mod pools;
mod region;
mod shared;
mod snapshot;
mod space;
mod stress;
mod sync;
mod verify;
pub mod wasmtime;
pub mod wear;

pub use canaries::{Canaries, FailedLineWritten};
pub use collection::{Collection, RootSet};
pub use collector::Survivors;
pub use error::Error;
pub use geometry::{BLOCK_BYTES, FailureGrain, HeapBlock, LineSize, ObjectRef};
pub use heap::{HeapCounts, HeapSettings, MOST, ManagedHeap};
pub use leaf_array::{LeafArray, LeafSize};
pub use memory::{
    FrameMemory, HeapFrameCounts, HeapMemory, HeapPageChange, LinesOfFrame, NotMapped, PageFrame, RefusalCounts,
    SimulatedMemory,
};
pub use native::{NativeModel, Shape};
pub use object::ObjectModel;
pub use pools::{HeapPage, PageToken, PerfectDemand};
pub use rampart_memory::Frame;
pub use region::{CARD_BYTES, CARDS, HeapRegion, LOST};
pub use shared::{CollectionObserver, Mutator, SharedHeap};
pub use snapshot::{BlockSnapshot, LineState};
pub use space::LineFailure;
pub use space::allocator::LocalAllocator;
pub use space::blocks::HeapBlockState;
pub use space::lost::LostObject;
pub use space::ranges::BumpRange;
pub use stress::CollectionStress;
pub use verify::{LiveObjects, Violation};
