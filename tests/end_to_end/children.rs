//! Children of a guarded program, however it makes them: each has the heap, or ends with a message.

use serde_json::Value;

use crate::guarded::{count, engines, installed, passes_trap, report, run, victim};
use crate::harness::{CommandOutput, Rampart};

/// Runs each way of the victim to make a child, on every engine, in blocks of both kinds; `also` checks each run.
fn each_child_has_the_heap(name: &str, also: impl Fn(&CommandOutput, &Value)) {
    let rampart = Rampart::new();
    let Some(children) = victim(&rampart, "children") else { return };
    for engine in engines(&rampart) {
        for (block, cap) in [("2MiB", "4MiB"), ("64KiB", "1MiB")] {
            let options = ["--engine", engine, "--cap", cap, "--block", block];
            let (output, report) = passes_trap(&rampart, &options, &[&children, name]);
            also(&output, &report);
        }
    }
}

/// For children that are made without fork(3), which are counted.
fn each_copy_has_the_heap(name: &str, made: u64) {
    each_child_has_the_heap(name, |output, report| {
        assert_eq!(count(report, "unguarded_children"), made, "{name}: {report}");
        assert!(output.err.contains("made without fork"), "{name}: {}", output.err);
    });
}

#[test]
fn a_child_of_underscore_fork_has_the_heap() {
    each_copy_has_the_heap("_Fork", 2);
}

#[test]
fn a_child_of_syscall_clone_has_the_heap() {
    each_copy_has_the_heap("clone", 2);
}

#[test]
fn a_child_of_syscall_clone3_has_the_heap() {
    each_copy_has_the_heap("clone3", 2);
}

#[test]
fn a_child_of_syscall_fork_has_the_heap() {
    each_copy_has_the_heap("raw-fork", 2);
}

#[test]
fn a_child_that_begins_in_a_function_on_a_stack_of_its_own_has_the_heap() {
    each_copy_has_the_heap("clones", 2);
}

#[test]
fn a_child_of_a_signal_handler_has_the_heap() {
    each_copy_has_the_heap("handlers", 5);
}

#[test]
fn children_of_children_have_the_heap_whichever_way_each_was_made() {
    each_child_has_the_heap("grandchildren", |_, _| ());
}

#[test]
fn children_have_the_heap_while_other_threads_use_it() {
    each_copy_has_the_heap("threads", 6);
}

#[test]
fn children_of_every_kind_execute_other_programs() {
    each_copy_has_the_heap("runs-others", 2);
}

#[test]
fn a_child_that_was_made_without_fork_ends_as_any_program_does() {
    for name in ["_Fork-exit", "clone-exit"] {
        each_copy_has_the_heap(name, 1);
    }
}

#[test]
fn a_child_that_nobody_saw_being_made_has_the_heap_or_ends_with_a_line() {
    each_child_has_the_heap("unseen", |output, report| {
        assert_eq!(count(report, "unguarded_children"), 0, "{report}");
        assert!(output.err.contains("has no heap: it ends"), "{}", output.err);
    });
}

/// Fills 64 MiB, and makes twenty children, each when most of it is locked: before that, all is verified and unlocked.
const FORKS: &str = "\
import os, time
words = bytearray(os.urandom(1 << 20)) * 64
for _ in range(20):
    time.sleep(0.25)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
";

/// Nothing is verified but while the program waits: before a child, and at few faults. With `minor`, each child has a
/// copy, which takes longer than all that is verified.
#[test]
fn what_a_program_waits_for_before_a_child_is_made_is_overhead() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart).filter(|&engine| engine != "minor") {
        let options = ["--engine", engine, "--test", "none", "--prefetch", "0", "--cap", "4MiB", "--interval", "50ms"];
        let program = ["--report", "report.json", "--", "python3", "-c", FORKS];
        let output = run(&rampart, &[&options[..], &program].concat());
        assert_eq!(output.code, Some(0), "{engine}: {}", output.err);
        let report = report(&rampart);
        let [verified, verify, waited] = ["verified", "verify_nanos", "serve_nanos"].map(|name| count(&report, name));
        assert!(verified >= 5 * 16_384, "{engine}: {report}");
        assert!(waited >= verify, "{engine}: of {verify} ns, {waited} ns count");
    }
}
