//! `rampart`, the only binary. It parses, wires and shows; it decides nothing.
//!
//! Exit codes: 0 if all is well, 1 if the command found bad frames or memory errors, 2 if it could not do its work. For
//! bad input, one line on standard error says what to do.
//!
//! Libraries: `clap` (arguments), `clap_complete` and `clap_mangen` (completions and man pages from them), `anstream`
//! and `anstyle` (colour on a terminal only, as clap has it), `console` (to redraw a page, as indicatif does it), `csv`
//! (tables for programs), `humantime` (durations), `indicatif` (progress on a terminal, silence in a pipe),
//! `jiff` (dates), `maud` (pages), `plotters` (drawings), `tempfile` (the guards' folder), `prometheus-client` and
//! `tiny_http` (metrics), `serde_json`, `signal-hook` (Ctrl-C as a flag), `toml` (the configuration), `displaydoc` and
//! `thiserror` (errors), `object`, `gimli` and `iced-x86` (instructions in the files of programs).

#![forbid(unsafe_code)]

/// As the macro of the standard library, but it ignores a closed or full standard error. A panic would leave the folder
/// of the guards behind, and change how a guarded program ends.
macro_rules! eprintln {
    ($($message:tt)*) => { $crate::output::text::print_error(format_args!($($message)*)) };
}

mod cli;
mod commands;
mod error;
mod guards;
mod inputs;
mod output;
mod parsing;
mod process;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use rampart_linux::own_memory::OneLineAtTheEnd;

use crate::cli::{Arguments, Command};
use crate::error::Error;
use crate::output::verbosity::Verbosity;
use crate::output::{colour, progress};

#[global_allocator]
static ALLOCATOR: OneLineAtTheEnd = OneLineAtTheEnd;

/// The stack that this program needs, with some reserve: a debug build parses its arguments in large stack frames.
const STACK_BYTES: usize = 2 << 20;

/// Runs on a thread of its own if the stack may not be large enough (`ulimit -s`). If no thread can be started, runs on
/// the stack that there is.
fn main() -> ExitCode {
    let has_room = rampart_linux::own_memory::stack_limit().is_none_or(|limit| limit >= STACK_BYTES as u64);
    let start_thread = || std::thread::Builder::new().stack_size(STACK_BYTES).spawn(begin).ok();
    let ended = if has_room { None } else { start_thread() }.map(std::thread::JoinHandle::join);
    match ended {
        Some(Ok(code)) => code,
        // The panic was reported.
        Some(Err(_)) => ExitCode::from(101),
        None => begin(),
    }
}

fn begin() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse_arguments(&error),
    };
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(Error::OutputClosed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", colour::error(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<u8, Error> {
    let verbosity = Verbosity::of_flags(arguments.quiet, arguments.verbose)?;
    if verbosity.is_quiet() {
        progress::hide();
    }
    let store = arguments.store;
    match arguments.command {
        Command::Test(test) => commands::test::run(&test, store, verbosity),
        Command::March(command) => commands::march::run(command),
        Command::Map(command) => commands::map::run(&command, store, verbosity),
        Command::Inject(command) => commands::inject::run(&command),
        Command::Simulate(arguments) => commands::simulate::run(&arguments),
        Command::Evidence(arguments) => commands::evidence::run(&arguments),
        Command::Watch(watch) => commands::watch::run(&watch, store, verbosity),
        Command::Run(run) => commands::run::run(&run, store, verbosity),
        Command::Java(arguments) => commands::java::run(&arguments, store),
        Command::Heap(command) => commands::heap::run(&command),
        Command::Access(arguments) => commands::access::run(&arguments),
        Command::Project(arguments) => commands::project::run(&arguments),
        Command::Trace(arguments) => commands::trace::run(&arguments),
        Command::Mpirun(arguments) => commands::mpirun::run(&arguments, store),
        Command::Noise(arguments) => commands::noise::run(&arguments),
        Command::Errors(arguments) => commands::errors::run(&arguments, store),
        Command::Banks(arguments) => commands::banks::run(&arguments),
        Command::Kernel(command) => commands::kernel::run(&command),
        Command::Status(arguments) => commands::status::run(&arguments, store, verbosity),
        Command::Completions(arguments) => commands::manual::print_completions(&arguments, Arguments::command()),
        Command::Man(arguments) => commands::manual::write_pages(&arguments, Arguments::command()),
    }
}

/// Prints help and version as clap does, and a mistake in one line.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        // A closed pipe, as in `rampart --help | head`, is not a failure.
        let _closed = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|one| one.to_string_lossy().into_owned()).collect();
    if let Some(message) = cli::message_for_renamed_flag(error, &arguments) {
        eprintln!("rampart: {message}");
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let is_shown = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let shown: Vec<&str> = text.lines().take_while(is_shown).map(str::trim).collect();
    let line = shown.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("rampart: {}", line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(2)
}
