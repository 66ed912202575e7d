//! The systemd units: systemd accepts them, their exposure is low, and the daemon's asks for no needless privilege.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rampart_skips::{Feature, installed, lacks, skip};
use serde_json::Value;

use crate::harness::Rampart;

const UNIT: &str = include_str!("../../packaging/rampart.service");

/// All units, by the names of their files.
const UNITS: [(&str, &str); 2] =
    [("rampart.service", UNIT), ("rampart-pools.service", include_str!("../../packaging/rampart-pools.service"))];

/// In tenths of systemd-analyze's points, of which 100 is the worst.
const EXPOSURE: u32 = 25;

/// The output of `systemd-analyze` for a unit with the built binary; `None` without that program: then the test is
/// skipped.
fn analyze(rampart: &Rampart, (name, text): (&str, &str), arguments: &[&str]) -> Option<Output> {
    if !installed("systemd-analyze", Feature::SystemdAnalyze) {
        return None;
    }
    let unit: PathBuf = rampart.folder().join(name);
    std::fs::write(&unit, text.replace("/usr/bin/rampart", env!("CARGO_BIN_EXE_rampart"))).unwrap();
    Some(Command::new("systemd-analyze").args(arguments).arg(unit).stdin(Stdio::null()).output().expect("it runs"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn systemd_takes_the_units() {
    let rampart = Rampart::new();
    for unit in UNITS {
        let Some(output) = analyze(&rampart, unit, &["verify", "--man=no"]) else { return };
        assert!(output.status.success() && !text(&output).contains(unit.0), "{}", text(&output));
    }
}

#[test]
fn no_unit_exposes_more_than_the_first_did() {
    let rampart = Rampart::new();
    let threshold = format!("--threshold={EXPOSURE}");
    for unit in UNITS {
        let Some(output) = analyze(&rampart, unit, &["security", "--offline=true", "--no-pager", &threshold]) else {
            return;
        };
        if text(&output).contains("unrecognized option") {
            return skip(Feature::SystemdAnalyze, "this one does not judge a unit that is not installed");
        }
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// The capabilities that the unit keeps, as `setpriv` writes them.
fn capabilities() -> Vec<String> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("the unit bounds them");
    line.split_whitespace().map(|name| name.trim_start_matches("CAP_").to_lowercase()).collect()
}

/// Watches as root with these capabilities and a low limit of locked memory: for two seconds, or on a busy machine
/// for as long as it takes until some memory was tested, since a watch that tested none says nothing of either.
fn watch_with(kept: &[&String]) -> Option<Value> {
    let mut summaries = ["2s", "8s", "32s"].into_iter().map(|time| watch_for(time, kept));
    summaries.find(|summary| summary.as_ref().is_none_or(|summary| !summary["pinning"].is_null()))?
}

fn watch_for(time: &str, kept: &[&String]) -> Option<Value> {
    let rampart = Rampart::new();
    let bound = kept.iter().fold("-all".to_owned(), |bound, name| format!("{bound},+{name}"));
    let plain = rampart.command(&["watch", "--for", time, "--max-fidelity", "1", "--json"]);
    let bounded = Command::new("sh")
        .args([
            "-c",
            "ulimit -l 64 && exec setpriv --no-new-privs --inh-caps=-all --bounding-set=\"$0\" \"$@\"",
            &bound,
        ])
        .arg(plain.get_program())
        .args(plain.get_args())
        .env("RAMPART_STORE", rampart.store())
        .stdin(Stdio::null())
        .output();
    serde_json::from_slice(&bounded.ok()?.stdout).ok()
}

fn knows_frames(summary: &Value) -> bool {
    summary["state"]["frames"]["reached"].as_u64() > Some(0)
}

fn pins(summary: &Value) -> bool {
    summary["pinning"].as_str().is_some_and(|how| !how.starts_with("not pinned"))
}

#[test]
fn the_capabilities_of_the_unit_are_enough_and_none_is_too_many() {
    let kept = capabilities();
    assert_eq!(kept, ["sys_admin", "ipc_lock"], "say below what a new one is for");
    if !rampart_skips::root("only root bounds capabilities") || !installed("setpriv", Feature::Setpriv) {
        return;
    }
    for needed in [Feature::FrameNumbers, Feature::LockedMemory] {
        if let Some(why) = lacks(needed) {
            return skip(needed, why);
        }
    }
    let all = watch_with(&kept.iter().collect::<Vec<_>>()).expect("it watches");
    assert!(knows_frames(&all) && pins(&all), "{all}");
    assert_ne!(all["verdict"], "fail", "{all}");
    let without_admin = watch_with(&[&kept[1]]).expect("it watches");
    assert!(!knows_frames(&without_admin), "frame numbers need CAP_SYS_ADMIN: {without_admin}");
    let without_lock = watch_with(&[&kept[0]]).expect("it watches");
    assert!(!pins(&without_lock), "pinning beyond RLIMIT_MEMLOCK needs CAP_IPC_LOCK: {without_lock}");
}
