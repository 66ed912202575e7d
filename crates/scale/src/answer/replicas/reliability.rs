//! The mean time between failures of a job whose ranks have replicas.
//!
//! **Problem.** A job with two replicas of each rank does not fail at a constant rate: right after a restart it cannot
//! fail by one node, and the longer it runs, the more ranks have only one replica left. **Idea.** No rank has failed
//! until t with probability R(t) = (1 - (1 - exp(-t / θ))^r)^n. A job is renewed when it fails or when it ends, after
//! h hours. So it fails once in ∫R / (1 - R(h)) hours, where the integral goes from 0 to h. **Why this way.** The
//! number is right at both ends: for a job that fails many times, and for one that hardly fails. There it approaches
//! -h / ln R(h), the mean time of \[Elliott12\]. In between, where a job fails about once, it counts up to a quarter
//! too many failures, which the time to completion hardly shows.

use super::{Degree, ReplicatedJob};
use crate::time::Hours;

/// Beyond this exponent nothing is left of R: exp(-50) is 2e-22.
const NOTHING_LEFT: f64 = 50.0;

/// The steps of the integral, an even number: more change no digit that is shown.
const STEPS: u32 = 1000;

impl ReplicatedJob {
    /// The mean time between failures of a job that runs for at most `horizon`; infinite if it practically never fails.
    #[must_use]
    pub fn mtbf(&self, degree: Degree, horizon: Hours) -> Hours {
        let mean = self.node_mtbf.get();
        if degree == Degree::SINGLE {
            return Hours::new(mean / f64::from(self.nodes));
        }
        let fails = -libm::expm1(self.log_survival(degree, horizon.get()));
        let end = horizon.get().min(self.lifetime(degree));
        Hours::new(integral(end, |at| libm::exp(self.log_survival(degree, at))) / fails)
    }

    /// ln R(t): the logarithm of the probability that each rank still has a replica, `hours` after all were good.
    fn log_survival(&self, degree: Degree, hours: f64) -> f64 {
        let of_node = -libm::expm1(-hours / self.node_mtbf.get());
        f64::from(self.nodes) * libm::log1p(-of_node.powi(i32::from(degree.get())))
    }

    /// The time after which no job is left, in hours.
    fn lifetime(&self, degree: Degree) -> f64 {
        let of_rank = -libm::expm1(-NOTHING_LEFT / f64::from(self.nodes));
        let of_node = libm::pow(of_rank, 1.0 / degree.factor());
        // A few nodes may live on for long, but hardly any lives for 50 times the mean.
        -libm::log1p(-of_node).max(-NOTHING_LEFT) * self.node_mtbf.get()
    }
}

/// The integral from 0 to `end`, by Simpson's rule.
fn integral(end: f64, of: impl Fn(f64) -> f64) -> f64 {
    let step = end / f64::from(STEPS);
    let weight = |number| match number {
        0 | STEPS => 1.0,
        number if number % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=STEPS).map(|number| weight(number) * of(f64::from(number) * step)).sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::super::JAGUAR;
    use super::*;
    use proptest::prelude::*;

    fn near(ours: f64, theory: f64, part: f64) {
        assert!((ours / theory - 1.0).abs() < part, "{ours} {theory}");
    }

    /// The last of r nodes fails after 1 + 1/2 + ... + 1/r mean times.
    #[test]
    fn one_rank_lives_until_its_last_replica_fails() {
        let job = JAGUAR.on(1);
        let forever = Hours::from_years(1e6);
        for (replicas, means) in [(1, 1.0), (2, 1.5), (3, 1.0 + 0.5 + 1.0 / 3.0)] {
            let mtbf = job.mtbf(Degree::new(replicas).unwrap(), forever);
            near(mtbf.per(job.node_mtbf), means, 1e-6);
        }
    }

    /// Of n pairs, the first is lost after about θ √(π / 4n): the birthday problem.
    #[test]
    fn the_first_of_many_pairs_is_lost_as_birthdays_meet() {
        let job = JAGUAR.on(1_000_000);
        let mtbf = job.mtbf(Degree::DUAL, Hours::from_years(1e6));
        near(mtbf.per(job.node_mtbf), (std::f64::consts::PI / 4e6).sqrt(), 0.001);
    }

    /// [Elliott12]: the mean time of a job that hardly fails is -h / ln R(h).
    #[test]
    fn where_failures_are_rare_the_mean_time_is_that_of_the_published_model() {
        for nodes in [6_229, 18_688, 100_000] {
            let (job, horizon) = (JAGUAR.on(nodes), Hours::new(154.0));
            let published = -horizon.get() / job.log_survival(Degree::DUAL, horizon.get());
            near(job.mtbf(Degree::DUAL, horizon).get(), published, 0.01);
        }
    }

    proptest! {
        #[test]
        fn more_replicas_fail_less_often_and_more_nodes_more_often(nodes in 1_u32..1_000_000, hours in 0.1..1e6_f64) {
            let mtbf = |nodes, degree| JAGUAR.on(nodes).mtbf(degree, Hours::new(hours)).get();
            let degrees = [Degree::SINGLE, Degree::DUAL, Degree::TRIPLE].map(|degree| mtbf(nodes, degree));
            prop_assert!(degrees.iter().all(|hours| *hours > 0.0), "{:?}", degrees);
            prop_assert!(degrees.is_sorted(), "{:?}", degrees);
            prop_assert!(mtbf(2 * nodes, Degree::DUAL) <= mtbf(nodes, Degree::DUAL));
        }
    }
}
