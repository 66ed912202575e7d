//! Programs under guard that mlock their memory: it is in RAM and guarded, and a refused mlock is refused as without a
//! guard.

use crate::guarded::{count, engines, filled, passes_trap, victim};
use crate::harness::Rampart;

/// Runs each of these ways on every engine, with blocks of both kinds in turn.
fn locks_its_memory(names: &[&str]) {
    let rampart = Rampart::new();
    let Some(mlocks) = victim(&rampart, "mlocks") else { return };
    for (turn, engine) in engines(&rampart).enumerate() {
        for (number, name) in names.iter().enumerate() {
            let (block, cap) = [("2MiB", "4MiB"), ("64KiB", "1MiB")][(turn + number) % 2];
            let options = ["--engine", engine, "--cap", cap, "--block", block];
            let (output, report) = passes_trap(&rampart, &options, &[&mlocks, name]);
            // Pages that are left to the program, or that no request moves, are never verified again.
            assert!(count(&report, "verified") > filled(), "{name} {engine} {block}: {report}");
            assert!(!output.err.contains("not locked in RAM"), "{name} {engine} {block}: {}", output.err);
        }
    }
}

#[test]
fn a_program_that_locks_all_that_it_has_or_will_have_in_ram_is_guarded() {
    locks_its_memory(&["current", "future", "both", "on-fault"]);
}

#[test]
fn a_program_locks_its_memory_in_ram_and_lets_it_go_again_and_again() {
    locks_its_memory(&["unlocks", "parts"]);
}

#[test]
fn memory_is_locked_in_ram_while_other_threads_use_it_and_in_children() {
    locks_its_memory(&["threads", "forks"]);
}

#[test]
fn memory_that_a_process_may_not_lock_in_ram_is_refused_as_without_a_guard() {
    locks_its_memory(&["limited", "room"]);
}
