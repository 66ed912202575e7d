//! The daemon: what it finds and reports, and that it leaves nothing behind.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Rampart, end, signal};

/// Waits until a condition holds, for at most a minute.
pub fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(180), "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

pub fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub fn named(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["event"] == name).count()
}

fn resident_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A daemon that the kernel limits to 2 GiB, so that a sweep is short on any machine.
fn start_with_2_gib(rampart: &Rampart, arguments: &[&str]) -> Child {
    start_with_mib(2048, rampart, arguments)
}

/// The same with another limit.
pub fn start_with_mib(limit: u32, rampart: &Rampart, arguments: &[&str]) -> Child {
    let plain = rampart.command(arguments);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &format!("ulimit -v {}; exec \"$0\" \"$@\"", limit * 1024)])
        .arg(plain.get_program())
        .args(plain.get_args());
    limited.env("RAMPART_STORE", rampart.store()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    limited.spawn().expect("the binary runs")
}

#[test]
fn planted_faults_are_found_told_and_kept_out_of_use_and_all_memory_is_given_back() {
    let rampart = Rampart::new();
    let log = rampart.folder().join("events.jsonl");
    let output = rampart.run(&[
        "watch",
        "--for",
        "8s",
        "--lifetime",
        "10s",
        "--max-share",
        "100%",
        "--max-fidelity",
        "1",
        "--inject",
        "stuck-at:400,seed=3",
        "--events",
        log.to_str().unwrap(),
        "--json",
    ]);
    let summary = output.json();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(summary["verdict"], "fail");
    let found = summary["bad_frames"].as_array().unwrap();
    assert!(!found.is_empty() && found.iter().all(|bad| bad["origin"] == "emulated"), "{found:?}");
    assert_eq!(summary["missed"], Value::Array(Vec::new()), "what the test promises to find, it found");
    let frames: std::collections::BTreeSet<_> = found.iter().map(|bad| bad["frame"].to_string()).collect();
    assert_eq!(frames.len(), found.len(), "none was found twice");
    assert_eq!(summary["state"]["claimed"], 0);

    let events = events(&log);
    assert!(events.iter().all(|event| event["schema"] == "rampart.event/1"));
    assert_eq!((named(&events, "started"), named(&events, "stopped")), (1, 1));
    assert_eq!(named(&events, "bad_frame"), found.len());
    assert_eq!(named(&events, "retired"), 0, "emulated frames are never retired");
    assert!(!rampart.folder().join("watch.json").exists(), "nobody watches any more");
    let kept = rampart.json(&["map", "show", "--emulated", "--json"]);
    assert!(kept.to_string().matches("first_seen").count() >= 1, "{kept}");
}

/// Cells that lose their value after 300 ms, at 1,000 places within one sweep's reach.
#[test]
fn slow_retention_faults_are_found_while_the_machine_is_watched() {
    let rampart = Rampart::new();
    let faults = "retention:1000,retention=300ms,seed=3";
    let watch = ["watch", "--for", "10s", "--lifetime", "10s", "--max-share", "100%", "--max-fidelity", "1"];
    let output = end(start_with_2_gib(&rampart, &[&watch[..], &["--inject", faults, "--json"]].concat()));
    let summary = output.json();
    assert_eq!((output.code, &summary["verdict"]), (Some(1), &"fail".into()), "{output:?}");
    assert_eq!(summary["missed"], Value::Array(Vec::new()), "what the test promises to find, it found");
    assert_eq!(summary["state"]["claimed"], 0);
}

/// The port that a process listens on, which the kernel chose.
fn port_of(child: &Child) -> Option<u16> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?;
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets: Vec<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.to_owned())).collect();
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc is mounted");
    table.lines().skip(1).find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, address, _, "0A", _, _, _, _, _, inode, ..] if sockets.contains(&format!("{inode}]")) => {
            u16::from_str_radix(address.split_once(':')?.1, 16).ok()
        }
        _ => None,
    })
}

#[test]
fn a_daemon_is_seen_reloads_all_or_nothing_and_stops_cleanly() {
    let rampart = Rampart::new();
    let (config, log) = (rampart.folder().join("watch.toml"), rampart.folder().join("events.jsonl"));
    std::fs::write(&config, "lifetime = \"20m\"\nmax-share = \"10%\"\n").unwrap();
    let child = rampart.start(&[
        "watch",
        "--config",
        config.to_str().unwrap(),
        "--events",
        log.to_str().unwrap(),
        "--metrics",
        "127.0.0.1:0",
    ]);
    let status = || Some(rampart.json(&["status", "--json"])["watch"].clone()).filter(|watch| !watch.is_null());
    let live = eventually("it is live", status);
    assert_eq!((live["pid"].as_u64(), live["lifetime_seconds"].as_f64()), (Some(child.id().into()), Some(1200.0)));
    let second = rampart.run(&["watch", "--for", "1s"]);
    assert_eq!(second.code, Some(2), "two do not watch by one store: {second:?}");
    assert!(second.err.contains("already watches"), "{}", second.err);

    std::fs::write(&config, "lifetime = \"20m\"\ncolour = \"red\"\n").unwrap();
    signal(&child, "HUP");
    eventually("it is refused", || (named(&events(&log), "reload_refused") == 1).then_some(()));
    std::fs::write(&config, "lifetime = \"40m\"\nmax-share = \"10%\"\n").unwrap();
    signal(&child, "HUP");
    eventually("it is reloaded", || (named(&events(&log), "reloaded") == 1).then_some(()));
    eventually("the new lifetime holds", || status().filter(|watch| watch["lifetime_seconds"] == 2400.0));

    let port = eventually("metrics are served", || port_of(&child));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("metrics are served");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut scraped = String::new();
    stream.read_to_string(&mut scraped).unwrap();
    assert!(scraped.contains("rampart_watch_test_lifetime_seconds 2400"), "{scraped}");

    signal(&child, "TERM");
    let output = end(child);
    assert!([Some(0), Some(2)].contains(&output.code), "nothing is bad here: {output:?}");
    assert!(
        output.err.contains("unknown field `colour`") && output.err.contains("the old settings stay"),
        "{}",
        output.err
    );
    assert!(output.out.contains("all memory is given back"), "{}", output.out);
    assert!(status().is_none());
}

/// Threads of a process.
fn threads(child: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs").count()
}

#[test]
fn a_reload_raises_and_lowers_the_number_of_testers() {
    if thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        return rampart_skips::skip(rampart_skips::Feature::TwoCpus, "there is no more than one to give");
    }
    let rampart = Rampart::new();
    let config = rampart.folder().join("watch.toml");
    let write = |cores: u32| std::fs::write(&config, format!("policy = \"fixed\"\nmax-cores = {cores}\n")).unwrap();
    write(1);
    let child = rampart.start(&["watch", "--config", config.to_str().unwrap()]);
    let tests_with = |cores: u64| {
        eventually("so many testers", || {
            let status = rampart.json(&["status", "--json"]);
            (status["watch"]["config"]["threads"] == cores).then_some(())
        });
    };
    tests_with(1);
    let before = threads(&child);
    write(2);
    signal(&child, "HUP");
    tests_with(2);
    assert_eq!(threads(&child), before + 1);
    write(1);
    signal(&child, "HUP");
    tests_with(1);
    write(100_000);
    signal(&child, "HUP");
    signal(&child, "TERM");
    let output = end(child);
    assert!([Some(0), Some(2)].contains(&output.code), "{output:?}");
}

#[test]
fn between_sweeps_it_holds_nothing_and_after_a_restart_it_knows_what_it_tested() {
    let rampart = Rampart::new();
    let log = rampart.folder().join("events.jsonl");
    let shares = ["--max-share", "100%", "--busy-share", "100%"];
    let options = [&["watch", "--lifetime", "3m", "--max-fidelity", "1", "--json"][..], &shares].concat();
    let log_at = ["--events", log.to_str().unwrap()];
    let child = start_with_2_gib(&rampart, &[&options[..], &log_at].concat());
    let begun = Instant::now();
    while named(&events(&log), "sweep_ended") == 0 && begun.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(200));
    }
    let ended = named(&events(&log), "sweep_ended") > 0;
    let resident = resident_kib(&child);
    signal(&child, "TERM");
    let first = end(child);
    assert!(ended, "a sweep ends: {first:?}");
    assert!(resident < 128 << 10, "{resident} KiB resident between sweeps");
    assert_eq!(first.json()["verdict"], "pass");

    let second = end(start_with_2_gib(&rampart, &[&options[..], &["--for", "2s"]].concat())).json();
    let fresh = |summary: &Value| summary["state"]["frames"]["fresh"].as_u64().unwrap();
    let (before, after) = (fresh(&first.json()), fresh(&second));
    // Some tests expired meanwhile; without root no frame is known, and nothing can be held.
    assert!(after >= before / 2, "{before} frames were fresh, {after} after a restart");
    assert_eq!(before > 0, crate::harness::is_root());
}

#[test]
fn a_daemon_that_was_killed_is_called_stale_and_another_takes_its_place() {
    let rampart = Rampart::new();
    let mut child = rampart.start(&["watch"]);
    eventually("it is live", || rampart.folder().join("watch.json").exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let output = rampart.run(&["status"]);
    assert!(output.err.contains("ended unexpectedly"), "{output:?}");
    assert!(output.out.contains("watching    no daemon runs"), "{output:?}");
    let next = rampart.run(&["watch", "--for", "1s", "--json"]);
    assert_eq!(next.json()["state"]["claimed"], 0, "{next:?}");
}

#[test]
fn an_ordinary_user_watches_too_and_is_told_what_that_is_worth() {
    let rampart = Rampart::new();
    let output = rampart.run_unprivileged(&["watch", "--for", "3s", "--lifetime", "1m", "--max-fidelity", "1"]);
    assert!([Some(0), Some(2)].contains(&output.code), "{output:?}");
    if crate::harness::is_root() {
        assert!(output.out.contains("only root sees which frames"), "{}", output.out);
    }
}
