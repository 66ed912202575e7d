//! Ctrl-C, and time that runs out.

use std::time::Duration;

use crate::harness::{Rampart, end, signal};

#[test]
fn ctrl_c_ends_cleanly_and_says_what_was_done() {
    let rampart = Rampart::new();
    for name in ["INT", "TERM"] {
        let child = rampart.start(&["test", "--memory", "64MiB", "--threads", "1", "--for", "10m", "--json"]);
        std::thread::sleep(Duration::from_secs(2));
        signal(&child, name);
        let said = end(child);
        assert_eq!(said.code, Some(2), "{said:?}");
        let report = said.json();
        assert_eq!(report["verdict"], "incomplete");
        assert!(report["incomplete"].as_str().unwrap().contains("stopped"), "{report}");
        let tested = report["frames_tested"].as_u64().unwrap();
        assert!([0, 64 * 256].contains(&tested), "one block is tested whole or not at all: {report}");
    }
    let status = rampart.json(&["status", "--json"]);
    assert_eq!(status["tests"].as_array().unwrap().len(), 2, "{status}");
}

#[test]
fn a_test_repeats_until_its_time_is_up() {
    let rampart = Rampart::new();
    let report = rampart.json(&["test", "--memory", "8MiB", "--for", "2s", "--json"]);
    assert_eq!(report["verdict"], "pass");
    assert!(report["test"]["passes"].as_u64().unwrap() > 1, "{report}");
}

#[test]
fn too_little_time_is_no_pass() {
    let rampart = Rampart::new();
    let said = rampart.run(&["test", "--memory", "256MiB", "--fidelity", "500", "--threads", "1", "--for", "500ms"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.last_line().starts_with("INCOMPLETE: "), "{said:?}");
}
