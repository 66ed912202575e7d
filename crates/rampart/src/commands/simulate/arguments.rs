//! Options of `rampart simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rampart_studies::{Effort, MachineAllocator};

use crate::parsing::parse_time;

/// Options of `rampart simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// The experiment, such as figure12 [default: list them]
    pub name: Option<String>,
    /// List the experiments
    #[arg(long, conflicts_with = "name")]
    pub list: bool,
    /// The first seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many seeds to run, from the first on; each number is the mean over them
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// The simulated time of a run on the desktop; a run on the server takes a tenth of it
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = time_of_a_run)]
    pub longest: Duration,
    /// The page allocator of the simulated machine
    #[arg(long, value_name = "NAME", value_enum, default_value = "buddy")]
    pub allocator: SimulateAllocator,
    /// Draw the numbers as an SVG file
    #[arg(long, value_name = "FILE", requires = "name")]
    pub plot: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// The page allocators that an experiment runs on.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SimulateAllocator {
    /// The buddy system of Linux
    Buddy,
    /// Adaptive-Buddy: a buddy system for each of three pools of banks
    Adaptive,
    /// Rampart's own: the same pools, and the fullest bank first
    Fullest,
}

impl SimulateAllocator {
    /// Returns the machine's.
    pub const fn allocator(self) -> MachineAllocator {
        match self {
            Self::Buddy => MachineAllocator::Buddy,
            Self::Adaptive => MachineAllocator::Adaptive,
            Self::Fullest => MachineAllocator::Fullest,
        }
    }
}

/// A time that shows something of an experiment.
fn time_of_a_run(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    let shortest = Effort::SHORTEST;
    if time < shortest {
        return Err(format!("too short to show anything: give at least {}s", shortest.as_secs()));
    }
    Ok(time)
}
