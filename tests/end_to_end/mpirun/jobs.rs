//! Programs that are built for the MPIs that are installed, and run with replicas.

use std::path::{Path, PathBuf};
use std::process::Command;

use rampart_skips::{Feature, skip};
use serde_json::Value;

use super::PROGRAM;
use crate::guarded::is_whole;
use crate::harness::{CommandOutput, Rampart};
use crate::trace::compiles;

/// C and Fortran compilers, as Debian names them.
pub const LIBRARIES: [[&str; 2]; 2] = [["mpicc.openmpi", "mpif90.openmpi"], ["mpicc.mpich", "mpif90.mpich"]];

/// Those that are installed; by day only the first: processes of MPICH that wait take all CPUs.
pub fn libraries() -> Vec<[&'static str; 2]> {
    let installed = LIBRARIES.into_iter().filter(|[c, _]| compiles(c));
    let found: Vec<_> = installed.take(if is_whole() { LIBRARIES.len() } else { 1 }).collect();
    if found.is_empty() {
        skip(Feature::Mpi, "neither mpicc.openmpi nor mpicc.mpich works");
    }
    found
}

/// The programs of an MPI that Debian 12 does not have, and that `.ci/run` installs.
pub fn installed(mpi: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(mpi).join("bin");
    if !folder.join("mpirun").is_file() {
        let feature = Feature::named(mpi).expect("each such MPI is a feature");
        skip(feature, format!("no target/{mpi}, which .ci/run installs"));
        return None;
    }
    Some(folder)
}

/// Open MPI wants to be asked twice to run as root. The others are those of a process that a batch system has started.
const SETTINGS: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("SLURM_PROCID", "0"),
    ("PMI_RANK", "1"),
];

/// A job has that long, though it needs seconds: others may use the machine.
const MOST_SECONDS: u32 = 240;

/// A program, built for one MPI.
pub struct Job {
    pub rampart: Rampart,
}

impl Job {
    pub fn built(compiler: &str, name: &str, program: &str) -> Option<Self> {
        if !compiles(compiler) {
            return None;
        }
        let rampart = Rampart::new();
        let source = rampart.folder().join(name);
        std::fs::write(&source, program).unwrap();
        let mut command = Command::new(compiler);
        command.current_dir(rampart.folder());
        // Others can call the functions of the program, by -rdynamic.
        let built = command.args(["-w", "-rdynamic", "-o"]).arg(rampart.folder().join("program")).arg(&source).status();
        assert!(built.is_ok_and(|built| built.success()), "{compiler} builds the program");
        Some(Self { rampart })
    }

    /// Runs replicas of four ranks, in a folder of their own.
    pub fn run(&self, options: &[&str], argument: &str) -> (CommandOutput, Value) {
        self.run_ranks("4", options, argument)
    }

    pub fn command(&self, ranks: &str, options: &[&str], argument: &str) -> Command {
        let program = self.rampart.folder().join("program");
        let head = ["mpirun", "-n", ranks];
        let words = [&head, options, &["--", program.to_str().unwrap(), argument]].concat();
        let mut command = self.rampart.command_within(MOST_SECONDS, &words);
        command.current_dir(self.rampart.folder()).envs(SETTINGS);
        command
    }

    pub fn run_ranks(&self, ranks: &str, options: &[&str], argument: &str) -> (CommandOutput, Value) {
        let mut command = self.command(ranks, &[&["--json"], options].concat(), argument);
        let output = CommandOutput::from(command.output().expect("the binary runs"));
        let begin = output.err.rfind("{\n  \"compared\"").unwrap_or_else(|| panic!("no document: {output:?}"));
        let document = serde_json::from_str(&output.err[begin..]).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output, document)
    }
}

/// The program for each MPI that is installed.
pub fn jobs() -> Vec<Job> {
    libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", PROGRAM)).collect()
}
