use std::sync::atomic::AtomicBool;

use super::comparison::{Assurance, ReplicaCost};
use super::simulated::SimulatedMean;
use super::*;
use crate::statistics::parallel_runs::ParallelRuns;

fn with_runs<T>(threads: usize, work: impl Fn(&ParallelRuns) -> T) -> T {
    work(&ParallelRuns { threads, stop: &AtomicBool::new(false), done: &|_| {} })
}

fn simulated(job: ReplicatedJob, degree: Degree, runs: u64) -> (Completion, SimulatedMean) {
    let plan = job.completion(degree).unwrap();
    let mean = with_runs(2, |parallel| job.simulated_mean(&plan, runs, 1, parallel).unwrap().unwrap());
    (plan, mean)
}

/// The mean time of simulated jobs beside the model's.
fn ratio(job: ReplicatedJob, degree: Degree, runs: u64) -> f64 {
    let (plan, mean) = simulated(job, degree, runs);
    mean.total.per(plan.total())
}

/// Nodes that fail so often that pairs are lost.
const BAD: ReplicatedJob =
    ReplicatedJob { nodes: 5_000, node_mtbf: Hours::from_years(0.25), work: Hours::new(100.0), ..JAGUAR };

#[test]
fn without_replicas_simulated_jobs_take_what_the_model_says() {
    for (job, runs) in [(JAGUAR, 2000), (JAGUAR.on(100_000), 400), (PETASCALE, 60), (JAGUAR.on(500), 2000)] {
        let (plan, mean) = simulated(job, Degree::SINGLE, runs);
        let ratio = mean.total.per(plan.total());
        assert!((ratio - 1.0).abs() < 0.01, "{job:?}: {ratio}");
        assert!((mean.total.get() - plan.total().get()).abs() <= 2.0 * mean.half.get() + 1e-9, "{plan:?} {mean:?}");
    }
}

#[test]
fn with_replicas_simulated_jobs_take_what_the_model_says_within_3_percent() {
    for (job, degree, runs) in [
        (JAGUAR.on(100_000), Degree::DUAL, 1000),
        (PETASCALE, Degree::DUAL, 400),
        (PETASCALE.on(200_000), Degree::TRIPLE, 200),
        (BAD, Degree::DUAL, 400),
        (ReplicatedJob { node_mtbf: Hours::from_years(0.1), ..BAD }, Degree::TRIPLE, 400),
        (ReplicatedJob { node_mtbf: Hours::new(60.0), restart: Hours::new(2.0), ..BAD.on(2) }, Degree::DUAL, 3000),
    ] {
        let ratio = ratio(job, degree, runs);
        assert!((ratio - 1.0).abs() < 0.03, "{degree:?} {job:?}: {ratio}");
    }
}

#[test]
fn a_job_fails_about_as_often_as_its_mean_time_between_failures_says() {
    for (job, degree, within) in [(BAD, Degree::DUAL, 0.25), (JAGUAR.on(50_000), Degree::SINGLE, 0.05)] {
        let (plan, mean) = simulated(job, degree, 400);
        let expected = plan.total().per(plan.mtbf);
        assert!(mean.failures > 3.0, "{mean:?}");
        assert!((mean.failures / expected - 1.0).abs() < within, "{} {expected}", mean.failures);
    }
}

/// After a restart all nodes are good, so a failure comes late in a segment and undoes more than the model says.
#[test]
fn a_replicated_job_that_fails_all_the_time_takes_longer_than_the_model_says() {
    let job = ReplicatedJob { node_mtbf: Hours::new(6.0), ..JAGUAR.on(50) };
    let (plan, mean) = simulated(job, Degree::DUAL, 40);
    let ratio = mean.total.per(plan.total());
    assert!(plan.is_lower_estimate() && (1.05..1.35).contains(&ratio), "{plan:?} {ratio}");
    assert!(!BAD.completion(Degree::DUAL).unwrap().is_lower_estimate());
    assert!(!PETASCALE.completion(Degree::SINGLE).unwrap().is_lower_estimate());
}

/// Two ranks of two replicas, a segment with a checkpoint and one without, and failures at given times.
#[test]
fn a_simulated_job_goes_on_from_its_last_checkpoint_when_a_rank_has_lost_all_replicas() {
    let job = ReplicatedJob {
        nodes: 2,
        node_mtbf: Hours::new(4.0),
        work: Hours::new(20.0),
        checkpoint: Hours::new(1.0),
        restart: Hours::new(3.0),
        communication: 0.0,
    };
    let plan = Completion { segments: 2.0, ..job.completion(Degree::DUAL).unwrap() };
    // A gap of g hours while k nodes live: 1 - exp(-g k / 4). Then the rank (below 1/2: the first) and the replica.
    let gap = |hours: f64, alive: f64| 1.0 - (-hours * alive / 4.0).exp();
    let dice = [
        &[gap(50.0, 4.0)][..],                      // segment 1: 10 h of work and 1 h of checkpoint
        &[gap(2.0, 4.0), 0.1, 0.1],                 // segment 2: rank 0 loses replica 0 after 2 h,
        &[gap(3.0, 3.0), 0.1, 0.1, 0.9, 0.1],       // 3 h later rank 1 does (rank 0's is lost already: drawn again),
        &[gap(1.0, 2.0), 0.9, 0.9],                 // and 1 h later rank 1 is lost.
        &[gap(1.0, 4.0), 0.1, 0.1, gap(50.0, 3.0)], // The restart takes 3 h, although a node fails.
        &[gap(50.0, 3.0)],                          // segment 2 again: 10 h
    ]
    .concat();
    let mut dice = dice.into_iter();
    let run = job.simulated(&plan, 100, &mut || dice.next().unwrap()).unwrap();
    assert!((run.total.get() - (11.0 + 6.0 + 3.0 + 10.0)).abs() < 1e-9, "{run:?}");
    assert_eq!((run.failures, run.node_failures, dice.next()), (1, 4, None));
}

#[test]
fn a_simulation_that_would_take_too_long_has_no_result() {
    let plan = JAGUAR.completion(Degree::SINGLE).unwrap();
    assert_eq!(JAGUAR.simulated(&plan, 3, &mut || 0.999), None);
}

#[test]
fn a_seed_of_simulated_jobs_is_one_mean_on_any_number_of_threads() {
    let plan = BAD.completion(Degree::DUAL).unwrap();
    let of = |threads, seed| with_runs(threads, |parallel| BAD.simulated_mean(&plan, 20, seed, parallel).unwrap());
    assert_eq!(of(1, 1), of(3, 1));
    assert_ne!(of(1, 1), of(1, 2));
}

#[test]
fn more_replicas_cost_less_from_the_crossover_on_and_not_before() {
    let (one, two, three) = (Degree::SINGLE, Degree::DUAL, Degree::TRIPLE);
    for (fewer, more, cost) in [
        (one, two, ReplicaCost::Time),
        (one, three, ReplicaCost::Time),
        (two, three, ReplicaCost::Time),
        (one, two, ReplicaCost::NodeHours),
    ] {
        let nodes = JAGUAR.crossover(fewer, more, cost).unwrap();
        let of = |nodes: u32, degree| {
            let job = JAGUAR.on(nodes);
            job.completion(degree).map_or(f64::INFINITY, |found| job.cost_of(&found, cost).get())
        };
        assert!(of(nodes, more) < of(nodes, fewer) && of(nodes - 1, more) >= of(nodes - 1, fewer), "{nodes}");
    }
    assert!(JAGUAR.crossover(one, two, ReplicaCost::Time) < JAGUAR.crossover(one, two, ReplicaCost::NodeHours));
    let reliable = ReplicatedJob { node_mtbf: Hours::from_years(1e15), ..JAGUAR };
    assert_eq!(reliable.crossover(one, two, ReplicaCost::Time), None);
    let hopeless = ReplicatedJob { node_mtbf: Hours::new(1e-9), ..JAGUAR };
    assert_eq!(
        hopeless.crossover(one, two, ReplicaCost::Time),
        None,
        "a job that never ends costs no less than another"
    );
}

/// [Fiala15, 3.1.1]: who wants to detect errors runs a job without replicas twice; so two replicas cost less long
/// before they are faster.
#[test]
fn the_cheapest_number_of_replicas_depends_on_what_the_user_wants_to_know() {
    let comparison = ReplicaComparison::new(JAGUAR, Degree::TRIPLE).unwrap();
    let cheapest = |cost, assurance| comparison.cheapest(cost, assurance).unwrap().degree.get();
    assert_eq!(cheapest(ReplicaCost::Time, Assurance::None), 1);
    assert_eq!(cheapest(ReplicaCost::Time, Assurance::Detected), 2);
    assert_eq!(cheapest(ReplicaCost::Time, Assurance::Corrected), 3);
    assert_eq!(cheapest(ReplicaCost::NodeHours, Assurance::None), 1);
    let runs = |assurance: Assurance| [1, 2, 3].map(|replicas| assurance.runs(Degree::new(replicas).unwrap()));
    assert_eq!([Assurance::None, Assurance::Detected, Assurance::Corrected].map(runs), [[1; 3], [2, 1, 1], [3, 2, 1]]);
}

#[test]
fn a_job_outside_its_ranges_is_refused() {
    let refused = |job: ReplicatedJob| ReplicaComparison::new(job, Degree::DUAL) == Err(Error::NoSuchJob);
    assert!(!refused(JAGUAR) && refused(JAGUAR.on(0)));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let bad = Hours::new(bad);
        assert!(refused(ReplicatedJob { work: bad, ..JAGUAR }) && refused(ReplicatedJob { checkpoint: bad, ..JAGUAR }));
        assert!(refused(ReplicatedJob { node_mtbf: bad, ..JAGUAR }));
        assert!(bad == Hours::ZERO || refused(ReplicatedJob { restart: bad, ..JAGUAR }));
    }
    assert!([-0.1, 1.1, f64::NAN].iter().all(|&bad| refused(ReplicatedJob { communication: bad, ..JAGUAR })));
    assert_eq!([0, 1, 3, 4].map(|number| Degree::new(number).is_some()), [false, true, true, false]);
}
