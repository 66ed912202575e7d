//! What memory errors cost at scale: a simulator of message-passing programs on nodes whose CPUs are interrupted.
//!
//! **Problem.** A corrected error takes a node's CPU for microseconds or for a second; the cost for a program on 16,384
//! nodes depends on which ranks wait for which [Ferreira21, III-C]. **Idea.** Each rank follows a schedule of
//! computing, sending and receiving; a discrete-event simulation under the LogGOPS model computes when each operation
//! ends. **Why this way.** \[Ferreira21\] uses the same model (LogGOPSim), so its figures can be repeated.
//!
//! A room imports only rooms below it:
//!
//! | room | owns |
//! |---|---|
//! | [`answer`] | what errors cost a workload on a system ([`project`](mod@project)), and any program ([`slowdown`](mod@slowdown)); what failing nodes cost a job with [`replicas`]; which detours errors caused ([`attribution`]); how much [`memory`] an answer takes |
//! | [`simulator`] | the simulation, event by event ([`engine`]); round by round, skipping repeated rounds ([`lockstep`]); or a traced program from meeting to meeting ([`blocks`]) |
//! | [`programs`] | where operations come from: [`schedule`]s, [`goal`] files, programs expanded as they run ([`rounds`]), [`collective`]s, [`pattern`]s, the nine workloads as skeletons ([`workload`]) and as traces ([`traced`]), recorded programs ([`trace`]) |
//! | [`model`] | what a rank does ([`operation`]), the [`network`] and its [`calibration`], the [`system`]s, [`detour`]s and recorded [`noise`] |
//! | [`statistics`] | parallel runs ([`parallel_runs`]), and confidence intervals ([`confidence`]) |
//! | `encoding` | LEB128 |
//! | [`error`] | why there is no answer |
//! | [`time`] | simulated time and prices per byte, exact |
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `libm` (a logarithm that is the
//! same on every machine), `rand` and `rand_chacha` (failures of nodes from a seed), `statrs` (quantiles of
//! distributions), `zstd` (the traces in the binary).

#![forbid(unsafe_code)]

pub mod answer;
mod encoding;
pub mod error;
pub mod model;
pub mod programs;
pub mod simulator;
pub mod statistics;
pub mod time;

pub use answer::{attribution, memory, project, replicas, slowdown};
pub use model::{calibration, detour, network, noise, operation, system};
pub use programs::{collective, goal, pattern, rounds, schedule, trace, traced, workload};
pub use simulator::{blocks, engine, lockstep};
pub use statistics::{confidence, parallel_runs};

pub use answer::slowdown::{Slowdown, slowdown};
pub use collective::Collective;
pub use detour::{Detours, Undisturbed};
pub use engine::{SimulationOutcome, simulate, simulate_until};
pub use error::Error;
pub use goal::GoalGraph;
pub use network::LogGops;
pub use operation::{Action, OpId, Operation, Rank, Tag};
pub use rounds::{RankProgram, RankStep, RoundSchedule};
pub use schedule::Schedule;
pub use statistics::parallel_runs::ParallelRuns;
pub use system::{Reporting, System};
pub use time::{Hours, PerByte, Time};
pub use trace::MpiTrace;
pub use traced::KnownProgram;
pub use workload::Workload;
