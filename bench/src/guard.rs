//! `guard`: what programs lose under `rampart run`, and how much of their heap is locked meanwhile.
//!
//! Each program runs in turn without and with the guard, and each pair gives a ratio; medians count, since others may use the
//! machine. The paper's numbers are its figure 4.3 for `bench` and `bench-rand`, the programs of its listings 4.1 and 4.2
//! (002_55d5eb8104b64c01.txt, 4.3.1).

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::soak;

/// Pairs of each program and setting.
const PAIRS: usize = 5;

/// Memory of the programs that are ours.
const HEAP_MIB: usize = 512;

/// A row of the listings' arrays, 512 KiB in the paper, and how often it is gone through before the next; 100 times there.
const ROW: usize = (512 << 10) / 8;
const BUSY: usize = 20;

/// What the guard is told: blocks of huge pages, and small ones.
const SETTINGS: [&[&str]; 2] = [&[], &["--block", "64KiB", "--ahead", "16"]];

/// NumPy's matrices and sorts, or nothing where it is not there.
const NUMERICAL: &str = "\
import numpy
x = numpy.random.default_rng(1).random((900, 900))
for _ in range(8):
    x = numpy.tanh(x @ x.T / 900)
y = [numpy.random.default_rng(i).random(200_000) for i in range(100)]
for part in y:
    part.sort()
";

/// Many small objects, gone through again and again.
const OBJECTS: &str = "\
d = {i: (i, str(i)) for i in range(600_000)}
for k in range(4):
    assert sum(len(d[i][1]) for i in range(0, 600_000, 3)) > 0
";

/// Makes a command that runs a program once.
type Program = dyn Fn() -> Command;

/// Runs it.
pub fn run(_arguments: &[String]) -> Result<(), String> {
    let rampart = soak::build_rampart()?;
    let library = build_library()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let own = |work: &'static str| {
        let own = own.clone();
        move || {
            let mut command = Command::new(&own);
            command.args(["guarded", work]);
            command
        }
    };
    let python = |text: &'static str| {
        move || {
            let mut command = Command::new("python3");
            command.args(["-c", text]).env("OPENBLAS_NUM_THREADS", "1");
            command
        }
    };
    println!("{:<30}{:<12}{:>8}{:>10}{:>12}   all pairs", "program", "block", "wall", "locked", "faults");
    let programs: [(&str, Box<Program>); 7] = [
        ("hot 24 MiB of 512", Box::new(own("hot"))),
        ("bench, listing 4.1", Box::new(own("rows"))),
        ("sweep, each line once", Box::new(own("sweep"))),
        ("the same, only read", Box::new(own("read"))),
        ("bench-rand, listing 4.2", Box::new(own("chunks"))),
        ("Python, NumPy", Box::new(python(NUMERICAL))),
        ("Python, small objects", Box::new(python(OBJECTS))),
    ];
    for (name, program) in &programs {
        for setting in SETTINGS {
            match compare(program, setting, &rampart, &library) {
                Ok(line) => println!("{name:<30}{:<12}{line}", setting.get(1).unwrap_or(&"2MiB")),
                Err(why) => println!("{name:<30}not run: {why}"),
            }
        }
    }
    Ok(())
}

/// The library that is preloaded, built.
pub fn build_library() -> Result<PathBuf, String> {
    let built = Command::new("cargo").args(["build", "--release", "-p", "rampart-preload"]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("cannot build rampart-preload".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("release/librampart_preload.so"))
}

/// One line: the median ratio, the part of the heap that was locked, faults, and all ratios.
fn compare(program: &Program, setting: &[&str], rampart: &Path, library: &Path) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let report = folder.path().join("report.json");
    let guarded = || {
        let plain = program();
        let mut command = Command::new(rampart);
        command.arg("run").args(setting).arg("--report").arg(&report).arg("--").arg(plain.get_program());
        command.args(plain.get_args()).env("RAMPART_GUARD_LIBRARY", library);
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    };
    timed(program())?;
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        // Which comes first alternates: what drifts on the machine falls on both.
        let (alone, under) = if pair % 2 == 0 {
            let alone = timed(program())?;
            (alone, timed(guarded())?)
        } else {
            let under = timed(guarded())?;
            (timed(program())?, under)
        };
        ratios.push(under / alone);
    }
    let text = std::fs::read_to_string(&report).map_err(|error| error.to_string())?;
    let seen: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let all: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    ratios.sort_by(f64::total_cmp);
    let locked = 100.0 * seen["locked_share"].as_f64().unwrap_or_default();
    let faults = seen["counts"]["faults"].as_u64().unwrap_or_default();
    Ok(format!("{:>8.2}{locked:>8.1} %{faults:>12}   {}", ratios[PAIRS / 2], all.join(" ")))
}

/// Seconds that a program takes from its start to its end.
fn timed(mut command: Command) -> Result<f64, String> {
    let began = Instant::now();
    let name = command.get_program().to_string_lossy().into_owned();
    let ended =
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if ended.success() { Ok(began.elapsed().as_secs_f64()) } else { Err(format!("{name} ended with {ended}")) }
}

/// Our own programs, in a process of their own.
pub fn guarded(arguments: &[String]) -> Result<(), String> {
    let mut words = vec![0.0_f64; HEAP_MIB << 17];
    words.iter_mut().zip(0_u32..).for_each(|(word, number)| *word = f64::from(number % 1024));
    let step = |words: &mut [f64]| words.iter_mut().for_each(|word| *word = *word * 0.5 + 1.0);
    match arguments.first().map(String::as_str) {
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
