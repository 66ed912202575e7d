//! The speed of other memory testers on the same machine, if they are installed.

use std::process::Command;
use std::time::Instant;

/// Memory of a peer, in MiB.
const MIB: u64 = 256;

/// memtester fills and compares with 64 patterns in each of its tests 8 (solid bits) and 10 (checkerboard).
const PATTERNS: f64 = 64.0;

/// Bytes of memory per second that memtester tests with one pattern (written, then compared): the time of two of its
/// tests minus that of one, to exclude its start and its address test. Best of some rounds. `None` if it is not
/// installed.
pub fn memtester(rounds: usize) -> Option<f64> {
    let seconds = |mask: u32| -> Option<f64> {
        let start = Instant::now();
        let output = Command::new("memtester")
            .args([format!("{MIB}M"), "1".to_owned()])
            .env("MEMTESTER_TEST_MASK", mask.to_string())
            .output()
            .ok()?;
        output.status.success().then(|| start.elapsed().as_secs_f64())
    };
    let (one, both) = (1 << 8, 1 << 8 | 1 << 10);
    let best = |mask: u32| (0..rounds).filter_map(|_| seconds(mask)).min_by(f64::total_cmp);
    let bytes = (MIB << 20) as f64 * PATTERNS;
    Some(bytes / (best(both)? - best(one)?))
}

/// Bytes per second that stressapptest copies with one thread, by its own output. `None` if it is not installed.
pub fn stressapptest() -> Option<f64> {
    let megabytes = MIB.to_string();
    let output = Command::new("stressapptest").args(["-s", "8", "-M", &megabytes, "-m", "1"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("Stats: Memory Copy:"))?;
    let rate = line.split(" at ").nth(1)?.split("MB/s").next()?;
    rate.parse::<f64>().ok().map(|megabytes| megabytes * 1e6)
}
