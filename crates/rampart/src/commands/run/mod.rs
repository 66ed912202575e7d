//! `rampart run`: a program under guard.

pub mod arguments;
mod choice;
mod following;
mod library;
mod page;
mod retiring;
mod server;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rampart_diagnostic::Machine;
use rampart_guard::{Knobs, Method, server as liveness};
use rampart_linux::executable::{self, LeftAlone};
use rampart_linux::process::may_open;
use rampart_linux::shared::has_huge_pages;
use rampart_linux::{Block, PageKind, Roots, SystemClock};
use rampart_march::execute::honesty::{self, NoneBypasses};
use rampart_march::execute::{self, Engine, Region};
use rampart_memory::{Bytes, Clock as _};

use self::arguments::{Faults, RunArguments};
use self::following::Follower;
use self::page::Run;
use self::server::Server;
use crate::error::Error;
use crate::guards::left::Left;
use crate::guards::recorded::Recorded;
use crate::inputs::store;
use crate::output::file::Output;
use crate::process::program::{Program, code};
use crate::process::signals::outlive_file_limit;

/// How often it is looked what the guards have told.
const GLANCE: Duration = Duration::from_millis(10);

/// How many files are open at once here, beside those that were inherited: signals, the program, the folder, what guards
/// write, and the store.
const OPEN_FILES: usize = 16;

/// Runs the program and exits as it does: its exit code, or 128 and the signal that ended it, as shells have it.
pub fn run(arguments: &RunArguments, path: Option<PathBuf>) -> Result<u8, Error> {
    let library = library::find().ok_or(Error::NoGuardLibrary)?;
    // Before anything starts that could not be followed.
    if !may_open(OPEN_FILES) {
        return Err(Error::FewFiles);
    }
    outlive_file_limit()?;
    let outputs = Outputs::prepare(arguments)?;
    let left_alone = left_alone(&arguments.program[0]);
    let choice = choice::choose(arguments.engine.map(Into::into), choice::why_not)?;
    let has_huge_pages = has_huge_pages(&Roots::default());
    let knobs = arguments.knobs(choice.method, has_huge_pages)?;
    let mut server = Server::start(map_to_compare(path.as_ref(), knobs.method)?)?;
    let command = guarded(arguments, &knobs, &library, left_alone, server.folder())?;
    let (_, for_checkpoint) = arguments.on_error()?;
    let made_up = matches!(arguments.inject, Some(Faults::InPages(_)));
    let mut follower = Follower::new(server.folder(), path, made_up, for_checkpoint)?;
    if rampart_linux::is_root() {
        let machine = Machine::this();
        follower = follower.retiring(Box::new(move |frame| machine.retire(frame)));
    }
    let (began, start) = (SystemClock.now(), Instant::now());
    let program = Program::start(command)?;
    let of_shared = || (knobs.method == Method::Minor).then(|| choice::of_shared(knobs.unit_pages, has_huge_pages));
    if let Some(said) = choice.said.or_else(of_shared) {
        eprintln!("rampart: {said}");
    }
    let status = program.wait(GLANCE, || {
        follower.look();
        server.look();
    })?;
    let ended_before = follower.end();
    let seconds = start.elapsed().as_secs_f64();
    let mut left = ended_before.and(server.folder());
    if left.processes + left.uncounted == 0 {
        left.unguarded = Some(server.why_nothing(left_alone));
    }
    let recorded = Recorded::read(server.folder());
    let page = || {
        let (program, settings) = (shown(&arguments.program), knobs.to_string());
        page::of_run(&Run { program, ended: ended(status), settings, began, seconds, left: &left, recorded: &recorded })
    };
    outputs.write(arguments, &left, &recorded, page);
    eprintln!("{}", if arguments.json { left.document() } else { format!("rampart: {}", left.line()) });
    if let left @ 1.. = server.left() {
        let run = if left == 1 { "process of the program runs" } else { "processes of the program run" };
        eprintln!("rampart: {left} {run} on; from now on nobody keeps what is found there");
    }
    match left.unguarded {
        Some(why) if arguments.require_guard => Err(Error::NothingGuarded(why)),
        _ => Ok(code(status)),
    }
}

/// What is written at the end. That it can be is known before the program runs.
struct Outputs {
    report: Option<Output>,
    trace: Option<Output>,
}

impl Outputs {
    fn prepare(arguments: &RunArguments) -> Result<Self, Error> {
        let output = |path: &Option<PathBuf>| path.as_deref().map(Output::prepare).transpose();
        Ok(Self { report: output(&arguments.report)?, trace: output(&arguments.trace_access)? })
    }

    /// What can no longer be written is said: the program has ended as it has.
    fn write(self, arguments: &RunArguments, left: &Left, recorded: &Recorded, page: impl FnOnce() -> String) {
        let report = || if arguments.wants_page() { page() } else { left.document() + "\n" };
        let written = [
            self.report.map(|output| output.write(report().as_bytes())),
            self.trace.map(|output| output.write(&recorded.traces_file())),
        ];
        written.into_iter().flatten().filter_map(Result::err).for_each(|error| eprintln!("rampart: {error}"));
    }
}

/// The store whose bad frames are kept from the program: by the engine that moves pages, and where frames have numbers.
fn map_to_compare(named: Option<&PathBuf>, method: Method) -> Result<Option<PathBuf>, Error> {
    if method != Method::Move || !rampart_linux::is_root() {
        return Ok(None);
    }
    store::path(named.cloned()).map(Some)
}

/// The program, with the library and what it is to know.
fn guarded(
    arguments: &RunArguments,
    knobs: &Knobs,
    library: &Path,
    left_alone: Option<LeftAlone>,
    folder: &Path,
) -> Result<Command, Error> {
    let (name, rest) = arguments.program.split_first().expect("a program is required");
    let mut command = Command::new(name);
    command.args(rest).env("RAMPART_GUARD", knobs.to_string()).env("RAMPART_GUARD_STATE", folder);
    command.env("RAMPART_GUARD_RECORD", arguments.recorded());
    if arguments.require_server {
        command.env(liveness::VARIABLE, liveness::REQUIRED);
    }
    let reach = || reach(arguments.asks_for_tests(), honest_method());
    if let Some(frames) = arguments.frame_knobs(knobs.method, reach)? {
        command.env("RAMPART_GUARD_FRAMES", frames.to_string());
    }
    let mut preload = library::preloaded(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    if !left_alone.is_some_and(LeftAlone::is_harmed) {
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

/// Why a program cannot be guarded, which is looked for as execvp(3) does.
fn left_alone(program: &OsStr) -> Option<LeftAlone> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let path = match program.as_bytes().contains(&b'/') {
        true => PathBuf::from(program),
        false => std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())?,
    };
    executable::left_alone(&CString::new(path.into_os_string().into_encoded_bytes()).ok()?)
}

/// How tests reach the DRAM on this machine: measured once for all processes of the program, in some milliseconds. Without
/// memory to measure in, as little is known as in an emulated machine.
fn honest_method() -> Result<execute::Method, NoneBypasses> {
    let Ok(mut block) = Block::claim(Bytes::from_mib(2), PageKind::Huge) else {
        return Ok(execute::Method::FlushBehind);
    };
    honesty::honest_method(Engine::detect(), &mut Region::from(&mut block)).map(|honesty| honesty.method)
}

/// Frames are not tested if their tests would read a cache: one line says so, or the program is not started if tests were
/// `asked` for.
fn reach(asked: bool, settled: Result<execute::Method, NoneBypasses>) -> Result<Option<execute::Method>, Error> {
    match settled {
        Ok(method) => Ok(Some(method)),
        Err(seen) if asked => Err(Error::NoTestOfFrames(seen)),
        Err(seen) => {
            eprintln!("rampart: frames are not tested: reads of their tests come from a cache here ({seen})");
            Ok(None)
        }
    }
}

/// The program and its arguments, as a person would type them but for quotes.
fn shown(program: &[OsString]) -> String {
    program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::execute::honesty::{Honesty, Verdict};

    #[test]
    fn frames_are_tested_past_the_caches_or_not_at_all() {
        let method = execute::Method::NonTemporal;
        let seen = Honesty { method, verdict: Verdict::ReadsCache, cached: 0.4, cache_ticks: 20, dram_ticks: 145 };
        let refused = || NoneBypasses { methods: vec![seen] };
        assert_eq!(reach(true, Ok(method)).unwrap(), Some(method));
        assert_eq!(reach(false, Err(refused())).unwrap(), None);
        let error = reach(true, Err(refused())).unwrap_err().to_string();
        assert!(error.contains("--test none") && error.contains("40 %"), "{error}");
    }
}
