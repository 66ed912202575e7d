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
