//! Opens the store, and shows its tests.

use std::path::{Path, PathBuf};

use rampart_diagnostic::once::extent::percent;
use rampart_memory::{Bytes, FRAME_BYTES, SuspectNode, Timestamp};
use rampart_store::{Opened, Store, TestEnding, TestRecord};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::text;

/// Opens the named store or the default one. Reports a damaged store that was set aside.
pub fn open(named: Option<PathBuf>, now: Timestamp) -> Result<Store, Error> {
    let path = path(named)?;
    Ok(reported(Store::open(&path, now)?, &path))
}

/// As [`open`], but a store that cannot be written is opened for reading only.
pub fn open_to_read(named: Option<PathBuf>, now: Timestamp) -> Result<Store, Error> {
    let path = path(named)?;
    Ok(reported(Store::open_to_read(&path, now)?, &path))
}

fn reported(opened: Opened, path: &Path) -> Store {
    if let Some(aside) = opened.set_aside {
        eprintln!(
            "rampart: the store {} was damaged ({}): it is set aside as {}; {} facts were recovered, {} could not be read",
            path.display(),
            aside.why,
            aside.path.display(),
            aside.salvaged,
            aside.unreadable
        );
    }
    opened.store
}

/// The path of the named store or the default one.
pub fn path(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    let default = || rampart_store::default_path(rampart_linux::is_root(), |name| std::env::var_os(name));
    Ok(named.map_or_else(default, Ok)?)
}

/// A suspect node in one line, and what to do.
pub fn suspicion(suspect: &SuspectNode) -> String {
    suspicion_seen_from(rampart_linux::host_name().as_deref(), suspect)
}

fn suspicion_seen_from(here: Option<&str>, suspect: &SuspectNode) -> String {
    let SuspectNode { node, errors, jobs, first, .. } = suspect;
    let jobs = if *jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", text::count(*jobs)) };
    let place = if here == Some(node.as_str()) { "here" } else { "there" };
    let (errors, first) = (text::count(*errors), text::moment(*first));
    format!("node {node}: {errors} errors in {jobs} since {first}; test its memory, {place}: sudo rampart test")
}

/// A recorded test in one line, for people: how much was tested of what was asked for, and of all memory there is now.
pub fn describe(test: &TestRecord, machine: Bytes) -> String {
    let when = text::moment(test.start.at);
    let notation = &test.start.notation;
    let Some(end) = &test.end else { return format!("{when} {notation}: interrupted, or still running") };
    let memory = Bytes::new(end.frames_tested * FRAME_BYTES);
    let emulated =
        test.start.injected.as_ref().map_or_else(String::new, |spec| format!(", with emulated faults {spec}"));
    let outcome = match (end.outcome, &end.shortfall) {
        (TestEnding::Pass, _) => "PASS".to_owned(),
        (TestEnding::Fail, _) => format!("FAIL: {} bad frames, {} emulated", end.bad_frames, end.emulated_frames),
        (TestEnding::Incomplete, why) => format!("INCOMPLETE: {}", why.as_deref().unwrap_or("unknown")),
    };
    let extent = extent(memory, test.start.requested, machine);
    format!("{when} {notation}, {extent}{emulated}: {outcome}")
}

/// What was tested, as a share of what was asked for and of the machine. `None`: all free memory was.
fn extent(tested: Bytes, asked: Option<Bytes>, machine: Bytes) -> String {
    let of_all = percent(tested, machine);
    match asked {
        Some(asked) => {
            format!("{tested}, {} % of the request, {of_all} % of this machine's memory", percent(tested, asked))
        }
        None => format!("{tested} of what was free, {of_all} % of this machine's memory"),
    }
}

/// A recorded test as JSON, for programs.
pub fn document(test: &TestRecord) -> Value {
    json!({
        "started": test.start.at,
        "notation": test.start.notation,
        "fidelity": test.start.fidelity,
        "sequences": test.start.sequences,
        "memory": test.start.requested,
        "injected": test.start.injected,
        "ended": test.end.as_ref().map(|end| end.at),
        "verdict": test.end.as_ref().map(|end| verdict(end.outcome)),
        "incomplete": test.end.as_ref().and_then(|end| end.shortfall.clone()),
        "frames_tested": test.end.as_ref().map(|end| end.frames_tested),
        "bad_frames": test.end.as_ref().map(|end| end.bad_frames),
        "emulated_frames": test.end.as_ref().map(|end| end.emulated_frames),
        "bytes_per_second": test.end.as_ref().map(|end| end.bytes_per_second),
    })
}

const fn verdict(outcome: TestEnding) -> &'static str {
    match outcome {
        TestEnding::Pass => "pass",
        TestEnding::Fail => "fail",
        TestEnding::Incomplete => "incomplete",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_named_with_the_command_that_tests_it() {
        let at = Timestamp::from_micros(9);
        let suspect = SuspectNode { node: "n7".to_owned(), errors: 1_200, jobs: 2, first: at, last: at };
        let expected =
            "node n7: 1,200 errors in 2 jobs since 1970-01-01T00:00:00Z; test its memory, there: sudo rampart test";
        assert_eq!(suspicion_seen_from(Some("n8"), &suspect), expected);
        assert!(suspicion_seen_from(Some("n7"), &suspect).contains("memory, here: sudo"));
    }

    #[test]
    fn a_past_test_says_what_its_memory_is_a_share_of() {
        let [tested, asked, machine] = [64, 128, 24 << 10].map(Bytes::from_mib);
        let of_request = "64 MiB, 50 % of the request, 0.2 % of this machine's memory";
        assert_eq!(extent(tested, Some(asked), machine), of_request);
        assert_eq!(extent(tested, None, machine), "64 MiB of what was free, 0.2 % of this machine's memory");
    }
}
