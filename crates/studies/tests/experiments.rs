//! Short runs reproduce Rahman's orderings; `rampart simulate` runs them in full.

use rampart_studies::{Effort, MachineAllocator, StudyOutcome};

fn run(name: &str) -> StudyOutcome {
    let experiment = rampart_studies::find(name).expect("an experiment of this name");
    experiment.run(&Effort::short(), MachineAllocator::Buddy, &|_, _| {})
}

/// [Rahman16, 4.2.2]: every program is slower on demand than with COMeT.
#[test]
fn programs_are_slower_on_demand_than_with_comet() {
    let outcome = run("figure12");
    let table = &outcome.tables[0];
    let pairs = table.column("on demand").zip(table.column("COMeT"));
    assert_eq!(
        pairs.filter(|(on_demand, comet)| on_demand > comet).count(),
        29,
        "28 programs and their average\n{outcome}"
    );
}

/// [Rahman16, 4.2.2]: COMeT keeps tested pages in the free lists, and covers more.
#[test]
fn comet_covers_more_than_testing_on_demand() {
    let outcome = run("figure11");
    assert!(outcome.claims.iter().all(|claim| claim.holds), "{outcome}");
}

/// ChaCha8 is the only source of random numbers.
#[test]
fn a_seed_means_one_outcome() {
    assert_eq!(run("delta"), run("delta"));
}

#[test]
fn with_several_seeds_each_number_is_the_mean_of_theirs() {
    let of = |seed, seeds| {
        let experiment = rampart_studies::find("figure34").expect("an experiment of this name");
        let outcome =
            experiment.run(&Effort { seed, seeds, longest: Effort::SHORTEST }, MachineAllocator::Buddy, &|_, _| {});
        let cells = outcome.tables[0].rows.iter().flat_map(|(_, cells)| cells);
        cells.map(|cell| cell.ours.expect("no program stands still")).collect::<Vec<f64>>()
    };
    let (both, first, second) = (of(7, 2), of(7, 1), of(8, 1));
    assert_ne!(first, second);
    for (both, (first, second)) in both.iter().zip(first.iter().zip(&second)) {
        assert!((both - (first + second) / 2.0).abs() < 1e-12, "{both} of {first} and {second}");
    }
}

/// Each experiment runs on each page allocator; with pools banks are offline, with tests as without.
#[test]
fn an_experiment_runs_on_allocators_of_banks() {
    let experiment = rampart_studies::find("delta").expect("an experiment of this name");
    for allocator in MachineAllocator::ALL {
        let effort = Effort { longest: Effort::SHORTEST, ..Effort::short() };
        let outcome = experiment.run(&effort, allocator, &|_, _| {});
        assert_eq!(outcome.allocator, allocator.name());
        let [untested, comet] = &outcome.policies[..] else { panic!("{outcome}") };
        assert_eq!((untested.policy, untested.scenarios, comet.policy, comet.scenarios), ("no tests", 4, "comet", 16));
        assert_eq!((untested.slowdown, untested.on_demand, untested.coverage), (None, None, None));
        assert!(comet.slowdown > Some(1.0) && comet.on_demand > Some(0.0) && comet.coverage > Some(0.0), "{outcome}");
        let has_pools = allocator != MachineAllocator::Buddy;
        assert_eq!((untested.offline_banks.is_some(), comet.offline_banks.is_some()), (has_pools, has_pools));
        if let (Some(without), Some(with)) = (untested.offline_banks, comet.offline_banks) {
            assert!(without > 0.5 && with > without - 0.02, "{outcome}");
        }
    }
}
