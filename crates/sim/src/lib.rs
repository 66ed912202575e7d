//! A simulated machine: memory that can fail, the allocator that hands it out, programs that want it, testers that test
//! it.
//!
//! **Problem.** A policy of the diagnostic must be right for a year of every load, and its cost must be told against
//! the machines of [Rahman16, tab. 2 and 5.3.1], which nobody has. **Idea.** Simulate what a policy sees and changes,
//! page by page: the buddy lists, each frame's last test, each allocation; and put a price on what costs time by a
//! model that is stated ([`cost`]). **Why this way.** Time passes in steps of a fixed length and everything random
//! comes from one seed, so a run is repeated exactly, and a simulated hour takes seconds. No decision is here: the
//! machine is a [`FrameSource`](rampart_memory::FrameSource), and whoever drives it decides.
//!
//! | module | owns |
//! |---|---|
//! | [`machine`] | frames, allocation with the hook that tests on demand, programs, testers, the clock |
//! | [`workload`] | Rahman's programs as models of demand, each number with its source |
//! | [`cost`] | what an operation costs, and how testers and programs slow each other |
//! | [`wheel`] | which frames expire next |
//!
//! Libraries: `rand` and `rand_chacha` (a seed means the same on every platform and version).

#![forbid(unsafe_code)]

pub mod cost;
pub mod machine;
pub mod wheel;
pub mod workload;

pub use cost::{Access, Costs};
pub use machine::{Description, Fault, Machine, Second, Statistics, Taken, Testing};
pub use workload::Program;
