//! Metrics for Prometheus, on this machine only; `docs/metrics.md` lists them.
//!
//! A scrape is answered from the last reported state, so that it is consistent and costs the daemon nothing. The
//! pools of memory blocks and the usage of the process are read at each scrape, by the thread that serves it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use rampart_diagnostic::daemon::DaemonState;
use rampart_linux::{ProcessUsage, Roots};
use rampart_memory::FRAME_BYTES;
use tiny_http::{Header, Method, Request, Response, Server};

use super::exposition::Exposition;
use super::pool_metrics::PoolsShown;
use super::process_metrics;

/// A server of metrics, which stops when it is dropped.
pub struct Metrics {
    asked: SocketAddr,
    latest: Arc<Mutex<Option<DaemonState>>>,
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves `/metrics` on a loopback address.
    ///
    /// # Errors
    /// The message, if the address cannot be listened on.
    pub fn serve(address: SocketAddr) -> Result<Self, String> {
        assert!(address.ip().is_loopback(), "other addresses are refused as arguments");
        let server = Arc::new(Server::http(address).map_err(|error| error.to_string())?);
        let latest = Arc::new(Mutex::new(None));
        let thread = thread::spawn({
            let (server, latest) = (Arc::clone(&server), Arc::clone(&latest));
            move || server.incoming_requests().for_each(|request| answer(request, &latest))
        });
        Ok(Self { asked: address, latest, server, thread: Some(thread) })
    }

    /// Serves this state from now on.
    pub fn set(&self, state: &DaemonState) {
        *self.latest.lock().expect("no reader panicked") = Some(state.clone());
    }

    /// The address for which it was asked.
    pub const fn asked(&self) -> SocketAddr {
        self.asked
    }

    /// Serves what another server has served last.
    pub fn continue_from(&self, other: &Self) {
        let state = other.latest.lock().expect("no reader panicked").clone();
        *self.latest.lock().expect("no reader panicked") = state;
    }

    /// The address on which it listens.
    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        self.server.server_addr().to_ip().expect("it listens on an address")
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no request makes it panic");
        }
    }
}

fn answer(request: Request, latest: &Mutex<Option<DaemonState>>) {
    let state = latest.lock().expect("no writer panicked").clone();
    // A client that has closed the connection is ignored.
    let _closed = match (request.method(), request.url(), state) {
        (Method::Get, "/metrics", Some(state)) => {
            let format = Exposition::accepted(&accept(&request));
            let kind = Header::from_bytes("Content-Type", format.content_type()).expect("plain ASCII");
            // A proxy between must not give one client's format to another.
            let vary = Header::from_bytes("Vary", "Accept").expect("plain ASCII");
            let usage = ProcessUsage::read(&Roots::default()).ok();
            let metrics = format.of(&registry(&state, &PoolsShown::read(), usage.as_ref()));
            request.respond(Response::from_string(metrics).with_header(kind).with_header(vary))
        }
        (Method::Get, "/metrics", None) => request.respond(Response::empty(503)),
        (Method::Get, ..) => request.respond(Response::from_string("see /metrics\n").with_status_code(404)),
        _ => request.respond(Response::empty(405)),
    };
}

/// The header `Accept`; several are one list.
fn accept(request: &Request) -> String {
    let headers = request.headers().iter().filter(|header| header.field.equiv("Accept"));
    headers.map(|header| header.value.as_str()).collect::<Vec<_>>().join(",")
}

/// All metrics.
fn registry(state: &DaemonState, pools: &PoolsShown, usage: Option<&ProcessUsage>) -> Registry {
    let mut registry = Registry::default();
    let watch = registry.sub_registry_with_prefix("rampart_watch");
    frames(watch, state);
    gauges(watch, state);
    counters(watch, state);
    pools.register(registry.sub_registry_with_prefix("rampart_pools"));
    process_metrics::register_build(&mut registry);
    process_metrics::register(&mut registry, usage);
    registry
}

fn frames(registry: &mut Registry, state: &DaemonState) {
    let frames = Family::<[(&str, &str); 1], Gauge>::default();
    for (known, count) in
        [("total", state.frames.total), ("reached", state.frames.reached), ("fresh", state.frames.fresh)]
    {
        frames.get_or_create(&[("known", known)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register(
        "frames",
        "Frames of the machine, those ever reached, and those of them with a good test",
        frames,
    );
    let bad = Family::<[(&str, &str); 1], Gauge>::default();
    for (origin, count) in [("real", state.bad_frames), ("emulated", state.emulated_frames)] {
        bad.get_or_create(&[("origin", origin)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register("bad_frames", "Bad frames found since the start", bad);
}

#[expect(clippy::cast_precision_loss, reason = "a count that is shown")]
fn gauges(registry: &mut Registry, state: &DaemonState) {
    let count = |count: u64| count as f64;
    let bytes = |bytes: rampart_memory::Bytes| count(bytes.get());
    let mut unit = |name, help, unit, value: f64| {
        registry.register_with_unit(name, help, unit, ConstGauge::new(value));
    };
    unit("test_lifetime", "How long a test stays good", Unit::Seconds, state.lifetime_seconds);
    unit("claimed", "Memory claimed for testing now", Unit::Bytes, bytes(state.claimed));
    if let Some(own) = state.own {
        unit("own", "Memory that the daemon uses beyond what it tests", Unit::Bytes, bytes(own));
    }
    let ratio = || Unit::Other("ratio".to_owned());
    unit("cpu", "Share of all CPU time in which testers ran", ratio(), state.cost.cpu);
    unit(
        "slowdown",
        "Time of a program that waits for memory alone over its time without testers, at most",
        ratio(),
        state.cost.slowdown,
    );
    if let Some(age) = state.oldest_seconds {
        unit("oldest_test_age", "Age of the oldest test that is good", Unit::Seconds, age);
    }
    let mut plain = |name, help, value: f64| registry.register(name, help, ConstGauge::new(value));
    plain("demand_frames_per_second", "Frames a second that should be tested, before alpha", state.demand);
    plain("tested_frames_per_second", "Frames a second that were tested recently", state.test_rate);
    plain("traffic_bytes_per_second", "Bytes a second that testers read and wrote recently", state.cost.memory_traffic);
    plain("fidelity", "Half the number of patterns in force", f64::from(state.config.fidelity.backgrounds()));
    plain("threads", "Testers in force", f64::from(state.config.threads));
    let guarantee = state.guarantee.unwrap_or_default();
    plain("missed_deadline_frames", "Frames in use past their deadline that can be moved", count(guarantee.missed));
    plain(
        "unmoved_frames",
        "Frames in use past their deadline that the kernel does not move",
        count(guarantee.refused),
    );
    plain("sweeping", "1 while a sweep through free memory is under way", f64::from(u8::from(state.sweeping)));
}

fn counters(registry: &mut Registry, state: &DaemonState) {
    let tested = ConstCounter::new(state.tested.saturating_mul(FRAME_BYTES));
    registry.register_with_unit("tested", "Memory tested since the start, each time counted", Unit::Bytes, tested);
    for (name, help, count) in [
        ("sweeps", "Sweeps through free memory that have ended", state.sweeps),
        ("moved_frames", "Frames in use that were emptied for their test", state.guarantee.unwrap_or_default().moved),
        ("pressure", "Seconds in which programs wanted claimed memory back", state.pressure),
        ("alarms", "Times that demand rose too fast for the epoch to end first", state.alarms),
        ("memory_error_reports", "Reports of memory errors by the hardware", state.errors),
    ] {
        registry.register(name, help, ConstCounter::new(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use rampart_memory::Timestamp;

    use crate::inputs::daemon::tests::state;

    fn get(address: SocketAddr, line: &str) -> String {
        ask(address, line, "")
    }

    /// With these headers, each with its end of line.
    fn ask(address: SocketAddr, line: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scrape_tells_the_latest_state_and_nothing_else_is_served() {
        let metrics = Metrics::serve("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(get(metrics.address(), "GET /metrics").starts_with("HTTP/1.1 503"));
        metrics.set(&state(1, Timestamp::from_micros(5)));
        let answer = get(metrics.address(), "GET /metrics");
        assert!(answer.contains("rampart_watch_frames{known=\"fresh\"} 700\n"), "{answer}");
        assert!(answer.contains("rampart_watch_tested_bytes_total 36864\n"), "{answer}");
        assert!(answer.contains("rampart_watch_oldest_test_age_seconds 12.5\n"), "{answer}");
        assert!(get(metrics.address(), "GET /").starts_with("HTTP/1.1 404"));
        assert!(get(metrics.address(), "POST /metrics").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn the_answer_is_text_unless_openmetrics_is_asked_for() {
        let metrics = Metrics::serve("127.0.0.1:0".parse().unwrap()).unwrap();
        metrics.set(&state(1, Timestamp::from_micros(5)));
        let text = get(metrics.address(), "GET /metrics");
        assert!(text.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{text}");
        assert!(text.contains("# TYPE rampart_watch_sweeps_total counter\n") && !text.contains("# EOF"), "{text}");
        assert!(text.contains("\nprocess_open_fds ") && text.contains("\nrampart_build_info{version="), "{text}");
        let headers = "Accept: text/plain;q=0.5\r\naccept: application/openmetrics-text;version=1.0.0\r\n";
        let open = ask(metrics.address(), "GET /metrics", headers);
        assert!(
            open.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
            "{open}"
        );
        assert!(open.contains("# TYPE rampart_watch_sweeps counter\n") && open.ends_with("# EOF\n"), "{open}");
    }

    #[test]
    fn another_server_goes_on_with_the_latest_state() {
        let old = Metrics::serve("127.0.0.1:0".parse().unwrap()).unwrap();
        old.set(&state(1, Timestamp::from_micros(5)));
        let new = Metrics::serve("127.0.0.1:0".parse().unwrap()).unwrap();
        new.continue_from(&old);
        drop(old);
        assert!(get(new.address(), "GET /metrics").starts_with("HTTP/1.1 200"));
    }

    /// All metrics that there can be.
    fn all() -> Registry {
        let state =
            DaemonState { own: Some(rampart_memory::Bytes::from_mib(18)), ..state(1, Timestamp::from_micros(5)) };
        registry(&state, &super::super::pool_metrics::tests::shown(), Some(&process_metrics::tests::usage()))
    }

    /// The name of a sample; `None` for comments.
    fn sampled(line: &str) -> Option<&str> {
        if line.starts_with('#') { None } else { line.split([' ', '{']).next() }
    }

    #[test]
    fn each_metric_has_one_help_and_one_type_before_its_samples() {
        for (format, suffixes) in [(Exposition::Text, &[""][..]), (Exposition::OpenMetrics, &["", "_total", "_info"])] {
            let text = format.of(&all());
            let mut described = Vec::new();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let help = pair[0].strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
                let Some((name, help)) = help else { continue };
                assert!(help.len() > 8 && pair[1].starts_with(&format!("# TYPE {name} ")), "{pair:?}");
                assert!(!described.contains(&name), "{name} has two");
                described.push(name);
            }
            let mut samples = lines.iter().filter_map(|line| sampled(line)).peekable();
            assert!(samples.peek().is_some());
            for sample in samples {
                let names = suffixes.iter().filter_map(|suffix| sample.strip_suffix(suffix));
                assert_eq!(names.filter(|name| described.contains(name)).count(), 1, "{sample} in {format:?}");
            }
        }
    }

    #[test]
    fn memory_of_its_own_that_is_not_known_is_not_served_as_none() {
        let unknown = registry(&state(1, Timestamp::from_micros(5)), &PoolsShown::default(), None);
        assert!(!Exposition::Text.of(&unknown).contains("own_bytes"));
    }

    #[test]
    fn the_documentation_names_every_metric_and_no_other() {
        let documented: Vec<&str> = include_str!("../../../../../docs/metrics.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next())
            .collect();
        let text = Exposition::Text.of(&all());
        let served: Vec<&str> = text.lines().filter_map(sampled).collect();
        for name in &served {
            assert!(documented.contains(name), "{name} is not documented");
        }
        for name in &documented {
            assert!(served.contains(name), "{name} is not served");
        }
    }
}
