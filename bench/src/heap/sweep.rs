//! Processor time by size of the heap [Gao13, figure 3]: of our collectors, and of MMTk's Immix, StickyImmix and
//! MarkSweep.
//!
//! All have the same bytes, 1 to 6 times the least heap of our Sticky Immix. The figure also has a sticky mark-sweep;
//! MMTk has none.

use std::path::Path;

use super::builds::HeapBuild;
use super::ratios::RatioInterval;
use super::request::{HeapRequest, mib};
use super::runs::{GUESS, HeapProgram, HeapRun, HeapSample, alternate};

const COLLECTORS: [&str; 5] = ["sticky", "immix", "mmtk-sticky", "mmtk-immix", "mmtk-mark-sweep"];

/// In per cent of the least heap, from the largest down: all is compared with the first collector in the first of them.
const HEAPS: [u64; 7] = [600, 400, 300, 200, 150, 125, 100];

/// What a program's processes said: by heap, then by collector, then by round.
type SweepSamples = Vec<Vec<HeapSample>>;

/// Prints the processor time of each collector in each heap, as a mean over the programs; of each program, too.
///
/// # Errors
/// If something does not build or run.
pub fn run(request: &HeapRequest) -> Result<(), String> {
    let build = HeapBuild::WithPeers.build()?;
    let mut all = Vec::new();
    for program in &request.programs {
        let samples = of_program(&build, program, request.rounds)?;
        print_means(program.name, &[&samples], request.rounds);
        all.push(samples);
    }
    print_means("all programs", &all.iter().collect::<Vec<_>>(), request.rounds);
    Ok(())
}

fn of_program(build: &Path, program: &HeapProgram, rounds: usize) -> Result<SweepSamples, String> {
    let least = HeapRun::of(build, program, COLLECTORS[0], GUESS).minimum()?;
    println!("{}: the least heap of our Sticky Immix has {:.2} MiB", program.name, mib(least));
    let in_heap =
        |percent: u64| COLLECTORS.map(|collector| HeapRun::of(build, program, collector, least * percent / 100));
    alternate(&HEAPS.map(in_heap).concat(), rounds)
}

fn print_means(name: &str, programs: &[&SweepSamples], rounds: usize) {
    println!("{name}: processor time relative to our Sticky Immix in the largest heap, {rounds} rounds");
    println!("  heap, % of the least | {}", COLLECTORS.join(" | "));
    for (heap, percent) in HEAPS.iter().enumerate() {
        let cells = (0..COLLECTORS.len()).map(|collector| {
            let which = heap * COLLECTORS.len() + collector;
            point(programs, which, rounds).map_or_else(|| "out of memory".to_owned(), |point| point.to_string())
        });
        println!("  {percent} | {}", cells.collect::<Vec<_>>().join(" | "));
    }
}

/// The mean over programs, of each round; `None` if one of them is out of memory [Gao13, 5].
fn point(programs: &[&SweepSamples], which: usize, rounds: usize) -> Option<RatioInterval> {
    if programs.iter().any(|samples| samples[which].is_empty() || samples[0].is_empty()) {
        return None;
    }
    Some(RatioInterval::of_rounds(rounds, |round| {
        programs.iter().map(move |samples| samples[which][round].processor / samples[0][round].processor)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(processor: &[f64]) -> Vec<HeapSample> {
        let sample = |processor: &f64| HeapSample {
            hash: String::new(),
            seconds: 0.0,
            processor: *processor,
            pauses: Vec::new(),
            grown_kib: 0.0,
        };
        processor.iter().map(sample).collect()
    }

    #[test]
    fn a_point_is_the_mean_of_programs_and_is_dropped_with_one_of_them() {
        let one = vec![samples(&[1.0, 2.0]), samples(&[2.0, 4.0])];
        let other = vec![samples(&[1.0, 1.0]), samples(&[8.0, 8.0])];
        let mean = point(&[&one, &other], 1, 2).unwrap();
        assert!((mean.mean - 4.0).abs() < 1e-9 && (mean.high - 4.0).abs() < 1e-9, "{mean}");
        let gone = vec![samples(&[1.0, 1.0]), Vec::new()];
        assert_eq!(point(&[&one, &gone], 1, 2), None);
    }
}
