//! Options of `rampart project`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rampart_scale::Reporting;
use rampart_scale::detour::{Burst, CorrectedErrors, ErrorCost, Nodes, Overlap};
use rampart_scale::operation::Rank;
use rampart_scale::system::System;
use rampart_scale::time::Time;

use super::replicas::arguments::ReplicaArguments;
use crate::error::Error;
use crate::parsing::{simulated_time, time};

/// Options of `rampart project`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ProjectArguments {
    /// A command in place of a question
    #[command(subcommand)]
    pub command: Option<ProjectCommand>,
    /// The one question
    #[command(flatten)]
    pub question: QuestionArguments,
    /// The other question
    #[command(flatten)]
    pub replicas: ReplicaArguments,
}

/// Commands of `rampart project`.
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Repeat a figure of Ferreira et al. 2021, or figure 3.1 and tables of Fiala 2015, beside the claims of its text
    Sweep(SweepArguments),
    /// Measure the network of this machine's MPI between two ranks, for `--network`
    Calibrate(CalibrateArguments),
}

/// Options of one question.
#[derive(Debug, Args)]
pub struct QuestionArguments {
    /// List the known systems, workloads and networks
    #[arg(long)]
    pub list: bool,
    /// A system by name, which sets nodes and errors
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// A workload by name: the trace of the real program (lammps-lj, lammps-crack, lulesh, hpcg, minife), or a skeleton
    /// of it (lammps-snap, cth, milc, sparc, and lulesh-skeleton etc.); --list has their sources
    #[arg(long, value_name = "NAME", default_value = "lulesh", conflicts_with = "goal")]
    pub workload: String,
    /// Instead of a workload, a GOAL schedule, as text or binary
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub goal: Option<PathBuf>,
    /// Instead of a workload, a program that `rampart trace` recorded, on its own ranks or, by --nodes, on a multiple
    /// of them; with --system, on as many as that has
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "goal"])]
    pub trace: Option<PathBuf>,
    /// Extrapolate a skeleton as Ferreira et al. 2021 do: copies of some hundred ranks, which only collectives connect
    /// [default: one grid of all ranks]; a trace is always extrapolated
    #[arg(long, conflicts_with_all = ["goal", "trace"])]
    pub extrapolated: bool,
    /// Who logs errors, and so how long each takes the CPU
    #[arg(long, value_enum, default_value_t = Path::Software)]
    pub reporting: Path,
    /// The number of nodes, each with one rank [default: the system's, or 16,384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub nodes: Option<u32>,
    /// The mean time between corrected errors of a node, such as 720s [default: the system's]
    #[arg(long, value_name = "TIME", value_parser = simulated_time, conflicts_with_all = ["system", "from_errors"])]
    pub mtbce: Option<Duration>,
    /// How long an error takes the CPU, such as 775us [default: by --reporting]
    #[arg(long, value_name = "TIME", value_parser = simulated_time)]
    pub cost: Option<Duration>,
    /// The firmware's cost as Ferreira et al. 2021 measured it: 7 ms for each error, and 500 ms for each tenth one
    #[arg(long, conflicts_with = "cost")]
    pub two_level: bool,
    /// Instead of errors, detours that `rampart noise --csv` recorded: as frequent on each node, and as long
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system", "mtbce", "cost", "two_level", "reporting", "from_errors"])]
    pub detours: Option<PathBuf>,
    /// Only one node has errors
    #[arg(long)]
    pub one_node: bool,
    /// An error that arrives during another one waits for it (the default)
    #[arg(long, conflicts_with = "dropped")]
    pub queued: bool,
    /// An error that arrives during another one is lost
    #[arg(long)]
    pub dropped: bool,
    /// The network, by name or as a file of `rampart project calibrate`
    #[arg(long, value_name = "NAME", default_value = "cray-xc40")]
    pub network: String,
    /// Ask whether to replace a DIMM, by its errors in this database of rasdaemon
    #[arg(long, value_name = "FILE", requires = "dimm", conflicts_with = "system")]
    pub from_errors: Option<PathBuf>,
    /// The label of that DIMM
    #[arg(long, value_name = "LABEL", requires = "from_errors")]
    pub dimm: Option<String>,
    /// How many runs, each with different errors
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub seeds: u64,
    /// The seed of the errors
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rampart project calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArguments {
    /// Write the parameters to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The C compiler of the MPI [default: the one beside the launcher]
    #[arg(long, value_name = "NAME")]
    pub mpicc: Option<OsString>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// The launcher that starts two ranks [default: mpirun -n 2]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "LAUNCHER")]
    pub launcher: Vec<OsString>,
}

/// A figure that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureChoice {
    /// One of \[Ferreira21\], by its number.
    Slowdown(u8),
    /// [Fiala15, fig. 3.1].
    Replicas,
}

/// The number of a figure.
fn figure_choice(text: &str) -> Result<FigureChoice, String> {
    let number = || text.parse().map(FigureChoice::Slowdown);
    let known = if text == "3.1" { Ok(FigureChoice::Replicas) } else { number() };
    known.map_err(|_| "figures are 3 to 7 of Ferreira et al. 2021, and 3.1 of Fiala 2015".to_owned())
}

/// Options of `rampart project sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// The number of the figure: 3 to 7 of Ferreira et al. 2021, or 3.1 of Fiala 2015
    #[arg(long, value_name = "N", value_parser = figure_choice)]
    pub figure: FigureChoice,
    /// Draw the figure as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the numbers of the figure to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Only this workload; can be given several times [default: all traces and all skeletons]
    #[arg(long, value_name = "NAME")]
    pub workload: Vec<String>,
    /// Simulate skeletons only, as one grid of all ranks [default: extrapolate as Ferreira et al. 2021 do, by copies of
    /// some hundred ranks]
    #[arg(long)]
    pub whole: bool,
    /// How many runs of each bar [default: 8]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub seeds: Option<u64>,
    /// How many errors each run should have [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub errors: Option<u64>,
    /// The seed of the errors [default: 1]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

impl SweepArguments {
    /// Whether there are options that only a simulated figure has.
    pub fn is_about_simulation(&self) -> bool {
        let numbers = [self.seeds, self.errors, self.seed];
        self.whole || !self.workload.is_empty() || numbers.iter().any(Option::is_some)
    }
}

/// Who logs errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Path {
    /// Nobody: 150 ns per error
    Hardware,
    /// The kernel: 775 us per error
    Software,
    /// The firmware: 133 ms per error
    Firmware,
}

impl From<Path> for Reporting {
    fn from(path: Path) -> Self {
        match path {
            Path::Hardware => Self::Hardware,
            Path::Software => Self::Software,
            Path::Firmware => Self::Firmware,
        }
    }
}

/// Nodes where neither they nor a system are named.
const NODES: u32 = 16_384;

impl QuestionArguments {
    fn system(&self) -> Result<Option<System>, Error> {
        Ok(self.system.as_deref().map(System::named).transpose()?)
    }

    /// The nodes that were asked for, or that the system has.
    pub fn wanted_nodes(&self) -> Result<Option<u32>, Error> {
        Ok(self.nodes.or(self.system()?.and_then(|system| system.simulated)))
    }

    /// The nodes, and the errors on them; `observed` are a DIMM's mean time between errors, or recorded detours with
    /// their lengths.
    pub fn errors(&self, observed: Option<(Time, Option<ErrorCost>)>) -> Result<(u32, CorrectedErrors), Error> {
        let system = self.system()?;
        let nodes = self.wanted_nodes()?.unwrap_or(NODES);
        let of_system = system.map(|system| Time::from_secs_f64(system.mtbce_secs));
        let (observed, recorded) = observed.map_or((None, None), |(mean, recorded)| (Some(mean), recorded));
        let mean = observed.or(self.mtbce.map(time)).or(of_system).ok_or(Error::NoErrorsNamed)?;
        let of_one = self.one_node || self.from_errors.is_some();
        let cost = match (recorded, self.cost, self.two_level) {
            (Some(recorded), _, _) => recorded,
            (None, Some(cost), _) => ErrorCost::Fixed(time(cost)),
            (None, None, true) => ErrorCost::firmware_two_level(),
            (None, None, false) => Reporting::from(self.reporting).cost(),
        };
        let overlap = if self.dropped { Overlap::Dropped } else { Overlap::Queued };
        let place = if of_one { Nodes::One(Rank(nodes / 2)) } else { Nodes::All };
        Ok((nodes, CorrectedErrors { nodes: place, mean, burst: Burst::SINGLE, cost, overlap, seed: self.seed }))
    }
}
