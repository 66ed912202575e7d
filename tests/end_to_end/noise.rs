//! Detours of this machine's CPUs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rampart_skips::{Feature, granted, skip};

use crate::harness::{Rampart, end, is_root, signal, wait_until_it_catches_interrupts};

/// Whether detours can be measured here; if not, the output says why.
fn measurable(rampart: &Rampart) -> bool {
    let output = rampart.run(&["noise", "--for", "1ms"]);
    let measured = if output.code == Some(0) { Ok(()) } else { Err(output.err) };
    granted(&[Feature::TimeStampCounter], measured).is_some()
}

#[test]
fn detours_are_counted_drawn_kept_and_projected() {
    let rampart = Rampart::new();
    if !measurable(&rampart) {
        return;
    }
    let (csv, html) = (rampart.folder().join("noise.csv"), rampart.folder().join("noise.html"));
    let (csv, html) = (csv.to_str().unwrap(), html.to_str().unwrap());
    let json = rampart.json(&["noise", "--for", "300ms", "--csv", csv, "--html", html, "--json"]);
    let cpus = json["cpus"].as_array().unwrap();
    assert!(json["watched_seconds"].as_f64().unwrap() >= 0.3, "{json}");
    assert!(cpus.iter().all(|cpu| (0.0..=1.0).contains(&cpu["share"].as_f64().unwrap())), "{json}");
    assert!(json["counter"]["ticks_per_second"].as_f64().unwrap() > 1e8, "{json}");
    assert!(matches!(json["injection"]["state"].as_str(), Some("available" | "absent")), "{json}");
    // A kernel's own timer alone takes more than 150 ns from a CPU a few times in 300 ms.
    let detours = cpus.last().unwrap()["detours"].as_u64().unwrap();
    assert!(detours > 0, "{json}");
    let lines = fs::read_to_string(csv).unwrap();
    assert_eq!(
        lines.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count() as u64,
        detours
    );
    assert!(fs::read_to_string(html).unwrap().contains("<svg"));
    let projected =
        rampart.json(&["project", "--workload", "milc", "--nodes", "16", "--seeds", "2", "--detours", csv, "--json"]);
    assert!(projected["slowdown"].as_f64().unwrap() >= 0.0, "{projected}");
    assert!(projected["cost"].as_str().unwrap().contains("recorded"), "{projected}");
}

#[test]
fn a_measurement_that_is_stopped_shows_what_it_saw() {
    let rampart = Rampart::new();
    if !measurable(&rampart) {
        return;
    }
    let child = rampart.start(&["noise", "--for", "1h"]);
    wait_until_it_catches_interrupts(&child);
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, "INT");
    let output = end(child);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains("until it was stopped"), "{output:?}");
}

/// Servers may have firmware that injects errors; there, this test would inject one.
#[test]
fn a_machine_that_makes_no_errors_says_what_it_lacks() {
    let rampart = Rampart::new();
    if !measurable(&rampart) {
        return;
    }
    let known = rampart.json(&["noise", "--for", "1ms", "--json"]);
    assert!(known["errors"].is_null(), "{known}");
    if Path::new("/sys/kernel/debug/apei/einj").exists() {
        return skip(Feature::ErrorInjectionAbsent, "no error is made on a machine that can");
    }
    let output = rampart.run(&["noise", "--for", "2s", "--errors-every", "1s"]);
    assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
    assert!(output.err.contains("no error can be injected here") && output.err.contains("; "), "{output:?}");
}

/// What a dry run shows: no firmware is needed, no privilege, and no counter.
#[test]
fn a_dry_run_shows_what_when_and_where_on_any_machine() {
    let rampart = Rampart::new();
    let output = rampart.run_unprivileged(&["noise", "--for", "1s", "--errors-every", "300ms", "--dry-run"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
    let line = |name: &str| {
        let lines: Vec<&str> = output.out.lines().filter(|line| line.split("  ").next() == Some(name)).collect();
        assert_eq!(lines.len(), 1, "{name}: {output:?}");
        lines[0]
    };
    assert!(line("what").ends_with("3 corrected memory errors (type 0x8 of EINJ)"), "{output:?}");
    assert!(line("when").ends_with("one every 300ms, the first after 300ms, the last after 900ms"), "{output:?}");
    assert!(line("where").contains("a page of this process, whose physical address is unknown"), "{output:?}");
    assert!(line("absent").contains("for the real run: ") && line("absent").contains("; "), "{output:?}");
    let json = rampart.json(&["noise", "--for", "20ms", "--dry-run", "--json"]);
    let plan = &json["plan"];
    assert_eq!((&plan["errors"], &plan["every_ns"]), (&9.into(), &2_000_000.into()), "a tenth of --for: {json}");
    assert!(plan["address"].is_null() || is_root(), "only root knows an address: {json}");
    if !measurable(&rampart) {
        assert_eq!(json["schema"], "rampart.noise.plan/1");
        return;
    }
    assert!(output.out.contains("\nerrors      ") && output.out.contains("not"), "it measures too: {output:?}");
    assert_eq!((&json["schema"], &json["errors"]["dry_run"]), (&"rampart.noise/1".into(), &true.into()), "{json}");
    if plan["absent"].as_array().unwrap().is_empty() {
        skip(Feature::ErrorInjectionAbsent, "nothing is absent here");
        return;
    }
    assert_eq!(json["errors"]["prepared"], false, "{json}");
    assert!(output.out.contains("neither prepared nor injected"), "{output:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let nothing = rampart.folder().join("nothing.csv");
    fs::write(&nothing, "cpu,start_ns,length_ns\n").unwrap();
    let endless = rampart.folder().join("endless.csv");
    let record =
        "# threshold_ns,150\n# cpu,0,watched_ns,1000,beyond,0,beyond_took_ns,0\ncpu,start_ns,length_ns\n0,1,1500\n";
    fs::write(&endless, record).unwrap();
    let refused: [(&[&str], &str); 8] = [
        (&["noise", "--for", "1s", "--errors-every", "1s"], "--errors-every must be less than --for"),
        (&["noise", "--for", "1s", "--errors-every", "2s", "--dry-run"], "--errors-every must be less than --for"),
        (&["noise", "--cores", "1-0"], "such as 0-3,8"),
        (&["noise", "--cores", "8191"], "CPU 8191"),
        (&["noise", "--for", "0s"], "the time is 0"),
        (&["project", "--detours", "/nowhere"], "/nowhere"),
        (&["project", "--detours", nothing.to_str().unwrap()], "line 1"),
        (&["project", "--detours", endless.to_str().unwrap()], "1.5 times as long as they were watched for"),
    ];
    for (arguments, expected) in refused {
        let output = rampart.run(arguments);
        assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
        assert!(output.err.contains(expected), "{output:?}");
    }
}
