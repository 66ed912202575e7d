//! The time of a job over the number of nodes.

use rampart_scale::replicas::{Degree, ReplicatedJob};

use crate::output::csv::csv;

/// The points of a curve, at equal ratios.
const POINTS: u32 = 96;

/// The most nodes of a curve.
const MOST_NODES: u32 = 1 << 30;

/// One point of the curves.
pub struct CurvePoint {
    /// The number of nodes without replicas.
    pub nodes: u32,
    /// Hours for each number of replicas; `None` if the job never ends.
    pub hours: Vec<Option<f64>>,
}

/// A curve for each number of replicas.
pub struct ReplicaCurve {
    /// The job, on any number of nodes.
    pub job: ReplicatedJob,
    /// The numbers of replicas.
    pub degrees: Vec<Degree>,
    /// From the fewest nodes to the most.
    pub points: Vec<CurvePoint>,
}

impl ReplicaCurve {
    /// From a hundredth of the job's nodes to a hundred times as many.
    pub fn around(job: ReplicatedJob, most: Degree) -> Self {
        Self::between(job, most, (job.nodes / 100).max(1), job.nodes.saturating_mul(100).min(MOST_NODES))
    }

    /// From `fewest` nodes, at least 1, to `largest`.
    pub fn between(job: ReplicatedJob, most: Degree, fewest: u32, largest: u32) -> Self {
        let ratio = f64::from(largest) / f64::from(fewest);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two numbers of nodes")]
        let place = |part: u32| (f64::from(fewest) * ratio.powf(f64::from(part) / f64::from(POINTS))).round() as u32;
        let mut nodes: Vec<u32> = (0..=POINTS).map(place).collect();
        nodes.dedup();
        let degrees: Vec<Degree> = most.up_to().collect();
        let point = |nodes| CurvePoint { nodes, hours: hours(job.on(nodes), &degrees) };
        let points = nodes.into_iter().map(point).collect();
        Self { job, degrees, points }
    }

    /// The curves for programs; a job that never ends has no number.
    pub fn csv(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let row = |nodes: u32, degree: &Degree, hours: Option<f64>| {
            let node_hours = hours.map(|hours| hours * f64::from(nodes) * degree.factor());
            [nodes.to_string(), degree.get().to_string(), number(hours), number(node_hours)]
        };
        let of_point = |CurvePoint { nodes, hours }: &CurvePoint| {
            let rows = self.degrees.iter().zip(hours).map(|(degree, hours)| row(*nodes, degree, *hours));
            rows.collect::<Vec<_>>()
        };
        csv(["nodes", "replicas", "hours", "node_hours"], self.points.iter().flat_map(of_point))
    }
}

/// The hours of a job with each number of replicas.
pub fn hours(job: ReplicatedJob, degrees: &[Degree]) -> Vec<Option<f64>> {
    degrees.iter().map(|degree| job.completion(*degree).map(|found| found.total().get())).collect()
}
