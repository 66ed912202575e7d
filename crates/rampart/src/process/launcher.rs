//! Why a launcher of MPI started no process.
//!
//! **Problem.** Open MPI's `mpirun` refuses to run as root, and to start more processes than there are slots. Nothing
//! then begins, and the true reason stands in the middle of a page of text. **Idea.** What the launcher prints to
//! standard error is passed on at once, and searched for the sentences of these refusals. **Why this way.** Whether a
//! launcher would refuse depends on its version, settings and batch system: only itself knows.

use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::program::ChildProgram;
use crate::error::Error;

/// How much of what a launcher prints is searched. A refusal comes first.
const SEARCHED: usize = 64 << 10;

/// How long the last words of a launcher that has ended are waited for: a process that it left may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a launcher started no process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRefusal {
    /// Open MPI does not run as root.
    Root,
    /// Open MPI counts fewer slots than processes.
    Slots,
    /// There is no such program, or it cannot be executed.
    Program(String),
}

/// How a user hands an option to the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherOption {
    /// The user's own command line has it.
    Direct,
    /// `rampart mpirun` hands it on.
    HandedOn,
}

impl LaunchRefusal {
    /// The refusal in what a launcher printed: Open MPI from version 2 on, or MPICH.
    pub fn of(printed: &str) -> Option<Self> {
        let named = |before: &str| printed.lines().find_map(|line| Some(line.split_once(before)?.1.trim()));
        if printed.contains("has detected an attempt to run as root") {
            return Some(Self::Root);
        }
        if printed.contains("There are not enough slots available") {
            return Some(Self::Slots);
        }
        if printed.contains("unable to launch the specified application") {
            return Some(Self::Program(named("Executable: ").unwrap_or("the program").to_owned()));
        }
        let name = named("execvp error on file ")?;
        Some(Self::Program(name.split_once(" (").map_or(name, |(name, _)| name).to_owned()))
    }

    /// What it is and what to do, in one line.
    pub fn explained(&self, option: LauncherOption) -> String {
        let give = match option {
            LauncherOption::Direct => "give mpirun ",
            LauncherOption::HandedOn => "give --launcher-option=",
        };
        match self {
            Self::Root => format!(
                "Open MPI refuses to run as root: be another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and \
                 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or {give}--allow-run-as-root"
            ),
            Self::Slots => format!(
                "Open MPI has fewer slots (CPUs, unless a hosts file says otherwise) than processes: start fewer, or \
                 {give}--oversubscribe"
            ),
            Self::Program(name) => format!("it cannot run {name}: correct the name, or make the file executable"),
        }
    }
}

/// What a launcher prints to standard error, while it is passed on.
pub struct LauncherErrors(Receiver<Vec<u8>>);

impl LauncherErrors {
    /// Starts a launcher.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be run.
    pub fn start(mut launcher: Command) -> Result<(ChildProgram, Self), Error> {
        launcher.stderr(Stdio::piped());
        let mut program = ChildProgram::start(launcher)?;
        let printed = program.take_stderr().expect("it is piped");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || pass_on(printed, std::io::stderr(), &sender));
        Ok((program, Self(receiver)))
    }

    /// Why the launcher, which has ended, started nothing, if it said so. All that it printed is then passed on.
    pub fn refusal(self) -> Option<LaunchRefusal> {
        let deadline = Instant::now() + LAST_WORDS;
        let next = || self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        let printed: Vec<u8> = std::iter::from_fn(next).flatten().collect();
        LaunchRefusal::of(&String::from_utf8_lossy(&printed))
    }
}

/// Passes on all that is printed, and its head to whoever searches it.
fn pass_on(mut printed: impl Read, mut to: impl Write, searched: &Sender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    let mut left = SEARCHED;
    loop {
        let read = match printed.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(read) => &buffer[..read],
        };
        // Where nobody reads standard error any more, the launcher goes on all the same.
        let _ = to.write_all(read);
        let head = &read[..read.len().min(left)];
        left -= head.len();
        if !head.is_empty() {
            let _ = searched.send(head.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_the_words_of_each_launcher() {
        let root = "-----\nmpirun.openmpi has detected an attempt to run as root.\n\nRunning as root is";
        let slots = "-----\nThere are not enough slots available in the system to satisfy the 9\nslots that were";
        let open_mpi = "prterun was unable to launch the specified application as it could not\naccess an executable:\n\n   \
                        Executable: ./no such\n   Node: vm\n";
        let mpich = "[proxy:0:0@vm] HYDU_create_process: execvp error on file ./none (No such file or directory)\n";
        let program = |name: &str| Some(LaunchRefusal::Program(name.to_owned()));
        for (printed, expected) in [
            (root, Some(LaunchRefusal::Root)),
            (slots, Some(LaunchRefusal::Slots)),
            (open_mpi, program("./no such")),
            (mpich, program("./none")),
            ("Primary job  terminated normally, but 1 process returned\na non-zero exit code.", None),
            ("", None),
        ] {
            assert_eq!(LaunchRefusal::of(printed), expected, "{printed}");
        }
    }

    #[test]
    fn an_option_is_named_as_the_user_hands_it_to_the_launcher() {
        let direct = LaunchRefusal::Root.explained(LauncherOption::Direct);
        assert!(direct.ends_with("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or give mpirun --allow-run-as-root"), "{direct}");
        let handed_on = LaunchRefusal::Slots.explained(LauncherOption::HandedOn);
        assert!(handed_on.ends_with("start fewer, or give --launcher-option=--oversubscribe"), "{handed_on}");
    }

    /// What a shell prints, of which a child outlives it where the script says so.
    fn refusal(script: &str) -> Option<LaunchRefusal> {
        let mut launcher = Command::new("sh");
        launcher.args(["-c", script]);
        let (program, errors) = LauncherErrors::start(launcher).unwrap();
        program.wait(Duration::from_secs(60), || {}).unwrap();
        errors.refusal()
    }

    #[test]
    fn all_is_passed_on_and_the_head_is_searched() {
        let printed = vec![b'x'; SEARCHED + 5000];
        let (mut passed_on, (sender, receiver)) = (Vec::new(), mpsc::channel());
        pass_on(&printed[..], &mut passed_on, &sender);
        drop(sender);
        assert_eq!((passed_on.len(), receiver.iter().flatten().count()), (SEARCHED + 5000, SEARCHED));
    }

    #[test]
    fn nobody_who_keeps_the_pipe_open_is_waited_for() {
        let slots = "echo There are not enough slots available >&2";
        assert_eq!(refusal(slots), Some(LaunchRefusal::Slots));
        let folder = tempfile::tempdir().unwrap();
        let late = folder.path().join("late");
        let script = format!("(sleep 20; touch {} 2>&-) & {slots}; exit 1", late.display());
        assert_eq!(refusal(&script), Some(LaunchRefusal::Slots));
        assert!(!late.exists(), "it was waited for");
        assert_eq!(refusal("echo all is well >&2"), None);
    }
}
