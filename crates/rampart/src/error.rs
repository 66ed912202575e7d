//! The errors of commands.

use std::io;
use std::path::PathBuf;

/// Why a command could not do its work. Each message is one line and says what to do.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// --quiet and --verbose exclude each other: leave one out
    QuietAndVerbose,
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
    NoTestOfFrames(rampart_march::execute::bypass::NoneBypasses),
    /// cannot catch Ctrl-C: {0}
    Signal(#[source] io::Error),
    /// the map cannot be exported: {0}
    Export(#[from] rampart_memory::fault_map::export::Emulated),
    /// the map is not exported: {0}
    ExportRefused(#[from] rampart_memory::fault_map::export::ExportRefusal),
    /// only --format memmap takes --ranges: leave it out
    RangesOfMemmap,
    /// --frames, --node, --dimm and --used choose frames, which --source free cannot: leave it out
    FreeIsNotChosen,
    /// the kernel module hands over frames that are chosen (--frames, --node, --dimm, --used): leave --memory and
    /// --inject out
    ChosenByNumber,
    /// detours cannot be measured here: {0}
    NoCounter(rampart_linux::Absence),
    /// no error can be injected here: {0}
    NoErrors(rampart_linux::Absence),
    /// no memory blocks here: {0}
    NoBlocks(rampart_linux::Absence),
    /// this machine does not show its zones (/proc/zoneinfo): mount /proc
    NoZones,
    /// which blocks can be emptied is unknown: {0}
    NoCensus(String),
    /// the record of offline blocks, {0}, cannot be kept ({1}): make it writable
    OfflineRecord(PathBuf, #[source] io::Error),
    /// page allocations cannot be recorded here: {0}
    NoPageEvents(rampart_linux::Absence),
    /// {0} exists already: name another file by --out
    TraceExists(PathBuf),
    /// stopped before the program began
    StoppedEarly,
    /// another `rampart banks` is at work: wait until it has ended
    BanksBusy,
    /// no error would be injected: --errors-every must be less than --for
    NoErrorInTime,
    /// this process may not run on {cpu}: name some of {allowed}
    NotAllowed {
        /// The CPU that was asked for.
        cpu: rampart_linux::CpuNumber,
        /// The CPUs that it may run on.
        allowed: String,
    },
    /// {path} is not a record of detours: {why}
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// there is no experiment {0:?}: `rampart simulate --list` shows all
    NoSuchExperiment(String),
    /// cannot write the drawing to {path}: {cause}
    Plot {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// {0}
    Configuration(String),
    /// process {0} already watches with the same store: stop it first, or name another store
    Watched(u32),
    /// the state file {0} cannot be written ({1}): make its folder writable
    State(PathBuf, #[source] io::Error),
    /// cannot listen on {0} ({1}): name another port
    Metrics(std::net::SocketAddr, String),
    /// the man pages cannot be written into {0} ({1}): name another folder
    Pages(PathBuf, #[source] io::Error),
    /// the event log {0} cannot be written ({1}): name another
    Events(PathBuf, #[source] io::Error),
    /// {0}
    GuardSettings(#[from] rampart_guard::GuardSettingsError),
    /// --on-error is stop, continue, or checkpoint-command and a command
    Uncorrectable,
    /// there is no library of the guard: build the optimized program, which carries it (`cargo build --release`), or
    /// name librampart_preload.so in RAMPART_GUARD_LIBRARY
    NoGuardLibrary,
    /// {0}
    NoEngine(#[from] rampart_guard::engine_choice::NoEngine),
    /// cannot follow the guarded program: {0}
    GuardFolder(#[source] io::Error),
    /// cannot run {name}: {cause}
    Program {
        /// The name as it was given.
        name: String,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// cannot write the report to {path}: {cause}
    Report {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// nothing was guarded, and --require-guard was given: {0}
    NothingGuarded(String),
    /// {path} is not a trace of page allocation: {why}
    PageTrace {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {0}
    Banks(#[from] rampart_banks::Error),
    /// {path} is not a trace of accesses: {why}
    Trace {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {program:?} cannot have replicas: {why}
    NoMpi {
        /// The program.
        program: std::ffi::OsString,
        /// The reason.
        why: String,
    },
    /// the program needs {mpi}, and {compiler:?} is of another MPI: name the right --launcher, or --mpicc
    OtherMpi {
        /// The MPI of the program.
        mpi: &'static str,
        /// The compiler of the launcher's MPI.
        compiler: std::ffi::OsString,
    },
    /// {0}
    JavaLaunch(String),
    /// {path} cannot be read ({cause}): `java/build` in Rampart's tree makes the list of the bench's programs
    BenchProgram {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// the bench has no program {name:?}: name one of {known}
    NoSuchProgram {
        /// The name that was given.
        name: String,
        /// The programs.
        known: String,
    },
    /// {path} is no file of results of `rampart heap bench`: {why}
    HeapResults {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// {0} has no results: `rampart heap bench --results {0}` makes some
    NoHeapResults(PathBuf),
    /// {program} prints something else than on HotSpot ({run}): this is a bug of Rampart, please report it
    WrongOutput {
        /// The program.
        program: String,
        /// The options of the run.
        run: String,
    },
    /// {0} failed or did not finish within 10 minutes, with ample memory: `rampart java` shows what it says
    BenchUnfinished(String),
    /// stopped: finished runs are kept
    BenchStopped,
    /// {0}
    Heap(#[from] rampart_heap::Error),
    /// cannot read standard input: {0}
    Input(#[source] io::Error),
    /// what the program prints cannot be passed on: {0}
    Unprinted(#[source] io::Error),
    /// {path} cannot be put in place: {cause}; what the replicas wrote is in {folder}
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The job's folder, which is kept.
        folder: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// {0}
    Replicas(String),
    /// {path} is no map of ranks: {why}
    Map {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// the job's folder {path} cannot be used: {cause}
    Job {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// {0}
    NativeBuild(#[from] rampart_native_build::Error),
    /// stopped: no module was built
    BuildStopped,
    /// what was built is not Rampart's kernel module: leave out --sources, or name a copy of Rampart's folder kernel/
    ForeignModule,
    /// the module cannot be kept in {path} ({cause}): run as root, or name another folder by --modules
    ModuleFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// the headers in {folder} are of kernel {found}, not of {wanted}: install those of {wanted}, or name a folder by
    /// --headers
    OtherHeaders {
        /// The folder.
        folder: PathBuf,
        /// The release that the module was built for.
        found: String,
        /// The release that was asked for.
        wanted: String,
    },
    /// no module was built for kernel {release} (there is no {path}): `rampart kernel build` builds one
    NotBuilt {
        /// The running release.
        release: String,
        /// The file that is missing.
        path: PathBuf,
    },
    /// {0}
    Module(#[from] rampart_linux::kernel_module::ModuleRefusal),
    /// {0}
    ModuleView(rampart_linux::Absence),
    /// too few files may be open at once to follow a program: raise the limit to 64 (`ulimit -n 64`)
    FewFiles,
    /// cannot wait for the program: {0}
    Waiting(#[source] io::Error),
    /// the trace cannot be written to {path}: {cause}
    Traced {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// {name} failed ({end}), and nothing was recorded: {why}
    TracedFailed {
        /// The program as it was named.
        name: String,
        /// How it ended.
        end: String,
        /// The reason, and what to do.
        why: String,
    },
    /// {name} failed ({end}), and the program did not begin: {why}
    NotLaunched {
        /// The launcher.
        name: String,
        /// How it ended.
        end: String,
        /// The reason, and what to do.
        why: String,
    },
    /// nothing was recorded: the program never called MPI_Init, or its MPI is not that of {0:?}: name its compiler by
    /// --mpicc
    NothingTraced(std::ffi::OsString),
    /// {0}
    Scale(#[from] rampart_scale::Error),
    /// no errors are named: give a --system, an --mtbce, or --from-errors and a --dimm
    NoErrorsNamed,
    /// figure 3.1 is computed, not simulated: leave out --workload, --whole, --seeds, --errors and --seed
    NothingSimulated,
    /// {path} cannot be simulated: {why}
    Schedule {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// the network cannot be measured: {0}
    Calibrated(#[source] io::Error),
    /// {name:?} cannot start the measurement: {why}
    Launcher {
        /// The name as it was given.
        name: std::ffi::OsString,
        /// Its first message.
        why: String,
    },
    /// there is no network or file {name:?}: name one of {known}, or a file of `rampart project calibrate`
    NoSuchNetwork {
        /// The name that was given.
        name: String,
        /// The known networks.
        known: String,
    },
    /// {path} is not a database of rasdaemon: {why}
    Database {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {path} is no map of DIMMs: {why}
    DimmMap {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {path} is not a network: {why}
    Network {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {nodes} nodes are not a multiple of the {ranks} traced ranks: name {known}
    NoMultiple {
        /// The number that was asked for.
        nodes: u32,
        /// The number in the trace.
        ranks: u32,
        /// The next multiple below, if there is one, and the next one above.
        known: String,
    },
    /// {name} is a trace, which is no grid of all ranks: name {name}-skeleton, or leave out --whole
    NoGrid {
        /// The name of the workload.
        name: String,
    },
    /// {nodes} nodes would take {needed} of memory and {available} are free: at most {fits} fit
    TooLargeToSimulate {
        /// The number that was asked for.
        nodes: u32,
        /// The memory that they would take.
        needed: rampart_memory::Bytes,
        /// The memory that is free.
        available: rampart_memory::Bytes,
        /// The largest number that fits.
        fits: u32,
    },
    /// no corrected error of {label:?} is recorded: {remedy}
    NoSuchDimm {
        /// The name that was given.
        label: String,
        /// The DIMMs with errors, or that there are none.
        remedy: String,
    },
    /// frame {0} is the kernel's page of zeros, which all programs share, and cannot be retired: leave it off the map
    ZeroPage(rampart_memory::Frame),
    /// frame {0} is not on the map: `rampart map show` lists those that are
    NotOnTheMap(rampart_memory::Frame),
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::execute::Method;
    use rampart_march::execute::bypass::{BypassCheck, BypassVerdict, NoneBypasses};

    #[test]
    fn whoever_asks_for_tests_that_would_read_a_cache_reads_how_to_do_without() {
        let (method, verdict) = (Method::NonTemporal, BypassVerdict::ReadsCache);
        let seen = BypassCheck { method, verdict, cached: 0.4, cache_ticks: 20, dram_ticks: 145 };
        let error = Error::NoTestOfFrames(NoneBypasses { methods: vec![seen] }).to_string();
        assert!(error.contains("--test none") && error.contains("40 %"), "{error}");
    }
}
