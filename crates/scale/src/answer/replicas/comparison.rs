//! A job with one, two or three replicas of each rank: which is the fastest, and which takes the fewest node-hours.
//!
//! Wrong results count too. A job without replicas does not notice that a bit flipped in its memory; who wants to know
//! runs it twice and compares, and who wants the right result runs it a third time if the two differ. Two replicas
//! notice, and the job runs again; three correct the error [Fiala15, 3.1.1].

use super::{Completion, Degree, ReplicatedJob};
use crate::error::Error;
use crate::time::Hours;

/// The most nodes for which a crossover is searched.
const MOST_NODES: u32 = 1 << 30;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaCost {
    /// The time to completion.
    Time,
    /// The time, times the number of nodes.
    NodeHours,
}

/// What a user wants to know about errors that nothing reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assurance {
    /// Nothing: the job runs once.
    None,
    /// Whether the result is wrong.
    Detected,
    /// The right result, although there was an error.
    Corrected,
}

impl Assurance {
    /// How often the job runs for that, one run after the other, if there is one error.
    #[must_use]
    pub const fn runs(self, degree: Degree) -> u8 {
        match (self, degree.get()) {
            (Self::Detected, 1) | (Self::Corrected, 2) => 2,
            (Self::Corrected, 1) => 3,
            _ => 1,
        }
    }
}

/// A job with each number of replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaComparison {
    /// The job.
    pub job: ReplicatedJob,
    /// With 1, 2 and 3 replicas; `None` where the job never ends.
    pub completions: Vec<(Degree, Option<Completion>)>,
}

impl ReplicaComparison {
    /// Compares 1 to `most` replicas.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`] if the job is outside its ranges.
    pub fn new(job: ReplicatedJob, most: Degree) -> Result<Self, Error> {
        job.check()?;
        Ok(Self { job, completions: most.up_to().map(|degree| (degree, job.completion(degree))).collect() })
    }

    /// The number of replicas that costs least, with as many runs as the assurance takes; `None` if none ends.
    #[must_use]
    pub fn cheapest(&self, cost: ReplicaCost, assurance: Assurance) -> Option<&Completion> {
        let ends = self.completions.iter().filter_map(|(_, found)| found.as_ref());
        let of = |found: &Completion| f64::from(assurance.runs(found.degree)) * self.job.cost_of(found, cost).get();
        ends.min_by(|a, b| of(a).total_cmp(&of(b)))
    }
}

impl ReplicatedJob {
    /// The cost of a job that ends, in hours or in node-hours.
    #[must_use]
    pub fn cost_of(&self, found: &Completion, cost: ReplicaCost) -> Hours {
        match cost {
            ReplicaCost::Time => found.total(),
            ReplicaCost::NodeHours => found.total().times(f64::from(self.nodes) * found.degree.factor()),
        }
    }

    /// The fewest nodes (without replicas) on which `more` replicas cost less than `fewer`; `None` if that is not so on
    /// any power of two up to 2^30.
    #[must_use]
    pub fn crossover(&self, fewer: Degree, more: Degree, cost: ReplicaCost) -> Option<u32> {
        let of = |nodes: u32, degree| {
            let job = self.on(nodes);
            job.completion(degree).map_or(f64::INFINITY, |found| job.cost_of(&found, cost).get())
        };
        let is_beyond = |nodes: u32| of(nodes, more) < of(nodes, fewer);
        let mut high = (0..=MOST_NODES.ilog2()).map(|power| 1 << power).find(|nodes| is_beyond(*nodes))?;
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_beyond(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }
}
