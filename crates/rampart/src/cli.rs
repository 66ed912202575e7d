//! The command line of `rampart`. Bad arguments are refused before anything is touched.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::access::AccessArguments;
use crate::commands::errors::ErrorsArguments;
use crate::commands::inject::InjectCommand;
use crate::commands::map::arguments::MapCommand;
use crate::commands::march::MarchCommand;
use crate::commands::noise::arguments::NoiseArguments;
use crate::commands::project::arguments::ProjectArguments;
use crate::commands::run::arguments::RunArguments;
use crate::commands::simulate::arguments::SimulateArguments;
use crate::commands::test::arguments::TestArguments;
use crate::commands::trace::arguments::TraceArguments;
use crate::commands::watch::arguments::WatchArguments;

/// Keeps programs correct on memory that is not.
#[derive(Debug, Parser)]
#[command(name = "rampart", version, about, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// The file that keeps bad frames and test history [default: /var/lib/rampart/rampart.db for root, else
    /// ~/.local/state/rampart/rampart.db]
    #[arg(long, global = true, display_order = 900, value_name = "FILE", env = "RAMPART_STORE")]
    pub store: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Test this machine's free memory once, while it works
    Test(TestArguments),
    /// List the march tests, show one, prove which faults they find
    #[command(subcommand)]
    March(MarchCommand),
    /// Show, export, restore and edit the map of bad frames
    #[command(subcommand)]
    Map(MapCommand),
    /// List the faults that can be emulated
    #[command(subcommand)]
    Inject(InjectCommand),
    /// Repeat an experiment of COMeT and Asteroid [Rahman16] on a simulated machine
    Simulate(SimulateArguments),
    /// Test this machine's free memory continuously, as a daemon: each frame within reach once per lifetime
    Watch(Box<WatchArguments>),
    /// Run a program under guard: verify its heap before use, and correct errors
    Run(Box<RunArguments>),
    /// Show which memory a guarded program unlocked when, from a file of `rampart run --trace-access`
    Access(AccessArguments),
    /// Project what memory errors cost a program on thousands of nodes
    Project(Box<ProjectArguments>),
    /// Record what an unmodified MPI program computes and sends, for `rampart project --trace`
    Trace(TraceArguments),
    /// Measure how often, and for how long, this machine takes its CPUs from programs
    Noise(NoiseArguments),
    /// Show the memory errors of this machine by DIMM: counters, rasdaemon's records, and their rate
    Errors(ErrorsArguments),
    /// Show this machine, what is possible on it and what is not, the last tests, bad frames, and the daemon
    Status {
        /// Print one JSON document instead of text
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            &["test", "--memory", "0"] as &[_],
            &["test", "--memory", "1KiB"],
            &["test", "--memory", "lots"],
            &["test", "--for", "0s"],
            &["test", "--for", "soon"],
            &["test", "--threads", "0"],
            &["test", "--fidelity", "0"],
            &["test", "--fidelity", "9999"],
            &["test", "--passes", "0"],
            &["test", "--retention", "2m"],
            &["watch", "--retention", "soon"],
            &["test", "--inject", "nonsense:3"],
            &["map", "forget", "frame"],
            &["map", "export", "--format", "xml"],
            &["simulate", "figure34", "--for", "19s"],
            &["simulate", "figure34", "--seeds", "0"],
            &["simulate", "figure34", "--seeds", "18446744073709551615"],
            &["project", "--mtbce", "30000000s"],
            &["project", "--mtbce", "1s", "--cost", "214d"],
            &["noise", "--for", "214d"],
            &["noise", "--threshold", "214d"],
            &["noise", "--errors-every", "214d"],
            &["watch", "--metrics", "0.0.0.0:9437"],
            &["watch", "--metrics", "192.168.1.1:9437"],
            &["watch", "--max-share", "0%"],
            &["watch", "--max-share", "50"],
            &["watch", "--policy", "on-demand"],
            &["watch", "--lifetime", "0s"],
        ] {
            let line = std::iter::once("rampart").chain(bad.iter().copied());
            assert!(Arguments::try_parse_from(line).is_err(), "{bad:?}");
        }
    }
}
