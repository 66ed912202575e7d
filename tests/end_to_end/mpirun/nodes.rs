//! Nodes that err: what the store says of them, and what the daemon does about this one.

use std::path::Path;

use serde_json::{Value, json};

use super::{Job, libraries};
use crate::harness::{CommandOutput, end, signal};
use crate::watch::{events, eventually, named, start_with_mib};

pub const PROGRAM: &str = include_str!("../victims/nodes.c");

fn job() -> Option<Job> {
    libraries().into_iter().find_map(|[c, _]| Job::built(c, "program.c", PROGRAM))
}

fn this_node() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

#[test]
fn a_node_that_errs_twice_is_named_and_tested_by_its_daemon() {
    let Some(job) = job() else { return };
    let rampart = &job.rampart;
    let (output, document) = job.run(&[], "1");
    assert_eq!((output.code, &document["suspect_nodes"]), (Some(0), &json!([])), "once is not twice: {output:?}");
    let flips = ["--inject", "flip:send:rate=1/2,replica=1"];
    let (_, document) = job.run(&flips, "0");
    assert!(document["differed"].as_u64().unwrap() > 1, "{document}");
    assert_eq!(document["suspect_nodes"], json!([]), "flips on purpose do not count");
    let known = rampart.json(&["errors", "--json"]);
    let first = &known["replica_errors"][0];
    let expected = json!({ "node": this_node(), "rank": 2, "wrong_replica": 1, "what": "message", "peer": 1, "tag": 3,
        "bytes": 8, "first_difference": 0, "origin": "real" });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&first[key], value, "{key}: {first}");
    }
    let injected = |one: &&Value| one["origin"] == "injected";
    let all = known["replica_errors"].as_array().unwrap();
    assert_eq!(all.iter().filter(injected).count() + 1, all.len(), "{known}");

    let output = CommandOutput::from(job.command("4", &[], "1").output().unwrap());
    let line = format!("rampart: suspect node {}: 2 errors in 2 jobs since ", this_node());
    assert!(output.err.contains(&line) && output.err.contains("memory, here: sudo rampart test"), "{output:?}");
    assert_eq!(rampart.json(&["status", "--json"])["suspect_nodes"][0]["errors"], 2);

    let log = rampart.folder().join("events.jsonl");
    let options = ["watch", "--lifetime", "10m", "--max-share", "100%", "--max-fidelity", "1", "--events"];
    let daemon = start_with_mib(640, rampart, &[&options[..], &[log.to_str().unwrap()]].concat());
    let seen = |event: &str| (named(&events(&log), event) == 1).then_some(());
    eventually("it hears of it", || seen("node_suspected"));
    eventually("it has tested", || seen("node_tested"));
    assert_eq!(rampart.json(&["errors", "--json"])["suspect_nodes"], json!([]));
    signal(&daemon, "TERM");
    end(daemon);
    let log = events(&log);
    let place = |event: &str| log.iter().position(|one| one["event"] == event).unwrap();
    assert!(place("node_suspected") < place("sweep_ended") || named(&log, "sweep_ended") > 1, "{log:?}");
}

#[test]
fn another_node_is_listed_until_it_was_tested_there_and_a_store_that_cannot_be_written_is_no_error() {
    let Some(job) = job() else { return };
    let run = |store: &Path| {
        let mut command = job.command("4", &[], "3");
        CommandOutput::from(command.env("RAMPART_NODE", "n7").env("RAMPART_STORE", store).output().unwrap())
    };
    let output = run(Path::new("/proc/nowhere/rampart.db"));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.err.contains("rampart: the mismatches are not in the store: "), "{output:?}");
    assert!(output.err.contains("rampart: suspect node n7: 3 errors in 1 job since "), "{output:?}");
    let output = run(&job.rampart.store());
    assert!(output.err.contains("test its memory, there: sudo rampart test"), "{output:?}");
    let shown = job.rampart.run(&["errors"]).out;
    assert!(shown.contains("replicas    n7: 3 wrong") && shown.contains("suspect     node n7: 3 errors"), "{shown}");
    assert_eq!(job.rampart.run(&["errors", "--tested", "n7"]).code, Some(0));
    assert_eq!(job.rampart.json(&["errors", "--json"])["suspect_nodes"], json!([]));
}

/// Two replicas: the job is stopped at the first mismatch, after some messages were compared.
#[test]
fn what_was_compared_is_known_of_a_job_that_was_stopped_or_died() {
    let Some(job) = job() else { return };
    let (_, document) = job.run(&["--replicas", "2"], "1");
    assert!(!document["stopped"].is_null(), "{document}");
    let compared = document["compared"].as_u64().unwrap();
    assert!((1..2 * 4 * 21).contains(&compared), "{document}");
    let (_, document) = job.run(&["--replicas", "2"], "all-die");
    let compared = document["compared"].as_u64().unwrap();
    assert!((20..2 * 4 * 21).contains(&compared), "half of it: {document}");
}
