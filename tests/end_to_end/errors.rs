//! Memory errors that another program reports guide the diagnostic to their frames.

use std::io::Write as _;
use std::path::Path;

use rusqlite::Connection;

use crate::harness::{Rampart, end, signal};
use crate::watch::{events, eventually};

/// Whether an event reports `count` under `key`.
fn heard(log: &Path, key: &str, count: u64) -> Option<()> {
    let is_so = |event: &serde_json::Value| event["event"] == "memory_errors" && event[key] == count;
    events(log).iter().any(is_so).then_some(())
}

/// Whether the error-triggered policy has chosen the highest fidelity.
fn tests_at_the_highest_fidelity(log: &Path) -> Option<()> {
    let changed = |event: &serde_json::Value| event["event"] == "config_changed" && event["config"]["fidelity"] == 32;
    // The first configuration precedes any demand.
    events(log).iter().filter(|event| event["event"] == "config_changed").skip(1).any(changed).then_some(())
}

#[test]
fn reported_memory_errors_are_heeded() {
    let rampart = Rampart::new();
    let (errors, log) = (rampart.folder().join("errors.jsonl"), rampart.folder().join("events.jsonl"));
    std::fs::write(&errors, "no error at all\n").unwrap();
    let (errors_at, log_at) = (errors.to_str().unwrap(), log.to_str().unwrap());
    let child =
        rampart.start(&["watch", "--errors-file", errors_at, "--events", log_at, "--policy", "error-triggered"]);
    eventually("the line that is none is counted", || heard(&log, "lost", 1));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let line = format!("{{\"at\":{now},\"severity\":\"corrected\",\"count\":11,\"frame\":300000}}\n");
    std::fs::OpenOptions::new().append(true).open(&errors).unwrap().write_all(line.as_bytes()).unwrap();
    eventually("the frame and its region are over the threshold of 10", || heard(&log, "erring", 2));
    eventually("the highest fidelity", || tests_at_the_highest_fidelity(&log));
    signal(&child, "TERM");
    let output = end(child);
    assert!(output.out.contains("2 reports") || output.out.contains("1 reports"), "{}", output.out);
}

/// The table of memory errors as rasdaemon creates it (db/ras-store-db.c).
pub const TABLE: &str =
    "CREATE TABLE mc_event (id INTEGER PRIMARY KEY, timestamp TEXT, err_count INTEGER, err_type TEXT,
    err_msg TEXT, label TEXT, mc INTEGER, top_layer INTEGER, middle_layer INTEGER, lower_layer INTEGER,
    address INTEGER, grain INTEGER, syndrome INTEGER, driver_detail TEXT)";

/// A row as rasdaemon writes it, in the present second.
const ROW: &str =
    "INSERT INTO mc_event VALUES (NULL, datetime('now') || ' +0000', ?1, 'Corrected', 'read error', 'DIMM_A1',
    0, 1, 0, -1, ?2, 3, 0, '')";

#[test]
fn corrected_errors_in_rasdaemons_database_drive_the_error_triggered_policy() {
    const ADDRESS: i64 = 300_000 << 12;
    let rampart = Rampart::new();
    let (database, log) = (rampart.folder().join("ras-mc_event.db"), rampart.folder().join("events.jsonl"));
    let rasdaemon = Connection::open(&database).unwrap();
    rasdaemon.execute_batch(TABLE).unwrap();
    let child = rampart.start(&[
        "watch",
        "--errors-file",
        database.to_str().unwrap(),
        "--events",
        log.to_str().unwrap(),
        "--policy",
        "error-triggered",
    ]);
    eventually("it watches", || events(&log).iter().any(|event| event["event"] == "sweep_began").then_some(()));
    rasdaemon.execute(ROW, (4, ADDRESS)).unwrap();
    eventually("one report, below the threshold", || heard(&log, "erring", 0));
    rasdaemon.execute(ROW, (7, ADDRESS + 64)).unwrap();
    eventually("the frame and its region are over the threshold of 10", || heard(&log, "erring", 2));
    eventually("the highest fidelity", || tests_at_the_highest_fidelity(&log));
    signal(&child, "TERM");
    let output = end(child);
    assert!(output.out.contains("2 reports"), "{}", output.out);
}

/// A row of rasdaemon's, as many corrected or uncorrected errors of a DIMM at a moment.
const DATED: &str = "INSERT INTO mc_event VALUES (NULL, ?1, ?2, ?3, 'read error', ?4, 0, 1, 0, -1, 0, 3, 0, '')";

/// Each error counts once, for its own DIMM, in the text as in the JSON, and so does the rate that follows.
#[test]
fn recorded_errors_are_counted_once_and_by_dimm() {
    const DAY: f64 = 86_400.0;
    let rampart = Rampart::new();
    let database = rampart.folder().join("ras-mc_event.db");
    let rasdaemon = Connection::open(&database).unwrap();
    rasdaemon.execute_batch(TABLE).unwrap();
    for row in [
        ("2024-05-01 10:00:00 +0000", 1, "Corrected", "DIMM_A1"),
        ("2024-05-02 10:00:00 +0000", 6, "Corrected", "DIMM_A1"),
        ("2024-05-03 10:00:00 +0000", 2, "Uncorrected", "DIMM_A1"),
        ("2024-05-05 10:00:00 +0000", 3, "Corrected", "DIMM_B2"),
    ] {
        rasdaemon.execute(DATED, row).unwrap();
    }
    drop(rasdaemon);
    // Ten days after the first error: so long were the DIMMs observed.
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_714_557_600 + 10 * 86_400);
    std::fs::File::options().write(true).open(&database).unwrap().set_modified(written).unwrap();

    let asked = ["errors", "--database", database.to_str().unwrap()];
    let shown = rampart.run(&asked);
    let lines: Vec<&str> = shown.out.lines().filter(|line| line.contains("DIMM_")).collect();
    let [a1, b2] = lines[..] else { panic!("a line for each DIMM: {shown:?}") };
    assert!(a1.contains("DIMM_A1: 7 corrected, 2 uncorrected in 10.0 days"), "{a1}");
    assert!(b2.contains("DIMM_B2: 3 corrected, 0 uncorrected in 10.0 days"), "{b2}");

    let json = rampart.run(&[&asked[..], &["--json"]].concat());
    assert_eq!((shown.code, json.code), (Some(1), Some(1)), "there are errors");
    let dimms = json.json()["dimms"].clone();
    assert_eq!(dimms.as_object().unwrap().len(), 2, "{dimms}");
    for (label, corrected, uncorrected) in [("DIMM_A1", 7, 2), ("DIMM_B2", 3, 0)] {
        let dimm = &dimms[label];
        assert_eq!((&dimm["corrected"], &dimm["uncorrected"]), (&corrected.into(), &uncorrected.into()), "{dimms}");
        let mean = dimm["mtbce_seconds"].as_f64().unwrap();
        assert!((mean - 10.0 * DAY / f64::from(corrected)).abs() < 1.0, "{dimms}");
    }
}
