//! Physical page allocators: who gets which frame.
//!
//! **Problem.** A diagnostic that tests memory ahead of its use works on the free lists of a kernel: it takes blocks
//! that were not tested lately, puts them back tested, and must see what allocation does to them. **Idea.** [`Buddy`]
//! is the allocator of Linux without Linux: zones, orders, migratetypes, per-CPU lists and watermarks, and on each free
//! block a [`Mark`], say the time of its last test, that merging never makes newer. **Why this way.** It makes no
//! system call and reads no clock, so a simulated machine runs on it from one seed; and all that others ask of it is
//! the trait [`PageAllocator`], behind which a different allocator may stand.
//!
//! What is kept of Linux is what shapes the lists ([Rahman16, 2.3.2 and 4.1]; [Panwar15, 2.1] and 2.2). What is left
//! out, since nothing above asks for it: reclaim and compaction, the reserve that keeps requests for a high zone out of
//! the low ones, and distances between nodes.
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

pub use allocator::{PageAllocator, Place, Statistics};
pub use buddy::Buddy;
pub use error::Error;
pub use layout::{Cpu, End, ListName, Zone, ZoneIndex, ZoneKind};
pub use mark::Mark;
pub use migratetype::Migratetype;
pub use request::{Allocated, Origin, Request};
pub use watermarks::Watermarks;
pub use zone::{LOCAL_BATCH, LOCAL_HIGH, PAGEBLOCK};
