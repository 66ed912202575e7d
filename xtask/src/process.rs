//! Runs other programs, with their output visible.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::Error;

/// The cargo that runs this program, to be run in `root`.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Clippy over another workspace, by its manifest, in the main workspace's folder: there, most of the dependencies are
/// compiled already.
pub fn clippy_of(root: &Path, manifest: &str) -> Command {
    let mut clippy = cargo(root);
    clippy.args(["clippy", "--manifest-path", manifest]);
    clippy.env("CARGO_TARGET_DIR", std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    clippy
}

/// Runs a program to its end, which must be a success.
pub fn run(command: &mut Command) -> Result<(), Error> {
    eprintln!("$ {}", shown(command));
    let status = command.status().map_err(|cause| Error::Start { command: shown(command), cause })?;
    judge(command, status)
}

/// Runs a program to its end, which must be with this status.
pub fn run_to_status(command: &mut Command, status: i32) -> Result<(), Error> {
    run_to_one_of(command, &[status])
}

/// Runs a program to its end, which must be with one of these statuses.
pub fn run_to_one_of(command: &mut Command, statuses: &[i32]) -> Result<(), Error> {
    eprintln!("$ {}", shown(command));
    let ended = command.status().map_err(|cause| Error::Start { command: shown(command), cause })?;
    let is_good = ended.code().is_some_and(|code| statuses.contains(&code));
    if is_good { Ok(()) } else { Err(Error::Failed(shown(command))) }
}

/// Like [`run`], and passes each line of its standard output to `reader` instead.
pub fn run_read(command: &mut Command, mut reader: impl FnMut(&str)) -> Result<(), Error> {
    eprintln!("$ {}", shown(command));
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|cause| Error::Start { command: shown(command), cause })?;
    let output = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        reader(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().map_err(|cause| Error::Start { command: shown(command), cause })?;
    judge(command, status)
}

/// Runs a program to its end, which must be a success, and returns its standard output.
pub fn output(command: &mut Command) -> Result<String, Error> {
    let run = command.stderr(Stdio::inherit()).output();
    let output = run.map_err(|cause| Error::Start { command: shown(command), cause })?;
    judge(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(command: &Command, status: ExitStatus) -> Result<(), Error> {
    if status.success() { Ok(()) } else { Err(Error::Failed(shown(command))) }
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
