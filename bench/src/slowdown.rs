//! `watch`: what real programs lose while `rampart watch` tests the machine's memory beside them.
//!
//! Each program runs in turn without and with it, and each pair gives a ratio of wall time and one of user and system time;
//! medians count, since others may use the machine. The thesis' numbers for COMeT are 1.04 on average and 1.02 to 1.05 over
//! SPEC CPU2006 (000_fb6e5fb08980d1bc.txt, 4.2.2).

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::soak;

/// Pairs of each program.
const PAIRS: usize = 5;

/// A program: its name, and how it is run once.
type Program = (&'static str, fn(&Path) -> Result<(), String>);

const PROGRAMS: [Program; 5] = [
    ("compile (rustc -O)", |folder| soak::compile(folder, 300).map(drop)),
    ("database (SQLite)", |folder| repeat(3, || soak::load(folder).map(drop))),
    ("redis", redis),
    ("Python, numerical", python),
    ("triad over 768 MiB", |_| triad_elsewhere()),
];

/// Runs it with the lifetime given as the first argument (5m if none).
pub fn run(arguments: &[String]) -> Result<(), String> {
    let lifetime = arguments.first().map_or("5m", String::as_str);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rampart = soak::build_rampart()?;
    println!("slowdown by `rampart watch --lifetime {lifetime}`: medians of {PAIRS} pairs, and all pairs");
    println!("{:<22}{:>8}{:>14}", "program", "wall", "user+system");
    let mut medians = Vec::new();
    for (name, once) in PROGRAMS {
        if let Err(why) = once(folder.path()) {
            println!("{name:<22}not run: {why}");
            continue;
        }
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let without = timed(|| once(folder.path()))?;
            let watch = Watch::start(&rampart, folder.path(), lifetime)?;
            let with = timed(|| once(folder.path()))?;
            watch.stop()?;
            pairs.push((with.wall / without.wall, with.cpu / without.cpu));
        }
        let wall = median(pairs.iter().map(|pair| pair.0));
        let cpu = median(pairs.iter().map(|pair| pair.1));
        let all: Vec<String> = pairs.iter().map(|(wall, cpu)| format!("{wall:.3}/{cpu:.3}")).collect();
        println!("{name:<22}{wall:>8.3}{cpu:>14.3}   {}", all.join(" "));
        medians.push((wall, cpu));
    }
    summary("wall", medians.iter().map(|median| median.0));
    summary("user+system", medians.iter().map(|median| median.1));
    coverage(&rampart, folder.path(), lifetime)
}

fn summary(what: &str, values: impl Iterator<Item = f64> + Clone) {
    let mean = values.clone().sum::<f64>() / values.clone().count() as f64;
    let worst = values.fold(0.0, f64::max);
    println!("{what:<22}mean {mean:.3}, worst {worst:.3}   (thesis, COMeT on SPEC: 1.04 and 1.05)");
}

/// How much of the machine's memory is reached over time.
fn coverage(rampart: &Path, folder: &Path, lifetime: &str) -> Result<(), String> {
    println!("\nseconds   reached of all   with a good test, of reached   oldest test");
    let watch = Watch::start(rampart, folder, lifetime)?;
    let began = Instant::now();
    for _ in 0..6 {
        thread::sleep(Duration::from_secs(15));
        let seen = watch.status(rampart)?;
        let seconds = began.elapsed().as_secs();
        let frames = |key: &str| seen["frames"][key].as_f64().unwrap_or_default();
        println!(
            "{seconds:>7}   {:>12.1} %   {:>26.1} %   {:>8.0} s",
            100.0 * frames("reached") / frames("total"),
            100.0 * frames("fresh") / frames("reached").max(1.0),
            seen["oldest_seconds"].as_f64().unwrap_or_default()
        );
    }
    watch.stop()
}

/// A daemon that is running.
struct Watch {
    child: Child,
    store: PathBuf,
}

impl Watch {
    /// Starts it, and waits until it tests.
    fn start(rampart: &Path, folder: &Path, lifetime: &str) -> Result<Self, String> {
        let store = folder.join("watch.db");
        let child = Command::new(rampart)
            .args(["watch", "--lifetime", lifetime])
            .env("RAMPART_STORE", &store)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", rampart.display()))?;
        let watch = Self { child, store };
        thread::sleep(Duration::from_secs(3));
        watch.status(rampart)?;
        Ok(watch)
    }

    fn status(&self, rampart: &Path) -> Result<Value, String> {
        let output = Command::new(rampart).args(["status", "--json"]).env("RAMPART_STORE", &self.store).output();
        let output = output.map_err(|error| error.to_string())?;
        let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("no status: {error}"))?;
        if document["watch"].is_null() { Err("no watch is running".to_owned()) } else { Ok(document["watch"].clone()) }
    }

    /// Ends it as Ctrl-C does, and waits. It says with 2 that its first sweep was not over, and with 1 that memory is bad.
    fn stop(mut self) -> Result<(), String> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().map_err(|error| error.to_string())?;
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        let well = matches!(ended.code(), Some(0 | 2));
        if sent.success() && well { Ok(()) } else { Err(format!("the watch ended with {ended}")) }
    }
}

/// Seconds of a run, and of its processes on CPUs.
struct Times {
    wall: f64,
    cpu: f64,
}

fn timed(once: impl FnOnce() -> Result<(), String>) -> Result<Times, String> {
    let (began, cpu) = (Instant::now(), cpu_seconds()?);
    once()?;
    Ok(Times { wall: began.elapsed().as_secs_f64(), cpu: cpu_seconds()? - cpu })
}

/// User and system time of this process and of the children that ended, in ticks of 10 ms (proc(5), fields 14 to 17).
fn cpu_seconds() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let after_name = text.rsplit_once(") ").ok_or("no process name in /proc/self/stat")?.1;
    let ticks = after_name.split(' ').skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}

fn repeat(times: usize, once: impl Fn() -> Result<(), String>) -> Result<(), String> {
    (0..times).try_for_each(|_| once())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// A server of its own, and its own benchmark against it.
fn redis(folder: &Path) -> Result<(), String> {
    let socket = folder.join("redis.sock");
    let mut server = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("redis-server: {error}"))?;
    let up = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(20));
        socket.exists()
    });
    let load = ["-n", "150000", "-r", "100000", "-d", "512", "-t", "set,get,lpush,hset", "-q", "-s"];
    let ran = if up { quiet(Command::new("redis-benchmark").args(load).arg(&socket)) } else { Err("no server".into()) };
    let asked = quiet(Command::new("redis-cli").arg("-s").arg(&socket).args(["shutdown", "nosave"]));
    if asked.is_err() {
        let _gone = server.kill();
    }
    server.wait().map_err(|error| error.to_string())?;
    ran
}

/// Matrices if NumPy is there, else the n-body problem in Python alone.
fn python(_folder: &Path) -> Result<(), String> {
    let text = "\
try:
    import numpy
    x = numpy.random.default_rng(1).random((1200, 1200))
    for _ in range(6):
        x = numpy.tanh(x @ x.T / 1200)
    numpy.linalg.svd(x[:600, :600])
    numpy.sort(numpy.random.default_rng(2).random(8_000_000))
except ImportError:
    p = [[i * 0.1, i * 0.2, i * 0.3, 0.0, 0.0, 0.0] for i in range(24)]
    for _ in range(300):
        for a in p:
            for b in p:
                d = [b[k] - a[k] for k in range(3)]
                m = 0.001 / (sum(v * v for v in d) + 0.01) ** 1.5
                for k in range(3):
                    a[3 + k] += d[k] * m
        for a in p:
            for k in range(3):
                a[k] += 0.001 * a[3 + k]
";
    quiet(Command::new("python3").args(["-c", text]).env("OPENBLAS_NUM_THREADS", "1"))
}

/// The triad in a process of its own, so that its time is told apart.
fn triad_elsewhere() -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    quiet(Command::new(own).arg("triad"))
}

/// STREAM's triad: a = b + s·c, over three arrays of 256 MiB.
pub fn triad(_arguments: &[String]) -> Result<(), String> {
    const LENGTH: usize = 32 << 20;
    let (b, c) = (vec![1.0_f64; LENGTH], vec![2.0_f64; LENGTH]);
    let mut a = vec![0.0_f64; LENGTH];
    for round in 0..30 {
        let scale = f64::from(round);
        a.iter_mut().zip(b.iter().zip(&c)).for_each(|(a, (b, c))| *a = b + scale * c);
        black_box(&mut a);
    }
    let right = a.iter().all(|value| (value - 59.0).abs() < f64::EPSILON);
    if right { Ok(()) } else { Err("the triad gave a wrong sum".to_owned()) }
}
