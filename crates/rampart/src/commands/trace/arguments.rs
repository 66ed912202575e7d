//! Options of `rampart trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Options of `rampart trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArguments {
    /// Write the trace to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write a GOAL schedule for LogGOPSim too
    #[arg(long, value_name = "FILE")]
    pub goal: Option<PathBuf>,
    /// The network of the GOAL schedule, by name or as a file of `rampart project calibrate`: the CPU time that the
    /// network takes is left out of the schedule
    #[arg(long, requires = "goal", default_value = "cray-xc40", value_name = "NAME")]
    pub network: String,
    /// The C compiler of the program's MPI [default: the one beside the launcher, such as `mpicc.mpich` for
    /// `mpirun.mpich`]
    #[arg(long, value_name = "NAME")]
    pub mpicc: Option<OsString>,
    /// Print one JSON document instead of text, on standard error: standard output is the program's
    #[arg(long)]
    pub json: bool,
    /// The launcher, the program and their arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}
