//! How long a job takes on nodes that fail, with one, two or three replicas of each rank.
//!
//! **Problem.** On many nodes some node fails every few hours, and a job spends its time on checkpoints, on work that
//! it lost, and on restarts. Replicas avoid most of that, and take as many times the nodes. Which is cheaper?
//! **Idea.** Three steps: a replicated job communicates more ([`ReplicatedJob::running`]); it fails only when all
//! replicas of a rank have failed ([`reliability`]); and checkpoints at the best interval then give the time to
//! completion ([`completion`]). **Why this way.** \[Fiala15, 3.1.1\] draws its figure 3.1 with the model of
//! \[Elliott12\], which has these three steps. Where failures are rare, ours gives what that one gives. Where they are
//! frequent, ours still agrees with jobs that are [`simulated`] failure by failure, within 3 %. The exception is a job
//! with replicas that all the same loses more than a third of its time ([`Completion::is_lower_estimate`]).
//!
//! What the model assumes: nodes fail independently, at a constant rate. A failed replica stays away until the job
//! restarts, and then all nodes are good again. The job has checkpoints of all ranks at equal distances; a checkpoint
//! takes the same time for any number of nodes and replicas. A failure during a checkpoint or a restart counts too.
//!
//! | module | owns |
//! |---|---|
//! | [`reliability`] | the mean time between failures of a job |
//! | [`completion`] | the best number of checkpoints, and where the time goes |
//! | [`comparison`] | the cheapest number of replicas, how many nodes make more replicas faster, wrong results |
//! | [`simulated`] | jobs simulated failure by failure |
//! | [`recorded`] | [Fiala15, tab. 3.1 to 3.3] |
//! | [`claims`] | the statements of \[Fiala15\] beside ours |

pub mod claims;
pub mod comparison;
pub mod completion;
pub mod recorded;
pub mod reliability;
pub mod simulated;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::time::Hours;

pub use comparison::ReplicaComparison;
pub use completion::Completion;

/// The number of replicas of each rank, 1 to [`Degree::MOST`]. 1 means that nothing is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Degree(u8);

impl Degree {
    /// Without redundancy (1x).
    pub const SINGLE: Self = Self(1);
    /// Dual redundancy (2x), which detects a wrong message.
    pub const DUAL: Self = Self(2);
    /// Triple redundancy (3x), which corrects one.
    pub const TRIPLE: Self = Self(3);
    /// The most replicas, as many as [Fiala15, fig. 3.1] compares.
    pub const MOST: u8 = 3;

    /// So many replicas, if that is 1 to [`Self::MOST`].
    #[must_use]
    pub fn new(replicas: u8) -> Option<Self> {
        (1..=Self::MOST).contains(&replicas).then_some(Self(replicas))
    }

    /// The number of replicas.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number of replicas, to compute with.
    #[must_use]
    pub fn factor(self) -> f64 {
        f64::from(self.0)
    }

    /// From 1 to this.
    pub fn up_to(self) -> impl Iterator<Item = Self> {
        (1..=self.0).map(Self)
    }
}

/// A job, and the nodes that it runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicatedJob {
    /// The number of nodes without replicas, one rank on each; at least 1. With r replicas the job takes r times as
    /// many.
    pub nodes: u32,
    /// The mean time between failures of one node; above 0.
    pub node_mtbf: Hours,
    /// The job's time on nodes that never fail, without replicas or checkpoints; above 0. The same for any number of
    /// nodes: weak scaling.
    pub work: Hours,
    /// The time of a checkpoint; above 0.
    pub checkpoint: Hours,
    /// The time of a restart, which reads the last checkpoint.
    pub restart: Hours,
    /// The share of [`Self::work`] that is communication, 0 to 1.
    pub communication: f64,
}

/// The system and the job of [Fiala15, fig. 3.1] on Jaguar's 18,688 nodes. The job of 128 hours and the node's 50 years
/// are given there. The two times of 10 minutes and the share of a fifth are not: they are assumed, and chosen because
/// they give the times that the text names.
pub const JAGUAR: ReplicatedJob = ReplicatedJob {
    nodes: 18_688,
    node_mtbf: Hours::from_years(50.0),
    work: Hours::new(128.0),
    checkpoint: Hours::from_minutes(10.0),
    restart: Hours::from_minutes(10.0),
    communication: 0.2,
};

/// The system and the job of [Fiala15, tab. 3.2], on its most nodes. [Fiala15, 3.8.2] gives the times of a checkpoint
/// and of a restart. The share of communication is not given: 0 is assumed, since replicas slowed that study's programs
/// hardly [Fiala15, 3.8.3].
pub const PETASCALE: ReplicatedJob = ReplicatedJob {
    nodes: 100_000,
    node_mtbf: Hours::from_years(5.0),
    work: Hours::new(168.0),
    checkpoint: Hours::from_minutes(5.0),
    restart: Hours::from_minutes(10.0),
    communication: 0.0,
};

impl ReplicatedJob {
    /// The same job on another number of nodes.
    #[must_use]
    pub const fn on(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// The time that the job runs if nothing fails, without checkpoints. Each message is sent once per replica, so
    /// communication takes as many times as long: (1 - α) t + α t r \[Elliott12\].
    #[must_use]
    pub fn running(&self, degree: Degree) -> Hours {
        self.work.times(1.0 + self.communication * (degree.factor() - 1.0))
    }

    /// Refuses a job outside the ranges of its fields.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`].
    pub fn check(&self) -> Result<(), Error> {
        let times = [self.node_mtbf, self.work, self.checkpoint].map(Hours::get);
        let sensible = times.iter().all(|hours| hours.is_finite() && *hours > 0.0)
            && (0.0..f64::INFINITY).contains(&self.restart.get())
            && (0.0..=1.0).contains(&self.communication);
        if self.nodes > 0 && sensible { Ok(()) } else { Err(Error::NoSuchJob) }
    }
}
