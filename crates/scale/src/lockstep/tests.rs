//! Beside the engine that goes event by event, which is the reference.

use super::*;
use crate::detour::{Burst, CorrectedErrors, Cost, Nodes, Overlap, Rows, Undisturbed};
use crate::workload::WORKLOADS;
use crate::{Rounds, Workload, simulate};
use proptest::prelude::*;

fn errors(mean: Time, cost: Time, seed: u64) -> Rows {
    let (nodes, burst, overlap) = (Nodes::All, Burst::SINGLE, Overlap::Queued);
    Rows::new(CorrectedErrors { nodes, mean, burst, cost: Cost::Fixed(cost), overlap, seed }).unwrap()
}

fn in_lockstep<D: Detours>(workload: &Workload, ranks: u32, cycles: u64, detours: &D) -> Outcome {
    let lockstep = Lockstep::new(&workload.on(ranks, cycles), &LogGops::cray_xc40());
    lockstep.run(cycles, detours, &AtomicBool::new(false)).unwrap()
}

fn event_by_event<D: Detours>(workload: &Workload, ranks: u32, cycles: u64, detours: &D) -> Time {
    simulate(&Rounds(workload.on(ranks, cycles)), &LogGops::cray_xc40(), detours).unwrap().makespan()
}

/// How far apart two times are, as a part of the second.
fn apart(one: Time, other: Time) -> f64 {
    (one.as_secs_f64() / other.as_secs_f64() - 1.0).abs()
}

#[test]
fn a_workload_takes_as_long_as_event_by_event() {
    for workload in WORKLOADS {
        for ranks in [1, 8, 13, 64] {
            let (ours, theirs) = (
                in_lockstep(&workload, ranks, 3, &Undisturbed).makespan,
                event_by_event(&workload, ranks, 3, &Undisturbed),
            );
            // Half of its 54 µs are messages: there the order in which a CPU takes them is seen.
            let most = if workload.name == "lammps-crack" { 0.06 } else { 0.01 };
            assert!(apart(ours, theirs) < most, "{} on {ranks}: {ours} and {theirs}", workload.name);
        }
    }
}

#[test]
fn errors_delay_a_workload_as_event_by_event() {
    for workload in WORKLOADS {
        let cycles = 12;
        let quiet = event_by_event(&workload, 27, cycles, &Undisturbed);
        // About forty errors in the run, each a hundredth of it.
        let (mean, cost) = (Time::from_picos(quiet.picos() * 27 / 40), Time::from_picos(quiet.picos() / 100));
        let rows = errors(mean, cost, 5);
        let (ours, theirs) =
            (in_lockstep(&workload, 27, cycles, &rows).makespan, event_by_event(&workload, 27, cycles, &rows));
        assert!(theirs > quiet.plus(cost), "{}: errors are felt", workload.name);
        assert!(apart(ours, theirs) < 0.03, "{}: {ours} and {theirs}", workload.name);
    }
}

#[test]
fn cycles_that_nothing_disturbs_are_skipped() {
    let workload = Workload::named("lulesh").unwrap();
    let run = in_lockstep(&workload, 64, 1_000_000, &Undisturbed);
    assert!(run.worked_out < 20, "{}", run.worked_out);
    let fewer = in_lockstep(&workload, 64, 1000, &Undisturbed);
    assert!(apart(run.makespan, Time::from_picos(fewer.makespan.picos() * 1000)) < 0.001);
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let lockstep = Lockstep::new(&Workload::named("hpcg").unwrap().on(8, 9), &LogGops::cray_xc40());
    assert_eq!(lockstep.run(9, &Undisturbed, &AtomicBool::new(true)), Err(Error::Stopped));
}

/// All cycles one by one: what is skipped is compared with it.
fn without_a_skip<D: Detours>(lockstep: &Lockstep, cycles: u64, detours: &D) -> Time {
    let mut state = State::new(lockstep, detours);
    (0..cycles).for_each(|_| state.cycle());
    state.times.iter().map(|times| times.at).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_skipped_is_within_two_thousandths_what_would_have_been_worked_out(
        which in 0..WORKLOADS.len(), ranks in 1..40_u32, often in 1..200_u64, long in 1..50_u64, seed: u64,
    ) {
        let workload = WORKLOADS[which];
        let cycles = if workload.name == "lammps-lj" { 8 } else { 60 };
        let lockstep = Lockstep::new(&workload.on(ranks, cycles), &LogGops::cray_xc40());
        let cycle = workload.computing().picos();
        let mean = Time::from_picos((cycle * often * u64::from(ranks) / 4).max(1_000_000));
        let rows = errors(mean, Time::from_picos((mean.picos() / 2).min(cycle * long / 10)), seed);
        let skipping = lockstep.run(cycles, &rows, &AtomicBool::new(false)).unwrap();
        let all = without_a_skip(&lockstep, cycles, &rows);
        prop_assert!(apart(skipping.makespan, all) < 0.002, "{} {}", skipping.makespan, all);
    }
}
