//! What can keep a command from doing what was asked.

use std::io;
use std::path::PathBuf;

/// Why a command could not do what was asked. Each message is one line and says what to do.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// standard output was closed
    OutputClosed,
    /// cannot write to standard output: {0}
    Output(#[source] io::Error),
    /// {0}
    Linux(#[from] rampart_linux::Error),
    /// {0}
    Store(#[from] rampart_store::Error),
    /// {0}
    Diagnostic(#[from] rampart_diagnostic::Error),
    /// frames cannot be tested here: reads of their tests come from a cache ({0}): give --test none, and no option that
    /// needs tests
    NoTestOfFrames(rampart_march::execute::honesty::NoneBypasses),
    /// cannot catch Ctrl-C: {0}
    Signal(#[source] io::Error),
    /// the map cannot be exported: {0}
    Export(#[from] rampart_memory::fault_map::export::Emulated),
    /// the map is not exported: {0}
    ExportRefused(#[from] rampart_memory::fault_map::export::Refusal),
    /// only --format memmap takes --ranges: leave it out
    RangesOfMemmap,
    /// detours cannot be measured here: {0}
    NoCounter(rampart_linux::Absence),
    /// no error can be made here: {0}
    NoErrors(rampart_linux::Absence),
    /// no error would be made: --errors-every must be less than --for
    NoErrorInTime,
    /// this process may not run on {cpu}: name some of {allowed}
    NotAllowed {
        /// What was asked for.
        cpu: rampart_linux::Cpu,
        /// Those that it may run on.
        allowed: String,
    },
    /// {path} is no record of detours: {why}
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// there is no experiment {0:?}: `rampart simulate --list` has all
    NoSuchExperiment(String),
    /// cannot write the drawing to {path}: {cause}
    Plot {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// {0}
    Configuration(String),
    /// process {0} watches already, with the same store: stop it first, or name another store
    Watched(u32),
    /// the state cannot be kept in {0} ({1}): make its folder writable
    State(PathBuf, #[source] io::Error),
    /// nobody can listen on {0} ({1}): name another port
    Metrics(std::net::SocketAddr, String),
    /// the event log {0} cannot be written ({1}): name another
    Events(PathBuf, #[source] io::Error),
    /// {0}
    Knobs(#[from] rampart_guard::knobs::GuardSettingsError),
    /// --on-error is stop, continue, or checkpoint-command and a command
    Uncorrectable,
    /// librampart_preload.so is not beside this program: build it (`cargo build --release -p rampart-preload`), or say
    /// where it is by RAMPART_GUARD_LIBRARY
    NoGuardLibrary,
    /// {0}
    NoEngine(#[from] rampart_guard::engine_choice::NoEngine),
    /// cannot follow the guarded program: {0}
    GuardFolder(#[source] io::Error),
    /// cannot run {name}: {cause}
    Program {
        /// As it was given.
        name: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// cannot write the report to {path}: {cause}
    Report {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// nothing was guarded, and --require-guard was given: {0}
    NothingGuarded(String),
    /// {path} is no trace of accesses: {why}
    Trace {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// {0}
    MpiBuild(#[from] rampart_mpi_build::Error),
    /// too few files may be open at once to follow a program: raise the limit to 64 (`ulimit -n 64`)
    FewFiles,
    /// cannot wait for the program: {0}
    Waiting(#[source] io::Error),
    /// the trace cannot be written to {path}: {cause}
    Traced {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// nothing was recorded: the program never called MPI_Init, or its MPI is not that of {0:?}: name its compiler by
    /// --mpicc
    NothingTraced(std::ffi::OsString),
    /// {0}
    Scale(#[from] rampart_scale::Error),
    /// whose errors? name a --system, an --mtbce, or --from-errors and a --dimm
    NoErrorsNamed,
    /// {path} cannot be simulated: {why}
    Schedule {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// nothing can be measured: {0}
    Calibrated(#[source] io::Error),
    /// {name:?} cannot start the measurement: {why}
    Launcher {
        /// As it was given.
        name: std::ffi::OsString,
        /// What it says.
        why: String,
    },
    /// there is no network {name:?}, nor such a file: name one of {known}, or a file of `rampart project calibrate`
    NoSuchNetwork {
        /// What was named.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// {path} is no database of rasdaemon: {why}
    Database {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// {path} is no network: {why}
    Network {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// {nodes} nodes are no multiple of the {ranks} ranks that were traced: name {known}
    NoMultiple {
        /// How many were asked for.
        nodes: u32,
        /// Of the trace.
        ranks: u32,
        /// The next multiple below, if there is one, and the next one above.
        known: String,
    },
    /// {nodes} nodes would take {needed} of memory and {available} are free: at most {fits} fit
    TooLargeToSimulate {
        /// How many were asked for.
        nodes: u32,
        /// What they would take.
        needed: rampart_memory::Bytes,
        /// What there is.
        available: rampart_memory::Bytes,
        /// A number that fits.
        fits: u32,
    },
    /// no corrected error of {label:?} is recorded: {remedy}
    NoSuchDimm {
        /// What was named.
        label: String,
        /// Those with errors, or that there are none.
        remedy: String,
    },
    /// frame {0} is the kernel's page of zeros, which all programs share: it cannot be retired; leave it off the map
    ZeroPage(rampart_memory::Frame),
    /// frame {0} is not on the map: `rampart map show` lists those that are
    NotOnTheMap(rampart_memory::Frame),
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::execute::Method;
    use rampart_march::execute::honesty::{Honesty, NoneBypasses, Verdict};

    #[test]
    fn whoever_asks_for_tests_that_would_read_a_cache_reads_how_to_do_without() {
        let (method, verdict) = (Method::NonTemporal, Verdict::ReadsCache);
        let seen = Honesty { method, verdict, cached: 0.4, cache_ticks: 20, dram_ticks: 145 };
        let error = Error::NoTestOfFrames(NoneBypasses { methods: vec![seen] }).to_string();
        assert!(error.contains("--test none") && error.contains("40 %"), "{error}");
    }
}
