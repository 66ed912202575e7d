//! Options of `rampart project --replicas`.

use std::path::PathBuf;

use clap::Args;
use rampart_scale::Hours;
use rampart_scale::replicas::{Degree, ReplicatedJob};

use crate::parsing::{long_time, long_time_or_none, share};

/// The number of nodes where none is named.
const NODES: u32 = 16_384;

/// The options that ask about corrected errors, which have nothing to do with replicas.
const OTHER_QUESTIONS: [&str; 17] = [
    "list",
    "system",
    "workload",
    "goal",
    "trace",
    "extrapolated",
    "reporting",
    "mtbce",
    "cost",
    "two_level",
    "detours",
    "one_node",
    "queued",
    "dropped",
    "network",
    "from_errors",
    "dimm",
];

/// The question how long a job takes on nodes that fail.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --replicas: nodes that fail, and a job with 1, 2 or 3 replicas of each rank")]
pub struct ReplicaArguments {
    /// Compare a job with 1 to N replicas of each rank, each on --nodes more nodes [without N: 3]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", conflicts_with_all = OTHER_QUESTIONS,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(Degree::MOST)))]
    pub replicas: Option<u8>,
    /// The mean time between failures of one node
    #[arg(long, value_name = "TIME", requires = "replicas", default_value = "50years", value_parser = long_time)]
    pub node_mtbf: Hours,
    /// The job's time without failures, checkpoints and replicas, the same for any number of nodes
    #[arg(long, value_name = "TIME", requires = "replicas", default_value = "128h", value_parser = long_time)]
    pub job: Hours,
    /// The time of a checkpoint, assumed as long as makes the results those of Fiala 2015
    #[arg(long, value_name = "TIME", requires = "replicas", default_value = "10min", value_parser = long_time)]
    pub checkpoint: Hours,
    /// The time of a restart, assumed like that of a checkpoint
    #[arg(long, value_name = "TIME", requires = "replicas", default_value = "10min", value_parser = long_time_or_none)]
    pub restart: Hours,
    /// The share of the job that is communication, of which each replica adds as much again; assumed like the times
    #[arg(long, value_name = "SHARE", requires = "replicas", default_value = "20%", value_parser = share)]
    pub communication: f64,
    /// Also simulate the job failure by failure, --seeds times
    #[arg(long, requires = "replicas")]
    pub simulate: bool,
    /// Draw the time over the number of nodes as an HTML page
    #[arg(long, value_name = "FILE", requires = "replicas")]
    pub html: Option<PathBuf>,
    /// Write the time over the number of nodes to this file
    #[arg(long, value_name = "FILE", requires = "replicas")]
    pub csv: Option<PathBuf>,
}

impl ReplicaArguments {
    /// The most replicas to compare; `None` if the question is another one.
    pub fn most(&self) -> Option<Degree> {
        self.replicas.and_then(Degree::new)
    }

    /// The job, on so many nodes.
    pub fn job(&self, nodes: Option<u32>) -> ReplicatedJob {
        ReplicatedJob {
            nodes: nodes.unwrap_or(NODES),
            node_mtbf: self.node_mtbf,
            work: self.job,
            checkpoint: self.checkpoint,
            restart: self.restart,
            communication: self.communication,
        }
    }
}
