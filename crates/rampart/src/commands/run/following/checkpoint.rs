//! The command that takes a checkpoint before a process is stopped (`--on-error checkpoint-command`).

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use crate::error::Error;
use crate::guards::folder;
use crate::guards::report::GuardEvent;

/// A command that runs once, for the first process that is held.
pub struct CheckpointCommand {
    /// `None` once it was started, or without such a command.
    command: Option<OsString>,
    running: Option<Child>,
    /// Locked until the command has ended, or this process has: held processes wait for the lock.
    lock: Option<File>,
}

impl CheckpointCommand {
    /// Locks the file on which held processes wait, if there is a command.
    ///
    /// # Errors
    /// [`Error::GuardFolder`] if the file cannot be made and locked.
    pub fn new(folder: &Path, command: Option<OsString>) -> Result<Self, Error> {
        let locked = || folder::locked(&folder.join("checkpoint"));
        let lock = command.as_ref().map(|_| locked()).transpose().map_err(Error::GuardFolder)?;
        Ok(Self { command, running: None, lock })
    }

    /// Starts the command for a held process, unless it was started before. `frame_of` returns the frame of the page.
    pub fn start(&mut self, process: u32, event: &GuardEvent, frame_of: impl FnOnce(u32, &GuardEvent) -> Option<u64>) {
        let Some(command) = self.command.take() else { return };
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&command).env("RAMPART_PID", process.to_string());
        shell.env("RAMPART_PAGE", number(event.page)).env("RAMPART_OFFSET", number(event.offset));
        shell.env("RAMPART_FRAME", number(frame_of(process, event)));
        match shell.spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => {
                eprintln!("rampart: cannot run the command for the checkpoint: {error}");
                self.lock = None;
            }
        }
    }

    /// Releases the held processes if the command has ended.
    pub fn poll(&mut self) {
        if let Some(Ok(Some(status))) = self.running.as_mut().map(Child::try_wait) {
            self.release(status);
        }
    }

    /// Waits until the command has ended, if it runs, and releases the held processes.
    pub fn wait(&mut self) {
        if let Some(Ok(status)) = self.running.as_mut().map(Child::wait) {
            self.release(status);
        }
    }

    fn release(&mut self, status: ExitStatus) {
        eprintln!("rampart: the command for the checkpoint has ended: {status}");
        (self.running, self.lock) = (None, None);
    }
}
