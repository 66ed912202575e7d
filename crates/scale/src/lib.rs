//! What memory errors cost at scale: a simulator of message-passing programs on nodes whose CPUs are taken away now and then.
//!
//! **Problem.** A corrected error takes a node's CPU for microseconds or for a second; what that costs a program on 16,384 nodes
//! depends on who waits for whom [Ferreira21, III-C]. **Idea.** Each rank follows a schedule of computing, sending
//! and receiving; a discrete-event simulation under the LogGOPS model says when each is done. **Why this way.** It is the
//! model of their own tool chain (LogGOPSim), so that their figures can be repeated.
//!
//! | module | owns |
//! |---|---|
//! | [`time`] | simulated time and prices per byte, exact |
//! | [`calibration`] | these parameters of a real network, from measured times |
//! | [`network`] | the parameters of a network |
//! | [`operation`] | what a rank does |
//! | [`schedule`] | where operations come from |
//! | [`goal`] | schedules as graphs, and the format GOAL |
//! | `numbers` | numbers of files in as few bytes as they need |
//! | [`rounds`] | programs that are expanded as they run |
//! | [`collective`] | collectives as messages, by the algorithms of real libraries |
//! | [`trace`] | programs as they were recorded, on more ranks |
//! | [`slowdown`](mod@slowdown) | what errors cost a program |
//! | [`system`] | the systems of [Ferreira21, tab. II] |
//! | [`pattern`] | a stencil and a sweep |
//! | [`engine`] | the simulation, event by event |
//! | [`workload`] | the nine programs of [Ferreira21, tab. I], as skeletons |
//! | [`lockstep`] | such programs simulated round by round, skipping what repeats itself |
//! | [`project`](mod@project) | what errors cost a workload on a system, and how frequent ones it bears |
//! | [`workshop`] | runs on several threads |
//! | [`confidence`] | how sure a mean is |
//! | [`detour`] | times at which a node's CPU is taken away |
//! | [`noise`] | such times as they were recorded on a machine |
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `libm` (a logarithm that is the same on every machine).

#![forbid(unsafe_code)]

pub mod calibration;
pub mod collective;
pub mod confidence;
pub mod detour;
pub mod engine;
pub mod error;
pub mod goal;
pub mod lockstep;
pub mod network;
pub mod noise;
mod numbers;
pub mod operation;
pub mod pattern;
pub mod project;
pub mod rounds;
pub mod schedule;
pub mod slowdown;
pub mod system;
pub mod time;
pub mod trace;
pub mod workload;
pub mod workshop;

pub use collective::Collective;
pub use detour::{Detours, Undisturbed};
pub use engine::{Outcome, simulate, simulate_until};
pub use error::Error;
pub use goal::Goal;
pub use network::LogGops;
pub use operation::{Action, OpId, Operation, Rank, Tag};
pub use rounds::{Program, Rounds, Step};
pub use schedule::Schedule;
pub use slowdown::{Slowdown, slowdown};
pub use system::{Reporting, System};
pub use time::{PerByte, Time};
pub use trace::Trace;
pub use workload::Workload;
pub use workshop::Workshop;
