//! What a stranger reads on the screen: short reports, `--quiet` and `--verbose`, colour, and the status for monitors.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{CommandOutput, Rampart, end, is_root, signal};
use crate::watch::eventually;

/// The command of README.md.
const INJECTED: [&str; 5] = ["test", "--memory", "64MiB", "--inject", "stuck-at:100,coupling:20,seed=7"];

fn findings(output: &CommandOutput) -> usize {
    output
        .out
        .lines()
        .filter(|line| line.starts_with("found       frame") || line.starts_with("found       page"))
        .count()
}

#[test]
fn the_report_of_a_hundred_bad_frames_fits_on_a_screen_and_the_verdict_is_last() {
    let output = Rampart::new().run(&INJECTED);
    assert_eq!((output.code, findings(&output)), (Some(1), 10), "{output:?}");
    assert!(output.out.lines().count() <= 40, "{}", output.out);
    let counted = output.out.lines().filter(|line| line.starts_with("bad         ")).count();
    assert_eq!(counted, 1, "all are of one kind: {}", output.out);
    assert!(output.out.contains("--verbose") && output.last_line().starts_with("FAIL: "), "{output:?}");
}

#[test]
fn all_findings_or_only_the_verdict_are_printed_if_asked_for() {
    let rampart = Rampart::new();
    let injected = ["test", "--memory", "8MiB", "--inject", "stuck-at:30,seed=7"];
    let run = |flag: &str| rampart.run(&[&injected[..], &[flag]].concat());
    let (verbose, quiet) = (run("-v"), run("--quiet"));
    let frames = verbose.last_line().strip_prefix("FAIL: ").and_then(|rest| rest.split(' ').next()).expect("a count");
    assert_eq!(findings(&verbose).to_string(), frames, "{verbose:?}");
    assert!(findings(&verbose) > 20, "{verbose:?}");
    assert_eq!((quiet.code, quiet.out.lines().count(), quiet.err.as_str()), (Some(1), 1, ""), "{quiet:?}");
    assert!(quiet.out.starts_with("FAIL: "), "{quiet:?}");
    let json = rampart.run(&["-q", "test", "--memory", "4MiB", "--json"]);
    assert_eq!((json.code, &json.json()["verdict"]), (Some(0), &"pass".into()), "what is asked for is printed");
    let watch = rampart.run(&["watch", "--for", "1s", "-q"]);
    assert_eq!(watch.out.lines().count(), 1, "{watch:?}");
    for both in [&["-q", "-v", "status"][..], &["-q", "status", "-v"], &["status", "-qv"]] {
        let refused = rampart.run(both);
        assert_eq!((refused.code, refused.out.as_str(), refused.err.lines().count()), (Some(2), "", 1), "{refused:?}");
    }
}

#[test]
fn a_run_prints_its_notices_only_if_they_are_wanted() {
    let rampart = Rampart::new();
    let run = |flags: &[&str]| rampart.run(&[&["run", "--engine", "mprotect"], flags, &["--", "true"]].concat());
    let (quiet, verbose) = (run(&["-q"]), run(&["-v"]));
    assert_eq!((quiet.code, quiet.err.lines().count()), (Some(0), 1), "{quiet:?}");
    assert!(verbose.err.contains("rampart: guards true with "), "{verbose:?}");
}

#[test]
fn the_map_is_counted_or_shown_with_all_that_is_known() {
    let rampart = Rampart::new();
    for frame in ["0xffffffff00", "0xffffffff01"] {
        let added = rampart.run(&["map", "add", frame, "-q"]);
        assert_eq!((added.code, added.out.as_str()), (Some(0), ""), "{added:?}");
    }
    let quiet = rampart.run(&["map", "show", "-q"]);
    assert_eq!((quiet.code, quiet.out.lines().count()), (Some(1), 1), "{quiet:?}");
    assert!(quiet.out.starts_with("2 bad frames are known"), "{quiet:?}");
    let lines = |flags: &[&str]| rampart.run(&[&["map", "show"], flags].concat()).out.lines().count();
    assert_eq!((lines(&[]), lines(&["-v"])), (2, 4));
    assert_eq!(rampart.run(&["map", "restore", "-q"]).out.lines().count(), 1);
}

/// `\x1b` begins each escape code.
#[test]
fn colour_is_never_in_a_pipe_nor_in_json_unless_it_is_forced_and_never_if_it_is_unwanted() {
    let rampart = Rampart::new();
    let escapes = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = rampart.command(arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        CommandOutput::from(command.output().expect("the binary runs")).out.matches('\x1b').count()
    };
    let (forced, unwanted) = (("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"));
    let check = ["status", "--check"];
    assert_eq!(escapes(&check, &[]), 0);
    assert!(escapes(&check, &[forced]) > 0);
    assert_eq!(escapes(&check, &[forced, unwanted]), 0);
    assert_eq!(escapes(&["status", "--check", "--json"], &[forced]), 0);
}

#[test]
fn a_monitor_gets_a_line_with_the_reason_and_an_exit_code_and_the_plain_status_stays_0() {
    let rampart = Rampart::new();
    let check = || rampart.run(&["status", "--check"]);
    let well = check();
    assert_eq!((well.code, well.out.as_str()), (Some(0), "PASS: no known bad frame is in use; no daemon runs\n"));
    if is_root() {
        // No machine has memory at this address; without root, that is not known.
        rampart.run(&["map", "add", "0xffffffff00"]);
        assert_eq!(check().code, Some(0), "it lies beyond this machine's memory");
    }
    let mut child = rampart.start(&["watch"]);
    eventually("it is live", || rampart.folder().join("watch.json").exists().then_some(()));
    let watched = check();
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.out.contains(&format!("process {} tests memory in time", child.id())), "{watched:?}");

    signal(&child, "STOP");
    let stuck = eventually("its silence is noticed", || Some(check()).filter(|output| output.code == Some(1)));
    assert!(stuck.out.contains("has not reported for") && stuck.out.lines().count() == 1, "{stuck:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let died = check();
    assert_eq!((died.code, died.out.lines().count(), died.err.as_str()), (Some(1), 1, ""), "{died:?}");
    assert!(died.out.starts_with("FAIL: process ") && died.out.contains("ended unexpectedly"), "{died:?}");
    let document = rampart.run(&["status", "--check", "--json"]);
    assert_eq!((document.code, &document.json()["check"]["verdict"]), (Some(1), &"fail".into()), "{document:?}");
    assert_eq!(rampart.run(&["status"]).code, Some(0), "scripts may rely on it");
}

#[test]
fn a_bad_frame_that_is_in_use_is_what_a_monitor_wants_to_know() {
    let rampart = Rampart::new();
    // At 16 MiB, where a machine has memory that firmware did not reserve.
    for frame in (0x1000..0x1010).map(|number| format!("{number:#x}")) {
        rampart.run(&["map", "add", &frame]);
    }
    let uses = rampart.json(&["status", "--json"])["bad_frames_now"].clone();
    let output = rampart.run(&["status", "--check"]);
    let expected = if !uses["in-use"].is_null() {
        (Some(1), "FAIL: ")
    } else if !uses["unknown"].is_null() {
        (Some(2), "INCOMPLETE: ")
    } else {
        (Some(0), "PASS: ")
    };
    assert!(output.code == expected.0 && output.out.starts_with(expected.1), "{uses}: {output:?}");
}

#[test]
fn a_status_that_is_followed_is_printed_again_and_again_and_ends_cleanly() {
    let rampart = Rampart::new();
    for (flags, is_json) in [(&["--json"][..], true), (&[][..], false)] {
        let follow = [&["status", "--follow", "--interval", "20ms"], flags].concat();
        let out = rampart.folder().join("followed");
        let file = std::fs::File::create(&out).expect("the folder can be written");
        // Not below timeout(1), which passes a signal on twice, and the second one ends it at once.
        let mut command = rampart.command(&follow);
        let child = command.stdout(file).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mark = if is_json { "\"rampart.status/1\"" } else { "status      at " };
        let shows = || std::fs::read_to_string(&out).expect("it is there").matches(mark).count();
        eventually("three were printed", || (shows() >= 3).then_some(()));
        signal(&child, "INT");
        let output = end(child);
        assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
        let text = std::fs::read_to_string(&out).expect("it is there");
        if is_json {
            let documents = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("one on each line"));
            assert!(documents.filter(|one| one["schema"] == "rampart.status/1").count() >= 3);
        }
        assert!(!text.contains('\x1b'), "it is no terminal");
    }
    for refused in [
        &["status", "--interval", "3s"][..],
        &["status", "--follow", "--check"],
        &["status", "--follow", "--interval", "0s"],
    ] {
        let output = rampart.run(refused);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
    }
}

/// A second Ctrl-C is not needed while it waits.
#[test]
fn a_long_interval_does_not_delay_the_end() {
    let rampart = Rampart::new();
    let mut child = rampart.start(&["status", "--follow", "--interval", "1h"]);
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is a pipe"));
    out.read_line(&mut line).expect("it prints a page");
    // Then it waits.
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(&child, "TERM");
    let mut ended = None;
    for _ in 0..600 {
        ended = child.try_wait().expect("it is our child");
        if ended.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().expect("it is our child");
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "30 s are no hour");
    child.wait().expect("it is our child");
}
