//! A program that checks its own data runs under guard in hostile settings, and in the same settings without a guard.
//!
//! **Problem.** A guard is a library in another program's process, and shares its limits, signals, sandboxes and files.
//! **Idea.** Each setting is a few words of shell around `$RUN $SUMS`; it runs once with an empty `$RUN` and once with
//! each engine, and `judge` compares the results. **Why a shell.** A person can paste a line of the table and see the
//! result.

mod judge;
mod settings;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use judge::{Allowance, Run, SKIPPED, Verdict, judge};
pub use settings::{SETTINGS, Setting};

use crate::error::Error;
use crate::program::Programs;

/// Definitions for the scripts.
const PRELUDE: &str = include_str!("prelude.sh");

/// The time limit of a run: a longer one hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit for processes and files of an ended run to disappear.
const GRACE: Duration = Duration::from_secs(2);

/// Pages are locked soon, so that a resting program finds them locked.
const OPTIONS: &str = "--cap 1MiB --block 64KiB --interval 10ms";

/// Marks the processes of a run in their environment.
const MARK: &str = "RAMPART_TRIAL";

/// Other ways to link the victim: the compiler, its options, and a suffix of the name.
const LINKED: [(&str, &[&str], &str); 4] = [
    ("cc", &["-static"], "-static"),
    ("musl-gcc", &["-DSMALL"], "-musl"),
    ("musl-gcc", &["-DSMALL", "-static"], "-static-musl"),
    ("cc", &["-fsanitize=address"], "-asan"),
];

/// The folder in which trials run.
pub struct Ground<'a> {
    programs: &'a Programs,
    bin: PathBuf,
    sums: PathBuf,
}

impl<'a> Ground<'a> {
    /// Copies the programs to where every user may run them.
    pub fn new(programs: &'a Programs) -> Result<Self, Error> {
        let bin = programs.folder().join("bin");
        fs::create_dir_all(&bin).map_err(Error::io("make a folder"))?;
        open_to_all(programs.folder())?;
        programs.copy_to(&bin)?;
        let sums = programs.victim("sums", &[])?;
        for (compiler, options, suffix) in LINKED {
            // If it cannot be linked so, the setting is skipped.
            programs.compile(compiler, "sums", options, &with_suffix(&sums, suffix));
        }
        Ok(Self { programs, bin, sums })
    }

    /// The verdicts of a setting under each of these engines, or why this machine cannot run it.
    pub fn try_setting(&self, setting: &Setting, engines: &[&str]) -> Result<Result<Vec<Verdict>, String>, Error> {
        let plain = self.run(setting, None)?;
        if plain.code == Some(SKIPPED) {
            return Ok(Err(plain.err.lines().last().unwrap_or_default().to_owned()));
        }
        let under = |engine: &&str| Ok(judge(&plain, &self.run(setting, Some(engine))?, setting.allowance));
        engines.iter().map(under).collect::<Result<_, Error>>().map(Ok)
    }

    /// One run, to its end or its time limit.
    pub fn run(&self, setting: &Setting, engine: Option<&str>) -> Result<Run, Error> {
        let folder = tempfile::tempdir_in(self.programs.folder()).map_err(Error::io("make a folder"))?;
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).map_err(Error::io("make a folder"))?;
        open_to_all(folder.path())?;
        open_to_all(&temporary)?;
        let mark = folder.path().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let mut child = self.start(setting, engine, folder.path(), &mark)?;
        let code = wait(&mut child, PATIENCE)?;
        let end = Instant::now() + GRACE;
        let is_over = || processes(&mark).is_empty() && list(&temporary).is_empty();
        while code.is_some() && !is_over() && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        let left = processes(&mark);
        left.iter().for_each(|process| kill(*process));
        if code.is_none() {
            kill(child.id());
            child.wait().map_err(Error::io("wait for the script"))?;
        }
        let text = |name| String::from_utf8_lossy(&fs::read(folder.path().join(name)).unwrap_or_default()).into_owned();
        let report: Value = serde_json::from_str(&text("report.json")).unwrap_or_default();
        Ok(Run {
            code,
            out: text("out"),
            err: text("err"),
            left_files: list(&temporary),
            left_processes: if code.is_some() { left.len() } else { 0 },
            foreign: report["unreadable"].as_u64().unwrap_or_default(),
        })
    }

    fn start(&self, setting: &Setting, engine: Option<&str>, folder: &Path, mark: &str) -> Result<Child, Error> {
        let rampart = self.bin.join("rampart");
        let run = engine.map_or_else(String::new, |engine| {
            let (rampart, report) = (rampart.display(), folder.join("report.json"));
            format!("{rampart} run --engine {engine} {OPTIONS} --report {} --", report.display())
        });
        let file = |name| File::create(folder.join(name)).map_err(Error::io("make a file"));
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{PRELUDE}\n{}", setting.script)]).current_dir(folder);
        bash.env("RUN", run).env("SUMS", &self.sums).env("TMPDIR", folder.join("tmp")).env(MARK, mark);
        bash.env("RAMPART_STORE", folder.join("store.db")).env_remove("RAMPART_GUARD_LIBRARY");
        bash.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
        bash.spawn().map_err(Error::io("start bash"))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Gives every user access to a folder.
fn open_to_all(folder: &Path) -> Result<(), Error> {
    fs::set_permissions(folder, Permissions::from_mode(0o777)).map_err(Error::io("open a folder"))
}

/// The exit code as a shell reports it: 128 plus the signal that ended it; `None` if it still runs.
fn wait(child: &mut Child, patience: Duration) -> Result<Option<i32>, Error> {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().map_err(Error::io("wait for the script"))? {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            return Ok(status.code().or(signal.map(|signal| 128 + signal)));
        }
        sleep(Duration::from_millis(10));
    }
    Ok(None)
}

/// The living processes with a mark.
fn processes(mark: &str) -> Vec<u32> {
    let mark = format!("{MARK}={mark}");
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let bears = |number: &u32| {
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    numbers.filter(bears).collect()
}

/// Kills a process of ours.
fn kill(process: u32) {
    // It may have ended meanwhile.
    let _ = Command::new("sh").args(["-c", &format!("kill -9 {process}")]).stderr(Stdio::null()).status();
}

/// The names in a folder.
fn list(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
