//! Options of `rampart simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rampart_studies::Effort;

use crate::parsing::some_time;

/// Options of `rampart simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// Which one, such as figure12 [default: list them]
    pub name: Option<String>,
    /// List the experiments
    #[arg(long, conflicts_with = "name")]
    pub list: bool,
    /// What everything random is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many seeds there are from that one on; each number is a mean over them
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// How long one run on the desktop lasts, in simulated time; one on the server a tenth of it
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = time_of_a_run)]
    pub longest: Duration,
    /// Draw the numbers, as SVG
    #[arg(long, value_name = "FILE", requires = "name")]
    pub plot: Option<PathBuf>,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// A time that shows something of an experiment.
fn time_of_a_run(text: &str) -> Result<Duration, String> {
    let time = some_time(text)?;
    let shortest = Effort::SHORTEST;
    if time < shortest {
        return Err(format!("too short to show anything: give at least {}s", shortest.as_secs()));
    }
    Ok(time)
}
