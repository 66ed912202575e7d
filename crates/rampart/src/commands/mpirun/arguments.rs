//! Options of `rampart mpirun`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::injection::Injection;

/// Options of `rampart mpirun`.
#[derive(Clone, Debug, Args)]
pub struct MpirunArguments {
    /// The number of ranks that the program sees; N times REPLICAS processes are started, even if there are fewer CPUs
    #[arg(short, long, value_name = "N")]
    pub n: NonZeroU32,
    /// The replicas of each rank: 2 detect wrong messages, 3 or more correct them
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16), value_name = "R")]
    pub replicas: u32,
    /// What each replica of a sender sends to the replicas of the receiver; all-to-all not with --mode later
    #[arg(long, value_enum, default_value_t = Protocol::Msgplushash, value_name = "NAME")]
    pub protocol: Protocol,
    /// When replicas are compared: before the program gets a message, or in the background, which corrects nothing
    #[arg(long, value_enum, default_value_t = Mode::Now, value_name = "WHEN")]
    pub mode: Mode,
    /// What to do at a mismatch that no majority settles; with --mode later, at any mismatch
    #[arg(long, value_enum, default_value_t = OnMismatch::Stop, value_name = "WHAT")]
    pub on_mismatch: OnMismatch,
    /// Flip a bit in each message with a probability of 1/X (flip:send:rate=1/X), in the N-th message of each process
    /// (flip:send:at=N), or in its first one after the N-th step begins (flip:send:step=N), `seed=N` flips other bits;
    /// or change its N-th send (call:at=N,change=tag|length|target|skip|loop). `rank=N` and `replica=N` limit it to one
    /// rank or replica, as in flip:send:at=3,rank=1,replica=0
    #[arg(long, value_name = "ERROR")]
    pub inject: Option<Injection>,
    /// Study how the flip spreads: nothing is corrected, each replica keeps what it receives. FILE becomes a page that
    /// shows which ranks it reached in which step
    #[arg(long, value_name = "FILE", requires = "inject")]
    pub propagation: Option<PathBuf>,
    /// Each call of this function of MPI begins a step of the program [default: MPI_Pcontrol]
    #[arg(long, value_name = "FUNCTION")]
    pub step: Option<String>,
    /// Write a page about the job: what was compared, and each mismatch
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Say what each rank waits for when all have waited for so many seconds; 0 turns this off
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub patience: u32,
    /// What to do, with three replicas or more, when one makes other MPI calls than the others
    #[arg(long, value_enum, default_value_t = OnDivergence::Drop, value_name = "WHAT")]
    pub on_divergence: OnDivergence,
    /// What to do, with three replicas or more, when a replica dies: `drop` needs Open MPI 5 with fault tolerance and
    /// its own `mpirun`, which gets `--with-ft ulfm`
    #[arg(long, value_enum, default_value_t = OnDeath::Stop, value_name = "WHAT")]
    pub on_death: OnDeath,
    /// Make the instructions `rdtsc` and `rdtscp` return the same value in all replicas, as other clocks do: for
    /// programs that send or print times measured so, such as GROMACS. x86-64 only; each reading then takes some
    /// microseconds
    #[arg(long)]
    pub rdtsc: bool,
    /// The launcher, which must take `-n` [default: `mpirun.openmpi` or `mpirun.mpich`, as the program's MPI is, or
    /// else `mpirun`]
    #[arg(long, value_name = "NAME")]
    pub launcher: Option<OsString>,
    /// Pass one argument to the launcher; repeat it for more, as in `--launcher-option=--hostfile
    /// --launcher-option=hosts`
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub launcher_option: Vec<OsString>,
    /// Which process is which replica: a line for each process as the launcher numbers them, with its rank and its
    /// replica, both from 0 [default: replicas of a rank are on different nodes, as far as that can be]
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// The C compiler of the program's MPI [default: the one beside the launcher, such as `mpicc.openmpi` for
    /// `mpirun.openmpi`]
    #[arg(long, value_name = "NAME")]
    pub mpicc: Option<OsString>,
    /// Print one JSON document instead of text, at the end of standard error, after what the program wrote there
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

impl MpirunArguments {
    /// The function whose calls are counted, if it is not the one that is counted always.
    pub fn counted(&self) -> Option<&str> {
        self.step.as_deref().filter(|name| *name != PCONTROL)
    }

    /// What `mpi/redmpi/events.c` is to do where no majority agrees.
    pub const fn wish(&self) -> Option<&'static str> {
        match self.on_mismatch {
            _ if self.propagation.is_some() => Some("keep"),
            OnMismatch::Continue => Some("continue"),
            OnMismatch::Stop => None,
        }
    }

    /// Whether teams can be dropped: two replicas have no majority, and replicas must correct errors.
    pub fn drops_teams(&self) -> bool {
        let corrects = self.mode == Mode::Now && self.wish().is_none();
        self.on_divergence == OnDivergence::Drop && self.replicas > 2 && corrects
    }

    /// The program and its arguments, in one line.
    pub fn program_line(&self) -> String {
        self.program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// When replicas are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Before the program gets a message: a wrong one is corrected, or ends the job before it does harm
    Now,
    /// Within a second after the last replica got it: an error is found, and nothing is corrected
    Later,
}

/// The function of MPI by which programs report their steps.
pub const PCONTROL: &str = "MPI_Pcontrol";

/// What a replica sends to those replicas of a receiver that are not of its team [Fiala15, 3.3.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// A hash of each message, to as many replicas as a majority needs; where hashes differ, replicas vote
    Msgplushash,
    /// Each message as a whole, to all: each replica decides alone
    AllToAll,
}

impl Protocol {
    /// Its name, for `mpi/redmpi/protocol.c`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msgplushash => "msgplushash",
            Self::AllToAll => "all-to-all",
        }
    }
}

/// What becomes of a job of which a replica leaves the path that all have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnDivergence {
    /// Go on without its team, which is one replica of each rank
    Drop,
    /// End the job, as with two replicas
    Stop,
}

/// What becomes of a job of which a replica dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnDeath {
    /// The MPI ends the job
    Stop,
    /// Go on without its team, which is one replica of each rank
    Drop,
}

/// What becomes of a job whose replicas differ without a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnMismatch {
    /// End the job; with --mode now, before the program sees the data
    Stop,
    /// Go on: each replica keeps what it received, so results may be wrong
    Continue,
}
