//! Banks of memory: what each memory block holds, and whether it can be emptied.
//!
//! **Problem.** Memory saves power, or goes back to a host, only by whole banks; but allocation spreads a program's
//! pages, and the kernel's, over all of them [Panwar15, 1]. **Idea.** First see: a [`MemorySurvey`] counts the frames
//! of each memory block by their use, and says of each block whether it can be emptied, or what prevents that. Then
//! act: a [`Consolidation`] decides which block is emptied next, and an [`OfflineRecord`] keeps the way back. **Why
//! this way.** All three are pure functions of what [`rampart_linux`] read, so a test can make any machine.
//!
//! Libraries: `displaydoc` (a verdict's doc comment is its text), `serde` (reports).

#![forbid(unsafe_code)]

mod attempts;
mod consolidation;
mod costs;
mod layout;
mod pools;
mod record;
mod survey;

pub use consolidation::{Consolidation, ConsolidationEnd, ConsolidationGoal, NextStep};
pub use layout::{BankLayout, BankSource};
pub use pools::{Pool, PoolDemand, PoolMove, PoolSettings, Pools, PoolsSeen};
pub use record::{OfflineBlock, OfflineRecord};
pub use survey::{BlockObstacle, BlockSurvey, MemorySurvey, MemoryTotals};
