//! What can be typed after `rampart`, and what is refused before anything is touched.

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
    /// Where bad frames and test history are kept [default: /var/lib/rampart/rampart.db for root, else
    /// ~/.local/state/rampart/rampart.db]
    #[arg(long, global = true, value_name = "FILE", env = "RAMPART_STORE")]
    pub store: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Test this machine's free memory, now, beside its work
    Test(TestArguments),
    /// The march tests: list them, show one, prove what they find
    #[command(subcommand)]
    March(MarchCommand),
    /// The map of bad frames
    #[command(subcommand)]
    Map(MapCommand),
    /// The faults that can be emulated
    #[command(subcommand)]
    Inject(InjectCommand),
    /// An experiment of Rahman16 on the simulated machine
    Simulate(SimulateArguments),
    /// Test this machine's free memory for as long as it runs: each frame in reach once a lifetime
    Watch(Box<WatchArguments>),
    /// Run a program under guard: its heap is verified before use, and corrected
    Run(Box<RunArguments>),
    /// What a guarded program unlocked when, from a file of `rampart run --trace-access`
    Access(AccessArguments),
    /// What memory errors cost a program on thousands of nodes
    Project(Box<ProjectArguments>),
    /// Record an MPI program as it runs, unmodified: what it computes and sends, for `rampart project --trace`
    Trace(TraceArguments),
    /// What takes this machine's CPUs from programs, how often and for how long
    Noise(NoiseArguments),
    /// The memory errors that this machine saw, by DIMM: counters, rasdaemon's records, how often they come
    Errors(ErrorsArguments),
    /// What this machine has, what is possible here and what is not, last tests, bad frames, the daemon
    Status {
        /// One JSON document on standard output
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
