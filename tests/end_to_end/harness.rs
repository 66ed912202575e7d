//! Runs the binary and captures its output.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The binary with a store of its own.
pub struct Rampart {
    folder: tempfile::TempDir,
}

/// The output of a run.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl CommandOutput {
    /// The single JSON document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn last_line(&self) -> &str {
        self.out.lines().last().unwrap_or_else(|| panic!("no output: {self:?}"))
    }
}

impl Rampart {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("rampart.db")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.completed(Command::new(env!("CARGO_BIN_EXE_rampart")), arguments)
    }

    fn completed(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).env("RAMPART_STORE", self.store()).stdin(Stdio::null());
        command
    }

    /// The same, but it is asked to end after so many seconds: what hangs fails a test, and not the run of all.
    pub fn command_within(&self, seconds: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=20").arg(seconds.to_string()).arg(env!("CARGO_BIN_EXE_rampart"));
        self.completed(command, arguments)
    }

    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(arguments).output().expect("the binary runs"))
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.run(arguments).json()
    }

    /// Runs as an ordinary user if this process is root, else as the same user.
    pub fn run_unprivileged(&self, arguments: &[&str]) -> CommandOutput {
        self.run_unprivileged_with(arguments, "RAMPART_STORE", &self.store())
    }

    /// The same with one more environment variable.
    pub fn run_unprivileged_with(&self, arguments: &[&str], variable: &str, value: &Path) -> CommandOutput {
        const NOBODY: u32 = 65_534;
        let mut command = self.command(arguments);
        if is_root() {
            std::os::unix::fs::chown(self.folder(), Some(NOBODY), Some(NOBODY)).expect("root may");
            // The binary may be where an ordinary user has no access.
            let copy = self.folder().join("rampart");
            copy_of_the_binary(&copy);
            command = self.completed(Command::new(copy), arguments);
            command.uid(NOBODY).gid(NOBODY);
        }
        command.env(variable, value);
        CommandOutput::from(command.output().expect("the binary runs"))
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
    }
}

/// Copies the binary in another process. While a process of ours has a file open for writing, a child of another test
/// could keep the file from being executed (ETXTBSY).
pub fn copy_of_the_binary(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_rampart")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// Waits for a child and gathers its output.
pub fn end(child: Child) -> CommandOutput {
    CommandOutput::from(child.wait_with_output().expect("it ends"))
}

/// Sends a signal to a child of this process.
pub fn signal(child: &Child, name: &str) {
    // The shell's own `kill`: a bare Debian has no other.
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status();
    assert!(sent.expect("sh runs").success(), "SIG{name} is sent");
}

/// Before the child has installed its handlers, a signal would kill it. This waits for the handler of SIGTERM, which
/// is installed after that of SIGINT. Some commands install none for SIGINT if they were started with it ignored, as
/// shells start programs in the background.
pub fn wait_until_it_catches_interrupts(child: &Child) {
    const SIGTERM_BIT: u64 = 1 << 14;
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the child runs");
        assert!(!status.contains("State:\tZ"), "it ended before it caught signals");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux reports it");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & SIGTERM_BIT != 0
    };
    while !catches() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").expect("/proc is mounted").uid() == 0
}
