//! `rampart java`: runs a Java program on a heap of which lines have failed.

pub mod arguments;
mod launch;
mod log;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_diagnostic::MachineUnderTest;
use rampart_memory::fault_map::{FailedFrame, MapOrigin};
use rampart_native_build::JavaKit;

use self::arguments::JavaArguments;
use self::launch::JavaLaunch;
use crate::error::Error;
use crate::inputs::host_report::HostReport;
use crate::inputs::store;
use crate::output::progress::WaitProgress;
use crate::process::program::{ChildProgram, exit_code};
use crate::process::signals::interruption_flag;

/// The pause between two polls: there is nothing to do but to wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Compiles the program if that was not done before, runs it, and returns its exit code.
pub fn run(arguments: &JavaArguments, store: Option<PathBuf>) -> Result<u8, Error> {
    let launch = JavaLaunch::read(&arguments.java, std::env::var_os("CLASSPATH")).map_err(Error::JavaLaunch)?;
    let kit = JavaKit::choose(arguments.kit.as_deref())?;
    let folder = tempfile::Builder::new().prefix("rampart-java-").tempdir();
    let folder = folder.map_err(|cause| Error::Job { path: std::env::temp_dir(), cause })?;
    let frames = arguments.map.then(|| write_frames(folder.path(), store)).transpose()?;
    let module = compile(&kit, &launch, folder.path())?;
    let report = folder.path().join("report.json");
    let mut host = command(&kit, arguments, &launch, frames.as_deref());
    if arguments.gc_log || arguments.json {
        host.arg("--report").arg(&report);
    }
    host.arg("--").arg(module).args(&launch.arguments);
    let status = ChildProgram::start(host)?.wait(PAUSE, || {})?;
    say(arguments, &report);
    Ok(exit_code(status))
}

fn compile(kit: &JavaKit, launch: &JavaLaunch, folder: &Path) -> Result<PathBuf, Error> {
    let stopped = interruption_flag()?;
    let progress = WaitProgress::new("compiling to WebAssembly: once, then kept".to_owned());
    let module = kit.compile(&launch.program, folder, &mut || {
        progress.tick();
        if stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.end();
    Ok(module?)
}

/// Writes the failed lines of the frames on the map to a file for the host: a frame a line, its number and a bit for
/// each line.
fn write_frames(folder: &Path, store: Option<PathBuf>) -> Result<PathBuf, Error> {
    let store = store::open_to_read(store, MachineUnderTest::this().clock.now())?;
    let map = store.failures(MapOrigin::Real)?;
    // What is known to be bad, and not where, is bad as a whole.
    let lines = |failed: &FailedFrame| if failed.lines == 0 { u64::MAX } else { failed.lines };
    let text: String = map.iter().map(|failed| format!("{:x} {:x}\n", failed.frame.number(), lines(failed))).collect();
    let path = folder.join("frames");
    fs::write(&path, text).map_err(|cause| Error::Job { path: path.clone(), cause })?;
    Ok(path)
}

fn command(kit: &JavaKit, arguments: &JavaArguments, launch: &JavaLaunch, frames: Option<&Path>) -> Command {
    let heap = launch.heap.unwrap_or(arguments.heap);
    let mut command = Command::new(kit.host());
    command.arg("--heap").arg(heap.get().div_ceil(1024).to_string());
    if let Some(frames) = frames {
        command.arg("--frames").arg(frames);
    } else {
        command.arg("--holes").arg(arguments.holes.to_string());
        command.arg("--cluster").arg(arguments.cluster.name());
        command.arg("--seed").arg(arguments.seed.to_string());
    }
    if let Some(rate) = arguments.failures_per_second {
        command.arg("--failures-per-second").arg(rate.to_string());
    }
    if let Some(most) = arguments.borrow {
        command.arg("--borrow").arg((most.get() / 1024).to_string());
    }
    if arguments.canaries {
        command.arg("--canaries");
    }
    if arguments.fail_outside {
        command.arg("--fail-outside");
    }
    if let Some(every) = arguments.emulate_bad_frames {
        command.arg("--emulate-bad-frames").arg(every.to_string());
    }
    command.arg("--line").arg(arguments.line.name());
    if arguments.throw_losses {
        command.arg("--throw-losses");
    }
    if let Some(folder) = kit.code_folder() {
        command.arg("--cache").arg(folder);
    }
    command
}

/// Prints what the host reported. A host that was killed reports nothing.
fn say(arguments: &JavaArguments, report: &Path) {
    let Ok(text) = fs::read_to_string(report) else { return };
    if arguments.json {
        eprintln!("{}", text.trim_end());
    } else if let Ok(report) = serde_json::from_str::<HostReport>(&text) {
        eprintln!("{}", report.text().trim_end());
    }
}
