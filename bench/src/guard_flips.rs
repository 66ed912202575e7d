//! `guard-flips`: thousands of flips in locked pages of a running program, and what became of each.
//!
//! **Problem.** What a guard is for happens too seldom to be waited for. **Idea.** `rampart run --inject` flips bits of
//! pages that are locked, from a seed, while a program goes through its memory and compares each word with what must be
//! there. A run that ends as it should has verified everything at its end, so all bits that were flipped must have been
//! put right; one with two flips in a page before it was verified may be stopped instead; a program that found a wrong
//! word is what must never be. **Why this way.** It is the whole way from the injector to the program's own eyes, and
//! the seed repeats it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::guard::Guard;

/// Flips that are asked for, unless it is said otherwise.
const FLIPS: u64 = 10_000;

/// At this rate, two flips seldom meet in a page of [`WORDS`] before it is verified.
const RATE: &str = "100";

/// What the program looks at: 128 MiB, 32,768 pages.
const WORDS: usize = 128 << 17;

/// How long one run looks at it.
const RUN: Duration = Duration::from_secs(10);

/// How the program ends if it found a wrong word; a stopped one ends with 86.
const SILENT: i32 = 3;
const STOPPED: i32 = 86;

/// What became of flips, in all runs so far.
#[derive(Debug, Default)]
struct Fate {
    runs: u64,
    /// In runs that ended as they should.
    flipped: u64,
    bits_corrected: u64,
    /// In runs that were stopped, most of them in pages that nobody had looked at yet.
    flipped_before_stop: u64,
    stopped: u64,
    silent: u64,
}

/// Runs it.
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

/// The program: goes through its memory until its time is over.
pub fn flipped(_arguments: &[String]) -> Result<(), String> {
    let right = |place: usize| (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words: Vec<u64> = (0..WORDS).map(right).collect();
    let began = Instant::now();
    while began.elapsed() < RUN {
        if words.iter().enumerate().any(|(place, word)| *word != right(place)) {
            std::process::exit(SILENT);
        }
    }
    // What is freed is verified no more, and flips in it would be lost: nobody needs it.
    std::mem::forget(words);
    Ok(())
}
