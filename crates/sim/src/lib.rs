//! A simulated machine: memory that can fail, its allocator, the programs that use it and the testers that test it.
//!
//! **Problem.** A policy of the diagnostic must be correct for a year of every load, and its cost must be compared with
//! that on the machines of [Rahman16, tab. 2 and 5.3.1], which are not available. **Idea.** Simulate all that a policy
//! reads and changes, page by page: the buddy lists, each frame's last test, each allocation. A documented model gives
//! each operation a cost in time ([`cost`]). **Why this way.** Time passes in steps of a fixed length and one seed
//! determines all random numbers, so a run repeats exactly, and a simulated hour takes seconds. The machine makes no
//! decision: it is a [`FrameSource`](rampart_memory::FrameSource), and its caller decides.
//!
//! | module | owns |
//! |---|---|
//! | [`machine`] | frames, allocation with the hook that tests on demand, programs, testers, the clock |
//! | [`allocators`] | what the machine needs of a page allocator, over one with lists and over one with banks |
//! | [`workload`] | models of the demand of Rahman's programs, each number with its source |
//! | [`cost`] | the cost of each operation, and how testers and programs slow each other |
//! | [`timing_wheel`] | which frames expire next |
//!
//! Libraries: `rand` and `rand_chacha` (a seed gives the same numbers on every platform and version).

#![forbid(unsafe_code)]

pub mod allocators;
pub mod cost;
mod frames;
pub mod machine;
pub mod timing_wheel;
pub mod workload;

pub use allocators::TestableAllocator;
pub use cost::{Access, Costs};
pub use frames::FrameTests;
pub use machine::{
    Description, Fault, MachineAllocator, MachineStatistics, MachineUser, Second, SimulatedMachine, Taken, Testing,
};
pub use workload::WorkloadProgram;
