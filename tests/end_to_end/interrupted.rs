//! Ctrl-C, and time limits.

use std::time::Duration;

use crate::guarded::{can_guard, library};
use crate::harness::{Rampart, end, signal};

#[test]
fn ctrl_c_ends_cleanly_and_says_what_was_done() {
    let rampart = Rampart::new();
    for name in ["INT", "TERM"] {
        let child = rampart.start(&["test", "--memory", "64MiB", "--threads", "1", "--for", "10m", "--json"]);
        std::thread::sleep(Duration::from_secs(2));
        signal(&child, name);
        let output = end(child);
        assert_eq!(output.code, Some(2), "{output:?}");
        let report = output.json();
        assert_eq!(report["verdict"], "incomplete");
        assert!(report["incomplete"].as_str().unwrap().contains("stopped"), "{report}");
        let tested = report["frames_tested"].as_u64().unwrap();
        let block = report["test"]["block"].as_u64().unwrap() / 4096;
        assert!(tested <= 64 * 256 && tested.is_multiple_of(block), "a block is tested whole or not at all: {report}");
    }
    let status = rampart.json(&["status", "--json"]);
    assert_eq!(status["tests"].as_array().unwrap().len(), 2, "{status}");
}

/// A test runs at idle priority: beside the other tests it may get no CPU for seconds, so it runs until it had enough
/// for two passes.
#[test]
fn a_test_repeats_until_its_time_is_up() {
    let rampart = Rampart::new();
    let repeated = ["2s", "10s", "50s", "250s"].into_iter().find_map(|time| {
        let output = rampart.run(&["test", "--memory", "8MiB", "--for", time, "--json"]);
        let report = output.json();
        // Other tests may need the CPUs, or, for a while, all of the memory.
        let reasons = ["the time was up in the first pass", "programs needed all of it"];
        let starved = report["incomplete"].as_str().is_some_and(|why| reasons.iter().any(|one| why.contains(one)));
        if starved {
            assert_eq!(output.code, Some(2), "{output:?}");
            return None;
        }
        assert_eq!(report["verdict"], "pass", "{report}");
        let passes = report["test"]["passes"].as_u64().unwrap();
        (passes > 1).then_some(passes)
    });
    assert!(repeated.is_some(), "never more than one pass");
}

#[test]
fn too_little_time_is_no_pass() {
    let rampart = Rampart::new();
    let output = rampart.run(&["test", "--memory", "256MiB", "--fidelity", "500", "--threads", "1", "--for", "500ms"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.last_line().starts_with("INCOMPLETE: "), "{output:?}");
}

/// The program itself decides what it does when it is asked to end.
#[test]
fn a_guarded_program_is_asked_to_end_in_our_stead() {
    let rampart = Rampart::new();
    if !can_guard(&rampart) {
        return;
    }
    let waits = "trap 'exit 9' TERM; touch waiting; while :; do sleep 0.02; done";
    let mut command = rampart.command(&["run", "--", "sh", "-c", waits]);
    let child = command.env("RAMPART_GUARD_LIBRARY", library()).current_dir(rampart.folder()).spawn();
    let child = child.expect("the binary runs");
    while !rampart.folder().join("waiting").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "TERM");
    assert_eq!(end(child).code, Some(9));
}
