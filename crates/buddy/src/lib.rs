//! Physical page allocators.
//!
//! **Problem.** A diagnostic that tests memory ahead of its use works on the free lists of a kernel: it takes blocks
//! whose tests are old, puts them back tested, and must see the effect of allocation on them. **Idea.** [`Buddy`]
//! implements the allocator of Linux as a library: zones, orders, migratetypes, per-CPU lists and watermarks. Each free
//! block has a [`Mark`], such as the time of its last test, that merging never makes newer. **Why this way.** It makes
//! no system call and reads no clock, so a simulated machine that uses it is determined by one seed. Programs use
//! an allocator through [`PageAllocator`], a tester through [`FreeLists`].
//!
//! Other allocators for the same machines keep pages of the kernel together in few banks, so that the other banks can
//! be emptied and go offline: [`ArrayBanks`], [`ListBanks`] and [`AdaptiveBuddy`] of [Panwar15, 4], which are kinds of
//! [`BankAllocator`], and [`FullestBank`], which is Rampart's own.
//!
//! An allocator takes all its memory while it is made, and no more later. A kernel asks one how much it `needs`, and
//! makes it `within` such memory; programs use `new`, which takes the heap. Without the feature `alloc`, `new` is
//! absent, and nothing of this crate can allocate.
//!
//! ```
//! # use core::mem::MaybeUninit;
//! # use rampart_buddy::{AdaptiveBuddy, BankSets, BankSize, Error, StealRule, Zone, ZoneKind};
//! # use rampart_memory::{Frame, FrameRange, Node};
//! # let frames = FrameRange::new(Frame::new(0).unwrap(), 16_384).unwrap();
//! # let zones = [Zone { node: Node(0), kind: ZoneKind::Normal, frames }];
//! # let bank = BankSize::of_frames(1024).unwrap();
//! let needed = AdaptiveBuddy::needs(&zones, bank)?.get();
//! let mut memory = [MaybeUninit::uninit(); 1 << 18];
//! assert!(needed <= 1 << 18);
//! let allocator = AdaptiveBuddy::within(&mut memory, &zones, bank, &BankSets::plain(), StealRule::MostFree)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! [`FullestBank`] takes its memory as slices of its own types ([`FullestMemory`]), as they are shared between threads.
//!
//! It keeps the parts of Linux that shape the lists ([Rahman16, 2.3.2 and 4.1]; [Panwar15, 2.1] and 2.2). It leaves out
//! parts that no caller needs: reclaim and compaction, the reserve that keeps requests for a high zone out of the low
//! ones, and distances between nodes.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `spin` (a lock without an operating
//! system), `bump-into` (cuts typed arrays from lent bytes, which takes `unsafe`). Only tests use `allocation-counter`
//! (a global allocator that counts), `loom` (every
//! schedule of two or three threads, in the orders of weak machines; where whole banks take part, up to some
//! preemptions) and `shuttle` (random schedules of more).

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod adaptive;
mod allocator;
mod array_banks;
mod bank;
mod bank_sets;
mod banked;
mod buddy;
mod error;
mod footprint;
mod fullest;
mod layout;
mod list_banks;
mod locked;
mod mark;
mod migratetype;
mod request;
#[cfg(test)]
mod step_tests;
mod steps;
mod storage;
#[cfg(test)]
mod testing;
mod watermarks;
mod zone;
mod zone_map;

pub use adaptive::{AdaptiveBuddy, StealRule};
pub use allocator::{AllocatorStatistics, FramePlace, FreeLists, PageAllocator};
pub use array_banks::ArrayBanks;
pub use bank::{BankPart, BankPool, BankPools, BankSize};
pub use bank_sets::BankSets;
pub use banked::{BankAllocator, BankSearches};
pub use buddy::Buddy;
pub use error::Error;
pub use footprint::Footprint;
#[cfg(feature = "alloc")]
pub use fullest::FullestSlices;
pub use fullest::{ChunkWords, CpuState, FullestBank, FullestMemory, FullestNeeds, FullestZone, GroupState, PartState};
pub use layout::{Cpu, End, ListName, Zone, ZoneIndex, ZoneKind};
pub use list_banks::{BankCache, ListBanks};
pub use locked::Locked;
pub use mark::Mark;
pub use migratetype::Migratetype;
pub use request::{Allocated, AllocationOrigin, Request};
#[cfg(feature = "alloc")]
pub use storage::HeapStorage;
pub use storage::{LentStorage, Storage};
pub use watermarks::Watermarks;
pub use zone::{LOCAL_BATCH, LOCAL_HIGH, PAGEBLOCK};
