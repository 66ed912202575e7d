//! What can be typed after `rampart`, and what is refused before anything is touched.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rampart_diagnostic::experiment::Effort;
use rampart_march::execute::Method;
use rampart_march::named::ChoiceError;
use rampart_march::{Fidelity, MarchChoice, Order};
use rampart_memory::fault::InjectionSpec;
use rampart_memory::{Bytes, Frame};

use crate::guarding::arguments::RunArguments;
use crate::measuring::arguments::NoiseArguments;
use crate::projecting::arguments::ProjectArguments;
use crate::tracing::arguments::TraceArguments;
use crate::watching::arguments::WatchArguments;

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

/// Options of `rampart test`.
#[derive(Debug, Args)]
pub struct TestArguments {
    /// How much memory to test, such as 4GiB [default: all that is free, but for a reserve]
    #[arg(long, value_name = "SIZE", value_parser = some_memory)]
    pub memory: Option<Bytes>,
    /// A named test (`rampart march list`), or one in the field's notation: '*(w0); ^(r0,w1); v(r1,w0)'
    #[arg(long, value_name = "TEST", default_value = "March C-", value_parser = a_test_that_reads)]
    pub march: MarchChoice,
    /// How thorough: 2 patterns for each; 10 tell any two bits of a line apart
    #[arg(long, value_name = "N", default_value = "1")]
    pub fidelity: Fidelity,
    /// In which order lines are visited
    #[arg(long, value_enum, default_value_t = Orders::Both)]
    pub order: Orders,
    /// CPUs that test [default: half of those this process may use]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// Repeat until this time has passed, such as 20s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    pub duration: Option<Duration>,
    /// Repeat this often [default: 1, or as often as --for allows]
    #[arg(long, value_name = "N")]
    pub passes: Option<NonZero<u32>>,
    /// How long a Del element of the test waits
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = some_time)]
    pub delay: Duration,
    /// How long what was written rests before it is read once more, for cells that lose their value slowly; 0s: no such read
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_rest)]
    pub retention: Duration,
    /// How writes reach the DRAM [default: the faster of those that bypass this machine's caches]
    #[arg(long, value_enum)]
    pub method: Option<MethodChoice>,
    /// Emulated faults to plant: 'stuck-at:100,coupling:20,seed=7'
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<InjectionSpec>,
    /// What random backgrounds are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Which visiting orders a test runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Orders {
    /// One after the other: together they leave out no pair of lines of a block
    Both,
    /// By address
    Sequential,
    /// By columns: each step opens another page
    Interleaved,
}

impl Orders {
    /// The orders, one after the other.
    pub fn list(self) -> Vec<Order> {
        match self {
            Self::Both => vec![Order::Sequential, Order::Interleaved],
            Self::Sequential => vec![Order::Sequential],
            Self::Interleaved => vec![Order::Interleaved],
        }
    }
}

/// How writes reach the DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// Stores that pass the caches by
    NonTemporal,
    /// Plain stores, flushed a little behind
    FlushBehind,
}

impl From<MethodChoice> for Method {
    fn from(choice: MethodChoice) -> Self {
        match choice {
            MethodChoice::NonTemporal => Self::NonTemporal,
            MethodChoice::FlushBehind => Self::FlushBehind,
        }
    }
}

/// Commands of `rampart march`.
#[derive(Debug, Subcommand)]
pub enum MarchCommand {
    /// The named tests
    List {
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// One test in full
    Show {
        /// A name, or a notation
        test: MarchChoice,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// What tests find, computed by the fault simulator
    Prove {
        /// A name, or a notation [default: all named tests]
        test: Option<MarchChoice>,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
}

/// Commands of `rampart map`.
#[derive(Debug, Subcommand)]
pub enum MapCommand {
    /// The bad frames that are known
    Show {
        /// The emulated ones instead
        #[arg(long)]
        emulated: bool,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// The bad frames in a form that a boot loader or kernel takes
    Export {
        /// For whom
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// memmap only: at most so many ranges; sound frames between bad ones are given up with them
        #[arg(long, value_name = "N")]
        ranges: Option<NonZero<usize>>,
    },
    /// Retire all known bad frames again; for boot time
    Restore {
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Put a frame on the map by hand
    Add {
        /// Frame number, such as 0x1a2b3
        frame: Frame,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
    /// Take a frame off the map
    Forget {
        /// Frame number, such as 0x1a2b3
        frame: Frame,
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
}

/// Commands of `rampart inject`.
#[derive(Debug, Subcommand)]
pub enum InjectCommand {
    /// Every kind of fault by its name, and how one is planted: `rampart test --inject 'stuck-at:100,seed=7'`
    List {
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
    },
}

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

/// Options of `rampart errors`.
#[derive(Debug, Args)]
pub struct ErrorsArguments {
    /// A database of rasdaemon [default: rasdaemon's own, where there is one]
    #[arg(long, value_name = "FILE")]
    pub database: Option<PathBuf>,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart access`.
#[derive(Debug, Args)]
pub struct AccessArguments {
    /// The file
    pub file: PathBuf,
    /// Draw it, as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Forms of the exported map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The kernel's memmap= option
    Memmap,
    /// GRUB's BadRAM line
    Badram,
    /// JSON
    Json,
}

/// As much memory as is worth a test, such as `4GiB`.
pub fn some_memory(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error: rampart_memory::ParseSizeError| error.to_string())?;
    if bytes < rampart_diagnostic::SMALLEST_CLAIM {
        return Err(format!("{bytes} is too little: give at least {}", rampart_diagnostic::SMALLEST_CLAIM));
    }
    Ok(bytes)
}

/// A march test that can find something.
pub fn a_test_that_reads(text: &str) -> Result<MarchChoice, String> {
    let choice: MarchChoice = text.parse().map_err(|error: ChoiceError| error.to_string())?;
    if choice.test.reads() == 0 {
        return Err("a test that reads nothing finds nothing: add a read, such as ^(r0)".to_owned());
    }
    Ok(choice)
}

/// A time of up to a year, such as `20s`.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all: give at least 1ms, such as 20s or 10m".to_owned()),
        Ok(time) if time > Duration::from_secs(366 * 86_400) => Err("more than a year: give at most 366d".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}: write a time such as 20s, 10m or 2h")),
    }
}

/// A time of up to a minute, or none: so long a tested block may wait.
pub fn some_rest(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time > Duration::from_secs(60) => Err("more than a minute: give less".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}: write a time such as 300ms or 1s, or 0s for none")),
    }
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
