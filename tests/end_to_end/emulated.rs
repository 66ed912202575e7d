//! Emulated faults (StealthWorks): a test finds all injected faults that it guarantees to find, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Rampart;

/// A test finds each of 1,000 injected faults that its coverage guarantees, and reports no other, over 50 seeds.
#[test]
fn of_1000_faults_over_50_seeds_all_promised_are_found_and_none_invented() {
    let tests = ["March C-", "MATS+", "March LR", "March G", "March SS"];
    for seed in 0..50 {
        // Each run has a map of its own: reading a map of 50,000 frames takes a while.
        let rampart = Rampart::new();
        let spec = format!(
            "stuck-at:150,transition:150,coupling-in:100,coupling-id:100,coupling-st:100,address:50,stuck-open:100,\
             retention:50,linked:100,multi-bit:100,retention=1ms,seed={seed}"
        );
        let test = tests[seed % tests.len()];
        let times = ["--delay", "2ms", "--retention", "2ms"];
        let output = rampart.run(
            &[&["test", "--memory", "8MiB", "--march", test], &times[..], &["--inject", &spec, "--json"]].concat(),
        );
        assert_eq!(output.code, Some(1), "{test}, seed {seed}: {}", output.err);
        let report = output.json();
        let emulation = &report["emulation"];
        let number = |key: &str| emulation[key].as_u64().unwrap();
        assert_eq!(number("injected"), 1000, "{test}, seed {seed}");
        assert!(number("guaranteed") >= 300, "{test}, seed {seed}: {emulation}");
        assert_eq!(emulation["missed"], Value::Array(Vec::new()), "{test}, seed {seed}");
        assert!(number("found") >= number("guaranteed"));
        for bad in report["bad_frames"].as_array().unwrap() {
            assert_eq!(bad["origin"], "emulated", "{test}, seed {seed}: {bad}");
        }
    }
}

/// An instruction set that found every line right would find no injected fault either: the loop that tests the memory
/// compares what is injected.
#[test]
fn each_instruction_set_finds_what_is_injected_by_its_own_comparison() {
    let rampart = Rampart::new();
    let status = rampart.json(&["status", "--json"]);
    let names: Vec<_> = status["engines"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(!names.is_empty(), "{status}");
    for name in names {
        for method in ["non-temporal", "flush-behind", "flush-in-groups"] {
            let options = ["--instructions", name, "--method", method, "--inject", "stuck-at:200,seed=5", "--json"];
            let output = rampart.run(&[&["test", "--memory", "8MiB"], &options[..]].concat());
            if output.err.contains("read a cache") || output.err.contains("come from a cache") {
                continue;
            }
            let report = output.json();
            assert_eq!((output.code, &report["test"]["engine"]), (Some(1), &name.into()), "{method}: {output:?}");
            let emulation = &report["emulation"];
            let seen = ["injected", "guaranteed", "found"].map(|key| emulation[key].as_u64().unwrap());
            assert_eq!(seen, [200; 3], "{name} {method}: {emulation}");
        }
    }
    let refused = rampart.run(&["test", "--memory", "8MiB", "--instructions", "MMX"]);
    assert!(refused.code == Some(2) && refused.err.contains("this processor tests with"), "{refused:?}");
}

/// A cell that errs now and then is as bad as one that always does: often the second read is right.
#[test]
fn an_intermittent_fault_is_reported_though_the_second_read_is_right() {
    let rampart = Rampart::new();
    let faults = "stuck-at:300,intermittent=0.5,seed=11";
    let report = rampart.json(&["test", "--memory", "8MiB", "--inject", faults, "--json"]);
    let bad = report["bad_frames"].as_array().unwrap();
    let evidence = || bad.iter().flat_map(|bad| bad["evidence"].as_array().unwrap());
    assert!(evidence().all(|seen| seen["found"] != seen["expected"]));
    let right = evidence().filter(|seen| seen["reread"] == seen["expected"]).count();
    assert!(right > evidence().count() / 10, "{right} of {}", evidence().count());
}

/// A cell that loses either value after 300 ms is found without any option, even in such a short test.
#[test]
fn slow_retention_faults_of_either_value_are_found_by_default_and_the_coverage_says_so() {
    let rampart = Rampart::new();
    let output =
        rampart.run(&["test", "--memory", "16MiB", "--inject", "retention:40,retention=300ms,seed=5", "--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let report = output.json();
    let emulation = &report["emulation"];
    assert_eq!(
        (&emulation["injected"], &emulation["guaranteed"], &emulation["found"]),
        (&40.into(), &40.into(), &40.into())
    );
    let covered =
        |fault: &str| report["coverage"].as_array().unwrap().iter().find(|kind| kind["fault"] == fault).cloned();
    assert_eq!(covered("DRF").expect("it is listed")["percent"], 100.0);
    for bad in report["bad_frames"].as_array().unwrap() {
        let evidence = &bad["evidence"][0];
        let (test, element) = (evidence["test"].as_str().unwrap(), evidence["element"].as_u64().unwrap());
        let elements: Vec<_> = test.trim_matches(['{', '}']).split("; ").collect();
        let place = usize::try_from(element).unwrap();
        assert_eq!(elements[place - 1], "Del", "{bad}");
        assert!(elements[place].starts_with("⇕(r"), "{bad}");
        assert_eq!(evidence["background"], "solid");
    }
    let without =
        rampart.json(&["test", "--memory", "8MiB", "--retention", "0s", "--inject", "retention:40", "--json"]);
    assert_eq!((&without["emulation"]["found"], &without["delayed_read"]), (&0.into(), &Value::Null));
}

#[test]
fn emulated_frames_are_never_on_the_real_map() {
    let rampart = Rampart::new();
    let output = rampart.run(&["test", "--memory", "64MiB", "--inject", "stuck-at:100,coupling:20,seed=7"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.last_line().starts_with("FAIL: ") && output.last_line().contains("all emulated; 64 MiB tested"),
        "{output:?}"
    );
    assert_eq!(rampart.json(&["map", "show", "--json"])["frames"], Value::Array(Vec::new()));
    assert_eq!(rampart.run(&["map", "export", "--format", "badram"]).code, Some(0));
}

#[test]
fn a_fault_in_a_frame_that_is_named_is_found_in_that_frame() {
    let rampart = Rampart::new();
    if !rampart_skips::root("frame numbers are hidden from an ordinary user") {
        return;
    }
    // The frames of the next test are not known in advance, so faults are injected in each frame that the first test
    // had.
    let report = rampart.json(&["test", "--memory", "8MiB", "--inject", "stuck-at:40,seed=3", "--json"]);
    let frames = |report: &Value| -> BTreeSet<u64> {
        report["bad_frames"].as_array().unwrap().iter().map(|bad| bad["frame"].as_u64().unwrap()).collect()
    };
    let wanted = frames(&report);
    let spec = wanted.iter().map(|frame| format!("stuck-at@{frame:#x}")).collect::<Vec<_>>().join(",");
    let report = rampart.json(&["test", "--memory", "64MiB", "--inject", &spec, "--json"]);
    let found = frames(&report);
    assert!(found.is_subset(&wanted), "{found:?} of {wanted:?}");
    assert_eq!(report["emulation"]["injected"].as_u64().unwrap(), found.len() as u64);
}

#[test]
fn every_fault_that_is_listed_can_be_planted() {
    let rampart = Rampart::new();
    let list = rampart.json(&["inject", "list", "--json"]);
    let kinds = list["kinds"].as_array().unwrap();
    let spec: Vec<String> = kinds.iter().map(|kind| format!("{}:1", kind["name"].as_str().unwrap())).collect();
    let run = rampart.run(&["test", "--memory", "4MiB", "--json", "--inject", &spec.join(",")]);
    assert_eq!(run.json()["emulation"]["injected"], kinds.len(), "{run:?}");
}
