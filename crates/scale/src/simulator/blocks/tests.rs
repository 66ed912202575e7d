//! Compared with the engine, which goes event by event and is the reference, and with a run without a shortcut.

use super::*;
use crate::model::detour::{Burst, CorrectedErrors, ErrorCost, NodeArrivals, Nodes, Overlap};
use crate::programs::traced::{TRACES, TracedWorkload};
use proptest::prelude::*;

fn errors(mean: Time, cost: Time, seed: u64) -> NodeArrivals {
    let (nodes, burst, overlap) = (Nodes::All, Burst::SINGLE, Overlap::Queued);
    NodeArrivals::new(CorrectedErrors { nodes, mean, burst, cost: ErrorCost::Fixed(cost), overlap, seed }).unwrap()
}

/// The first parts of a traced cycle.
fn parts(traced: &TracedWorkload, count: usize) -> Vec<TracePart> {
    let mut parts = traced.cycle(&LogGops::cray_xc40()).unwrap();
    parts.truncate(count);
    parts
}

fn blocks(parts: &[TracePart], copies: u32) -> Blocks {
    Blocks::new(parts.to_vec(), copies, &LogGops::cray_xc40()).unwrap()
}

fn of_blocks<D>(parts: &[TracePart], copies: u32, cycles: u64, detours: &D) -> Time
where
    D: Detours,
    D::Cursor: Clone,
{
    blocks(parts, copies).run(cycles, detours, &AtomicBool::new(false)).unwrap().makespan
}

/// The same program as one trace: so many repetitions of the parts.
fn written_out(parts: &[TracePart], cycles: u64) -> MpiTrace {
    let of_rank = |rank: u32| {
        let one = |part: &TracePart| {
            let (kind, bytes) = part.meeting;
            let meeting = Call::Collective(kind, bytes, Communicator::WORLD);
            part.calls.calls(Rank(rank)).iter().copied().chain([meeting]).collect::<Vec<_>>()
        };
        (0..cycles).flat_map(|_| parts.iter().flat_map(one)).collect()
    };
    MpiTrace::new((0..parts[0].calls.ranks()).map(of_rank).collect()).unwrap()
}

fn of_events<D: Detours>(parts: &[TracePart], copies: u32, cycles: u64, detours: &D) -> Time {
    let trace = written_out(parts, cycles);
    simulate(&trace.extrapolated(copies).unwrap(), &LogGops::cray_xc40(), detours).unwrap().makespan()
}

/// The difference of two times, relative to the second.
fn apart(one: Time, other: Time) -> f64 {
    (one.as_secs_f64() / other.as_secs_f64() - 1.0).abs()
}

/// Parts of each trace that take the engine little time, without the part of `lammps-lj` that takes 100 steps.
fn short(traced: &TracedWorkload) -> Option<Vec<TracePart>> {
    (traced.name != "lammps-lj").then(|| parts(traced, 12))
}

#[test]
fn a_trace_takes_as_long_as_event_by_event() {
    for traced in TRACES {
        let Some(parts) = short(&traced) else { continue };
        for copies in [1, 4, 32] {
            let (ours, theirs) =
                (of_blocks(&parts, copies, 1, &Undisturbed), of_events(&parts, copies, 1, &Undisturbed));
            // Half of its steps are messages.
            let most = if traced.name == "lammps-crack" { 0.06 } else { 0.01 };
            assert!(apart(ours, theirs) < most, "{} in {copies} copies: {ours} and {theirs}", traced.name);
        }
    }
}

/// The cost of about forty errors in so many cycles, each as long as so many thirds of a part: by blocks, and event by
/// event.
fn cost_of_errors(traced: &TracedWorkload, parts: &[TracePart], cycles: u64, thirds: u64) -> (Time, Time) {
    const COPIES: u32 = 8;
    let quiet = of_events(parts, COPIES, cycles, &Undisturbed);
    let a_third = quiet.picos() / (3 * cycles * parts.len() as u64);
    let mean = Time::from_picos(quiet.picos() * u64::from(COPIES * traced.ranks) / 40);
    let cost = Time::from_picos(a_third * thirds);
    let detours = errors(mean, cost, 5);
    let theirs = of_events(parts, COPIES, cycles, &detours).since(quiet);
    let ours = of_blocks(parts, COPIES, cycles, &detours).since(of_blocks(parts, COPIES, cycles, &Undisturbed));
    assert!(theirs > cost, "{}: errors are felt", traced.name);
    (ours, theirs)
}

#[test]
fn errors_cost_a_trace_what_they_cost_event_by_event() {
    for traced in TRACES {
        let Some(parts) = short(&traced) else { continue };
        // Where half of a step is messages, these partly hide errors as short as one message.
        let (cycles, thirds) = if traced.name == "lammps-crack" { (36, 30) } else { (6, 1) };
        let (ours, theirs) = cost_of_errors(&traced, &parts, cycles, thirds);
        assert!(apart(ours, theirs) < 0.1, "{}: {ours} and {theirs}", traced.name);
    }
}

#[test]
fn errors_as_short_as_a_message_cost_rather_too_much_where_a_program_hardly_computes() {
    let crack = TRACES[1];
    let (ours, theirs) = cost_of_errors(&crack, &parts(&crack, 12), 6, 1);
    assert!(ours > theirs && apart(ours, theirs) < 0.5, "{ours} and {theirs}");
}

#[test]
fn cycles_that_nothing_disturbs_are_skipped() {
    let lulesh = blocks(&parts(&TRACES[2], 3), 8);
    let run = lulesh.run(1_000_000, &Undisturbed, &AtomicBool::new(false)).unwrap();
    let makespan = Time::from_picos(lulesh.cycle().picos() * 1_000_000);
    assert_eq!(run, BlocksOutcome { makespan, disturbed: 0 });
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let lulesh = blocks(&parts(&TRACES[2], 1), 1);
    assert_eq!(lulesh.run(9, &Undisturbed, &AtomicBool::new(true)), Err(Error::Stopped));
}

#[test]
fn only_copies_with_errors_are_simulated() {
    let parts = parts(&TRACES[2], 10);
    let lulesh = blocks(&parts, 8);
    let mean = Time::from_picos(lulesh.cycle().picos() * 64);
    let run = lulesh.run(40, &errors(mean, Time::from_nanos(1000), 1), &AtomicBool::new(false)).unwrap();
    // An error each cycle is expected.
    assert!((20..=60).contains(&run.disturbed), "{}", run.disturbed);
}

/// All copies of all parts, and all ranks in each meeting.
fn without_a_shortcut<D>(blocks: &Blocks, cycles: u64, detours: &D) -> Time
where
    D: Detours,
    D::Cursor: Clone,
{
    let mut run = BlocksRun::new(blocks, detours);
    let all: Vec<Rank> = (0..blocks.ranks()).map(Rank).collect();
    for stretch in (0..cycles).flat_map(|_| &blocks.stretches) {
        let last = run.arrival(stretch, &all);
        run.now = last;
        for &rank in &all {
            let cursor = &mut run.cursors[rank.index()];
            let free = detours.free_from(rank, cursor, last);
            run.now = run.now.max(detours.finish(rank, cursor, free, stretch.meeting));
        }
    }
    run.now
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_skipped_is_what_would_have_been_worked_out(
        which in 1..TRACES.len(), copies in 1..4_u32, often in 1..100_u64, long in 1..50_u64, seed: u64,
    ) {
        let blocks = blocks(&parts(&TRACES[which], 2), copies);
        let cycle = blocks.cycle().picos();
        let mean = Time::from_picos((cycle * often * u64::from(blocks.ranks()) / 4).max(1_000_000));
        let detours = errors(mean, Time::from_picos((mean.picos() / 2).min(cycle * long / 10)), seed);
        let quick = blocks.run(12, &detours, &AtomicBool::new(false)).unwrap().makespan;
        prop_assert_eq!(quick, without_a_shortcut(&blocks, 12, &detours));
    }
}
