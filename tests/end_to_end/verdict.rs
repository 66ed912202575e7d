//! What a test says at the end.

use crate::harness::{Rampart, is_root};

#[test]
fn a_short_test_of_good_memory_passes() {
    let rampart = Rampart::new();
    let said = rampart.run(&["test", "--memory", "64MiB"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.last_line(), "PASS");
}

#[test]
fn the_json_has_the_promised_keys_and_nothing_else_is_printed() {
    let rampart = Rampart::new();
    let said =
        rampart.run(&["test", "--memory", "64MiB", "--fidelity", "2", "--threads", "1", "--passes", "2", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = said.json();
    assert_eq!(report["schema"], "rampart.test/1");
    assert_eq!(report["verdict"], "pass");
    assert_eq!(report["frames_tested"], 64 * 256);
    assert_eq!(report["bad_frames"].as_array().map(Vec::len), Some(0));
    assert_eq!(report["test"]["passes"], 2);
    assert_eq!(report["frames_known"], is_root());
    assert!(report["bytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["fraction_of_limit"].as_f64().unwrap() > 0.0);
    assert!(report["own_bytes"].as_u64().unwrap() < 50 << 20, "{}", report["own_bytes"]);
    let documented = include_str!("../../docs/report-schema.md");
    for key in report.as_object().unwrap().keys().chain(report["test"].as_object().unwrap().keys()) {
        assert!(documented.contains(&format!("`{key}`")), "{key} is not documented");
    }
}

#[test]
fn a_test_in_the_fields_notation_runs() {
    let rampart = Rampart::new();
    let report = rampart.json(&["test", "--memory", "8MiB", "--march", "*(w0); ^(r0,w1); v(r1,w0)", "--json"]);
    assert_eq!(report["verdict"], "pass");
    assert_eq!(report["test"]["notation"], "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0)}");
}

#[test]
fn without_root_pages_are_tested_and_frames_are_unknown() {
    let rampart = Rampart::new();
    let said = rampart.run_unprivileged(&["test", "--memory", "8MiB", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report = said.json();
    assert_eq!((&report["verdict"], &report["frames_known"]), (&"pass".into(), &false.into()));
    let said = rampart.run_unprivileged(&["test", "--memory", "8MiB", "--inject", "stuck-at:10"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("frame unknown"), "{said:?}");
}

#[test]
fn more_threads_test_the_same_frames() {
    let rampart = Rampart::new();
    let report = rampart.json(&["test", "--memory", "256MiB", "--threads", "2", "--march", "MATS+", "--json"]);
    assert_eq!((&report["verdict"], &report["frames_tested"]), (&"pass".into(), &(256 * 256).into()));
}
