//! The verdict at the end of a test.

use std::process::{Command, Stdio};

use rampart_skips::{Feature, granted};

use crate::harness::{CommandOutput, Rampart, is_root};

#[test]
fn a_short_test_of_good_memory_passes() {
    let rampart = Rampart::new();
    let output = rampart.run(&["test", "--memory", "64MiB"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = output.last_line();
    assert!(line.starts_with("PASS: 64 MiB tested, 100 % of the request, "), "{output:?}");
    assert!(line.ends_with(" % of this machine's memory"), "{output:?}");
}

/// A test under a memory limit of the kernel, which tests all free memory.
fn limited(rampart: &Rampart, kibibytes: u32, arguments: &[&str]) -> CommandOutput {
    let plain = rampart.command(arguments);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"")]).arg(plain.get_program());
    limited.args(plain.get_args()).env("RAMPART_STORE", rampart.store()).stdin(Stdio::null());
    CommandOutput::from(limited.output().expect("sh runs"))
}

#[test]
fn what_the_kernel_refuses_of_what_was_free_makes_a_test_incomplete_and_the_report_measures_it() {
    let rampart = Rampart::new();
    let arguments = ["test", "--march", "MATS+", "--sequence", "sequential", "--retention", "0s", "--json"];
    let output = limited(&rampart, 800 << 10, &arguments);
    let report = output.json();
    let extent = |key: &str| report["extent"][key].as_u64().unwrap();
    let request = extent("request");
    let more = if request > 800 << 20 { Ok(()) } else { Err(format!("only {request} bytes are free")) };
    if granted(&[Feature::FreeMemory], more).is_none() {
        return;
    }
    assert_eq!((output.code, &report["verdict"]), (Some(2), &"incomplete".into()), "{report}");
    assert!(report["incomplete"].as_str().unwrap().contains("refused by the kernel"), "{report}");
    assert_eq!(extent("tested"), report["frames_tested"].as_u64().unwrap() * 4096);
    assert!(extent("tested") > 0 && extent("request") < extent("machine"), "{report}");
    assert_eq!(report["extent"]["named"], false);
}

#[test]
fn the_json_has_the_promised_keys_and_nothing_else_is_printed() {
    let rampart = Rampart::new();
    let output =
        rampart.run(&["test", "--memory", "64MiB", "--fidelity", "2", "--threads", "1", "--passes", "2", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report = output.json();
    assert_eq!(report["schema"], "rampart.test/2");
    assert_eq!(report["verdict"], "pass");
    assert_eq!(report["frames_tested"], 64 * 256);
    assert_eq!(report["bad_frames"].as_array().map(Vec::len), Some(0));
    assert_eq!(report["test"]["passes"], 2);
    assert_eq!(report["delayed_read"]["frames_skipped"], 0);
    assert_eq!(report["frames_known"], is_root());
    assert!(report["bytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["fraction_of_limit"].as_f64().unwrap() > 0.0);
    assert!(report["own_bytes"].as_u64().unwrap() < 50 << 20, "{}", report["own_bytes"]);
    let documented = include_str!("../../docs/report-schema.md");
    let keys = ["test", "extent", "delayed_read"].map(|part| report[part].as_object().unwrap().keys());
    for key in report.as_object().unwrap().keys().chain(keys.into_iter().flatten()) {
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
    let output = rampart.run_unprivileged(&["test", "--memory", "8MiB", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report = output.json();
    assert_eq!((&report["verdict"], &report["frames_known"]), (&"pass".into(), &false.into()));
    let output = rampart.run_unprivileged(&["test", "--memory", "8MiB", "--inject", "stuck-at:10"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.out.contains("frame unknown"), "{output:?}");
}

#[test]
fn more_threads_test_the_same_frames() {
    let rampart = Rampart::new();
    let report = rampart.json(&["test", "--memory", "256MiB", "--threads", "2", "--march", "MATS+", "--json"]);
    assert_eq!((&report["verdict"], &report["frames_tested"]), (&"pass".into(), &(256 * 256).into()));
}
