//! The thesis' orderings come out, in a short form; `rampart simulate` has the whole.

use rampart_diagnostic::experiment::{self, Effort, Outcome};

fn run(name: &str) -> Outcome {
    let experiment = experiment::find(name).expect("an experiment of this name");
    experiment.run(&Effort::short(), &|_, _| {})
}

/// 000_fb6e5fb08980d1bc.txt, 4.2.2: every program is slower on demand than with COMeT.
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

/// 000_fb6e5fb08980d1bc.txt, 4.2.2: COMeT keeps tested pages in the free lists, and covers more.
#[test]
fn comet_covers_more_than_testing_on_demand() {
    let outcome = run("figure11");
    assert!(outcome.claims.iter().all(|claim| claim.holds), "{outcome}");
}

/// ChaCha8 and nothing else is drawn from.
#[test]
fn a_seed_means_one_outcome() {
    assert_eq!(run("delta"), run("delta"));
}
