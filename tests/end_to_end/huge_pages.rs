//! End-to-end tests of programs whose heap is in the kernel's pool of huge pages.
//!
//! The pool is a setting of the whole machine, and other tests expect pages of 4 KiB. So these tests are a program of
//! their own, which cargo runs alone. Like all end-to-end tests, they use the built binary as a stranger would.

#[expect(dead_code, reason = "what these tests need of it")]
mod guarded;
#[expect(dead_code, reason = "what these tests need of it")]
mod harness;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rampart_skips::{Feature, skip};

use crate::guarded::{
    flips_are_corrected_or_stop_the_program, installed, is_stopped_by_a_page_beyond_correction, passes_trap, run,
    stops_writes, victim, works,
};
use crate::harness::Rampart;

/// How many huge pages programs may have beyond those that the administrator reserved.
const SETTING: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";

/// Enough for a victim, its grandchild and their files: 1 GiB. Unused ones cost nothing.
const PAGES: u64 = 512;

/// Huge pages are in the pool while this lives, for one test at a time.
struct Pool {
    before: String,
    _turn: MutexGuard<'static, ()>,
}

impl Pool {
    fn fill() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = fs::read_to_string(SETTING).and_then(|before| {
            let pages = before.trim().parse().unwrap_or(0).max(PAGES);
            fs::write(SETTING, pages.to_string()).map(|()| Self { before, _turn: turn })
        });
        filled.inspect_err(|why| skip(Feature::HugePagePool, format!("none can be reserved: {why}"))).ok()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = fs::write(SETTING, &self.before);
    }
}

/// The options that choose them.
const HUGE: [&str; 4] = ["--engine", "minor", "--cap", "4MiB"];

/// Runs a test if huge pages can guard programs here.
fn on_huge_pages(test: impl FnOnce(&Rampart)) {
    let rampart = Rampart::new();
    let Some(_pool) = Pool::fill() else { return };
    if works(&rampart, "minor") {
        let output = run(&rampart, &[&HUGE[..], &["--", "true"]].concat());
        assert!(output.err.contains("minor, with pages of 2 MiB"), "{}", output.err);
        test(&rampart);
    }
}

#[test]
fn what_was_read_on_huge_pages_can_be_written() {
    on_huge_pages(|rampart| {
        let Some(traps) = victim(rampart, "traps") else { return };
        let (output, report) = passes_trap(rampart, &HUGE, &[&traps, "writes-what-it-read"]);
        stops_writes(&report, &output);
    });
}

/// The traps of the heap that differ where a page-table entry maps 2 MiB.
const TRAPS: [&str; 16] = [
    "system-calls",
    "direct-io",
    "threads",
    "forks",
    "executes",
    "gives-back",
    "signals",
    "races",
    "remaps",
    "looks",
    "shares",
    "last-thread",
    "closes-files",
    "own-faults",
    "own-losses",
    "reallocates",
];

#[test]
fn huge_pages_fall_into_no_trap() {
    on_huge_pages(|rampart| {
        let Some(traps) = victim(rampart, "traps") else { return };
        for trap in TRAPS {
            passes_trap(rampart, &HUGE, &[&traps, trap]);
        }
    });
}

#[test]
fn flips_in_huge_pages_are_corrected_or_stop_the_program_and_none_is_silent() {
    on_huge_pages(|rampart| {
        if installed("python3") {
            flips_are_corrected_or_stop_the_program(rampart, "minor");
            is_stopped_by_a_page_beyond_correction(rampart, "minor");
        }
    });
}
