use std::sync::atomic::AtomicBool;

use super::*;
use crate::model::detour::{Burst, ErrorCost, Overlap};
use crate::model::operation::Rank;
use crate::model::system::Reporting;
use crate::programs::traced::TRACES;
use crate::programs::workload::Workload;

const NODES: u32 = 64;

fn errors(secs: f64, reporting: Reporting, nodes: Nodes) -> CorrectedErrors {
    let (mean, burst, overlap) = (Time::from_secs_f64(secs), Burst::SINGLE, Overlap::Queued);
    CorrectedErrors { nodes, mean, burst, cost: reporting.cost(), overlap, seed: 1 }
}

fn with_runs<T>(threads: usize, work: impl Fn(&ParallelRuns) -> T) -> T {
    work(&ParallelRuns { threads, stop: &AtomicBool::new(false), done: &|_| {} })
}

fn prepared(name: &str) -> PreparedProgram {
    let network = LogGops::cray_xc40();
    PreparedProgram::new(&Workload::named(name).unwrap().on(NODES, 1), &network).unwrap()
}

fn asked(name: &str, errors: &CorrectedErrors, threads: usize) -> Projection {
    with_runs(threads, |parallel| prepared(name).ask(errors, 6, ERRORS_A_RUN, parallel).unwrap())
}

#[test]
fn a_seed_is_one_answer_on_any_number_of_threads() {
    let errors = errors(100.0, Reporting::Firmware, Nodes::All);
    assert_eq!(asked("lulesh", &errors, 1), asked("lulesh", &errors, 3));
}

/// Where ranks wait for each other all the time, the program proceeds only while no node is in a detour: that share of
/// the time is exp(-nodes · cost / mean).
#[test]
fn a_program_in_tight_step_costs_what_theory_says() {
    let errors = errors(64.0, Reporting::Firmware, Nodes::All);
    let projection = asked("lammps-crack", &errors, 2);
    let theory = 0.133_f64.exp() - 1.0;
    assert!((projection.cost() / theory - 1.0).abs() < 0.15, "{} {theory}", projection.cost());
    assert!(projection.uncertainty() < 0.5 * theory && !projection.is_vague());
}

#[test]
fn errors_of_one_node_cost_its_share() {
    let projection = asked("lulesh", &errors(1.0, Reporting::Software, Nodes::One(Rank(31))), 2);
    assert!((projection.cost() / 775e-6 - 1.0).abs() < 0.5, "{}", projection.cost());
}

#[test]
fn what_is_borne_costs_at_most_a_tenth_and_a_little_more_does_not() {
    let (prepared, errors) = (prepared("lulesh"), errors(1.0, Reporting::Firmware, Nodes::All));
    let ask = |mean: Time| {
        let errors = CorrectedErrors { mean, ..errors.clone() };
        with_runs(2, |parallel| prepared.ask(&errors, 4, 32, parallel).unwrap().cost())
    };
    let found = with_runs(2, |parallel| bearable(&prepared, &errors, 4, 32, parallel).unwrap());
    let Bearable::From(mean) = found else { panic!("{found:?}") };
    assert!(ask(mean) <= BEARABLE);
    assert!(ask(Time::from_picos(mean.picos() / 2)) > BEARABLE);
}

#[test]
fn errors_that_cost_next_to_nothing_are_borne_as_far_as_they_can_be_drawn() {
    let (prepared, errors) = (prepared("hpcg"), errors(1.0, Reporting::Hardware, Nodes::All));
    let found = with_runs(2, |parallel| bearable(&prepared, &errors, 2, 8, parallel).unwrap());
    assert!(
        matches!(found, Bearable::From(mean) | Bearable::Below(mean) if mean < Time::from_secs_f64(0.01)),
        "{found:?}"
    );
}

#[test]
fn no_program_loses_more_than_if_each_error_delayed_all_ranks() {
    let tight = errors(64.0, Reporting::Firmware, Nodes::All);
    let projection = asked("lammps-crack", &tight, 2);
    assert!(
        (projection.at_most(&tight) / (0.133 / (1.0 - 0.133)) - 1.0).abs() < 0.01,
        "{}",
        projection.at_most(&tight)
    );
    assert!(projection.cost() < projection.at_most(&tight), "{}", projection.cost());
    let crowded = CorrectedErrors { cost: ErrorCost::Fixed(Time::from_secs_f64(1.0)), ..tight };
    assert!(projection.at_most(&crowded).is_infinite(), "64 nodes, a second each, every 64 seconds");
}

/// The trace of each program on 64 nodes with firmware: the time that it takes with one seed, to the picosecond.
#[test]
fn a_seed_is_one_time_of_each_trace_on_any_machine() {
    let mut found = Vec::new();
    for traced in TRACES {
        let prepared = PreparedProgram::traced(&traced, NODES, &LogGops::cray_xc40()).unwrap();
        assert_eq!(prepared.nodes(), NODES);
        let errors = errors(20.0, Reporting::Firmware, Nodes::All);
        let projection = with_runs(2, |parallel| prepared.ask(&errors, 1, 8, parallel).unwrap());
        found.push((traced.name, prepared.cycle().picos(), projection.slowdown.disturbed[0].picos()));
    }
    assert_eq!(found, RECORDED);
}

/// The name, the time of a cycle, and that of the run.
const RECORDED: [(&str, u64, u64); 5] = [
    ("lammps-lj", 1_740_023_167_100, 4_168_090_945_811),
    ("lammps-crack", 10_761_715_600, 4_459_151_143_558),
    ("lulesh", 852_343_290_400, 4_454_947_412_758),
    ("hpcg", 3_467_050_637_600, 5_438_641_873_619),
    ("minife", 5_366_122_072_300, 9_406_432_746_768),
];
