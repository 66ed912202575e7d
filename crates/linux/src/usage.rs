//! What this process uses: its memory, its time on CPUs, its open files.
//!
//! **Problem.** Monitoring expects the same figures of each process, and a tester must tell its own memory from that
//! which it tests. **Idea.** Read them as the kernel shows them, below `/proc/self`. **Why this way.** It needs no
//! privilege and no library: three small files, and a folder whose entries are counted.

use std::fs;
use std::time::Duration;

use rampart_memory::{Bytes, Timestamp};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};

use crate::roots::require;
use crate::{Error, Roots, cpu};

/// What this process uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// CPU time of its threads, including ended ones.
    pub cpu: Duration,
    /// Its memory.
    pub memory: MemoryUsage,
    /// Its open files.
    pub open_files: u64,
    /// How many it may open; `None`: as many as it likes.
    pub max_files: Option<u64>,
    /// When it started, to about a second.
    pub started: Timestamp,
}

/// The memory of this process, claimed blocks included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// All its addresses.
    pub mapped: Bytes,
    /// What is in frames.
    pub resident: Bytes,
    /// What was swapped out.
    pub swapped: Bytes,
}

impl MemoryUsage {
    /// Reads `/proc/self/status`.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Malformed`] if it does not show it.
    pub fn read(roots: &Roots) -> Result<Self, Error> {
        let path = roots.proc("self/status");
        parse_status(&require(&path)?).ok_or(Error::Malformed { path, expected: "the memory of a process" })
    }

    /// What is in frames or in swap.
    #[must_use]
    pub fn used(self) -> Bytes {
        Bytes::new(self.resident.get().saturating_add(self.swapped.get()))
    }
}

impl ProcessUsage {
    /// Reads the usage of this process.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Malformed`] if a file does not show it.
    pub fn read(roots: &Roots) -> Result<Self, Error> {
        Ok(Self {
            cpu: cpu::own(),
            memory: MemoryUsage::read(roots)?,
            open_files: open_files(roots)?,
            max_files: getrlimit(Resource::Nofile).current,
            started: started(roots)?,
        })
    }
}

/// The open files, without the one that lists them.
fn open_files(roots: &Roots) -> Result<u64, Error> {
    let path = roots.proc("self/fd");
    let entries = fs::read_dir(&path).map_err(|cause| Error::Read { path, cause })?;
    Ok((entries.count() as u64).saturating_sub(1))
}

fn started(roots: &Roots) -> Result<Timestamp, Error> {
    let (own, machine) = (roots.proc("self/stat"), roots.proc("stat"));
    let after = parse_start(&require(&own)?, clock_ticks_per_second())
        .ok_or(Error::Malformed { path: own, expected: "the start of a process" })?;
    let booted = parse_boot(&require(&machine)?)
        .ok_or(Error::Malformed { path: machine, expected: "the time of the last boot" })?;
    Ok(booted.after(after))
}

/// `VmSize`, `VmRSS` and `VmSwap` of `/proc/PID/status` (proc_pid_status(5)). A kernel without swap shows no `VmSwap`.
fn parse_status(text: &str) -> Option<MemoryUsage> {
    let kib = |key: &str| -> Option<Bytes> {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        kib.checked_mul(1024).map(Bytes::new)
    };
    Some(MemoryUsage {
        mapped: kib("VmSize")?,
        resident: kib("VmRSS")?,
        swapped: if text.contains("\nVmSwap:") { kib("VmSwap")? } else { Bytes::ZERO },
    })
}

/// The 22nd field of `/proc/PID/stat`, ticks since boot (proc_pid_stat(5)). The second, the program's name, is in
/// parentheses, and may itself hold spaces and parentheses.
fn parse_start(text: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(Duration::from_millis(ticks.checked_mul(1000)? / ticks_per_second.max(1)))
}

/// The line `btime` of `/proc/stat`: seconds since 1970 (proc_stat(5)).
fn parse_boot(text: &str) -> Option<Timestamp> {
    let seconds: u64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    seconds.checked_mul(1_000_000).map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::Clock as _;

    use crate::{Block, PageKind, SystemClock};

    #[test]
    fn claimed_memory_is_in_use() {
        let size = Bytes::from_mib(16);
        let block = Block::claim(size, PageKind::Base).unwrap();
        let usage = MemoryUsage::read(&Roots::default()).unwrap();
        assert!(usage.used() >= size && usage.mapped >= usage.resident, "{usage:?}");
        drop(block);
    }

    #[test]
    fn this_process_has_started_uses_a_cpu_and_has_one_file_more_when_it_opens_one() {
        let roots = Roots::default();
        let usage = ProcessUsage::read(&roots).unwrap();
        assert!(usage.started <= SystemClock.now().after(Duration::from_secs(2)) && usage.cpu > Duration::ZERO);
        assert!(usage.max_files.is_none_or(|most| most > usage.open_files), "{usage:?}");
        let folder = tempfile::tempdir().unwrap();
        let fake = Roots::new(folder.path(), folder.path());
        fs::create_dir_all(fake.proc("self/fd")).unwrap();
        ["0", "1", "2", "3"].iter().for_each(|name| fs::write(fake.proc("self/fd").join(name), "").unwrap());
        assert_eq!(open_files(&fake).unwrap(), 3, "one of the four lists them");
    }

    #[test]
    fn the_memory_is_what_status_shows() {
        let text = "Name:\tVmRSS: 7 kB\nVmPeak:\t  9000 kB\nVmSize:\t  8000 kB\nVmRSS:\t  300 kB\nVmSwap:\t 20 kB\n";
        let seen = parse_status(text).unwrap();
        let kib = |kib: u64| Bytes::new(kib * 1024);
        assert_eq!((seen.mapped, seen.resident, seen.swapped), (kib(8000), kib(300), kib(20)));
        assert_eq!(seen.used(), kib(320));
        let without_swap = "VmSize: 1 kB\nVmRSS: 1 kB\n";
        assert_eq!(parse_status(without_swap).unwrap().used(), kib(1));
        for bad in ["", "VmSize: 1 kB\n", "VmSize: 1 kB\nVmRSS: x kB\n", "VmSize: 1 kB\nVmRSS: 1\n"] {
            assert_eq!(parse_status(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_start_is_read_past_any_name_of_a_program() {
        let rest = "S 1 1 1 0 -1 4194560 10 0 0 0 5 6 0 0 20 0 1 0 12345 1000 10";
        for name in ["(rampart)", "(a b) S 1 (c)", "(()"] {
            assert_eq!(parse_start(&format!("7 {name} {rest}"), 100), Some(Duration::from_millis(123_450)), "{name}");
        }
        assert_eq!(parse_start("7 (rampart) S 1", 100), None);
        assert_eq!(parse_boot("cpu  1 2\nbtime 1700000000\n"), Some(Timestamp::from_micros(1_700_000_000_000_000)));
        assert_eq!(parse_boot("cpu  1 2\n"), None);
    }
}
