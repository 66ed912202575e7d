//! Where the store is, and what is said when it is opened.

use std::path::{Path, PathBuf};

use rampart_memory::{Bytes, FRAME_BYTES, Timestamp};
use rampart_store::{Opened, Outcome, Store, TestRecord};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::text;

/// Opens the store that was named, or the usual one. Says so if a damaged one was set aside.
pub fn open(named: Option<PathBuf>, now: Timestamp) -> Result<Store, Error> {
    let path = path(named)?;
    Ok(said(Store::open(&path, now)?, &path))
}

/// The same for a command that is content to read: where the store cannot be written, it does.
pub fn open_to_read(named: Option<PathBuf>, now: Timestamp) -> Result<Store, Error> {
    let path = path(named)?;
    Ok(said(Store::open_to_read(&path, now)?, &path))
}

fn said(opened: Opened, path: &Path) -> Store {
    if let Some(aside) = opened.set_aside {
        eprintln!(
            "rampart: the store {} was damaged ({}): it is set aside as {}; {} facts were taken over, {} could not be read",
            path.display(),
            aside.why,
            aside.path.display(),
            aside.salvaged,
            aside.unreadable
        );
    }
    opened.store
}

/// Where the store is: the one that was named, or the usual one.
pub fn path(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    let usual = || rampart_store::default_path(rampart_linux::is_root(), |name| std::env::var_os(name));
    Ok(named.map_or_else(usual, Ok)?)
}

/// A test in one line.
pub fn describe(test: &TestRecord) -> String {
    let when = text::moment(test.start.at);
    let what = &test.start.notation;
    let Some(end) = &test.end else { return format!("{when} {what}: interrupted, or still running") };
    let memory = Bytes::new(end.frames_tested * FRAME_BYTES);
    let emulated =
        test.start.injected.as_ref().map_or_else(String::new, |spec| format!(", with emulated faults {spec}"));
    let outcome = match (end.outcome, &end.shortfall) {
        (Outcome::Pass, _) => "PASS".to_owned(),
        (Outcome::Fail, _) => format!("FAIL: {} bad frames, {} emulated", end.bad_frames, end.emulated_frames),
        (Outcome::Incomplete, why) => format!("INCOMPLETE: {}", why.as_deref().unwrap_or("unknown")),
    };
    format!("{when} {what}, {memory}{emulated}: {outcome}")
}

/// A test for programs.
pub fn document(test: &TestRecord) -> Value {
    json!({
        "started": test.start.at,
        "notation": test.start.notation,
        "fidelity": test.start.fidelity,
        "orders": test.start.orders,
        "memory": test.start.wanted,
        "injected": test.start.injected,
        "ended": test.end.as_ref().map(|end| end.at),
        "verdict": test.end.as_ref().map(|end| word(end.outcome)),
        "incomplete": test.end.as_ref().and_then(|end| end.shortfall.clone()),
        "frames_tested": test.end.as_ref().map(|end| end.frames_tested),
        "bad_frames": test.end.as_ref().map(|end| end.bad_frames),
        "emulated_frames": test.end.as_ref().map(|end| end.emulated_frames),
        "bytes_per_second": test.end.as_ref().map(|end| end.bytes_per_second),
    })
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Incomplete => "incomplete",
    }
}
