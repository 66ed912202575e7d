//! `rampart mpirun`: runs replicas of each rank of an MPI program, and compares what they receive [Fiala15, chapter 3].

mod accusations;
pub mod arguments;
mod drop_watch;
mod drops;
mod files;
mod injection;
mod launcher;
mod library;
mod lives;
mod output;
mod pages;
mod placement;
mod propagation_page;
mod report_page;
mod reports;
mod study;
mod taint;
mod time_stamps;
mod waits;

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_linux::SystemClock;
use rampart_memory::Clock as _;
use rampart_native_build::{Compiler, Library};
use serde_json::json;

use self::accusations::Accusations;
use self::arguments::{Mode, MpirunArguments, OnDeath};
use self::drop_watch::DropWatch;
use self::files::{JobFiles, Misplaced};
use self::launcher::LauncherWatch;
use self::library::{MpiKind, NeededLibraries};
use self::output::{JobOutput, Undecided};
use self::pages::JobPages;
use self::placement::Placement;
use self::reports::JobReport;
use self::study::PropagationStudy;
use self::waits::Standstill;
use crate::error::Error;
use crate::output::text::count;
use crate::process::launcher::{LaunchRefusal, LauncherErrors, LauncherOption};
use crate::process::program::{ChildProgram, ProgramEnd, describe_end, exit_code};
use crate::process::signals::{Flag, interruption_flag};

/// What tells a process its rank (`mpi/redmpi/process.c`).
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// The pause between two looks at what the ranks print.
const PAUSE: Duration = Duration::from_millis(50);

/// A job that ended with no word of its replicas.
const UNFINISHED: &str = "the job did not come to its end: an error can have crashed the program";

/// Runs the program and returns its exit code; 1 if the replicas ended it.
pub fn run(arguments: &MpirunArguments, store: Option<PathBuf>) -> Result<u8, Error> {
    let began = SystemClock.now();
    let pages = JobPages::prepare(arguments)?;
    let (kind, launcher) = mpi_of(arguments)?;
    // In the current folder, which processes on other nodes can reach as they reach the program's files.
    let here = |cause| Error::Job { path: ".".into(), cause };
    let mut folder = tempfile::Builder::new().prefix(".rampart-mpirun-").tempdir_in(".").map_err(here)?;
    let path = folder.path().canonicalize().map_err(here)?;
    let interrupted = interruption_flag()?;
    let prepared = prepare(arguments, kind, &launcher, &path, &interrupted);
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::StoppedEarly);
    }
    let command = prepared?;
    let undecided = if arguments.wish().is_none() { Undecided::Nothing } else { Undecided::First };
    let mut output = JobOutput::of(&path, arguments.n.get(), arguments.replicas, undecided);
    let (job, errors) = LauncherErrors::start(command)?;
    // Whatever happens now: what the replicas write is kept until it is in place.
    folder.disable_cleanup(true);
    let mut standstill = Standstill::of(&path, arguments.n.get(), arguments.replicas, arguments.patience);
    let mut drops = DropWatch::of(&path, arguments);
    let (ProgramEnd { status, was_asked }, printed) = wait(job, &mut output, undecided, &mut standstill, &mut drops)?;
    let refusal = errors.refusal();
    let mut report = JobReport::read(&path, arguments.replicas)?;
    let own_end = report.own_end().filter(|_| arguments.on_death == OnDeath::Drop);
    if own_end.is_some() {
        // That processes which had not ended then missed the others is no reason of its own.
        report.stopped = None;
    }
    if let Some(why) = standstill.stops() {
        report.stopped.get_or_insert_with(|| why.to_owned());
    }
    drops.news(&report.drops).iter().for_each(|line| eprintln!("rampart: {line}"));
    output.leave_out(&report.drops.teams());
    let stop_for = |output: &JobOutput| output.undecided().filter(|_| undecided == Undecided::Nothing);
    report.stop_for_output(stop_for(&output));
    if !was_asked {
        report.look_for_early_end(signal_of(status, is_of_open_mpi(kind, &launcher)));
    }
    let end = report.end(status.success());
    let files = JobFiles::of(&path, &teams_left(arguments.replicas, &report), end, undecided).settle();
    report.files = files.map_err(|Misplaced { path: file, cause }| {
        let folder = path.clone();
        Error::Misplaced { path: file, folder, cause }
    })?;
    folder.disable_cleanup(false);
    printed.and_then(|()| output.finish(end)).map_err(Error::Unprinted)?;
    if let Some(refusal) = refusal.filter(|_| report.began == 0 && !status.success()) {
        return Err(not_launched(&launcher, status, &refusal));
    }
    report.stop_for_output(stop_for(&output));
    report.outputs = output.mismatches().to_vec();
    let study = arguments.propagation.as_ref().map(|_| PropagationStudy::of(&report, arguments.counted()));
    let accusations = Accusations::of(&report, arguments.inject.as_ref(), store, began, SystemClock.now());
    if report.began == 0 && !status.success() && !arguments.json {
        eprintln!("rampart: {} failed ({})", launcher.to_string_lossy(), describe_end(status));
    }
    show(arguments, &report, study.as_ref(), &accusations);
    pages.write(arguments, &report, study.as_ref(), status)?;
    Ok(study.map_or_else(
        || code_of(&report, undecided, own_end.unwrap_or_else(|| exit_code(status))),
        |study| u8::from(study.has_failed(&report)),
    ))
}

fn not_launched(launcher: &OsStr, status: ExitStatus, refusal: &LaunchRefusal) -> Error {
    let (name, end) = (launcher.to_string_lossy().into_owned(), describe_end(status));
    Error::NotLaunched { name, end, why: refusal.explained(LauncherOption::HandedOn) }
}

/// The MPI of the program and its launcher, if they can do what the user wants.
fn mpi_of(arguments: &MpirunArguments) -> Result<(MpiKind, OsString), Error> {
    let outlives = arguments.on_death == OnDeath::Drop;
    if outlives && !arguments.drops_teams() {
        return Err(cannot_outlive("three replicas or more that correct errors, and --on-divergence drop"));
    }
    let kind = MpiKind::of(arguments.program.first().expect("a program is required"))?;
    let launcher = arguments.launcher.clone().unwrap_or_else(|| launcher_of(kind));
    if outlives && !is_tolerant(kind, &launcher) {
        return Err(cannot_outlive("mpirun of Open MPI 5 or newer; name it with --launcher"));
    }
    Ok((kind, launcher))
}

/// Puts what the job needs into its folder, and returns the command that starts it.
fn prepare(
    arguments: &MpirunArguments,
    kind: MpiKind,
    launcher: &OsString,
    folder: &Path,
    interrupted: &Flag,
) -> Result<Command, Error> {
    let mut compiler = Compiler::find(arguments.mpicc.as_deref(), std::slice::from_ref(launcher))?;
    if kind == MpiKind::StandardAbi && arguments.mpicc.is_none() {
        compiler = compiler.for_standard_abi();
    }
    let placement = placement(arguments, kind, launcher, &folder.join("nodes"), interrupted)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::StoppedEarly);
    }
    let library = Library::REDMPI.build(&compiler, folder)?;
    if MpiKind::of(library.as_os_str()).ok() != Some(kind) {
        return Err(Error::OtherMpi { mpi: kind.name(), compiler: compiler.name().to_owned() });
    }
    let counter = arguments.counted().map(|name| Library::build_counter(&compiler, folder, name)).transpose()?;
    copy_input(folder)?;
    leave_seed(folder)?;
    if arguments.rdtsc {
        leave_time_stamps(arguments, folder)?;
    }
    if let Some(placement) = placement {
        placement.write(folder, arguments.n.get())?;
    }
    let preload = preload(counter.as_deref(), &library);
    Ok(command(arguments, kind, launcher, preload, folder))
}

/// The exit code of a job: that of the program, unless the replicas ended it.
fn code_of(report: &JobReport, undecided: Undecided, code: u8) -> u8 {
    let is_undecided = undecided == Undecided::Nothing && report.files.iter().any(|one| one.wrong.is_none());
    if report.stopped.is_some() || is_undecided { 1 } else { code }
}

/// The numbers of the teams that were not dropped.
fn teams_left(replicas: u32, report: &JobReport) -> Vec<u32> {
    let dropped = report.drops.teams();
    (0..replicas).filter(|team| !dropped.contains(team)).collect()
}

/// The signal that ended the first process, as the launcher of Open MPI tells it. That of MPICH may tell the one by
/// which it ended the others.
fn signal_of(status: ExitStatus, is_of_open_mpi: bool) -> Option<i32> {
    status.code().filter(|code| is_of_open_mpi && (129..=192).contains(code)).map(|code| code - 128)
}

/// Waits for the job, passes on what it prints, and says if it stands still. Ends it where what it prints is undecided
/// or cannot be passed on, and where it stands still without a team.
fn wait(
    job: ChildProgram,
    output: &mut JobOutput,
    undecided: Undecided,
    standstill: &mut Standstill,
    drops: &mut DropWatch,
) -> Result<(ProgramEnd, std::io::Result<()>), Error> {
    let mut printed = Ok(());
    let mut launcher = LauncherWatch::of(job.number());
    let end = job.wait_or_end(PAUSE, || {
        // What cannot be read now is read at the end.
        let news = drops.look().ok().flatten();
        if let Some(news) = &news {
            output.leave_out(&news.teams);
            news.lines.iter().for_each(|line| eprintln!("rampart: {line}"));
        }
        if printed.is_ok() {
            printed = output.pass_on();
        }
        launcher.look();
        standstill.look().into_iter().flatten().for_each(|line| eprintln!("rampart: {line}"));
        let is_wrong = undecided == Undecided::Nothing && output.undecided().is_some();
        let is_aborted = news.is_some_and(|news| news.is_aborted);
        let is_stuck = standstill.stops().is_some();
        if is_wrong || is_aborted || is_stuck || printed.is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok((end, printed))
}

/// Copies standard input for the replicas of the first rank, if it is a file: the launcher hands it to one process
/// only.
fn copy_input(folder: &Path) -> Result<(), Error> {
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(Error::Input)?);
    if input.metadata().map_err(Error::Input)?.is_file() {
        let path = folder.join("stdin");
        let unwritten = |cause| Error::Job { path: path.clone(), cause };
        let mut copy = File::create(&path).map_err(unwritten)?;
        std::io::copy(&mut input, &mut copy).map_err(unwritten)?;
    }
    Ok(())
}

/// Leaves a secret for what all replicas of a rank must draw alike (`mpi/redmpi/randomness.h`).
fn leave_seed(folder: &Path) -> Result<(), Error> {
    let mut seed = [0; 32];
    let path = folder.join("seed");
    let written = File::open("/dev/urandom").and_then(|mut device| {
        device.read_exact(&mut seed)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(&seed)
    });
    written.map_err(|cause| Error::Job { path, cause })
}

/// Leaves a list of where the program reads the time-stamp counter (`mpi/redmpi/time_stamps.h`).
fn leave_time_stamps(arguments: &MpirunArguments, folder: &Path) -> Result<(), Error> {
    let libraries = NeededLibraries::of(arguments.program.first().expect("a program is required"))?;
    let path = folder.join("time-stamps");
    std::fs::write(&path, time_stamps::list(&libraries)).map_err(|cause| Error::Job { path, cause })
}

/// The first launcher that can be run, or the last name, for the message.
fn launcher_of(kind: MpiKind) -> OsString {
    let can_run = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let names = kind.launchers();
    names.into_iter().find(can_run).unwrap_or(names[names.len() - 1]).into()
}

/// Which process is which replica, unless it is as usual. `answers` is a file for what the launcher says of it.
fn placement(
    arguments: &MpirunArguments,
    kind: MpiKind,
    launcher: &OsStr,
    answers: &Path,
    interrupted: &Flag,
) -> Result<Option<Placement>, Error> {
    let (ranks, replicas) = (arguments.n.get(), arguments.replicas);
    if let Some(map) = &arguments.map {
        return Placement::read(map, ranks, replicas).map(Some);
    }
    let is_own = !kind.launchers().contains(&name_of(launcher).as_str());
    let has_options = !arguments.launcher_option.is_empty() || is_own;
    if !placement::may_be_spread(has_options) {
        return Ok(None);
    }
    let nodes = placement::nodes_by(start(arguments, kind, launcher), ranks * replicas, answers, interrupted);
    Ok(nodes.map(|nodes| Placement::spread(&nodes, ranks)))
}

/// The launcher, with all but the program.
fn start(arguments: &MpirunArguments, kind: MpiKind, launcher: &OsStr) -> Command {
    let mut command = Command::new(launcher);
    command.arg("-n").arg((arguments.n.get() * arguments.replicas).to_string());
    if is_of_open_mpi(kind, launcher) {
        // There are more processes than the user has counted CPUs for.
        command.arg("--oversubscribe");
    }
    if arguments.on_death == OnDeath::Drop {
        command.args(["--with-ft", "ulfm"]);
    }
    command.args(&arguments.launcher_option);
    // A batch system may have set one for this process: the launcher is no rank.
    RANKS.iter().for_each(|name| _ = command.env_remove(name));
    if name_of(launcher).starts_with("srun") {
        // If a process dies, the others would wait for it for ever.
        command.env("RAMPART_SLURM", "1").arg("--kill-on-bad-exit=1");
    }
    command
}

fn name_of(launcher: &OsStr) -> String {
    Path::new(launcher).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether it is the launcher of Open MPI itself, and no batch system's.
fn is_of_open_mpi(kind: MpiKind, launcher: &OsStr) -> bool {
    let name = name_of(launcher);
    kind == MpiKind::OpenMpi && ["mpirun", "mpiexec", "orterun", "prterun"].iter().any(|known| name.starts_with(known))
}

fn cannot_outlive(what: &str) -> Error {
    Error::Replicas(format!("--on-death drop takes {what}"))
}

/// Whether a launcher has `--with-ft`: that of Open MPI from version 5 on.
fn is_tolerant(kind: MpiKind, launcher: &OsStr) -> bool {
    let version = Command::new(launcher).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    let major = version.split_once("(Open MPI) ").and_then(|(_, rest)| rest.split('.').next()?.parse::<u32>().ok());
    is_of_open_mpi(kind, launcher) && major.is_some_and(|major| major >= 5)
}

/// The libraries to preload, in their order: ours before those that the user has preloaded.
fn preload(counter: Option<&Path>, library: &Path) -> OsString {
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let ours = counter.into_iter().chain([library]).map(|one| one.as_os_str().to_owned());
    ours.chain(others).collect::<Vec<_>>().join(OsStr::new(":"))
}

/// How many variables, and how many bytes, all processes of the job shall have: with room for those of launchers
/// (`mpi/redmpi/process.c`).
fn size_of_environment(ours: &[(&str, OsString)]) -> String {
    const VARIABLES: usize = 256;
    const BYTES: usize = 48 << 10;
    let own = std::env::vars_os().map(|(name, value)| (name.len(), value.len()));
    let ours = ours.iter().map(|(name, value)| (name.len(), value.len()));
    let lengths: Vec<usize> = own.chain(ours).map(|(name, value)| name + value + "=\0".len()).collect();
    format!("{},{}", lengths.len() + VARIABLES, lengths.iter().sum::<usize>() + BYTES)
}

fn command(arguments: &MpirunArguments, kind: MpiKind, launcher: &OsStr, preload: OsString, folder: &Path) -> Command {
    let mut variables: Vec<(&str, OsString)> = vec![
        ("LD_PRELOAD", preload),
        ("RAMPART_REDMPI", folder.into()),
        ("RAMPART_REPLICAS", arguments.replicas.to_string().into()),
        ("RAMPART_RANKS", arguments.n.to_string().into()),
        ("RAMPART_PATIENCE", arguments.patience.to_string().into()),
        ("RAMPART_PROTOCOL", arguments.protocol.name().into()),
    ];
    if let Some(wish) = arguments.wish() {
        variables.push(("RAMPART_ON_MISMATCH", wish.into()));
    }
    if arguments.mode == Mode::Later {
        variables.push(("RAMPART_MODE", "later".into()));
    }
    if let Some(function) = arguments.counted() {
        variables.push(("RAMPART_STEP", function.into()));
    }
    if arguments.drops_teams() {
        variables.push(("RAMPART_DROP_TEAMS", "1".into()));
    }
    if let Some(injection) = &arguments.inject {
        variables.push(("RAMPART_INJECT", injection.to_string().into()));
    }
    if arguments.on_death == OnDeath::Drop {
        variables.push(("RAMPART_OUTLIVE_DEATHS", "1".into()));
    }
    variables.push(("RAMPART_ENVIRONMENT", size_of_environment(&variables).into()));
    let mut command = start(arguments, kind, launcher);
    if is_of_open_mpi(kind, launcher) {
        // Other launchers hand on all variables, also to other nodes.
        command.args(variables.iter().flat_map(|(name, _)| ["-x", name]));
    }
    command.args(&arguments.program).envs(variables);
    command
}

fn show(arguments: &MpirunArguments, report: &JobReport, study: Option<&PropagationStudy>, accusations: &Accusations) {
    let (ranks, replicas) = (arguments.n.get(), arguments.replicas);
    if arguments.json {
        let mut document = report.document(ranks, replicas);
        document["protocol"] = arguments.protocol.name().into();
        document["mode"] = if arguments.mode == Mode::Later { "later" } else { "now" }.into();
        document["suspect_nodes"] = json!(accusations.suspects);
        document["not_stored"] = json!({ "errors": accusations.left_out, "why": accusations.not_stored });
        if let Some(study) = study {
            document["propagation"] = study.document(report);
        }
        eprintln!("{document:#}");
        return;
    }
    if let Some(why) = report.stopped.as_ref().filter(|_| study.is_some() && report.has_diverged) {
        eprintln!("rampart: replicas left their common path: {why}");
    } else if let Some(why) = &report.stopped {
        eprintln!("rampart: the job was stopped: {why}");
    } else if let Some(line) = report.early_end_line() {
        eprintln!("rampart: {line}");
    } else if report.began == 0 {
        eprintln!("rampart: the program did not begin with MPI: nothing was compared");
        return;
    }
    report.drops.unfinalized_lines().for_each(|line| eprintln!("rampart: {line}"));
    eprintln!("rampart: {}", report.summary(ranks, replicas, arguments.mode));
    if let Some(share) = report.comparer_share() {
        eprintln!("rampart: comparing took {:.2} % of the job's CPU time", 100.0 * share);
    }
    if let Some(study) = study {
        eprintln!("rampart: {}", study.summary(ranks));
        if report.stopped.is_none() && report.ended < report.began {
            eprintln!("rampart: {UNFINISHED}");
        }
        study.remarks().for_each(|line| eprintln!("rampart: {line}"));
    }
    for line in report.output_lines().chain(report.file_lines()) {
        eprintln!("rampart: {line}");
    }
    for (node, ranks) in report.crowded_nodes() {
        eprintln!("rampart: {} several replicas on node {node}, which an error of that node can hit", having(ranks));
    }
    for (node, times) in report.erring_nodes() {
        eprintln!("rampart: node {node} had {} wrong", count(times as u64));
    }
    accusations.lines().iter().for_each(|line| eprintln!("rampart: {line}"));
}

fn having(ranks: u32) -> String {
    if ranks == 1 { "one rank has".to_owned() } else { format!("{} ranks have", count(ranks.into())) }
}
