//! Physical page allocators: they decide who gets which frame.
//!
//! **Problem.** A diagnostic that tests memory before its use works on the free lists of a kernel: it takes blocks that
//! were not tested lately, puts them back tested, and must see the effect of allocation on them. **Idea.** [`Buddy`] is
//! Linux' allocator without Linux: zones, orders, migratetypes, per-CPU lists and watermarks. Each free block has a
//! [`Mark`], such as the time of its last test, which merging never makes newer. **Why this way.** It makes no system
//! call and reads no clock, so a simulated machine runs on it from one seed. Its users need only the trait
//! [`PageAllocator`], which another allocator may implement.
//!
//! It keeps the parts of Linux that shape the lists ([Rahman16, 2.3.2 and 4.1]; [Panwar15, 2.1] and 2.2). It leaves
//! out, because nothing above needs them: reclaim and compaction, the reserve that keeps requests for a high zone out
//! of the low ones, and distances between nodes.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message).

#![forbid(unsafe_code)]

mod allocator;
mod buddy;
mod error;
mod layout;
mod mark;
mod migratetype;
mod request;
#[cfg(test)]
mod testing;
mod watermarks;
mod zone;

pub use allocator::{AllocatorStatistics, FramePlace, PageAllocator};
pub use buddy::Buddy;
pub use error::Error;
pub use layout::{Cpu, End, ListName, Zone, ZoneIndex, ZoneKind};
pub use mark::Mark;
pub use migratetype::Migratetype;
pub use request::{Allocated, AllocationOrigin, Request};
pub use watermarks::Watermarks;
pub use zone::{LOCAL_BATCH, LOCAL_HIGH, PAGEBLOCK};
