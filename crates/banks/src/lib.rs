//! Banks of memory: what each memory block holds, and whether it can be emptied.
//!
//! **Problem.** Memory saves power, or goes back to a host, only by whole banks; but allocation spreads a program's
//! pages, and the kernel's, over all of them [Panwar15, 1]. **Idea.** First see: a [`MemorySurvey`] counts the frames
//! of each memory block by their use, and says of each block whether it can be emptied, or what prevents that. Then
//! act: a [`Consolidation`] decides which block is emptied next, and an [`OfflineRecord`] keeps the way back. **Why
//! this way.** All three are pure functions of what [`rampart_linux`] read, so a test can make any machine.
//!
//! And compare: [`replay()`] lets an allocator serve recorded page allocations ([`PageEvent`]), [`run_synthetic`] a
//! made-up load of hours; both count the banks of a machine that `simulated_banks` simulates, and a [`PowerModel`] says
//! what energy that saves. A [`PageRecording`] makes a trace of what the kernel reports.
//!
//! Libraries: `displaydoc` and `thiserror` (the doc comment of a verdict or an error is its text), `rand` and
//! `rand_chacha` (a seed gives the same numbers on every platform and version), `serde` (reports).

#![forbid(unsafe_code)]

mod attempts;
mod consolidation;
mod costs;
mod error;
mod layout;
mod live_blocks;
mod page_trace;
mod pools;
mod power;
mod record;
mod recording;
mod replay;
mod simulated_banks;
mod survey;
mod synthetic;

pub use consolidation::{Consolidation, ConsolidationEnd, ConsolidationGoal, MovedOut, NextStep};
pub use error::Error;
pub use layout::{BankInterleave, BankLayout, BankSource, FirmwareTable, NamedBank};
pub use page_trace::{EVENT_BYTES, PageChange, PageEvent, read_page_trace, warm_start};
pub use pools::{EmptiedBlock, FrameSearch, Pool, PoolDemand, PoolMove, PoolSettings, PoolSizes, Pools, PoolsSeen};
pub use power::{BankPowerState, BankTimes, EnergyReport, Joules, MovedPages, PowerModel};
pub use record::{OfflineBlock, OfflineRecord};
pub use recording::{MigratetypeCounts, PageRecording, RecordedCounts};
pub use replay::{ReplayLength, ReplaySettings, fitting_memory, replay};
pub use simulated_banks::{
    AllocatorName, AllocatorSteps, BankAverages, BankFootprint, BankMaxima, BankSample, HOLE_END, LargeRequests,
    MachineSettings, MigrationCounts, ReplayReport, UseAverages,
};
pub use survey::{BlockObstacle, BlockSurvey, MemorySurvey, MemoryTotals, VirtioMemTotals};
pub use synthetic::{SyntheticLoad, SyntheticSettings, run_synthetic};
