//! What the daemon serves to Prometheus, and that it does so where its configuration file says.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::harness::{Rampart, end, signal};
use crate::watch::{events, eventually, named, start_with_mib};

const PACKAGED: &str = include_str!("../../packaging/watch.toml");

/// An address at which nobody listens now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it has an address")
}

/// The answer to a client with these headers; `None` if nobody listens.
fn scraped(address: SocketAddr, headers: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn is_closed(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

fn value(answer: &str, name: &str) -> Option<f64> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits for metrics with this lifetime.
fn lifetime_at(address: SocketAddr, seconds: f64) -> String {
    eventually("metrics are served there", || {
        scraped(address, "").filter(|answer| value(answer, "rampart_watch_test_lifetime_seconds") == Some(seconds))
    })
}

#[test]
fn the_packaged_configuration_serves_both_formats_with_the_process_and_its_version() {
    let rampart = Rampart::new();
    let (address, folder) = (free_address(), rampart.folder().to_str().unwrap().to_owned());
    let text = PACKAGED.replace("127.0.0.1:9437\"", &format!("{address}\"")).replace("/var/log/rampart", &folder);
    assert!(text.matches(&format!("= \"{address}\"\n")).count() == 1 && text.matches(&folder).count() == 1, "{text}");
    let config = rampart.folder().join("watch.toml");
    std::fs::write(&config, text).unwrap();
    let child = rampart.start(&["watch", "--for", "5m", "--config", config.to_str().unwrap()]);
    let text = lifetime_at(address, 1800.0);
    assert!(text.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{text}");
    assert!(text.contains("\n# TYPE rampart_watch_tested_bytes_total counter\n") && !text.contains("# EOF"), "{text}");
    assert!(text.contains(concat!("\nrampart_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n")), "{text}");
    let of_process = |name: &str| value(&text, &format!("process_{name}")).expect(name);
    assert!(of_process("resident_memory_bytes") <= of_process("virtual_memory_bytes"));
    assert!(of_process("cpu_seconds_total") > 0.0 && of_process("open_fds") < of_process("max_fds"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert!(files.contains(&format!(" {} ", of_process("max_fds"))), "{files}");
    assert!(of_process("start_time_seconds") > 946_684_800.0, "1 January 2000");
    let open = scraped(address, "Accept: application/openmetrics-text; version=1.0.0\r\n").expect("it is served");
    assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{open}");
    assert!(open.contains("\n# TYPE rampart_watch_tested_bytes counter\n") && open.ends_with("# EOF\n"), "{open}");
    signal(&child, "TERM");
    let output = end(child);
    assert!([Some(0), Some(2)].contains(&output.code), "{output:?}");
    assert_eq!(named(&events(&rampart.folder().join("events.jsonl")), "stopped"), 1);
}

#[test]
fn metrics_and_events_move_with_a_reload_or_all_stays() {
    let rampart = Rampart::new();
    let config = rampart.folder().join("watch.toml");
    let log = |name: &str| rampart.folder().join(name);
    let (first, second, third) = (free_address(), free_address(), free_address());
    let write = |minutes: u32, metrics: &str, events: &str| {
        let text = format!("lifetime = \"{minutes}m\"\nmetrics = {metrics:?}\nevents = {events:?}\n");
        std::fs::write(&config, text).unwrap();
    };
    let at = |address: SocketAddr, name: &str| (address.to_string(), log(name).to_str().unwrap().to_owned());
    let reload = |child: &Child, minutes, (metrics, events): (String, String)| {
        write(minutes, &metrics, &events);
        signal(child, "HUP");
    };
    let seen = |name: &str, event: &str, count: usize| {
        eventually(event, || (named(&events(&log(name)), event) == count).then_some(()));
    };
    let (metrics, file) = at(first, "a");
    write(20, &metrics, &file);
    let child = rampart.start(&["watch", "--for", "5m", "--config", config.to_str().unwrap()]);
    lifetime_at(first, 1200.0);

    reload(&child, 30, at(second, "b"));
    seen("b", "reloaded", 1);
    lifetime_at(second, 1800.0);
    assert!(is_closed(first) && named(&events(&log("a")), "reloaded") == 0, "all of the new is in the new file");
    let before = events(&log("a")).len();

    let taken = TcpListener::bind(third).expect("the port is free");
    reload(&child, 40, at(third, "c"));
    seen("b", "reload_refused", 1);
    assert!(!log("c").exists(), "what cannot be served changes no event log either");
    drop(taken);
    reload(&child, 40, at(third, "no-such-folder/c"));
    seen("b", "reload_refused", 2);
    lifetime_at(second, 1800.0);
    assert!(is_closed(third), "what cannot be logged moves no metrics either");

    std::fs::rename(log("b"), log("b.1")).unwrap();
    reload(&child, 30, at(second, "b"));
    seen("b", "reloaded", 1);
    assert_eq!(named(&events(&log("b.1")), "reloaded"), 1, "a file that was moved away is left alone");
    lifetime_at(second, 1800.0);

    reload(&child, 30, ("off".to_owned(), "off".to_owned()));
    eventually("metrics are off", || is_closed(second).then_some(()));
    signal(&child, "TERM");
    let output = end(child);
    assert!([Some(0), Some(2)].contains(&output.code), "{output:?}");
    assert_eq!(output.err.matches("the old settings stay").count(), 2, "{}", output.err);
    assert_eq!(
        (events(&log("a")).len(), named(&events(&log("b")), "stopped")),
        (before, 0),
        "nothing was logged there"
    );
}

/// Kibibytes of a process that are not claimed for tests: only these are both left out of core dumps (`dd`) and not
/// copied to children (`dc`). The kernel counts them page by page.
fn own_kib(process: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("it runs");
    let (mut own, mut mapping) = (0, 0);
    for line in maps.lines() {
        let Some((key, rest)) = line.split_once(':') else { continue };
        match key {
            "Rss" => mapping = rest.trim().trim_end_matches(" kB").parse().expect("a number"),
            "Swap" => mapping += rest.trim().trim_end_matches(" kB").parse::<u64>().expect("a number"),
            "VmFlags" => {
                let flags: Vec<&str> = rest.split_whitespace().collect();
                let claimed = flags.contains(&"dd") && flags.contains(&"dc");
                own += if claimed { 0 } else { mapping };
            }
            _ => {}
        }
    }
    own
}

/// While claims of 32 MiB come in, and between them. What is served is a moment older than what the kernel counts; a
/// claim may come in between: that makes few of the moments differ, and none by more than a claim.
#[test]
fn own_bytes_are_those_that_the_kernel_counts_outside_of_claimed_memory() {
    const MOMENTS: usize = 20;
    let rampart = Rampart::new();
    let address = free_address();
    let at = address.to_string();
    let shares = ["--max-share", "100%", "--busy-share", "100%", "--max-fidelity", "1"];
    let child = start_with_mib(
        2048,
        &rampart,
        &[&["watch", "--for", "5m", "--lifetime", "3m", "--metrics", &at][..], &shares].concat(),
    );
    lifetime_at(address, 180.0);
    let (mut claims, mut apart) = (0, Vec::new());
    for _ in 0..MOMENTS {
        thread::sleep(Duration::from_millis(500));
        let answer = scraped(address, "").expect("it is served");
        let own = value(&answer, "rampart_watch_own_bytes").expect("the kernel tells it") / 1024.0;
        #[expect(clippy::cast_precision_loss, reason = "kibibytes of a process")]
        apart.push((own - own_kib(child.id()) as f64).abs() / 1024.0);
        claims += usize::from(value(&answer, "rampart_watch_claimed_bytes") > Some(0.0));
    }
    assert!(claims > 0, "memory was claimed meanwhile");
    apart.sort_by(f64::total_cmp);
    let (most, worst) = (apart[MOMENTS * 3 / 4], apart[MOMENTS - 1]);
    assert!(most < 4.0 && worst < 32.0, "MiB between what is served and what is counted: {apart:?}");
    signal(&child, "TERM");
    let output = end(child);
    assert!([Some(0), Some(2)].contains(&output.code), "{output:?}");
}
