//! Options of `rampart status`.

use std::time::Duration;

use clap::Args;

use crate::parsing::parse_time;

/// Options of `rampart status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// For monitors: print one line that says why, and exit with 1 if a bad frame is in use, a node is suspect, or the
    /// daemon has died, hangs, tests nothing or too late; with 2 if this cannot be known. Without --check: always 0
    #[arg(long, conflicts_with = "follow")]
    pub check: bool,
    /// Show the status anew every few seconds, until Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// The time between two shows of --follow, such as 10s
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "follow", value_parser = parse_time)]
    pub interval: Duration,
    /// Print JSON instead of text: one document; with --follow, one on each line
    #[arg(long)]
    pub json: bool,
}
