//! A daemon that has claimed all memory but its reserve gives it back to a program that needs it.
//!
//! The memory is that of the test's own control group, so the rest of the machine lacks nothing.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::control_group::ControlGroup;
use crate::guarded::installed;
use crate::harness::{Rampart, end, signal};
use crate::watch::{events, eventually, named};

/// The memory of the group, in MiB. The daemon leaves half of it free, as of any small machine.
const MEMORY: u64 = 512;

/// Takes 400 MiB in parts of 4 MiB, which the daemon sees in time.
const PROGRAM: &str = "\
import time
parts = []
for part in range(100):
    parts.append(bytearray(b'x') * (4 << 20))
    time.sleep(0.02)
print(sum(part.count(b'x') for part in parts) >> 20)
";

/// Runs a program in the group.
fn start_in(group: &ControlGroup, rampart: &Rampart, program: &[&str]) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{}; exec \"$@\"", group.enter()), "sh"]).args(program);
    command.env("RAMPART_STORE", rampart.store()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("sh runs")
}

fn state(rampart: &Rampart) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(rampart.folder().join("watch.json")).ok()?).ok()
}

#[test]
fn a_program_gets_the_memory_that_the_daemon_has_claimed() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    let Some(group) = ControlGroup::new(MEMORY << 20) else { return };
    let log = rampart.folder().join("events.jsonl");
    // No sweep ends by itself meanwhile, and steps under test rest for a minute.
    let options = ["watch", "--source", "free", "--lifetime", "10h", "--max-fidelity", "1", "--retention", "1m"];
    let output = ["--for", "5m", "--events", log.to_str().unwrap(), "--json"];
    let daemon = start_in(&group, &rampart, &[&[env!("CARGO_BIN_EXE_rampart")], &options[..], &output].concat());
    let claimed = || state(&rampart)?["claimed"].as_u64();
    eventually("it has claimed memory", || claimed().filter(|claimed| *claimed >= 160 << 20));
    let program = end(start_in(&group, &rampart, &["python3", "-c", PROGRAM]));
    let reports_pressure = || named(&events(&log), "pressure") > 0;
    // It reports once a second.
    (0..100).take_while(|_| !reports_pressure()).for_each(|_| thread::sleep(Duration::from_millis(100)));
    signal(&daemon, "TERM");
    let daemon = end(daemon);
    assert_eq!((program.code, program.out.as_str()), (Some(0), "400\n"), "{program:?}, {daemon:?}");
    assert!(reports_pressure(), "{daemon:?}");
    assert!([Some(0), Some(2)].contains(&daemon.code), "it goes on beside the program: {daemon:?}");
}
