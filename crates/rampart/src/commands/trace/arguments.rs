//! Options of `rampart trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Options of `rampart trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArguments {
    /// Where the trace is written
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write it as a GOAL schedule too, which LogGOPSim reads
    #[arg(long, value_name = "FILE")]
    pub goal: Option<PathBuf>,
    /// The network that the schedule is for, or a file of `rampart project calibrate`: what it takes of the CPUs is
    /// left out there
    #[arg(long, requires = "goal", default_value = "cray-xc40", value_name = "NAME")]
    pub network: String,
    /// The C compiler of the program's MPI [default: the one that is named as the launcher is, `mpicc.mpich` for
    /// `mpirun.mpich`]
    #[arg(long, value_name = "NAME")]
    pub mpicc: Option<OsString>,
    /// One JSON document on standard error, where the line would be: standard output is the program's
    #[arg(long)]
    pub json: bool,
    /// The launcher, the program and their arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub program: Vec<OsString>,
}
