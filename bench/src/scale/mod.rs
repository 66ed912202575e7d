//! `scale`: events per second and memory of the simulator, compared with LogGOPSim on the same schedules if it is at
//! hand.
//!
//! Each run is a process of its own, to measure its own peak memory. Makespans must be equal: a wrong result has no
//! speed. Speed appears twice, because LogGOPSim reads a binary file that its txt2bin creates from a text, while ours
//! expands the same program as it runs: first events per second of the simulation alone; then the time from the
//! schedule to the answer, which includes both of its programs, but not our writing of the text.

mod goal_files;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rampart_memory::Bytes;
use rampart_scale::goal::text;
use rampart_scale::pattern::{Stencil, SweepPattern, compared};
use rampart_scale::trace::file::memory;
use rampart_scale::{GoalGraph, LogGops, RankProgram, RoundSchedule, Time, Undisturbed, simulate};

/// A program: its name, its description, and whether its file for LogGOPSim has a reasonable size.
const RUNS: [(&str, &str, bool); 3] = [
    ("stencil", "16,384 ranks, stencil and allreduce, 6 steps", true),
    ("sweep", "16,384 ranks, sweep over 128 x 128, 4 corners, 100 blocks", true),
    ("million", "1,048,576 ranks, stencil and allreduce, 2 steps", false),
];

/// The targets: on another machine, LogGOPSim simulated 1.4 M events/s, and took 249 MB for the stencil's 6.23 M
/// events.
const TARGET: &str =
    "target: 10 M events/s, a fifth of LogGOPSim's memory (50 MB for the stencil), 16 GiB for a million ranks";

fn stencil(grid: [u32; 3], steps: u64) -> RoundSchedule<Stencil> {
    let (compute, halo, reduced) = (Time::from_nanos(100_000), Bytes::new(1024), Bytes::new(8));
    RoundSchedule(Stencil { grid, steps, compute, halo, reduced })
}

fn sweep() -> RoundSchedule<SweepPattern> {
    RoundSchedule(SweepPattern {
        grid: [128, 128],
        blocks: 100,
        steps: 1,
        compute: Time::from_nanos(10_000),
        face: Bytes::new(1200),
    })
}

/// `scale [LogGOPSim txt2bin]`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => {}
        [one, name] if one == "one" => return one_run(name),
        [goal, file] if goal == "goal" => return goal_files::one_run(file),
        [_, _] => {}
        _ => return Err("give the paths of LogGOPSim and of its txt2bin, or nothing".to_owned()),
    }
    if let [simulator, converter] = arguments {
        compare(Path::new(simulator), Path::new(converter))?;
        goal_files::run(Path::new(simulator), Path::new(converter))?;
    }
    println!("{TARGET}");
    println!(
        "{:<10} {:<10} {:>12} {:>12} {:>10} {:>14} {:>12} {:>10}",
        "program", "whose", "events", "M events/s", "answer", "makespan", "peak", "B a rank"
    );
    for (name, what, small) in RUNS {
        println!("{name}: {what}");
        let ours = of_a_child(
            Command::new(env::current_exe().map_err(|error| error.to_string())?).args(["scale", "one", name]),
        )?;
        let words: Vec<u64> = ours.output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let &[ranks, events, makespan, micros] = words.as_slice() else {
            return Err(format!("{name} output: {}", ours.output));
        };
        let simulating = Duration::from_micros(micros);
        let ours = Measured { simulating, answer: ours.took, makespan, peak: ours.peak };
        ours.row("ours", events, ranks);
        let estimate = memory(0, ranks.try_into().map_err(|_| format!("{name} has too many ranks"))?, 1);
        println!("{:<10} memory that is output before such a run: {} MB", "", estimate.get() / 1_000_000);
        match arguments {
            [simulator, converter] if small => {
                let schedule =
                    if name == "sweep" { sweep().written_out() } else { stencil([32, 32, 16], 6).written_out() };
                let schedule = schedule.map_err(|error| error.to_string())?;
                let theirs = theirs(&schedule, Path::new(simulator), Path::new(converter))?;
                drop(schedule);
                theirs.row("LogGOPSim", events, ranks);
                if theirs.makespan != makespan {
                    return Err(format!("{name}: ours is done at {makespan} ns, LogGOPSim at {} ns", theirs.makespan));
                }
                ours.beside(&theirs);
            }
            [] => println!("{:<10} LogGOPSim was not run: give its path and that of txt2bin", ""),
            _ => println!("{:<10} LogGOPSim was not run: its file would be tens of gigabytes", ""),
        }
    }
    Ok(())
}

/// A run of either simulator.
struct Measured {
    /// The simulation alone; for LogGOPSim this includes reading its file.
    simulating: Duration,
    /// From the schedule to the answer, with every step.
    answer: Duration,
    /// Simulated nanoseconds.
    makespan: u64,
    /// Bytes.
    peak: u64,
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn row(&self, whose: &str, events: u64, ranks: u64) {
        let (speed, answer) = (events as f64 / self.simulating.as_secs_f64() / 1e6, self.answer.as_secs_f64());
        let (makespan, peak, each) = (self.makespan, self.peak / 1_000_000, self.peak / ranks);
        println!(
            "{:<10} {whose:<10} {events:>12} {speed:>12.2} {answer:>8.2} s {makespan:>11} ns {peak:>9} MB {each:>10}",
            ""
        );
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn beside(&self, theirs: &Self) {
        println!(
            "{:<10} {:.1} times the events a second, {:.1} times as soon from schedule to answer (making its file took {:.2} s), \
             1/{:.1} of the memory",
            "",
            theirs.simulating.as_secs_f64() / self.simulating.as_secs_f64(),
            theirs.answer.as_secs_f64() / self.answer.as_secs_f64(),
            theirs.answer.saturating_sub(theirs.simulating).as_secs_f64(),
            theirs.peak as f64 / self.peak as f64,
        );
    }
}

/// Compares the makespans of both simulators on schedules of many kinds: they must be equal.
fn compare(simulator: &Path, converter: &Path) -> Result<(), String> {
    println!("{:<15} {:>17} {:>17}", "schedule", "ours", "LogGOPSim");
    let schedules = compared::all().map_err(|error| error.to_string())?;
    let mut apart = Vec::new();
    for (name, goal) in &schedules {
        let outcome = simulate(goal, &LogGops::loggopsim(), &Undisturbed).map_err(|error| error.to_string())?;
        let (ours, theirs) = (outcome.makespan().nanos(), theirs(goal, simulator, converter)?.makespan);
        println!("{name:<15} {ours:>14} ns {theirs:>14} ns");
        if ours != theirs {
            apart.push(*name);
        }
    }
    if apart.is_empty() { Ok(()) } else { Err(format!("times differ: {}", apart.join(", "))) }
}

/// Runs a program in this process: ranks, events, simulated nanoseconds, microseconds taken.
fn one_run(name: &str) -> Result<(), String> {
    match name {
        "stencil" => measured(&stencil([32, 32, 16], 6)),
        "million" => measured(&stencil([128, 128, 64], 2)),
        "sweep" => measured(&sweep()),
        other => Err(format!("there is no program {other}")),
    }
}

fn measured<P: RankProgram>(program: &RoundSchedule<P>) -> Result<(), String> {
    let begun = Instant::now();
    let outcome = simulate(program, &LogGops::loggopsim(), &Undisturbed).map_err(|error| error.to_string())?;
    let took = begun.elapsed().as_micros();
    println!("{} {} {} {took}", outcome.finished.len(), outcome.events, outcome.makespan().nanos());
    Ok(())
}

/// The output of a process, its peak memory, and its time.
struct Child {
    output: String,
    peak: u64,
    took: Duration,
    /// Seconds of CPU time.
    cpu: f64,
}

fn of_a_child(command: &mut Command) -> Result<Child, String> {
    let (begun, (_, cpu_before)) = (Instant::now(), cpu_seconds()?);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    // The kernel keeps the peak, so an occasional look suffices, and one more at the end.
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        peak = fs::read_to_string(&status).ok().and_then(|text| high_water(&text)).unwrap_or(0).max(peak);
        thread::sleep(Duration::from_millis(5));
    }
    let took = begun.elapsed();
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status));
    }
    let cpu = cpu_seconds()?.1 - cpu_before;
    Ok(Child { output: String::from_utf8_lossy(&output.stdout).into_owned(), peak, took, cpu })
}

/// CPU seconds of this process and of its children that have ended (proc_pid_stat(5), fields 14 to 17).
fn cpu_seconds() -> Result<(f64, f64), String> {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    let ticks: Vec<f64> = fields.map_while(|field| field.parse().ok()).take(4).collect();
    let &[user, system, of_children, system_of_children] = ticks.as_slice() else { return Err(stat) };
    Ok(((user + system) / TICKS_A_SECOND, (of_children + system_of_children) / TICKS_A_SECOND))
}

/// Bytes, from `VmHWM:  123 kB`.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// LogGOPSim on a schedule.
fn theirs(schedule: &GoalGraph, simulator: &Path, converter: &Path) -> Result<Measured, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (goal, binary) = (folder.path().join("schedule.goal"), folder.path().join("schedule.bin"));
    fs::write(&goal, text::write(schedule)).map_err(|error| error.to_string())?;
    let converted = of_a_child(Command::new(converter).arg("-i").arg(&goal).arg("-o").arg(&binary))?;
    let child = of_a_child(Command::new(simulator).arg("--batchmode").arg("-f").arg(&binary))?;
    let makespan = makespan_of(&child.output)?;
    Ok(Measured { simulating: child.took, answer: converted.took + child.took, makespan, peak: child.peak })
}

/// Nanoseconds, from LogGOPSim's output.
fn makespan_of(output: &str) -> Result<u64, String> {
    // "Maximum finishing time at host 3: 1234 (1.234e-06 s)".
    let line = output.lines().find_map(|line| line.strip_prefix("Maximum finishing time at host "));
    let makespan = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    makespan.ok_or_else(|| format!("LogGOPSim output no time: {output}"))
}
