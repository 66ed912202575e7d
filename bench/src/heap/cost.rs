//! What it costs to be able to fail: our heap beside the same one with the state *failed* compiled out.

use super::builds::HeapBuild;
use super::ratios::RatioInterval;
use super::request::{HeapRequest, mib};
use super::runs::{GUESS, HeapProgram, HeapRun};

const OURS: [&str; 2] = ["sticky", "immix"];

/// Prints the ratios of instructions and of times.
///
/// # Errors
/// If something does not build or run.
pub fn run(request: &HeapRequest) -> Result<(), String> {
    let [failing, unfailing] = [HeapBuild::Ours, HeapBuild::OursUnfailing].map(HeapBuild::build);
    let (failing, unfailing) = (failing?, unfailing?);
    println!("with the state `failed` / without it, at twice the minimum, {} pairs:", request.rounds);
    println!("program, collector | instructions | collections | processor time | time");
    for program in &request.programs {
        for collector in OURS {
            let on = |build, size| HeapRun {
                build,
                program: program.name,
                size,
                collector,
                bytes: GUESS,
                tables_apart: true,
            };
            let small = twice(on(&failing, program.small))?;
            let ((with, collections), (without, others)) =
                (small.instructions()?, HeapRun { build: &unfailing, ..small }.instructions()?);
            let large = twice(on(&failing, program.size))?;
            let (processor, time) = times(program, large, HeapRun { build: &unfailing, ..large }, request.rounds)?;
            let ratio = with as f64 / without as f64;
            let HeapProgram { name, .. } = program;
            println!(
                "{name}, {collector} ({:.1} MiB) | {ratio:.4} | {collections} / {others} | {processor} | {time}",
                mib(large.bytes)
            );
        }
    }
    Ok(())
}

fn twice(run: HeapRun<'_>) -> Result<HeapRun<'_>, String> {
    Ok(HeapRun { bytes: 2 * run.minimum()?, ..run })
}

/// The ratios of processor time and of time, of pairs whose order alternates.
fn times(
    program: &HeapProgram,
    with: HeapRun<'_>,
    without: HeapRun<'_>,
    rounds: usize,
) -> Result<(RatioInterval, RatioInterval), String> {
    let (mut processor, mut time) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let sample = |run: &HeapRun<'_>| {
            run.sample()?.ok_or_else(|| format!("{} is out of memory at twice the minimum", program.name))
        };
        let (first, second) = if round % 2 == 0 { (&with, &without) } else { (&without, &with) };
        let (first, second) = (sample(first)?, sample(second)?);
        let (with, without) = if round % 2 == 0 { (first, second) } else { (second, first) };
        if with.hash != without.hash {
            return Err(format!("{}: other results without the state", program.name));
        }
        processor.push(with.processor / without.processor);
        time.push(with.seconds / without.seconds);
    }
    Ok((RatioInterval::of(&processor), RatioInterval::of(&time)))
}
