//! Our heap beside MMTk's collectors.

use std::path::Path;

use super::builds::HeapBuild;
use super::ratios::RatioInterval;
use super::request::{HeapRequest, mib};
use super::runs::{GUESS, HeapProgram, HeapRun, HeapSample, alternate};
use crate::median::median;

/// Our collectors, then MMTk's.
const COLLECTORS: [&str; 6] = ["sticky", "immix", "mmtk-sticky", "mmtk-immix", "mmtk-mark-sweep", "mmtk-semi-space"];

/// How many of these are ours.
const OURS: usize = 2;

/// The bytes of the heaps of all collectors.
type HeapBytes = [u64; COLLECTORS.len()];

/// What the processes said, by collector, then by round; none of a collector that is out of memory.
type HeapSamples = [Vec<HeapSample>; COLLECTORS.len()];

/// A rule for the bytes of heaps, by their minima.
type Budget = (&'static str, fn(&HeapBytes) -> HeapBytes);

const BUDGETS: [Budget; 3] = [
    ("twice the minimum of each", |minima| minima.map(|bytes| 2 * bytes)),
    ("twice the minimum of our Sticky Immix for all", |minima| [2 * minima[0]; COLLECTORS.len()]),
    ("twice the minimum of MMTk's StickyImmix for all", |minima| [2 * minima[OURS]; COLLECTORS.len()]),
];

/// Prints a table for each program and each rule for the bytes of heaps, then means.
///
/// # Errors
/// If something does not build or run.
pub fn run(request: &HeapRequest) -> Result<(), String> {
    let build = HeapBuild::WithPeers.build()?;
    let mut samples = BUDGETS.map(|_| Vec::new());
    for program in &request.programs {
        let minima = minima(&build, program)?;
        for ((title, bytes_of), samples) in BUDGETS.iter().zip(&mut samples) {
            let bytes = bytes_of(&minima);
            let of_program = rounds(&build, program, &bytes, request.rounds)?;
            println!("{}, {title}, {} rounds:", program.name, request.rounds);
            print_program(&bytes, &of_program);
            samples.push(of_program);
        }
    }
    for ((title, _), samples) in BUDGETS.iter().zip(&samples) {
        println!("all programs, {title}:");
        print_means(samples);
    }
    Ok(())
}

fn minima(build: &Path, program: &HeapProgram) -> Result<HeapBytes, String> {
    let (mut minima, mut guess) = (HeapBytes::default(), GUESS);
    for (bytes, collector) in minima.iter_mut().zip(COLLECTORS) {
        let run = HeapRun::of(build, program, collector, guess);
        *bytes = run.minimum()?;
        guess = *bytes;
    }
    println!("{}, the least heaps, MiB: {}", program.name, minima.map(|bytes| format!("{:.2}", mib(bytes))).join(", "));
    Ok(minima)
}

fn rounds(build: &Path, program: &HeapProgram, bytes: &HeapBytes, rounds: usize) -> Result<HeapSamples, String> {
    let runs = COLLECTORS.iter().zip(bytes).map(|(collector, bytes)| HeapRun::of(build, program, collector, *bytes));
    let samples = alternate(&runs.collect::<Vec<_>>(), rounds)?;
    Ok(samples.try_into().expect("as many as collectors"))
}

fn print_program(bytes: &HeapBytes, samples: &HeapSamples) {
    println!("  collector | heap, MiB | collections | pause p50 / max, ms | memory, MiB | ours / it");
    for (which, (collector, of_collector)) in COLLECTORS.iter().zip(samples).enumerate() {
        if of_collector.is_empty() {
            println!("  {collector} | {:.2} | out of memory", mib(bytes[which]));
            continue;
        }
        let all = |value: fn(&HeapSample) -> f64| median(of_collector.iter().map(value).collect());
        let pauses: Vec<f64> = of_collector.iter().flat_map(|sample| sample.pauses.clone()).collect();
        let longest = pauses.iter().copied().fold(0.0, f64::max);
        let middle = if pauses.is_empty() { 0.0 } else { median(pauses) };
        println!(
            "  {collector} | {:.2} | {} | {:.2} / {:.2} | {:.1} |{}",
            mib(bytes[which]),
            all(|sample| sample.pauses.len() as f64),
            middle * 1e3,
            longest * 1e3,
            all(|sample| sample.grown_kib / 1024.0),
            against(samples, which)
        );
    }
}

/// Our times over those of a peer.
fn against(samples: &HeapSamples, which: usize) -> String {
    if which < OURS {
        return String::new();
    }
    let ratio = |ours: usize, value: fn(&HeapSample) -> f64| {
        let ratios: Vec<f64> =
            samples[ours].iter().zip(&samples[which]).map(|(ours, theirs)| value(ours) / value(theirs)).collect();
        RatioInterval::of(&ratios)
    };
    let shown = (0..OURS).filter(|ours| !samples[*ours].is_empty()).map(|ours| {
        let (time, processor) = (ratio(ours, |sample| sample.seconds), ratio(ours, |sample| sample.processor));
        format!(" {}: time {time}; processor {processor}", COLLECTORS[ours])
    });
    shown.collect::<Vec<_>>().join(" |")
}

/// Geometric means over the programs that both run: one of each round, and of these the interval.
fn print_means(programs: &[HeapSamples]) {
    for ours in 0..OURS {
        for peer in OURS..COLLECTORS.len() {
            let both: Vec<&HeapSamples> =
                programs.iter().filter(|samples| !samples[ours].is_empty() && !samples[peer].is_empty()).collect();
            if both.is_empty() {
                continue;
            }
            let of_rounds = |value: fn(&HeapSample) -> f64| {
                RatioInterval::of_rounds(both[0][ours].len(), |round| {
                    both.iter().map(move |samples| value(&samples[ours][round]) / value(&samples[peer][round]))
                })
            };
            let (time, processor) = (of_rounds(|sample| sample.seconds), of_rounds(|sample| sample.processor));
            let (ours, peer) = (COLLECTORS[ours], COLLECTORS[peer]);
            println!("all, {ours} / {peer} ({} programs): time {time}; processor {processor}", both.len());
        }
    }
}
