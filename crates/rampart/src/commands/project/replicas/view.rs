//! A comparison of numbers of replicas as text, as JSON and as a page.

use std::fmt::Write as _;

use maud::html;
use rampart_scale::Hours;
use rampart_scale::replicas::comparison::{Assurance, ReplicaCost};
use rampart_scale::replicas::simulated::SimulatedMean;
use rampart_scale::replicas::{Completion, Degree, ReplicaComparison, ReplicatedJob};
use serde_json::{Value, json};

use super::chart;
use super::curve::ReplicaCurve;
use crate::output::html;
use crate::output::text::{count, percent, whole};

/// The simulated mean with so many replicas; `None` if that would take too long.
pub type Simulated = (Degree, Option<SimulatedMean>);

/// The names of the curves.
pub const NAMES: [&str; 3] = ["1 replica (1x)", "2 replicas (2x)", "3 replicas (3x)"];

/// The pairs of numbers of replicas whose crossovers are shown: fewer, more, and what they cost.
const CROSSOVERS: [(Degree, Degree, ReplicaCost); 5] = [
    (Degree::SINGLE, Degree::DUAL, ReplicaCost::Time),
    (Degree::SINGLE, Degree::TRIPLE, ReplicaCost::Time),
    (Degree::DUAL, Degree::TRIPLE, ReplicaCost::Time),
    (Degree::SINGLE, Degree::DUAL, ReplicaCost::NodeHours),
    (Degree::SINGLE, Degree::TRIPLE, ReplicaCost::NodeHours),
];

/// The answer to one question.
pub struct ReplicaView {
    /// The job with each number of replicas.
    pub comparison: ReplicaComparison,
    /// The simulated means, if they were asked for.
    pub simulated: Vec<Simulated>,
}

/// The crossovers of a job, up to `most` replicas.
pub fn crossovers(job: ReplicatedJob, most: Degree) -> Vec<(Degree, Degree, ReplicaCost, Option<u32>)> {
    let asked = CROSSOVERS.into_iter().filter(|(_, more, _)| *more <= most);
    asked.map(|(fewer, more, cost)| (fewer, more, cost, job.crossover(fewer, more, cost))).collect()
}

/// The crossovers as lines of text.
pub fn crossover_text(job: ReplicatedJob, most: Degree) -> String {
    let mut text = String::new();
    for (fewer, more, cost, nodes) in crossovers(job, most) {
        let (more, fewer) = (more.get(), fewer.get());
        let what = if cost == ReplicaCost::Time { "is faster" } else { "takes fewer node-hours" };
        let _ = match nodes {
            Some(nodes) => {
                writeln!(text, "crossover   {more}x {what} than {fewer}x from {} nodes on", count(nodes.into()))
            }
            None => writeln!(text, "crossover   none up to 2^30 nodes where {more}x {what} than {fewer}x"),
        };
    }
    text
}

/// The crossovers as JSON.
pub fn crossover_document(job: ReplicatedJob, most: Degree) -> Value {
    let one = |(fewer, more, cost, nodes): (Degree, Degree, ReplicaCost, Option<u32>)| {
        let by = if cost == ReplicaCost::Time { "time" } else { "node_hours" };
        json!({ "replicas": more.get(), "than": fewer.get(), "by": by, "nodes": nodes })
    };
    crossovers(job, most).into_iter().map(one).collect()
}

/// A job as JSON.
pub fn job_document(job: &ReplicatedJob) -> Value {
    json!({
        "nodes": job.nodes,
        "node_mtbf_hours": job.node_mtbf.get(),
        "work_hours": job.work.get(),
        "checkpoint_hours": job.checkpoint.get(),
        "restart_hours": job.restart.get(),
        "communication": job.communication,
    })
}

/// A job as a line of text.
pub fn job_text(job: &ReplicatedJob) -> String {
    format!(
        "job         {} of work on {} nodes, each of which fails every {}\n            \
         a checkpoint takes {}, a restart {}; {} of the work is communication\n",
        job.work,
        count(job.nodes.into()),
        job.node_mtbf,
        job.checkpoint,
        job.restart,
        percent(job.communication)
    )
}

fn node_hours(hours: Hours) -> String {
    whole(hours.get())
}

impl ReplicaView {
    fn most(&self) -> Degree {
        self.comparison.completions.last().map_or(Degree::SINGLE, |(degree, _)| *degree)
    }

    /// The answer for people.
    pub fn text(&self) -> String {
        let job = &self.comparison.job;
        let mut text = job_text(job);
        let _ = writeln!(
            text,
            "replicas    {:>13} {:>12} {:>8} {:>9} {:>11} {:>8} {:>8} {:>15} {:>14}",
            "nodes", "time", "work", "messages", "checkpoints", "rework", "restarts", "node-hours", "job fails every"
        );
        for (degree, found) in &self.comparison.completions {
            let nodes = count(u64::from(job.nodes) * u64::from(degree.get()));
            let Some(found) = found else {
                let _ = writeln!(text, "{:<11} {nodes:>13} {:>12}", degree.get(), "never ends");
                continue;
            };
            let _ = writeln!(text, "{:<11} {nodes:>13} {}", degree.get(), self.row(found));
        }
        self.notes(&mut text);
        self.answers(&mut text);
        text.push_str(&crossover_text(*job, self.most()));
        text
    }

    /// The columns of a job that ends.
    fn row(&self, found: &Completion) -> String {
        let [work, messages, checkpoints, rework, restarts] = found.shares().map(percent);
        let cost = node_hours(self.comparison.job.cost_of(found, ReplicaCost::NodeHours));
        let mtbf = if found.mtbf.get().is_finite() { found.mtbf.to_string() } else { "never".to_owned() };
        format!(
            "{:>12} {work:>8} {messages:>9} {checkpoints:>11} {rework:>8} {restarts:>8} {cost:>15} {mtbf:>14}",
            found.total().to_string()
        )
    }

    /// What simulated jobs say, and where the model says too little.
    fn notes(&self, text: &mut String) {
        for (degree, mean) in &self.simulated {
            let Some(mean) = mean else {
                let _ = writeln!(text, "simulated   {}x: not, it would take too long", degree.get());
                continue;
            };
            let _ = writeln!(
                text,
                "simulated   {}x: {} ± {} (95 %) in {} runs, {:.1} failures in each",
                degree.get(),
                mean.total,
                mean.half,
                mean.runs,
                mean.failures
            );
        }
        for found in self.comparison.completions.iter().filter_map(|(_, found)| found.as_ref()) {
            if found.is_lower_estimate() {
                let _ = writeln!(
                    text,
                    "note        {}x fails so often that it takes longer than this, up to 1.3 times as long (--simulate)",
                    found.degree.get()
                );
            }
        }
    }

    /// The cheapest number of replicas, for each assurance.
    fn answers(&self, text: &mut String) {
        for (label, cost, assurance) in [
            ("fastest", ReplicaCost::Time, Assurance::None),
            ("cheapest", ReplicaCost::NodeHours, Assurance::None),
            ("detect", ReplicaCost::Time, Assurance::Detected),
            ("correct", ReplicaCost::Time, Assurance::Corrected),
        ] {
            let Some(found) = self.comparison.cheapest(cost, assurance) else {
                let _ = writeln!(text, "{label:<11} the job never ends, with any of these numbers of replicas");
                continue;
            };
            let _ = match (cost, assurance) {
                (ReplicaCost::NodeHours, _) => writeln!(
                    text,
                    "{label:<11} {}x: {} node-hours",
                    found.degree.get(),
                    node_hours(self.comparison.job.cost_of(found, cost))
                ),
                (ReplicaCost::Time, Assurance::None) => {
                    writeln!(text, "{label:<11} {}x: {}", found.degree.get(), found.total())
                }
                (ReplicaCost::Time, _) => writeln!(
                    text,
                    "{label:<11} a silent error soonest by {}x: {}",
                    found.degree.get(),
                    self.assured(assurance)
                ),
            };
        }
    }

    /// The time of each number of replicas with as many runs as an assurance takes.
    fn assured(&self, assurance: Assurance) -> String {
        let of = |(degree, found): &(Degree, Option<Completion>)| {
            let runs = assurance.runs(*degree);
            let times = ["", " in a run", " in two runs", " in three runs"][usize::from(runs)];
            let total = found.as_ref().map(|found| found.total().times(f64::from(runs)));
            let total = total.map_or_else(|| "never".to_owned(), |total| format!("{total}{times}"));
            format!("{}x {total}", degree.get())
        };
        self.comparison.completions.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    /// The answer as JSON, for programs.
    pub fn document(&self) -> Value {
        let job = &self.comparison.job;
        let simulated = |degree: Degree| {
            let mean = self.simulated.iter().find(|(of, _)| *of == degree).and_then(|(_, mean)| *mean)?;
            Some(json!({
                "runs": mean.runs, "hours": mean.total.get(), "half_interval": mean.half.get(), "failures": mean.failures,
            }))
        };
        let of = |(degree, found): &(Degree, Option<Completion>)| {
            let shares = found.as_ref().map(|found| {
                let [work, messages, checkpoints, rework, restarts] = found.shares();
                json!({
                    "work": work, "messages": messages, "checkpoints": checkpoints, "rework": rework,
                    "restarts": restarts,
                })
            });
            let finite = |hours: Hours| Some(hours.get()).filter(|hours| hours.is_finite());
            let cost = |cost| found.as_ref().map(|found| job.cost_of(found, cost).get());
            json!({
                "replicas": degree.get(),
                "nodes": u64::from(job.nodes) * u64::from(degree.get()),
                "hours": cost(ReplicaCost::Time),
                "node_hours": cost(ReplicaCost::NodeHours),
                "shares": shares,
                "mtbf_hours": found.as_ref().and_then(|found| finite(found.mtbf)),
                "checkpoint_interval_hours": found.as_ref().map(|found| found.interval().get()),
                "lower_estimate": found.as_ref().map(Completion::is_lower_estimate),
                "runs_to_detect": Assurance::Detected.runs(*degree),
                "runs_to_correct": Assurance::Corrected.runs(*degree),
                "simulated": simulated(*degree),
            })
        };
        let cheapest = |cost, assurance| self.comparison.cheapest(cost, assurance).map(|found| found.degree.get());
        json!({
            "schema": "rampart.project.replicas/1",
            "job": job_document(job),
            "completions": self.comparison.completions.iter().map(of).collect::<Vec<_>>(),
            "fastest": cheapest(ReplicaCost::Time, Assurance::None),
            "fewest_node_hours": cheapest(ReplicaCost::NodeHours, Assurance::None),
            "fastest_to_detect": cheapest(ReplicaCost::Time, Assurance::Detected),
            "fastest_to_correct": cheapest(ReplicaCost::Time, Assurance::Corrected),
            "crossovers": crossover_document(*job, self.most()),
        })
    }

    /// The answer as a page, with a drawing.
    pub fn page(&self, curve: &ReplicaCurve) -> String {
        let title = "Time to completion with replicas";
        let nodes = self.comparison.job.nodes;
        let lines = [(format!("{} nodes", count(nodes.into())), nodes)];
        let body = html! {
            h1 { (title) }
            (html::figure(&NAMES[..curve.degrees.len()], chart::svg(curve, &lines), ""))
            pre { (self.text()) }
        };
        html::document(title, &body)
    }
}
