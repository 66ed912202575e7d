//! `soak`: an hour of testing beside a compiler and a database load. No false alarm, and unchanged results of the
//! programs.
//!
//! The compiler repeats one generated program; each result must have the same bytes as the first, which it made alone.
//! The load inserts rows with known sums, reads them back, and lets SQLite check itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

/// Rows of the database.
const ROWS: i64 = 200_000;

/// Functions of the compiled program.
const FUNCTIONS: usize = 1500;

/// Runs the bench for the time of the first argument (default 1h), on as much memory as the second (default: all free
/// memory).
pub fn run(arguments: &[String]) -> Result<(), String> {
    let time = arguments.first().map_or(Ok(Duration::from_secs(3600)), |text| humantime::parse_duration(text));
    let time = time.map_err(|error| format!("{error}: give a time such as 10m"))?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rampart = build_rampart()?;
    let alone = compile(folder.path(), FUNCTIONS)?;
    let memory = arguments.get(1).map(String::as_str);
    println!("soak: `rampart test --for {}` beside a compile and a database load", humantime::format_duration(time));
    let over = AtomicBool::new(false);
    let (report, compiles, loads) = thread::scope(|scope| {
        let compiles = scope.spawn(|| repeat(&over, || compile(folder.path(), FUNCTIONS).map(|bytes| bytes == alone)));
        let loads = scope.spawn(|| repeat(&over, || load(folder.path(), ROWS)));
        let report = test(&rampart, folder.path(), time, memory);
        over.store(true, Ordering::Relaxed);
        (report, compiles.join().expect("no panic"), loads.join().expect("no panic"))
    });
    let (report, compiles, loads) = (report?, compiles?, loads?);
    println!("verdict         {} {}", report["verdict"], report["incomplete"]);
    println!("false alarms    {}", report["bad_frames"].as_array().map_or(0, Vec::len));
    println!("passes          {}", report["test"]["passes"]);
    println!("frames tested   {}", report["frames_tested"]);
    println!("bytes a second  {:.2} GB/s", report["bytes_per_second"].as_f64().unwrap_or_default() / 1e9);
    println!("own memory      {} MiB", report["own_bytes"].as_u64().unwrap_or_default() >> 20);
    println!("compiles        {} of {} gave the bytes of the one made alone", compiles.good, compiles.all);
    println!("database loads  {} of {} gave the sums that are known, and are sound", loads.good, loads.all);
    Ok(())
}

struct Count {
    good: u32,
    all: u32,
}

fn repeat(over: &AtomicBool, once: impl Fn() -> Result<bool, String>) -> Result<Count, String> {
    let mut count = Count { good: 0, all: 0 };
    while !over.load(Ordering::Relaxed) {
        count.good += u32::from(once()?);
        count.all += 1;
    }
    Ok(count)
}

/// The release build of the binary.
pub fn build_rampart() -> Result<PathBuf, String> {
    let built = Command::new("cargo").args(["build", "--release", "-p", "rampart-cli"]).status();
    match built {
        Ok(status) if status.success() => {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
            Ok(target.join("release/rampart"))
        }
        other => Err(format!("cannot build rampart: {other:?}")),
    }
}

fn test(rampart: &Path, folder: &Path, time: Duration, memory: Option<&str>) -> Result<Value, String> {
    let began = Instant::now();
    let output = Command::new(rampart)
        .args(["test", "--json", "--fidelity", "10", "--for"])
        .arg(format!("{}s", time.as_secs()))
        .args(memory.map(|memory| ["--memory", memory]).into_iter().flatten())
        .env("RAMPART_STORE", folder.join("rampart.db"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", rampart.display()))?;
    println!("time            {:.0} s", began.elapsed().as_secs_f64());
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no report: {error}"))
}

/// Compiles a program of so many functions; returns the bytes of the result.
pub fn compile(folder: &Path, functions: usize) -> Result<Vec<u8>, String> {
    let source = folder.join("program.rs");
    let mut text = String::new();
    for i in 0..functions {
        let _ = writeln!(
            text,
            "fn f{i}(x: u64) -> u64 {{ (0..x % 7).fold(x, |y, z| y.rotate_left({}) ^ z ^ {i}) }}",
            i % 64
        );
    }
    text.push_str("fn main() { let mut x = std::env::args().count() as u64;\n");
    (0..functions).for_each(|i| text.push_str(&format!("x = f{i}(x);\n")));
    text.push_str("println!(\"{x}\"); }\n");
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let output = folder.join("program");
    let done = Command::new("rustc").arg("-O").arg("-o").arg(&output).arg(&source).status();
    match done {
        Ok(status) if status.success() => std::fs::read(&output).map_err(|error| error.to_string()),
        other => Err(format!("rustc failed: {other:?}")),
    }
}

/// Loads a database of so many rows; returns whether its content is right.
pub fn load(folder: &Path, rows: i64) -> Result<bool, String> {
    let path = folder.join("load.db");
    let _absent = std::fs::remove_file(&path);
    let right = load_at(&path, rows).map_err(|error| format!("the database failed: {error}"))?;
    Ok(right)
}

fn load_at(path: &Path, rows: i64) -> rusqlite::Result<bool> {
    let mut database = Connection::open(path)?;
    database.execute_batch("create table rows (id integer primary key, square integer, text text)")?;
    let work = database.transaction()?;
    {
        let mut insert = work.prepare("insert into rows values (?1, ?2, ?3)")?;
        for id in 0..rows {
            insert.execute((id, id * id, format!("row {id} of the load")))?;
        }
    }
    work.commit()?;
    database.execute_batch("create index squares on rows (square)")?;
    let sum: i64 = database.query_row("select sum(square) from rows where square >= 0", (), |row| row.get(0))?;
    let sound: String = database.query_row("pragma integrity_check", (), |row| row.get(0))?;
    let known = (rows - 1) * rows * (2 * rows - 1) / 6;
    Ok(sum == known && sound == "ok")
}
