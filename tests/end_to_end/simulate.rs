//! The experiments of \[Rahman16\] on the simulated machine.

use crate::harness::Rampart;

/// Long enough for a result, too short for a good one.
const SHORT: [&str; 4] = ["simulate", "figure34", "--for", "20s"];

#[test]
fn the_experiments_are_listed_with_their_source() {
    let rampart = Rampart::new();
    let list = rampart.json(&["simulate", "--list", "--json"]);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 15);
    assert!(list.iter().all(|one| one["source"].as_str().unwrap().starts_with("[Rahman16, ")), "{list:?}");
    let output = rampart.run(&["simulate"]);
    assert_eq!((output.code, output.out.lines().count()), (Some(0), 15));
}

#[test]
fn one_seed_is_one_result_and_another_seed_another() {
    let rampart = Rampart::new();
    let run = |seed: &str| rampart.run(&[&SHORT[..], &["--json", "--seed", seed]].concat());
    let first = run("7");
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(first.json()["schema"], "rampart.experiment/1");
    assert!(!first.json()["tables"].as_array().unwrap().is_empty());
    assert_eq!(first.err, "", "no progress in a pipe");
    assert!(run("7").out == first.out);
    assert!(run("8").out != first.out);
}

#[test]
fn the_drawing_is_svg_and_the_numbers_are_not_lost_where_it_cannot_be_written() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("figure.svg");
    let drawn = rampart.run(&[&SHORT[..], &["--plot", file.to_str().unwrap()]].concat());
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("<svg "));
    let lost = rampart.run(&[&SHORT[..], &["--plot", "/nowhere/figure.svg"]].concat());
    assert_eq!((lost.code, lost.out), (Some(2), drawn.out));
    assert_eq!(lost.err.lines().count(), 1, "{}", lost.err);
}

#[test]
fn a_name_that_no_experiment_has_is_refused_with_what_to_do() {
    let output = Rampart::new().run(&["simulate", "figure99"]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    assert!(
        output.err.contains("figure99") && output.err.contains("--list") && output.err.lines().count() == 1,
        "{}",
        output.err
    );
}
