//! A program that a command runs.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus};
use std::time::{Duration, Instant};

use rampart_linux::process::{Process, ignore_in_program};
use signal_hook::consts::SIGCHLD;

use crate::error::Error;
use crate::process::signals::{ForwardedSignals, catch_ignored_sigchld};

/// A pause is this many times as long as the call of `poll` before it, but not longer than this.
const PAUSE_RATIO: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A running program. Ctrl-C reaches it from the terminal; signals that other processes send to this one are passed on.
pub struct ChildProgram {
    child: Child,
    process: Process,
    signals: ForwardedSignals,
}

impl ChildProgram {
    /// Starts the program.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be run.
    pub fn start(mut command: Command) -> Result<Self, Error> {
        // Caught before the program starts, so that no signal is lost from then on.
        let signals = ForwardedSignals::catch()?;
        if catch_ignored_sigchld()? {
            ignore_in_program(&mut command, SIGCHLD);
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|cause| Error::Program { name, cause })?;
        Ok(Self { process: Process::find(child.id())?, child, signals })
    }

    /// Its standard error, where that is piped.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Its process id.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program ends, and calls `poll` after each pause. Pauses are longer if `poll` takes long, so that
    /// it takes at most a twentieth of a CPU.
    ///
    /// A signal ends a pause and is passed on; one that comes just before a pause is passed on after it.
    pub fn wait(self, pause: Duration, mut poll: impl FnMut()) -> Result<ExitStatus, Error> {
        let continues = || {
            poll();
            ControlFlow::Continue(())
        };
        Ok(self.wait_or_end(pause, continues)?.status)
    }

    /// The same; asks the program to end whenever `poll` breaks.
    pub fn wait_or_end(
        mut self,
        pause: Duration,
        mut poll: impl FnMut() -> ControlFlow<()>,
    ) -> Result<ProgramEnd, Error> {
        let mut next = pause;
        let mut was_asked = false;
        while !self.process.has_ended(next) {
            let began = Instant::now();
            if poll().is_break() {
                self.process.terminate();
                was_asked = true;
            }
            next = (began.elapsed() * PAUSE_RATIO).clamp(pause, pause.max(LONGEST_PAUSE));
            let process = &self.process;
            was_asked |= self.signals.pending(|signal| process.pass_on(signal));
        }
        was_asked |= self.signals.pending(|_| ());
        Ok(ProgramEnd { status: self.child.wait().map_err(Error::Waiting)?, was_asked })
    }
}

/// Refuses a program that is not there or cannot be executed, as [`ChildProgram::start`] would, before there is work
/// for it.
pub fn check_runnable(name: &OsStr) -> Result<(), Error> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    runnable(name, &folders).map_err(|cause| Error::Program { name: name.to_string_lossy().into_owned(), cause })
}

/// Whether one of these files is executable: the named one, or one in the folders of a search path (execvp(3)).
fn runnable(name: &OsStr, folders: &OsStr) -> io::Result<()> {
    const NOT_FOUND: i32 = 2;
    const PERMISSION_DENIED: i32 = 13;
    let named = Path::new(name);
    let places: Vec<PathBuf> = if name.as_encoded_bytes().contains(&b'/') {
        vec![named.to_owned()]
    } else {
        std::env::split_paths(folders).map(|folder| folder.join(named)).collect()
    };
    let files: Vec<_> = places.iter().filter_map(|place| place.metadata().ok()).collect();
    let is_executable = |file: &std::fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    if files.iter().any(is_executable) {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(if files.is_empty() { NOT_FOUND } else { PERMISSION_DENIED }))
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub struct ProgramEnd {
    pub status: ExitStatus,
    /// A signal was sent to this process, by a user or by another process, or the program was asked to end.
    pub was_asked: bool,
}

/// The exit code of a program, or 128 plus the signal that ended it, as shells have it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    u8::try_from(code).unwrap_or(2)
}

/// The end of a program, in words.
pub fn describe_end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, pause: Duration) -> (u8, u32) {
        let mut polls = 0;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let status = ChildProgram::start(command).unwrap().wait(pause, || polls += 1).unwrap();
        (exit_code(status), polls)
    }

    #[test]
    fn a_program_ends_as_it_does_and_is_looked_after_meanwhile() {
        assert_eq!(run("sleep 0.1; exit 7", Duration::from_secs(60)), (7, 0));
        let (killed, polls) = run("sleep 0.1; kill -9 $$", Duration::from_millis(1));
        assert_eq!(killed, 137);
        assert!(polls > 1, "{polls}");
    }

    #[test]
    fn a_program_that_is_not_there_or_not_executable_is_refused_as_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "").unwrap();
        let kind = |name: &str| runnable(OsStr::new(name), folder.path().as_os_str()).err().map(|error| error.kind());
        let whole = path.to_str().unwrap();
        assert_eq!(kind("none"), Some(io::ErrorKind::NotFound));
        assert_eq!([kind("program"), kind(whole)], [Some(io::ErrorKind::PermissionDenied); 2]);
        assert_eq!(kind("./program"), Some(io::ErrorKind::NotFound), "only a name alone is searched for");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!([kind("program"), kind(whole)], [None; 2]);
    }

    #[test]
    fn a_program_ends_when_it_is_asked_to() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let program = ChildProgram::start(command).unwrap();
        let end = program.wait_or_end(Duration::from_millis(1), || ControlFlow::Break(())).unwrap();
        assert_eq!((exit_code(end.status), end.was_asked), (128 + 15, true));
    }
}
