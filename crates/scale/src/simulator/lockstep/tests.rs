//! Compared with the engine, which goes event by event and is the reference, and with a run without a shortcut.

use super::*;
use crate::model::detour::{Burst, CorrectedErrors, ErrorCost, NodeArrivals, Nodes, Overlap, Undisturbed};
use crate::programs::workload::WORKLOADS;
use crate::{RoundSchedule, Workload, simulate};
use proptest::prelude::*;

fn errors(mean: Time, cost: Time, seed: u64) -> NodeArrivals {
    let (nodes, burst, overlap) = (Nodes::All, Burst::SINGLE, Overlap::Queued);
    NodeArrivals::new(CorrectedErrors { nodes, mean, burst, cost: ErrorCost::Fixed(cost), overlap, seed }).unwrap()
}

fn lockstep(workload: &Workload, ranks: u32) -> Lockstep {
    lockstep_of(&workload.on(ranks, 1))
}

fn lockstep_of(program: &WorkloadRun) -> Lockstep {
    Lockstep::new(program, &LogGops::cray_xc40()).unwrap()
}

fn of_rounds<D: Detours>(lockstep: &Lockstep, cycles: u64, detours: &D) -> Time {
    lockstep.run(cycles, detours, &AtomicBool::new(false)).unwrap().makespan
}

fn of_events<D: Detours>(program: WorkloadRun, detours: &D) -> Time {
    simulate(&RoundSchedule(program), &LogGops::cray_xc40(), detours).unwrap().makespan()
}

fn in_lockstep<D: Detours>(workload: &Workload, ranks: u32, cycles: u64, detours: &D) -> Time {
    of_rounds(&lockstep(workload, ranks), cycles, detours)
}

fn event_by_event<D: Detours>(workload: &Workload, ranks: u32, cycles: u64, detours: &D) -> Time {
    of_events(workload.on(ranks, cycles), detours)
}

/// The difference of two times, relative to the second.
fn apart(one: Time, other: Time) -> f64 {
    (one.as_secs_f64() / other.as_secs_f64() - 1.0).abs()
}

#[test]
fn a_workload_takes_as_long_as_event_by_event() {
    for workload in WORKLOADS {
        for ranks in [1, 8, 13, 64, 256] {
            let (ours, theirs) =
                (in_lockstep(&workload, ranks, 3, &Undisturbed), event_by_event(&workload, ranks, 3, &Undisturbed));
            // More than half of its 54 µs are messages.
            let most = if workload.name == "lammps-crack" { 0.06 } else { 0.01 };
            assert!(apart(ours, theirs) < most, "{} on {ranks}: {ours} and {theirs}", workload.name);
        }
    }
}

/// The cost of about forty errors in a run, each some tenths of a cycle long: by lockstep, and event by event.
fn cost_of_errors(workload: &Workload, cycles: u64, tenths: u64) -> (Time, Time) {
    let quiet = event_by_event(workload, 27, cycles, &Undisturbed);
    let (mean, cost) =
        (Time::from_picos(quiet.picos() * 27 / 40), Time::from_picos(quiet.picos() * tenths / 10 / cycles));
    let rows = errors(mean, cost, 5);
    let ours = in_lockstep(workload, 27, cycles, &rows).since(in_lockstep(workload, 27, cycles, &Undisturbed));
    let theirs = event_by_event(workload, 27, cycles, &rows).since(quiet);
    assert!(theirs > cost, "{}: errors are felt", workload.name);
    (ours, theirs)
}

#[test]
fn errors_cost_a_workload_what_they_cost_event_by_event() {
    for workload in WORKLOADS {
        // Where most of a cycle is messages, these partly hide errors as short as one message.
        let (cycles, tenths) = if workload.name == "lammps-crack" { (400, 100) } else { (12, 1) };
        let (ours, theirs) = cost_of_errors(&workload, cycles, tenths);
        assert!(apart(ours, theirs) < 0.1, "{}: {ours} and {theirs}", workload.name);
    }
}

#[test]
fn errors_as_short_as_a_message_cost_rather_too_much_where_a_program_hardly_computes() {
    let (ours, theirs) = cost_of_errors(&Workload::named("lammps-crack").unwrap(), 12, 1);
    assert!(ours > theirs && apart(ours, theirs) < 0.5, "{ours} and {theirs}");
}

/// Copies that only collectives connect.
#[test]
fn errors_cost_an_extrapolated_trace_what_they_cost_event_by_event() {
    for name in ["milc", "minife"] {
        let running = || Workload::named(name).unwrap().extrapolated(256, 8);
        let quiet = of_events(running(), &Undisturbed);
        let rows = errors(Time::from_picos(quiet.picos() * 256 / 40), Time::from_picos(quiet.picos() / 80), 3);
        let theirs = of_events(running(), &rows).since(quiet);
        let lockstep = lockstep_of(&running());
        let ours = of_rounds(&lockstep, 8, &rows).since(of_rounds(&lockstep, 8, &Undisturbed));
        assert!(apart(ours, theirs) < 0.05, "{name}: {ours} and {theirs}");
    }
}

#[test]
fn cycles_that_nothing_disturbs_are_skipped() {
    let lulesh = lockstep(&Workload::named("lulesh").unwrap(), 64);
    let run = lulesh.run(1_000_000, &Undisturbed, &AtomicBool::new(false)).unwrap();
    assert_eq!(run, LockstepOutcome { makespan: Time::from_picos(lulesh.cycle().picos() * 1_000_000), worked_out: 0 });
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let hpcg = lockstep(&Workload::named("hpcg").unwrap(), 8);
    assert_eq!(hpcg.run(9, &Undisturbed, &AtomicBool::new(true)), Err(Error::Stopped));
}

/// All rounds of all cycles, each rank by itself.
fn without_a_shortcut<D: Detours>(lockstep: &Lockstep, cycles: u64, detours: &D) -> Time {
    let ranks = lockstep.ranks as usize;
    let mut cursors: Vec<D::Cursor> = (0..lockstep.ranks).map(|rank| detours.begin(Rank(rank))).collect();
    let mut at = vec![Time::ZERO; ranks];
    for (_, round) in (0..cycles).flat_map(|_| lockstep.plan.in_order()) {
        let last = |of: &[u32]| of.iter().map(|peer| at[*peer as usize]).max().unwrap_or_default();
        let waited: Vec<Time> = match &round.wait {
            RoundWait::Nobody => at.clone(),
            RoundWait::Some(peers) => {
                at.iter().zip(peers.of_ranks()).map(|(own, peers)| last(peers).max(*own)).collect()
            }
            RoundWait::All => vec![at.iter().copied().max().unwrap(); ranks],
        };
        for rank in 0..ranks {
            at[rank] = detours.finish(name(rank), &mut cursors[rank], waited[rank], round.takes);
        }
    }
    at.into_iter().max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_skipped_is_what_would_have_been_worked_out(
        which in 0..WORKLOADS.len(), ranks in 1..40_u32, copies in 1..3_u32, often in 1..200_u64, long in 1..50_u64, seed: u64,
    ) {
        let workload = WORKLOADS[which];
        let cycles = if workload.name == "lammps-lj" { 8 } else { 60 };
        let lockstep = if copies == 1 { lockstep(&workload, ranks) } else { lockstep_of(&workload.extrapolated(2 * workload.traced, 1)) };
        let ranks = lockstep.ranks;
        let cycle = workload.computing().picos();
        let mean = Time::from_picos((cycle * often * u64::from(ranks) / 4).max(1_000_000));
        let rows = errors(mean, Time::from_picos((mean.picos() / 2).min(cycle * long / 10)), seed);
        prop_assert_eq!(of_rounds(&lockstep, cycles, &rows), without_a_shortcut(&lockstep, cycles, &rows));
    }
}
