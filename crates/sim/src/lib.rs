//! A simulated machine: memory that can fail, its allocator, programs that use it, testers that test it.
//!
//! **Problem.** A policy of the diagnostic must be right for a year of every load, and its cost must be compared with
//! the machines of [Rahman16, tab. 2 and 5.3.1], which nobody has. **Idea.** Simulate everything that a policy sees and
//! changes, page by page: the buddy lists, each frame's last test, each allocation; a documented model sets the cost of
//! operations ([`cost`]). **Why this way.** Time passes in steps of a fixed length and all randomness comes from one
//! seed, so a run repeats exactly, and a simulated hour takes seconds. The machine makes no decisions: it is a
//! [`FrameSource`](rampart_memory::FrameSource), and its driver decides.
//!
//! | module | owns |
//! |---|---|
//! | [`machine`] | frames, allocation with the hook that tests on demand, programs, testers, the clock |
//! | [`workload`] | the programs of [Rahman16] as models of demand, each number with its source |
//! | [`cost`] | the cost of operations, and how testers and programs slow each other |
//! | [`wheel`] | the frames that expire next |
//!
//! Libraries: `rand` and `rand_chacha` (a seed means the same on every platform and version).

#![forbid(unsafe_code)]

pub mod cost;
pub mod machine;
pub mod wheel;
pub mod workload;

pub use cost::{Access, Costs};
pub use machine::{Description, Fault, MachineStatistics, Second, SimulatedMachine, Taken, Testing};
pub use workload::WorkloadProgram;
