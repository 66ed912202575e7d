//! `rampart trace`: records an MPI program while it runs.

pub mod arguments;
mod ranks;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rampart_native_build::{Compiler, Library};
use rampart_scale::goal::text;
use rampart_scale::trace::file::{self, RecordedTrace};
use serde_json::{Value, json};

use self::arguments::TraceArguments;
use crate::error::Error;
use crate::inputs::network;
use crate::output::text::count;
use crate::process::launcher::{LaunchRefusal, LauncherErrors, LauncherOption};
use crate::process::program::{ChildProgram, check_runnable, describe_end, exit_code};

/// The pause between two polls: long, since there is nothing to do, and each takes CPU time from the program.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the program with the recording library, joins the files of its ranks, and returns the program's exit code.
pub fn run(arguments: &TraceArguments) -> Result<u8, Error> {
    let output = &arguments.output;
    let unwritten = |cause| Error::Traced { path: output.clone(), cause };
    let network = network::named(&arguments.network)?;
    // Who named a program that is not there reads that, and not that a compiler is missing.
    check_runnable(arguments.program.first().expect("a program is required"))?;
    let compiler = Compiler::find(arguments.mpicc.as_deref(), &arguments.program)?;
    // The parts are beside the trace, where there must be room for it and which ranks on other nodes can reach.
    let beside = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix(".rampart-trace-").tempdir_in(beside).map_err(unwritten)?;
    let folder_path = folder.path().canonicalize().map_err(unwritten)?;
    let library = Library::TRACE.build(&compiler, &folder_path)?;
    let (status, refusal) = run_program(arguments, &library, &folder_path)?;
    let nothing = || nothing_traced(arguments, &compiler, status, refusal.as_ref());
    let trace = ranks::join(&folder_path)?.ok_or_else(nothing)?;
    fs::write(output, &trace).map_err(unwritten)?;
    let recorded = file::read(&trace, &network)?;
    if let Some(path) = &arguments.goal {
        let goal = text::write(&recorded.trace.extrapolated(1)?.written_out()?);
        fs::write(path, goal).map_err(|cause| Error::Traced { path: path.clone(), cause })?;
    }
    if !status.success() && !arguments.json {
        eprintln!("rampart: {} failed ({})", name(arguments), describe_end(status));
    }
    report(arguments, &recorded, trace.len());
    Ok(exit_code(status))
}

/// Runs the program to its end; also says why a launcher refused, if it did.
fn run_program(
    arguments: &TraceArguments,
    library: &Path,
    folder: &Path,
) -> Result<(ExitStatus, Option<LaunchRefusal>), Error> {
    let command = command(arguments, library, folder);
    // The standard error of any other program stays its own.
    if Compiler::launcher(&arguments.program).is_none() {
        return Ok((ChildProgram::start(command)?.wait(PAUSE, || {})?, None));
    }
    let (program, errors) = LauncherErrors::start(command)?;
    let status = program.wait(PAUSE, || {})?;
    Ok((status, errors.refusal()))
}

/// Why there is no trace. A program that failed comes first: its MPI may be the right one.
fn nothing_traced(
    arguments: &TraceArguments,
    compiler: &Compiler,
    status: ExitStatus,
    refusal: Option<&LaunchRefusal>,
) -> Error {
    if status.success() {
        return Error::NothingTraced(compiler.name().to_owned());
    }
    let other_mpi = || {
        format!(
            "correct what it says above; if it does not fail without `rampart trace`, its MPI is not that of {:?}: name \
             its compiler by --mpicc",
            compiler.name()
        )
    };
    let why = refusal.map_or_else(other_mpi, |refusal| refusal.explained(LauncherOption::Direct));
    Error::TracedFailed { name: name(arguments), end: describe_end(status), why }
}

/// The program as the user named it.
fn name(arguments: &TraceArguments) -> String {
    arguments.program.first().expect("a program is required").to_string_lossy().into_owned()
}

fn command(arguments: &TraceArguments, library: &Path, folder: &Path) -> Command {
    let (name, rest) = arguments.program.split_first().expect("a program is required");
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(OsStr::new(":"));
        preload.push(others);
    }
    let mut command = Command::new(name);
    command.args(rest).env("LD_PRELOAD", preload).env("RAMPART_TRACE", folder);
    command
}

fn report(arguments: &TraceArguments, recorded: &RecordedTrace, bytes: usize) {
    if arguments.json {
        eprintln!("{:#}", document(recorded, bytes));
        return;
    }
    let ranks = recorded.trace.ranks();
    eprintln!(
        "rampart: {} of {ranks} {}, {} calls in {}, {} bytes",
        if recorded.complete {
            format!("{:.3} s", recorded.measured.as_secs_f64())
        } else {
            "a cut-off run".to_owned()
        },
        if ranks == 1 { "rank" } else { "ranks" },
        count(recorded.records),
        arguments.output.display(),
        count(bytes as u64)
    );
    if !recorded.complete {
        eprintln!(
            "rampart: the program ended before MPI_Finalize: the trace contains what all ranks did together until then"
        );
    }
    if !recorded.others.is_empty() {
        eprintln!("rampart: not simulated, but counted as computing: {}", recorded.others.join(", "));
    }
}

fn document(recorded: &RecordedTrace, bytes: usize) -> Value {
    json!({
        "schema": "rampart.trace/1",
        "ranks": recorded.trace.ranks(),
        "seconds": recorded.complete.then(|| recorded.measured.as_secs_f64()),
        "records": recorded.records,
        "bytes": bytes,
        "complete": recorded.complete,
        "ranks_sharing_cpus": recorded.shared.map(|(ranks, cpus)| json!({ "ranks": ranks, "cpus": cpus })),
        "not_simulated": recorded.others,
    })
}
