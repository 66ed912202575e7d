//! `rampart project calibrate`: measures the network of this machine's MPI.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::{fs, thread};

use rampart_memory::Bytes;
use rampart_native_build::{Compiler, MpiProgram};
use rampart_scale::calibration::{Calibration, Estimate};
use serde_json::json;

use super::arguments::CalibrateArguments;
use crate::error::Error;
use crate::inputs::network::NetworkParameters;
use crate::output::text;
use crate::process::launcher::{LaunchRefusal, LauncherOption};

/// The most output of a launcher and its ranks that is read: about ten times that of a measurement.
const MAX_OUTPUT: Bytes = Bytes::new(1 << 20);

/// The default launcher of two ranks.
const DEFAULT_LAUNCHER: [&str; 3] = ["mpirun", "-n", "2"];

/// Measures, shows and writes the parameters.
pub fn run(arguments: &CalibrateArguments) -> Result<(), Error> {
    let mut launcher = arguments.launcher.clone();
    if launcher.is_empty() {
        launcher = DEFAULT_LAUNCHER.map(OsString::from).to_vec();
    }
    let compiler = Compiler::find(arguments.mpicc.as_deref(), &launcher)?;
    let calibration = measure(&compiler, &launcher)?;
    let file = network_file(&calibration);
    if let Some(path) = &arguments.output {
        fs::write(path, &file).map_err(|cause| Error::Report { path: path.clone(), cause })?;
    }
    if arguments.json { text::print_json(&document(&calibration)) } else { text::print(&text(&calibration)) }
}

fn measure(compiler: &Compiler, launcher: &[OsString]) -> Result<Calibration, Error> {
    let folder = tempfile::tempdir().map_err(Error::Calibrated)?;
    let program = MpiProgram::CALIBRATE.build(compiler, folder.path())?;
    let (name, rest) = launcher.split_first().expect("it is not empty");
    let refused = |why: String| Error::Launcher { name: name.clone(), why };
    let output =
        run_launcher(Command::new(name).args(rest).arg(&program)).map_err(|error| refused(error.to_string()))?;
    let Some(status) = output.status else {
        return Err(refused(format!("it prints more than a measurement does ({MAX_OUTPUT})")));
    };
    if !status.success() {
        let message = String::from_utf8_lossy(&output.err).into_owned();
        if let Some(refusal) = LaunchRefusal::of(&message) {
            return Err(refused(refusal.explained(LauncherOption::Direct)));
        }
        let line = message
            .lines()
            .map(str::trim)
            .find(|line| line.contains(char::is_alphabetic))
            .unwrap_or("it printed no message");
        return Err(refused(line.to_owned()));
    }
    Calibration::read(&String::from_utf8_lossy(&output.out)).map_err(|error| refused(error.to_string()))
}

/// The output of a launcher.
struct LauncherOutput {
    /// How it ended; `None` if it printed too much and was stopped.
    status: Option<ExitStatus>,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// Runs a launcher, and reads a limited part of its output.
fn run_launcher(launcher: &mut Command) -> io::Result<LauncherOutput> {
    let mut child = launcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let read = |pipe: Box<dyn Read + Send>| {
        let mut bytes = Vec::new();
        pipe.take(MAX_OUTPUT.get() + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    thread::scope(|scope| {
        let err = scope.spawn(move || read(Box::new(err)));
        let out = read(Box::new(out))?;
        let too_much = out.len() as u64 > MAX_OUTPUT.get();
        if too_much {
            child.kill()?;
        }
        let status = child.wait()?;
        let err = err.join().expect("reading does not panic")?;
        Ok(LauncherOutput { status: Some(status).filter(|_| !too_much), out, err })
    })
}

/// The file that `--network` reads.
fn network_file(found: &Calibration) -> String {
    let parameters = NetworkParameters {
        latency_ns: found.latency.mean,
        overhead_ns: found.overhead.mean,
        gap_ns: found.gap.mean,
        gap_ns_per_byte: found.gap_per_byte.mean,
        overhead_ns_per_byte: found.overhead_per_byte.mean,
        eager_bytes: found.eager.get(),
    };
    let text = toml::to_string(&parameters).expect("numbers can be written");
    format!(
        "# LogGOPS, measured by `rampart project calibrate` in {} rounds; for `rampart project --network`\n{text}",
        found.rounds
    )
}

/// The parameters, each with its letter, name and unit.
fn parameters(found: &Calibration) -> [(&'static str, &'static str, Estimate, &'static str); 5] {
    [
        ("L", "latency", found.latency, "ns"),
        ("o", "overhead", found.overhead, "ns"),
        ("g", "gap", found.gap, "ns"),
        ("G", "gap_per_byte", found.gap_per_byte, "ns/B"),
        ("O", "overhead_per_byte", found.overhead_per_byte, "ns/B"),
    ]
}

fn text(found: &Calibration) -> String {
    let mut text = String::new();
    for (letter, name, Estimate { mean, half }, unit) in parameters(found) {
        let digits = if unit == "ns" { 1 } else { 4 };
        let _ = writeln!(text, "{letter}  {name:<18} {mean:>12.digits$} ± {half:.digits$} {unit} (95 %)");
    }
    let _ = writeln!(
        text,
        "S  {:<18} {:>12} bytes are sent before the receive is posted",
        "eager",
        text::count(found.eager.get())
    );
    text
}

fn document(found: &Calibration) -> serde_json::Value {
    let each = parameters(found).map(|(_, name, Estimate { mean, half }, unit)| {
        (
            name.to_owned(),
            json!({ "mean": mean, "half_interval": Some(half).filter(|half| half.is_finite()), "unit": unit }),
        )
    });
    let mut document: serde_json::Map<String, serde_json::Value> = each.into_iter().collect();
    document.insert("schema".to_owned(), json!("rampart.calibration/1"));
    document.insert("eager_bytes".to_owned(), json!(found.eager.get()));
    document.insert("rounds".to_owned(), json!(found.rounds));
    document.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_never_stops_talking_is_stopped() {
        assert!(run_launcher(&mut Command::new("yes")).unwrap().status.is_none());
        let ended = run_launcher(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"])).unwrap();
        assert_eq!((ended.out.as_slice(), ended.err.as_slice()), (b"a\n".as_slice(), b"b\n".as_slice()));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
    }
}
