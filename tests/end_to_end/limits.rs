//! Programs under guard with low limits, or with limits that drop while they run: nothing hangs, and calls beyond a
//! limit fail as without a guard.

use std::process::{Command, Stdio};

use crate::control_group::ControlGroup;
use crate::guarded::{all_right, count, engines, library, passes_trap, run, victim, victim_with};
use crate::harness::{CommandOutput, Rampart};

fn goes_on(names: &[&str]) {
    let rampart = Rampart::new();
    let Some(limits) = victim(&rampart, "limits") else { return };
    for engine in engines(&rampart) {
        for name in names {
            passes_trap(&rampart, &["--engine", engine, "--cap", "4MiB"], &[&limits, name]);
        }
    }
}

#[test]
fn a_program_that_may_open_no_file_any_more_goes_on_under_guard() {
    goes_on(&["no-files", "one-file", "soft-files", "from-outside"]);
}

#[test]
fn a_program_that_may_have_no_more_addresses_goes_on_under_guard() {
    goes_on(&["addresses"]);
}

/// Where a locked page does not count as data, the guard first unlocks all memory, and says so.
#[test]
fn a_program_that_may_have_no_more_data_goes_on_with_what_it_has() {
    goes_on(&["data", "data-by-number"]);
}

/// The larger the heap, the more is locked when the limit is set; only the maintenance thread can unlock all of it.
#[test]
fn a_program_with_a_large_heap_may_lower_its_limit_of_data() {
    let rampart = Rampart::new();
    let Some(limits) = victim_with(&rampart, "limits", &["-DHEAP_PAGES=16384"]) else { return };
    for engine in engines(&rampart).filter(|engine| *engine == "minor") {
        let output = run(&rampart, &["--engine", engine, "--cap", "4MiB", "--", &limits, "data"]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(0), "16384 pages are right\n"),
            "{engine}: {}",
            output.err
        );
    }
}

#[test]
fn a_program_that_has_all_mappings_that_it_may_goes_on_under_guard() {
    goes_on(&["mappings"]);
}

/// Runs a program through a shell that first sets a limit for itself and for `rampart run`.
fn run_below(rampart: &Rampart, limit: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "600", "sh", "-c", &format!("{limit}; exec \"$@\""), "sh"]);
    command.args([env!("CARGO_BIN_EXE_rampart"), "run"]).args(arguments).stdin(Stdio::null());
    command.env("RAMPART_STORE", rampart.store()).env("RAMPART_GUARD_LIBRARY", library()).current_dir(rampart.folder());
    CommandOutput::from(command.output().expect("the binary runs"))
}

#[test]
fn sixty_four_open_files_are_enough_and_with_fewer_it_is_said_that_nothing_is_guarded() {
    let rampart = Rampart::new();
    let Some(limits) = victim(&rampart, "limits") else { return };
    for engine in engines(&rampart) {
        let options = ["--engine", engine, "--cap", "4MiB", "--", &limits, "nothing"];
        let output = run_below(&rampart, "ulimit -n 64", &options);
        assert_eq!((output.code, output.out.as_str()), (Some(0), all_right().as_str()), "{engine}: {}", output.err);
        assert!(!output.err.contains("is not guarded"), "{engine}: {}", output.err);
        let alone = format!("ulimit -n 6; exec {limits} nothing");
        let output = run(&rampart, &["--engine", engine, "--cap", "4MiB", "--", "sh", "-c", &alone]);
        assert_eq!((output.code, output.out.as_str()), (Some(0), all_right().as_str()), "{engine}: {}", output.err);
        assert!(output.err.contains("is not guarded"), "{engine}: {}", output.err);
        for files in [6, 10] {
            let output = run_below(&rampart, &format!("ulimit -n {files}"), &options);
            assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{engine} {files}: nothing was started");
        }
    }
}

/// A program whose faults nobody can serve any more ends with a message; it never waits for ever.
#[test]
fn a_guard_that_cannot_go_on_ends_the_program_and_says_why() {
    let rampart = Rampart::new();
    let Some(limits) = victim(&rampart, "limits") else { return };
    for engine in engines(&rampart).filter(|&engine| engine != "mprotect") {
        let output = run(&rampart, &["--engine", engine, "--cap", "4MiB", "--", &limits, "no-poll"]);
        assert_eq!((output.code, output.out.as_str()), (Some(86), ""), "{engine}: {}", output.err);
        assert!(output.err.contains("was stopped: its guard cannot go on: "), "{engine}: {}", output.err);
    }
}

/// So many KiB of addresses are twice the program's peak without a guard, or enough for it to go on when they are used
/// up.
#[test]
fn a_program_has_room_where_it_may_have_twice_the_addresses_that_it_uses() {
    let rampart = Rampart::new();
    let Some(limits) = victim_with(&rampart, "limits", &[]) else { return };
    for engine in engines(&rampart) {
        for (kib, name) in [("530000", "pieces"), ("138000", "nothing"), ("300000", "allocates-all")] {
            let script = format!("ulimit -v {kib}; exec {limits} {name}");
            let options = ["--engine", engine, "--cap", "4MiB", "--report", "report.json", "--", "sh", "-c", &script];
            let output = run(&rampart, &options);
            let ended = (output.code, output.out.as_str());
            assert_eq!(ended, (Some(0), "16384 pages are right\n"), "{engine} {kib} {name}: {}", output.err);
            assert!(!output.err.contains("is not guarded:"), "{engine} {kib} {name}: {}", output.err);
            assert!(count(&crate::guarded::report(&rampart), "first_uses") > 0, "{engine} {kib} {name}");
        }
    }
}

#[test]
fn a_program_has_room_where_its_group_may_have_a_quarter_more_memory_than_it_uses() {
    const PLAIN: u64 = 258 << 20;
    let rampart = Rampart::new();
    let Some(limits) = victim_with(&rampart, "limits", &[]) else { return };
    let Some(group) = ControlGroup::new(PLAIN + PLAIN / 4) else { return };
    for engine in engines(&rampart) {
        let output =
            run_below(&rampart, &group.enter(), &["--engine", engine, "--cap", "4MiB", "--", &limits, "pieces"]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(0), "16384 pages are right\n"),
            "{engine}: {}",
            output.err
        );
        assert!(!output.err.contains("is not guarded"), "{engine}: {}", output.err);
    }
}
