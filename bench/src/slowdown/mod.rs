//! `watch`: how much real programs slow down while `rampart watch` tests the machine's memory.
//!
//! Others may use the machine, and its speed drifts by more than the effect. So one daemon runs all the time, in its
//! first sweep, and short runs of a program alternate within a second or two: daemon stopped (SIGSTOP), running,
//! running, stopped. Each round gives a ratio of wall times and one of user and system times; the medians count, with
//! bounds of 95 % confidence by rank. The kernel's count of reclaimed pages shows that programs never wait for memory
//! that the daemon holds. For COMeT, [Rahman16, 4.2.2] reports 1.04 on average and 1.02 to 1.05 over SPEC CPU2006.

pub mod parsec;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::median::MedianRange;
use crate::soak;

pub use programs::triad;

/// Rounds per program.
const ROUNDS: usize = 40;

/// The time for a stopped or continued daemon to settle before the next run.
const SETTLE: Duration = Duration::from_millis(20);

/// Runs the bench with the lifetime of the first argument (default 30m) and further options of the daemon.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let lifetime = arguments.first().map_or("30m", String::as_str);
    let options = arguments.get(1..).unwrap_or_default();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rampart = soak::build_rampart()?;
    print_heads(lifetime, options, ROUNDS);
    let watch = Watch::start(&rampart, folder.path(), lifetime, options)?;
    let reclaimed = reclaimed_pages()?;
    let mut medians = Vec::new();
    for (name, program) in programs::PROGRAMS {
        match program(folder.path()).and_then(|mut once| compare(&watch, &mut *once, ROUNDS)) {
            Ok(compared) => {
                println!("{name:<22}{compared}");
                medians.push((compared.wall.median, compared.cpu.median));
            }
            Err(why) => println!("{name:<22}not run: {why}"),
        }
    }
    summary("wall", medians.iter().map(|median| median.0));
    summary("user+system", medians.iter().map(|median| median.1));
    println!("reclaimed by the kernel meanwhile: {} pages", reclaimed_pages()? - reclaimed);
    watch.stop()?;
    coverage(&rampart, folder.path(), lifetime, options)
}

fn print_heads(lifetime: &str, options: &[String], rounds: usize) {
    println!("slowdown by `rampart watch --lifetime {lifetime} {}`: medians of {rounds} rounds", options.join(" "));
    println!("{:<22}{:>8}{:>18}{:>14}{:>18}{:>12}", "program", "wall", "95 %", "user+system", "95 %", "testing");
}

fn summary(what: &str, values: impl Iterator<Item = f64> + Clone) {
    let mean = values.clone().sum::<f64>() / values.clone().count() as f64;
    let worst = values.fold(0.0, f64::max);
    println!("{what:<22}mean {mean:.3}, worst {worst:.3}   (Rahman16, COMeT on SPEC: 1.04 and 1.05)");
}

/// A program that runs again and again, and its CPU time so far, in seconds.
pub trait Program {
    fn once(&mut self) -> Result<(), String>;
    fn cpu_seconds(&self) -> Result<f64, String> {
        cpu_seconds("self")
    }
}

struct Compared {
    wall: MedianRange,
    cpu: MedianRange,
    /// The daemon's CPU time while it ran, over that time: 1 is one CPU.
    testing: f64,
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wall, cpu, testing } = self;
        write!(f, "{:>8.3}     {:.3} to {:.3}", wall.median, wall.low, wall.high)?;
        write!(f, "{:>14.3}     {:.3} to {:.3}{:>10.1} %", cpu.median, cpu.low, cpu.high, 100.0 * testing)
    }
}

fn compare(watch: &Watch, program: &mut dyn Program, rounds: usize) -> Result<Compared, String> {
    program.once()?;
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    let (mut tested, mut gone) = (0.0, 0.0);
    for _ in 0..rounds {
        let mut sums = [Times::default(); 2];
        for going in [false, true, true, false] {
            watch.signal(if going { "-CONT" } else { "-STOP" })?;
            thread::sleep(SETTLE);
            let before = cpu_seconds(&watch.id())?;
            let times = timed(program)?;
            sums[usize::from(going)].add(times);
            if going {
                tested += cpu_seconds(&watch.id())? - before;
                gone += times.wall;
            }
        }
        let [stopped, going] = sums;
        walls.push(going.wall / stopped.wall);
        cpus.push(going.cpu / stopped.cpu);
    }
    watch.signal("-CONT")?;
    Ok(Compared { wall: MedianRange::of(walls), cpu: MedianRange::of(cpus), testing: tested / gone })
}

/// Seconds of a run, and CPU seconds of its processes.
#[derive(Clone, Copy, Default)]
struct Times {
    wall: f64,
    cpu: f64,
}

impl Times {
    fn add(&mut self, more: Self) {
        self.wall += more.wall;
        self.cpu += more.cpu;
    }
}

fn timed(program: &mut dyn Program) -> Result<Times, String> {
    let (began, cpu) = (Instant::now(), program.cpu_seconds()?);
    program.once()?;
    Ok(Times { wall: began.elapsed().as_secs_f64(), cpu: program.cpu_seconds()? - cpu })
}

/// User and system time of a process and of its ended children, in ticks of 10 ms (proc(5), fields 14 to 17).
pub fn cpu_seconds(process: &str) -> Result<f64, String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).map_err(|error| error.to_string())?;
    let after_name = text.rsplit_once(") ").ok_or("no process name in /proc/PID/stat")?.1;
    let ticks = after_name.split(' ').skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / 100.0)
}

/// Pages that the kernel reclaimed since boot (`pgsteal_*` of /proc/vmstat).
fn reclaimed_pages() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/vmstat").map_err(|error| error.to_string())?;
    let of_line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        (name == "pgsteal_kswapd" || name == "pgsteal_direct").then(|| number.parse::<u64>().ok())?
    };
    Ok(text.lines().filter_map(of_line).sum())
}

/// The share of the machine's memory that is reached, over time from the start.
fn coverage(rampart: &Path, folder: &Path, lifetime: &str, options: &[String]) -> Result<(), String> {
    println!("\nseconds   reached of all   with a good test, of reached   oldest test");
    let watch = Watch::start(rampart, &folder.join("afresh"), lifetime, options)?;
    let began = Instant::now();
    for _ in 0..8 {
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
    give_back()?;
    watch.stop()
}

/// The time until a program's sudden allocation is made up for: from the moment when less than half of the free memory
/// is left to the moment when nine tenths are free again.
fn give_back() -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    println!("\na program that takes most of what the daemon left free finds as much free again after");
    for _ in 0..5 {
        let left = free_kib()?;
        let mut hog = Command::new(&own)
            .args(["hog", &(left / 1024 * 7 / 10).to_string()])
            .spawn()
            .map_err(|error| error.to_string())?;
        let (mut low, mut again) = (None, None);
        let began = Instant::now();
        while again.is_none() && began.elapsed() < Duration::from_secs(5) {
            let free = free_kib()?;
            let now = Instant::now();
            if free < left / 2 {
                low = low.or(Some(now));
            } else if free > left / 10 * 9 {
                again = low.map(|low| now.duration_since(low));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _gone = hog.kill();
        hog.wait().map_err(|error| error.to_string())?;
        match (low, again) {
            (_, Some(time)) => println!("  {:>6} ms of {} MiB", time.as_millis(), left >> 10),
            (Some(_), None) => println!("  more than 5 s of {} MiB", left >> 10),
            (None, None) => println!("       0 ms: half of {} MiB stayed free all the time", left >> 10),
        }
        thread::sleep(Duration::from_secs(3));
    }
    Ok(())
}

fn free_kib() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:")).ok_or("no MemFree in /proc/meminfo")?;
    line.trim().trim_end_matches(" kB").parse().map_err(|_| "no number of free memory".to_owned())
}

/// Allocates so many MiB at once and keeps them until it is ended.
pub fn hog(arguments: &[String]) -> Result<(), String> {
    let mib: usize = arguments.first().and_then(|text| text.parse().ok()).ok_or("say how many MiB")?;
    let taken = std::hint::black_box(vec![1_u8; mib << 20]);
    thread::sleep(Duration::from_secs(10));
    drop(taken);
    Ok(())
}

/// A daemon that is running.
struct Watch {
    child: Child,
    store: PathBuf,
}

impl Watch {
    /// Starts the daemon, and waits until it tests.
    fn start(rampart: &Path, folder: &Path, lifetime: &str, options: &[String]) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let store = folder.join("watch.db");
        let child = Command::new(rampart)
            .args(["watch", "--lifetime", lifetime])
            .args(options)
            .env("RAMPART_STORE", &store)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", rampart.display()))?;
        let watch = Self { child, store };
        thread::sleep(Duration::from_secs(3));
        watch.status(rampart)?;
        Ok(watch)
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let sent = Command::new("kill").args([signal, &self.id()]).status().map_err(|error| error.to_string())?;
        if sent.success() { Ok(()) } else { Err("the watch has ended".to_owned()) }
    }

    fn status(&self, rampart: &Path) -> Result<Value, String> {
        let output = Command::new(rampart).args(["status", "--json"]).env("RAMPART_STORE", &self.store).output();
        let output = output.map_err(|error| error.to_string())?;
        let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("no status: {error}"))?;
        if document["watch"].is_null() { Err("no watch is running".to_owned()) } else { Ok(document["watch"].clone()) }
    }

    /// Ends the daemon as Ctrl-C does, and waits. Exit code 2 means that its first sweep was not over, 1 that memory is
    /// bad.
    fn stop(mut self) -> Result<(), String> {
        self.signal("-INT")?;
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        if matches!(ended.code(), Some(0 | 2)) { Ok(()) } else { Err(format!("the watch ended with {ended}")) }
    }
}
