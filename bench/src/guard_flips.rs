//! `guard-flips`: injects thousands of flips into locked pages of a running program, and counts the results.
//!
//! **Problem.** Real errors are too rare to wait for. **Idea.** `rampart run --inject` flips bits of locked pages, from
//! a seed, while a program reads its memory and compares each word with the expected value. A run that ends well has
//! verified everything at its end, so the guard corrected all flipped bits. Two flips in a page before it is verified
//! may stop the run. A program must never find a wrong word. **Why this way.** This covers the whole path from the
//! injector to the program's reads, and the seed repeats it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::guard::Guard;

/// The number of flips, by default.
const FLIPS: u64 = 10_000;

/// At this rate, two flips seldom hit one page of [`WORDS`] before it is verified.
const RATE: &str = "100";

/// The memory that the program checks: 128 MiB, 32,768 pages.
const WORDS: usize = 128 << 17;

/// The time of one run.
const RUN: Duration = Duration::from_secs(10);

/// The exit code of a program that found a wrong word; a stopped one ends with 86.
const SILENT: i32 = 3;
const STOPPED: i32 = 86;

/// Flips in all runs so far.
#[derive(Debug, Default)]
struct Fate {
    runs: u64,
    /// In runs that ended well.
    flipped: u64,
    bits_corrected: u64,
    /// In stopped runs; most were in pages that the program had not read yet.
    flipped_before_stop: u64,
    stopped: u64,
    silent: u64,
}

/// Runs the bench.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let wanted =
        arguments.first().map_or(Ok(FLIPS), |text| text.parse().map_err(|_| "say how many flips".to_owned()))?;
    let guard = Guard::build()?;
    let mut fate = Fate::default();
    while fate.flipped < wanted {
        fate.runs += 1;
        once(&mut fate, &guard)?;
        println!(
            "{} runs: {} flips, {} bits corrected; {} runs stopped at a page with two flips, {} flips before; {} silent",
            fate.runs, fate.flipped, fate.bits_corrected, fate.stopped, fate.flipped_before_stop, fate.silent
        );
    }
    if fate.silent > 0 || fate.bits_corrected != fate.flipped {
        return Err("not every flip was found".to_owned());
    }
    Ok(())
}

fn once(fate: &mut Fate, guard: &Guard) -> Result<(), String> {
    let inject = format!("flip:locked:rate={RATE}/s,seed={}", fate.runs);
    let mut program = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    program.arg("flipped");
    let mut guarded = guard.around(&program, &["--cap", "4MiB", "--block", "64KiB", "--inject", &inject]);
    let status = guarded.stderr(Stdio::null()).status().map_err(|error| error.to_string())?;
    let seen = guard.told()?;
    let flipped = seen["counts"]["injected"].as_u64().ok_or("the report counts no flips")?;
    let events = seen["events"].as_array().ok_or("the report has no events")?;
    match status.code() {
        Some(0) if flipped == 0 => return Err("nothing was flipped: is the program guarded here?".to_owned()),
        Some(0) => {
            fate.flipped += flipped;
            fate.bits_corrected += events.iter().filter_map(|event| event["bits"].as_u64()).sum::<u64>();
        }
        Some(STOPPED) => {
            fate.stopped += 1;
            fate.flipped_before_stop += flipped;
        }
        Some(SILENT) => fate.silent += 1,
        other => return Err(format!("the program ended with {other:?}")),
    }
    Ok(())
}

/// The program: reads its memory until its time is over.
pub fn flipped(_arguments: &[String]) -> Result<(), String> {
    let right = |place: usize| (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words: Vec<u64> = (0..WORDS).map(right).collect();
    let began = Instant::now();
    while began.elapsed() < RUN {
        if words.iter().enumerate().any(|(place, word)| *word != right(place)) {
            std::process::exit(SILENT);
        }
    }
    // Freed memory is not verified any more, so flips in it would not be counted.
    std::mem::forget(words);
    Ok(())
}
