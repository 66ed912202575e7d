//! System calls of guarded programs about their memory have the same results as without a guard.

use std::process::Command;

use crate::guarded::{count, engines, report, run, victim, victim_with};
use crate::harness::{CommandOutput, Rampart};

/// The output of a victim without a guard.
fn plain(rampart: &Rampart, arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    let output =
        CommandOutput::from(command.arg("60").args(arguments).current_dir(rampart.folder()).output().expect("it runs"));
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output.out
}

/// Checks the same output under guard, without any page that counts as wrong.
fn says_the_same(rampart: &Rampart, options: &[&str], arguments: &[&str]) {
    let expected = plain(rampart, arguments);
    let output = run(rampart, &[options, &["--cap", "4MiB", "--report", "report.json", "--"], arguments].concat());
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(0), expected.as_str()),
        "{options:?} {arguments:?}: {}",
        output.err
    );
    let report = report(rampart);
    assert!(count(&report, "locked") > 0, "{options:?}: {report}");
    let wrong = ["corrected", "transient", "uncorrectable"].map(|name| count(&report, name));
    assert_eq!((wrong, report["events"].as_array().map(Vec::len)), ([0; 3], Some(0)), "{options:?}: {report}");
}

/// madvise(2), `process_madvise(2)`, munmap(2), mremap(2), mmap(2), mprotect(2) and mlock(2) on locked pages, with the
/// errors of each; also the calls of a library before the guard began.
#[test]
fn what_a_program_asks_about_its_memory_is_done_as_without_a_guard_whichever_way_it_asks() {
    let rampart = Rampart::new();
    let Some(early) = victim_with(&rampart, "early", &["-shared", "-fPIC"]) else { return };
    let Some(asks) = victim_with(&rampart, "asks", &["-Wl,--no-as-needed", &early]) else { return };
    for (turn, engine) in engines(&rampart).enumerate() {
        for (number, way) in ["libc", "number", "handler"].into_iter().enumerate() {
            let block = ["2MiB", "64KiB"][(turn + number) % 2];
            says_the_same(&rampart, &["--engine", engine, "--block", block], &[&asks, way]);
        }
    }
}

/// Where pages move or belong to a file, the guard does not see such a call (docs/run.md).
#[test]
fn what_a_program_gives_back_by_an_instruction_of_its_own_reads_as_zeros_where_pages_are_locked_by_permissions() {
    let rampart = Rampart::new();
    let Some(asks) = victim(&rampart, "asks") else { return };
    for engine in engines(&rampart).filter(|engine| *engine == "mprotect") {
        let gives = [&asks, "instruction", "madvise dontneed", "madvise free"];
        says_the_same(&rampart, &["--engine", engine, "--block", "64KiB"], &gives);
    }
}

/// Open MPI and UCX overwrite the first instructions of `munmap` and others with jumps to their hooks, which call
/// syscall(2).
#[test]
fn hooks_that_overwrite_functions_of_the_c_library_and_call_syscall_reach_the_guard() {
    let rampart = Rampart::new();
    let Some(hooks) = victim(&rampart, "hooks") else { return };
    for engine in engines(&rampart) {
        says_the_same(&rampart, &["--engine", engine, "--block", "64KiB"], &[&hooks]);
        says_the_same(&rampart, &["--engine", engine, "--protect", "heap,mmap"], &[&hooks]);
    }
}
