//! What the host has used.

use std::time::Duration;

/// The most memory that this process had (proc_pid_status(5)); `None` if the kernel does not say.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// How long this thread has had a processor (sched-stats of the kernel's documentation); `None` if the kernel does not
/// say.
pub fn processor_time() -> Option<Duration> {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counts.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
