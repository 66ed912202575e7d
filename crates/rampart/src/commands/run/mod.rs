//! `rampart run`: runs a program and guards its memory.

pub mod arguments;
mod following;
mod library;
mod page;
mod server;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rampart_diagnostic::MachineUnderTest;
use rampart_guard::engine_choice::{self, ChosenTests};
use rampart_guard::{EngineKind, GuardSettings, server as liveness};
use rampart_linux::capabilities::guarding;
use rampart_linux::executable::{self, LeftAlone};
use rampart_linux::process::may_open;
use rampart_linux::shared::has_huge_pages;
use rampart_linux::{Block, PageKind, Roots, SystemClock};
use rampart_march::execute::bypass::{self, NoneBypasses};
use rampart_march::execute::{self, MarchEngine, Region};
use rampart_memory::{Bytes, Clock as _};

use self::arguments::{Faults, RunArguments};
use self::following::Follower;
use self::page::EndedRun;
use self::server::GuardServer;
use crate::error::Error;
use crate::guards::journals::GuardJournals;
use crate::guards::report::RunReport;
use crate::inputs::store;
use crate::output::file::Output;
use crate::output::verbosity::Verbosity;
use crate::process::program::{ChildProgram, describe_end, exit_code};
use crate::process::signals::catch_file_limit_signal;

/// How often new events of the guards are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The most files open at once, besides inherited ones: signals, the program, the folder, the files of guards, and the
/// store.
const OPEN_FILES: usize = 16;

/// Runs the program and returns its exit code, or 128 plus the signal that ended it, as shells do.
pub fn run(arguments: &RunArguments, path: Option<PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    // Checked before the program starts, since it could not be followed.
    if !may_open(OPEN_FILES) {
        return Err(Error::FewFiles);
    }
    catch_file_limit_signal()?;
    let outputs = Outputs::prepare(arguments)?;
    let unguardable = why_unguardable(&arguments.program[0]);
    let engine = engine_choice::choose(arguments.engine.map(Into::into), why_unusable)?;
    let has_huge_pages = has_huge_pages(&Roots::default());
    let settings = arguments.settings(engine.method, has_huge_pages)?;
    let mut server = GuardServer::start(store_of_bad_frames(path.as_ref(), settings.method)?)?;
    let library = library::find(server.folder())?;
    let command = guarded_command(arguments, &settings, &library, unguardable, server.folder(), verbosity)?;
    let (_, checkpoint_command) = arguments.on_error()?;
    let injected = matches!(arguments.inject, Some(Faults::InPages(_)));
    let mut follower = Follower::new(server.folder(), path, injected, checkpoint_command)?;
    if rampart_linux::is_root() {
        let machine = MachineUnderTest::this();
        follower = follower.with_retirement(Box::new(move |frame| machine.retire(frame)));
    }
    let (began, start) = (SystemClock.now(), Instant::now());
    let program = ChildProgram::start(command)?;
    let of_shared = || engine_choice::notice_of_shared(settings.unit_pages, has_huge_pages);
    let notice = engine.notice.or_else(|| (settings.method == EngineKind::Minor).then(of_shared));
    print_notice(notice, verbosity);
    if verbosity.is_verbose() {
        eprintln!("rampart: guards {} with {settings}", command_line(&arguments.program));
    }
    let status = program.wait(POLL_INTERVAL, || {
        follower.poll();
        server.poll();
    })?;
    let ended_processes = follower.end();
    let seconds = start.elapsed().as_secs_f64();
    let mut report = ended_processes.with_folder(server.folder());
    if report.processes + report.uncounted == 0 {
        report.unguarded = Some(server.why_unguarded(unguardable));
    }
    let journals = GuardJournals::read(server.folder());
    let page = || {
        page::of_run(&EndedRun {
            program: command_line(&arguments.program),
            ended: describe_end(status),
            settings: &settings,
            began,
            seconds,
            report: &report,
            journals: &journals,
        })
    };
    outputs.write(arguments, &report, &journals, page);
    eprintln!("{}", if arguments.json { report.document() } else { format!("rampart: {}", report.line()) });
    if let remaining @ 1.. = server.remaining_processes() {
        let run = if remaining == 1 { "process of the program runs" } else { "processes of the program run" };
        eprintln!("rampart: {remaining} {run} on; errors found there are no longer recorded");
    }
    match report.unguarded {
        Some(why) if arguments.require_guard => Err(Error::NothingGuarded(why)),
        _ => Ok(exit_code(status)),
    }
}

/// The files that are written at the end; before the program runs, each is checked to be writable.
struct Outputs {
    report: Option<Output>,
    trace: Option<Output>,
}

impl Outputs {
    fn prepare(arguments: &RunArguments) -> Result<Self, Error> {
        let output = |path: &Option<PathBuf>| path.as_deref().map(Output::prepare).transpose();
        Ok(Self { report: output(&arguments.report)?, trace: output(&arguments.trace_access)? })
    }

    /// Writes the files. A failure is only reported, since the exit code is the program's.
    fn write(
        self,
        arguments: &RunArguments,
        report: &RunReport,
        journals: &GuardJournals,
        page: impl FnOnce() -> String,
    ) {
        let content = || if arguments.wants_page() { page() } else { report.document() + "\n" };
        let written = [
            self.report.map(|output| output.write(content().as_bytes())),
            self.trace.map(|output| output.write(&journals.traces_file())),
        ];
        written.into_iter().flatten().filter_map(Result::err).for_each(|error| eprintln!("rampart: {error}"));
    }
}

/// The store whose bad frames the program must not get: only the engine that moves pages can avoid them, and only root
/// sees frame numbers.
fn store_of_bad_frames(named: Option<&PathBuf>, method: EngineKind) -> Result<Option<PathBuf>, Error> {
    if method != EngineKind::Move || !rampart_linux::is_root() {
        return Ok(None);
    }
    store::path(named.cloned()).map(Some)
}

/// The command of the program, with the preload library and its settings.
fn guarded_command(
    arguments: &RunArguments,
    settings: &GuardSettings,
    library: &Path,
    unguardable: Option<LeftAlone>,
    folder: &Path,
    verbosity: Verbosity,
) -> Result<Command, Error> {
    let (name, rest) = arguments.program.split_first().expect("a program is required");
    let mut command = Command::new(name);
    command.args(rest).env("RAMPART_GUARD", settings.to_string()).env("RAMPART_GUARD_STATE", folder);
    command.env("RAMPART_GUARD_RECORD", arguments.recorded());
    if arguments.require_server {
        command.env(liveness::VARIABLE, liveness::REQUIRED);
    }
    if let Some(frames) =
        arguments.frame_settings(settings.method, || test_method(arguments.asks_for_tests(), verbosity))?
    {
        command.env("RAMPART_GUARD_FRAMES", frames.to_string());
    }
    let mut preload = library::preloaded(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    if !unguardable.is_some_and(LeftAlone::is_harmed) {
        command.env("LD_PRELOAD", preload);
    }
    match &arguments.inject {
        Some(Faults::InPages(errors)) => {
            command.env("RAMPART_GUARD_INJECT", errors.to_string());
        }
        Some(Faults::InFrames(spec)) => {
            command.env("RAMPART_GUARD_FAULTS", spec.to_string());
        }
        None => {}
    }
    Ok(command)
}

/// The reason why a program cannot be guarded, if there is one. Searches for the program as execvp(3) does.
fn why_unguardable(program: &OsStr) -> Option<LeftAlone> {
    let (name, folders) = (CString::new(program.as_bytes()).ok()?, std::env::var_os("PATH").unwrap_or_default());
    let mut found = [0; executable::PATH_BYTES];
    executable::left_alone(executable::search(&name, folders.as_bytes(), &mut found)?)
}

/// Tries an engine on a little memory. Returns the reason if it cannot guard.
fn why_unusable(method: EngineKind) -> Option<String> {
    let probe = match method {
        EngineKind::Move => guarding::can_move_pages,
        EngineKind::Minor => guarding::can_serve_minor_faults,
        EngineKind::Mprotect => guarding::can_protect_pages,
    };
    probe(&Roots::default()).err().map(|error| error.to_string())
}

/// How tests of frames reach the DRAM, if they do. Without tests, a user who did not ask for them gets a notice.
fn test_method(asked: bool, verbosity: Verbosity) -> Result<Option<execute::Method>, Error> {
    let chosen = engine_choice::choose_tests(asked, measured_test_method());
    let ChosenTests { method, notice } = chosen.map_err(Error::NoTestOfFrames)?;
    print_notice(notice, verbosity);
    Ok(method)
}

/// Prints what the user should know about the guard, unless only the verdict is wanted.
fn print_notice(notice: Option<impl std::fmt::Display>, verbosity: Verbosity) {
    if let Some(notice) = notice.filter(|_| !verbosity.is_quiet()) {
        eprintln!("rampart: {notice}");
    }
}

/// Measures how tests reach the DRAM on this machine: once for all processes of the program, in some milliseconds.
/// `None` if there is no memory for the measurement.
fn measured_test_method() -> Option<Result<execute::Method, NoneBypasses>> {
    let mut block = Block::claim(Bytes::from_mib(2), PageKind::Huge).ok()?;
    let _survives = block.access();
    let found = bypass::bypassing_method(MarchEngine::detect(), &mut Region::from(&mut block));
    Some(found.map(|check| check.method))
}

/// The program and its arguments, as a person would type them, but without quotes.
fn command_line(program: &[OsString]) -> String {
    program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
