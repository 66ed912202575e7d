//! Pages of a guarded program that the hardware loses.

use serde_json::Value;

use crate::guarded::{run, victim, works};
use crate::harness::Rampart;

/// All its pages hold bytes without redundancy, so a lost page cannot be rebuilt.
#[test]
fn a_locked_page_that_the_hardware_gives_up_stops_the_program_before_it_sees_it() {
    let rampart = Rampart::new();
    let Some(traps) = victim(&rampart, "traps") else { return };
    if !works(&rampart, "move") {
        return;
    }
    for block in ["2MiB", "64KiB"] {
        let options = ["--cap", "4MiB", "--block", block, "--inject", "poison:locked:rate=50/s,seed=3"];
        let output = run(&rampart, &[&options[..], &["--report", "report.json", "--", &traps, "waits"]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(86), ""), "{block}: {}", output.err);
        for line in
            ["the hardware gave memory up: page ", "memory changed beyond correction: page ", "was stopped before"]
        {
            assert!(output.err.contains(line), "{block}: {line}: {}", output.err);
        }
        let text = std::fs::read_to_string(rampart.folder().join("report.json")).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("it is JSON");
        let told = |name: &str| {
            let events = report["events"].as_array().expect("events").iter();
            events.filter(|event| event["event"] == name).map(|event| event["page"].as_u64().expect("a page")).collect()
        };
        let (given_up, beyond): (Vec<u64>, Vec<u64>) = (told("given_up"), told("uncorrectable"));
        assert!(beyond.iter().all(|page| given_up.contains(page)), "{block}: {given_up:?} {beyond:?}");
        let map = rampart.json(&["map", "show", "--json"]);
        assert_eq!(map["frames"].as_array().map(Vec::len), Some(0), "what was made up is not on the map");
    }
    let output = run(&rampart, &["--engine", "mprotect", "--inject", "poison:locked:rate=1/s", "--", "true"]);
    assert!(output.code == Some(2) && output.err.contains("leave out --engine minor"), "{}", output.err);
}
