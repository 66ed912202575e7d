//! `guard`: how much programs slow down under `rampart run`, and how much of their heap is locked meanwhile.
//!
//! Each program runs in turn without and with the guard, and each pair gives a ratio; medians count, because others may
//! use the machine. FlipSphere's programs are `bench` and `bench-rand` [Fiala15, 4.3.1, lst. 4.1 and 4.2], and FT and
//! CG of NPB [Fiala15, 4.5], which we may not ship: the bench takes paths to programs, such as `ft.B` and `cg.C` of
//! <https://www.nas.nasa.gov/software/npb.html>. Real programs run beside them.

mod programs;

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use rampart_linux::{Block, PageKind};
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{MarchEngine, Region};
use rampart_memory::{Bytes, FRAME_BYTES};
use rampart_trials::Programs;
use serde_json::Value;
use tempfile::TempDir;

use crate::median::median;
use crate::soak;

/// Pairs per program and setting, and pairs of a program that takes longer than [`LONG`] seconds.
const PAIRS: usize = 5;
const PAIRS_OF_LONG: usize = 3;
const LONG: f64 = 5.0;

/// Memory for the measurement of the read speed: more than a cache holds.
const DRAM: Bytes = Bytes::from_mib(256);

/// Memory of our own programs.
const HEAP_MIB: usize = 512;

/// A row of the listings' arrays (FlipSphere's have 512 KiB), and how often it is read before the next; FlipSphere
/// reads it 100 times.
const ROW: usize = (512 << 10) / 8;
const BUSY: usize = 20;

/// The guard's options: none, an overhead of 100 %, a low overhead; then a share of the heap to keep locked, with the
/// engines side by side.
const SETTINGS: [(&str, GuardOptions); 6] = [
    ("usual", GuardOptions::Options(&[])),
    ("100%", GuardOptions::Options(&["--overhead", "100%"])),
    ("15%", GuardOptions::Options(&["--overhead", "15%"])),
    ("95 %, move", GuardOptions::Locked { engine: "move" }),
    ("95 %, minor", GuardOptions::Locked { engine: "minor" }),
    ("95 %, mprotect", GuardOptions::Locked { engine: "mprotect" }),
];

/// To lock 95 %, the unlocked limit is this fraction of the program's peak, at least two blocks.
const LOCKED: u64 = 21;
const LEAST_CAP: u64 = 4 << 20;

/// The guard's options.
#[derive(Clone, Copy)]
enum GuardOptions {
    /// These options.
    Options(&'static [&'static str]),
    /// Options that keep 95 % of the heap locked.
    Locked {
        /// The engine.
        engine: &'static str,
    },
}

impl GuardOptions {
    /// The options for a program with this peak.
    fn options(self, heap: u64) -> Vec<String> {
        match self {
            Self::Options(options) => options.iter().map(|&option| option.to_owned()).collect(),
            Self::Locked { engine } => {
                let cap = (heap / LOCKED).max(LEAST_CAP) >> 10;
                vec!["--engine".to_owned(), engine.to_owned(), "--cap".to_owned(), format!("{cap}KiB")]
            }
        }
    }
}

/// FlipSphere's rows for FT and CG with correcting codes: the time and the locked share ([Fiala15, tab. 4.4 and 4.6];
/// 1.40 is from section 4.5.2).
const PAPER: [&str; 3] = [
    "[Fiala15, tab. 4.4], FT: 1.30 with 76.7 % locked, 1.40 with 89.2 %, 1.56 with 91.2 %",
    "[Fiala15, tab. 4.6], CG: 1.21 with 52.0 % locked, 1.85 with 78.1 %",
    "[Fiala15, fig. 4.5a], FT with CRC alone: 1.7 with 95 % locked",
];

/// Creates a command that runs a program once.
pub type Program = dyn Fn() -> Command;

/// The built `rampart run`, and the file for its reports.
pub struct Guard {
    rampart: PathBuf,
    library: PathBuf,
    folder: TempDir,
}

impl Guard {
    /// Builds it.
    pub fn build() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(Self { rampart: soak::build_rampart()?, library: build_library()?, folder })
    }

    /// The same for trials.
    pub fn programs() -> Result<Programs, String> {
        Programs::new(soak::build_rampart()?, build_library()?).map_err(|error| error.to_string())
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }

    /// The command of a program under guard.
    pub fn around<S: AsRef<OsStr>>(&self, plain: &Command, setting: &[S]) -> Command {
        let mut command = Command::new(&self.rampart);
        command.arg("run").args(setting).arg("--report").arg(self.report()).arg("--").arg(plain.get_program());
        command.args(plain.get_args()).env("RAMPART_GUARD_LIBRARY", &self.library);
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    /// The report of the last run.
    pub fn told(&self) -> Result<Value, String> {
        let text = std::fs::read_to_string(self.report()).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

/// Runs the bench, with the programs at these paths beside the installed ones.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let guard = Guard::build()?;
    let mut programs: Vec<(&str, Box<Program>)> = vec![
        ("hot 24 MiB of 1 GiB", own("hot")?),
        ("bench, listing 4.1", own("rows")?),
        ("sweep, each line once", own("sweep")?),
        ("the same, only read", own("read")?),
        ("bench-rand, listing 4.2", own("chunks")?),
    ];
    for (name, ready) in programs::PROGRAMS {
        match ready(guard.folder.path()) {
            Ok(program) => programs.push((name, program)),
            Err(why) => println!("{name:<26}not run: {why}"),
        }
    }
    programs.extend(arguments.iter().map(|path| at(path)));
    println!(
        "{:<26}{:<16}{:>6}{:>10}{:>10}{:>12}   all pairs",
        "program", "setting", "wall", "locked", "faults", "coded GB/s"
    );
    for (name, program) in &programs {
        let mut heap = 0;
        for (label, told) in SETTINGS {
            let line = match compare(program, &told.options(heap), &guard) {
                Ok((line, most)) => {
                    heap = most;
                    line
                }
                Err(why) => format!("not run: {why}"),
            };
            println!("{name:<26}{label:<16}{line}");
        }
    }
    PAPER.iter().for_each(|line| println!("{line}"));
    println!("locked: of the heap, on average over time; coded: verified or encoded, while the program ran");
    println!("what that is bounded by: one core reads {:.2} GB/s from the DRAM here", dram()? / 1e9);
    Ok(())
}

/// Bytes per second that one core reads from the DRAM.
fn dram() -> Result<f64, String> {
    let mut block = Block::claim(DRAM, PageKind::Huge).map_err(|error| error.to_string())?;
    Ok(Limit::measure(MarchEngine::detect(), &mut Region::from(&mut block)).read)
}

/// One of our own programs, by its name.
pub fn own(work: &'static str) -> Result<Box<Program>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(Box::new(move || {
        let mut command = Command::new(&own);
        command.args(["guarded", work]);
        command
    }))
}

/// An external program with its name.
pub fn at(path: &str) -> (&str, Box<Program>) {
    let program = path.to_owned();
    (path.rsplit('/').next().unwrap_or(path), Box::new(move || Command::new(&program)))
}

/// Builds the library to preload.
pub fn build_library() -> Result<PathBuf, String> {
    let built = Command::new("cargo").args(["build", "--release", "-p", "rampart-preload"]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("cannot build rampart-preload".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("release/librampart_preload.so"))
}

/// Prints one line: the median ratio, the locked share, faults, and all ratios. Returns the program's peak in bytes.
fn compare(program: &Program, setting: &[String], guard: &Guard) -> Result<(String, u64), String> {
    let is_long = timed(program())? > LONG;
    // On a shared host, the host must first find memory that nobody used recently: a second for 1 GiB. So short
    // programs reuse the memory that runs of the same program left.
    let timed_twice = |command: &dyn Fn() -> Command| {
        if !is_long {
            timed(command())?;
        }
        timed(command())
    };
    let (mut ratios, mut last) = (Vec::new(), 0.0);
    for pair in 0..if is_long { PAIRS_OF_LONG } else { PAIRS } {
        // The order alternates, so that a drift of the machine affects both.
        let (alone, under) = if pair % 2 == 0 {
            let alone = timed_twice(program)?;
            (alone, timed_twice(&|| guard.around(&program(), setting))?)
        } else {
            let under = timed_twice(&|| guard.around(&program(), setting))?;
            (timed_twice(program)?, under)
        };
        ratios.push(under / alone);
        last = under;
    }
    let seen = guard.told()?;
    let all: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let locked = 100.0 * seen["locked_share"].as_f64().unwrap_or_default();
    let coded = ((count(&seen, "verified") + count(&seen, "encoded")) * FRAME_BYTES) as f64 / 1e9 / last;
    let (ratio, faults) = (median(ratios), count(&seen, "faults"));
    let line = format!("{ratio:>6.2}{locked:>8.1} %{faults:>10}{coded:>12.2}   {}", all.join(" "));
    Ok((line, count(&seen, "most_pages") * FRAME_BYTES))
}

/// A counter of the guard's report.
fn count(seen: &Value, name: &str) -> u64 {
    seen["counts"][name].as_u64().unwrap_or_default()
}

/// Seconds from a program's start to its end.
pub fn timed(mut command: Command) -> Result<f64, String> {
    let began = Instant::now();
    let name = command.get_program().to_string_lossy().into_owned();
    let ended =
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if ended.success() { Ok(began.elapsed().as_secs_f64()) } else { Err(format!("{name} ended with {ended}")) }
}

/// Our own programs, each in its own process.
pub fn guarded(arguments: &[String]) -> Result<(), String> {
    let work = arguments.first().map(String::as_str);
    let mib = if work == Some("hot") { 2 * HEAP_MIB } else { HEAP_MIB };
    let mut words = vec![0.0_f64; mib << 17];
    words.iter_mut().zip(0_u32..).for_each(|(word, number)| *word = f64::from(number % 1024));
    let step = |words: &mut [f64]| words.iter_mut().for_each(|word| *word = *word * 0.5 + 1.0);
    match work {
        Some("hot") => (0..400).for_each(|_| step(&mut words[..24 << 17])),
        Some("rows") => words.chunks_mut(ROW).for_each(|row| (0..BUSY).for_each(|_| step(row))),
        Some("sweep") => (0..6).for_each(|_| step(&mut words)),
        Some("read") => (0..10).for_each(|_| {
            black_box(words.iter().sum::<f64>());
        }),
        Some("chunks") => {
            let mut place = 1_usize;
            for _ in 0..1000 {
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let row = (place >> 33) % (words.len() / ROW);
                (0..BUSY).for_each(|_| step(&mut words[row * ROW..(row + 1) * ROW]));
            }
        }
        _ => return Err("say hot, rows, sweep, read or chunks".to_owned()),
    }
    black_box(&words);
    Ok(())
}
