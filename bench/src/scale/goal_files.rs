//! GOAL files in which each computation takes another time, so that nothing repeats.
//!
//! **Problem.** The programs of the other table are expanded as they run, and all ranks compute equally long; a
//! recorded program is a file, and its times differ. **Idea.** Both simulators read the same schedules from files:
//! LogGOPSim the binary file that its txt2bin makes of a text, ours its own binary file, and the text. They take turns,
//! and what counts is CPU time, since other work may share the machine. **Why this way.** The ratio of two runs right
//! after each other is that of the programs, and the median of several is not that of a disturbance.
//!
//! LogGOPSim maps its file into memory and reads it as it simulates; its simulation cannot be measured alone. So ours
//! is measured twice: the simulation alone, and with reading.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rampart_memory::Bytes;
use rampart_scale::goal::{self, binary, text};
use rampart_scale::pattern::jittered::{Jittered, JitteredPattern};
use rampart_scale::{LogGops, RoundSchedule, Time, Undisturbed, simulate};

use super::{Child, makespan_of, of_a_child};
use crate::median::MedianRange;

/// Pairs of runs.
const ROUNDS: usize = 5;

/// The targets against LogGOPSim.
const TARGET: &str = "target: four times the simulation, half the memory";

fn programs() -> [(&'static str, Jittered); 3] {
    let of = |pattern, ranks, steps, bytes, micros: u64| {
        let (bytes, compute) = (Bytes::new(bytes), Time::from_nanos(1000 * micros));
        Jittered { pattern, ranks, steps, bytes, compute }
    };
    [
        ("ring", of(JitteredPattern::Ring, 2000, 1300, 1000, 20)),
        ("dissemination", of(JitteredPattern::Dissemination, 4096, 240, 8, 20)),
        ("halo, 70 kB", of(JitteredPattern::Halo(64), 4096, 60, 70_000, 2000)),
    ]
}

/// One schedule in three files.
struct Files {
    _folder: tempfile::TempDir,
    text: PathBuf,
    binary: PathBuf,
    /// Made by txt2bin.
    theirs: PathBuf,
}

impl Files {
    fn of(program: Jittered) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let [text, binary, theirs] =
            ["schedule.goal", "schedule.rampart", "schedule.bin"].map(|n| folder.path().join(n));
        let schedule = RoundSchedule(program).written_out().map_err(|error| error.to_string())?;
        fs::write(&text, text::write(&schedule)).map_err(|error| error.to_string())?;
        fs::write(&binary, binary::write(&schedule)).map_err(|error| error.to_string())?;
        Ok(Self { _folder: folder, text, binary, theirs })
    }
}

/// CPU seconds of one round.
struct Round {
    simulating: f64,
    from_binary: f64,
    from_text: f64,
    theirs: f64,
    converting: f64,
}

/// The table, with LogGOPSim and its txt2bin.
pub fn run(simulator: &Path, converter: &Path) -> Result<(), String> {
    println!(
        "GOAL files, each computation of another length: CPU seconds, medians of {ROUNDS} pairs of runs; {TARGET}"
    );
    for (name, program) in programs() {
        let files = Files::of(program)?;
        let (mut rounds, mut peaks, mut events) = (Vec::new(), [0; 3], 0);
        for _ in 0..ROUNDS {
            let (ours, theirs) = (Ours::of(&files.binary)?, &files.theirs);
            let of_text = Ours::of(&files.text)?;
            let converted = of_a_child(Command::new(converter).arg("-i").arg(&files.text).arg("-o").arg(theirs))?;
            let run = of_a_child(Command::new(simulator).arg("--batchmode").arg("-f").arg(theirs))?;
            let makespan = makespan_of(&run.output)?;
            if [ours.makespan, of_text.makespan] != [makespan; 2] {
                return Err(format!("{name}: ours is done at {} ns, LogGOPSim at {makespan} ns", ours.makespan));
            }
            let peak = [ours.child.peak, of_text.child.peak, run.peak.max(converted.peak)];
            peaks = std::array::from_fn(|i| peaks[i].max(peak[i]));
            events = ours.events;
            rounds.push(Round {
                simulating: ours.simulating,
                from_binary: ours.child.cpu,
                from_text: of_text.child.cpu,
                theirs: run.cpu,
                converting: converted.cpu,
            });
        }
        show(name, program.ranks, events, &rounds, peaks);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn show(name: &str, ranks: u32, events: u64, rounds: &[Round], [binary, text, theirs]: [u64; 3]) {
    println!("{name}: {ranks} ranks, {events} events; peak memory {} MB", theirs / 1_000_000);
    let row = |what: &str, ours: fn(&Round) -> f64, other: fn(&Round) -> f64, peak: u64| {
        let median = |of: fn(&Round) -> f64| MedianRange::of(rounds.iter().map(of).collect()).median;
        let MedianRange { median: ratio, low, high } =
            MedianRange::of(rounds.iter().map(|round| other(round) / ours(round)).collect());
        println!(
            "  {what:<46} ours {:>5.2} s, LogGOPSim {:>5.2} s: {ratio:.2} times as fast ({low:.2} to {high:.2}); \
             {} MB, {:.2} of its memory",
            median(ours),
            median(other),
            peak / 1_000_000,
            peak as f64 / theirs as f64,
        );
    };
    row("simulation (LogGOPSim's with its file)", |round| round.simulating, |round| round.theirs, binary);
    row("with reading the binary file", |round| round.from_binary, |round| round.theirs, binary);
    row(
        "from the text (LogGOPSim's with txt2bin)",
        |round| round.from_text,
        |round| round.theirs + round.converting,
        text,
    );
}

/// A run of ours, in a process of its own.
struct Ours {
    child: Child,
    events: u64,
    makespan: u64,
    /// CPU seconds.
    simulating: f64,
}

impl Ours {
    fn of(file: &Path) -> Result<Self, String> {
        let bench = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = of_a_child(Command::new(bench).args(["scale", "goal"]).arg(file))?;
        let words: Vec<f64> = child.output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[events, makespan, simulating] = words.as_slice() else { return Err(format!("output: {}", child.output)) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers below 2^53")]
        let (events, makespan) = (events as u64, makespan as u64);
        Ok(Self { child, events, makespan, simulating })
    }
}

/// Reads and simulates a file in this process: events, simulated nanoseconds, CPU seconds of the simulation.
pub fn one_run(file: &str) -> Result<(), String> {
    let opened = fs::File::open(file).map_err(|error| format!("{file}: {error}"))?;
    let schedule = goal::read_from(std::io::BufReader::new(opened)).map_err(|error| format!("{file}: {error}"))?;
    let begun = super::cpu_seconds()?.0;
    let outcome = simulate(&schedule, &LogGops::loggopsim(), &Undisturbed).map_err(|error| error.to_string())?;
    println!("{} {} {:.2}", outcome.events, outcome.makespan().nanos(), super::cpu_seconds()?.0 - begun);
    Ok(())
}
