//! A program that a command of ours runs.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rampart_linux::process::{Process, ignore_in_program};
use signal_hook::consts::SIGCHLD;

use crate::error::Error;
use crate::process::signals::{Relayed, heed_children};

/// Between two looks it rests for so many times as long as the first took, but no longer than this.
const PART: u32 = 20;
const LONGEST: Duration = Duration::from_secs(1);

/// A program that was started. Ctrl-C reaches it from the terminal; signals that others send to us are passed on.
pub struct ChildProgram {
    child: Child,
    process: Process,
    signals: Relayed,
}

impl ChildProgram {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be run.
    pub fn start(mut command: Command) -> Result<Self, Error> {
        // Before there is a program: from its first moment on it is not left behind.
        let signals = Relayed::catch()?;
        if heed_children()? {
            ignore_in_program(&mut command, SIGCHLD);
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|cause| Error::Program { name, cause })?;
        Ok(Self { process: Process::find(child.id())?, child, signals })
    }

    /// Waits for its end, and calls `look` after each pause. Where that takes long, pauses are longer: it takes a
    /// twentieth of a CPU at most.
    ///
    /// A signal ends a pause, or is passed on after one if it came in the moment before.
    pub fn wait(mut self, pause: Duration, mut look: impl FnMut()) -> Result<ExitStatus, Error> {
        let mut now = pause;
        while !self.process.has_ended(now) {
            let began = Instant::now();
            look();
            now = (began.elapsed() * PART).clamp(pause, pause.max(LONGEST));
            self.signals.pending().for_each(|signal| self.process.pass_on(signal));
        }
        self.child.wait().map_err(Error::Waiting)
    }
}

/// As shells have it: its exit code, or 128 and the signal that ended it.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    u8::try_from(code).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(script: &str, pause: Duration) -> (u8, u32) {
        let mut looks = 0;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let status = ChildProgram::start(command).unwrap().wait(pause, || looks += 1).unwrap();
        (code(status), looks)
    }

    #[test]
    fn a_program_ends_as_it_does_and_is_looked_after_meanwhile() {
        assert_eq!(waited("sleep 0.1; exit 7", Duration::from_secs(60)), (7, 0));
        let (killed, looks) = waited("sleep 0.1; kill -9 $$", Duration::from_millis(1));
        assert_eq!(killed, 137);
        assert!(looks > 1, "{looks}");
    }
}
