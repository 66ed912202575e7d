//! A program under guard behaves as without a guard, whatever it does to its heap; memory errors are corrected or stop
//! it.

use std::process::Command;

use rampart_skips::{Feature, granted};
use serde_json::Value;

use crate::guarded::{
    ENGINES, SUMS, all_right, can_guard, count, engines, flips_are_corrected_or_stop_the_program, installed,
    is_stopped_by_a_page_beyond_correction, library, passes_trap, report, run, stops_writes, victim, works,
};
use crate::harness::{CommandOutput, Rampart};

/// The blocks that each engine is tried with: huge pages, small blocks, single pages with prefetching. With `mprotect`
/// a fault is a signal and expensive, so single pages are left out there.
fn ways(engine: &str) -> &'static [&'static [&'static str]] {
    if engine == "mprotect" { &WAYS[..2] } else { &WAYS }
}

const WAYS: [&[&str]; 3] = [
    &["--cap", "4MiB"],
    &["--cap", "1MiB", "--block", "64KiB"],
    &["--cap", "256KiB", "--block", "4KiB", "--prefetch", "32"],
];

fn falls_into_no_trap(name: &str) {
    falls_into_no_trap_and(name, &ENGINES, |_, _| ());
}

/// Runs the trap under these engines, as far as they work here; `also` checks the output and the counts of each run.
fn falls_into_no_trap_and(name: &str, which: &[&str], also: impl Fn(&CommandOutput, &dyn Fn(&str) -> u64)) {
    let rampart = Rampart::new();
    let Some(traps) = victim(&rampart, "traps") else { return };
    let engines = engines(&rampart).filter(|engine| which.contains(engine));
    for (engine, way) in engines.flat_map(|engine| ways(engine).iter().map(move |&way| (engine, way))) {
        let (output, report) = passes_trap(&rampart, &[way, &["--engine", engine]].concat(), &[&traps, name]);
        also(&output, &|name| count(&report, name));
    }
}

#[test]
fn system_calls_find_locked_pages() {
    falls_into_no_trap("system-calls");
}

#[test]
fn devices_that_bypass_the_cache_find_locked_pages() {
    falls_into_no_trap("direct-io");
}

#[test]
fn two_hundred_threads_come_and_go() {
    falls_into_no_trap("threads");
}

#[test]
fn children_and_their_children_have_the_heap_as_it_was() {
    falls_into_no_trap("forks");
}

#[test]
fn programs_that_are_executed_work_too() {
    falls_into_no_trap("executes");
}

#[test]
fn pages_that_the_program_gives_back_read_as_zeros() {
    falls_into_no_trap("gives-back");
}

#[test]
fn signals_on_a_stack_in_the_heap_find_locked_pages() {
    falls_into_no_trap("signals");
}

#[test]
fn threads_give_pages_back_while_others_use_those_beside() {
    falls_into_no_trap("races");
}

#[test]
fn a_program_may_change_the_mapping_of_its_heap() {
    falls_into_no_trap("remaps");
}

#[test]
fn who_looks_from_outside_finds_what_is_there_or_an_error() {
    // Where protections lock pages, another process cannot read them.
    falls_into_no_trap_and("looks", &["move", "minor"], |_, _| ());
}

#[test]
fn a_child_that_shares_all_memory_finds_locked_pages() {
    falls_into_no_trap("shares");
}

#[test]
fn buffers_that_the_kernel_holds_stay_unlocked() {
    falls_into_no_trap_and("fixed-buffers", &["move"], |output, count| {
        if output.err.contains("without a ring") {
            granted(&[Feature::IoUring], Err::<(), _>(&output.err));
        } else {
            assert!(count("pinned") > 0, "what is pinned is counted: {}", output.err);
        }
    });
}

/// Where the guard cannot see a device's writes, asynchronous requests to devices are refused.
#[test]
fn rings_and_queues_are_refused_where_buffers_that_the_kernel_holds_would_be_locked() {
    falls_into_no_trap_and("fixed-buffers", &["minor", "mprotect"], |output, _| {
        let refused = ["without a ring", "without a queue"].iter().all(|told| output.err.contains(told));
        assert!(refused, "{}", output.err);
    });
}

#[test]
fn a_process_ends_with_its_last_thread() {
    falls_into_no_trap("last-thread");
}

#[test]
fn a_program_that_closes_every_file_closes_none_of_the_guards() {
    falls_into_no_trap("closes-files");
}

#[test]
fn a_fault_of_the_program_itself_reaches_its_own_handler_with_and_without_a_guard() {
    falls_into_no_trap("own-faults");
}

#[test]
fn a_page_of_a_file_that_ended_is_told_to_the_programs_own_handler_with_and_without_a_guard() {
    falls_into_no_trap("own-losses");
}

#[test]
fn a_fault_that_nobody_handles_ends_the_program_as_ever() {
    let rampart = Rampart::new();
    let Some(traps) = victim(&rampart, "traps") else { return };
    for engine in engines(&rampart) {
        let output = run(&rampart, &["--engine", engine, "--", &traps, "dies"]);
        assert_eq!((output.code, output.out.as_str()), (Some(128 + 11), ""), "{engine}: {}", output.err);
    }
}

#[test]
fn what_was_only_read_for_long_can_be_written() {
    falls_into_no_trap("writes-what-it-read");
}

#[test]
fn what_is_reallocated_keeps_its_content() {
    falls_into_no_trap("reallocates");
}

/// Where a program reports the allocation of a page, by the function names that `addr2line` gives.
#[test]
fn a_page_beyond_correction_is_named_with_who_allocated_it() {
    let rampart = Rampart::new();
    if !installed("addr2line") {
        return;
    }
    let Some(sites) = victim(&rampart, "sites") else { return };
    for engine in engines(&rampart) {
        let flips =
            ["--engine", engine, "--cap", "4MiB", "--codes", "crc", "--inject", "flip:locked:rate=2000/s,seed=7"];
        let output = run(&rampart, &[&flips[..], &["--report", "report.json", "--", &sites]].concat());
        assert_eq!(output.code, Some(86), "{engine}: {}", output.err);
        let report = report(&rampart);
        let told = report["events"].as_array().expect("events").iter().find(|told| told["event"] == "uncorrectable");
        let site = told.expect("it was told")["site"].as_str().expect("large allocations are all that it has");
        assert!(output.err.contains(&format!("allocated at {site}")), "{site}: {}", output.err);
        let (file, offset) = site.split_once('+').expect("a file and an offset");
        let named = Command::new("addr2line").args(["-f", "-e", file, offset]).output().expect("it runs");
        let name = String::from_utf8(named.stdout).expect("UTF-8");
        assert!(name.starts_with("here\n") || name.starts_with("there\n"), "{engine}: {site} is in {name}");
    }
}

/// Reads 32 MiB that it never writes again.
const READS: &str = "a = bytes(range(256)) * (1 << 17)\nprint(sum(a.count(i) for i in range(12)))";

#[test]
fn what_a_program_only_reads_is_verified_and_keeps_its_codes_where_its_first_write_can_be_stopped() {
    let rampart = Rampart::new();
    if !installed("python3") || !works(&rampart, "minor") {
        return;
    }
    let options = ["--engine", "minor", "--cap", "4MiB", "--report", "report.json"];
    let output = run(&rampart, &[&options[..], &["--", "python3", "-c", READS]].concat());
    assert_eq!((output.code, output.out.as_str()), (Some(0), "1572864\n"), "{}", output.err);
    let report = report(&rampart);
    let count = |name: &str| count(&report, name);
    assert_eq!(["corrected", "codes_wrong", "uncorrectable"].map(count), [0; 3]);
    assert!(count("verified") > 4 * 8192, "{report}");
    if !stops_writes(&report, &output) {
        return;
    }
    assert!(count("unwritten") > count("encoded") / 2, "{report}");
}

/// hpcc, RandomAccess: each access hits any word with equal probability, in a table of sixteen times the unlocked
/// limit. Each of two ranks waits for its guard less than half of the time, because it also waits for the other rank.
#[test]
fn ranks_that_jump_through_their_memory_fault_less_and_less() {
    let rampart = Rampart::new();
    let Some(jumps) = victim(&rampart, "jumps") else { return };
    // 2 ranks, 2 * 2000 rounds, 64 updates each: 512,000.
    for engine in engines(&rampart) {
        let options =
            ["--engine", engine, "--cap", "4MiB", "--block", "64KiB", "--test", "none", "--report", "report.json"];
        let output = run(&rampart, &[&options[..], &["--", &jumps, "64", "2000"]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(0), "right\n"), "{engine}: {}", output.err);
        let report = report(&rampart);
        let (faults, grown) = (count(&report, "faults"), count(&report, "limit_raised"));
        assert!(faults < 512_000 / 4 && grown > 0, "{engine}: {faults} faults for 512,000 updates: {report}");
        assert!(count(&report, "verified") > 0, "{engine}: {report}");
    }
}

#[test]
fn flips_in_locked_pages_are_corrected_or_stop_the_program_and_none_is_silent() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        flips_are_corrected_or_stop_the_program(&rampart, engine);
    }
}

#[test]
fn a_page_beyond_correction_stops_the_program_before_it_sees_it() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        is_stopped_by_a_page_beyond_correction(&rampart, engine);
    }
}

/// Without the privilege to serve page faults, another engine is chosen, and its cost is printed.
#[test]
fn an_ordinary_user_is_guarded_by_the_engine_that_works_and_told_so() {
    let rampart = Rampart::new();
    let beside = rampart.folder().join("librampart_preload.so");
    std::fs::copy(library(), &beside).expect("the library is copied");
    let output = rampart.run_unprivileged_with(&["run", "--", "true"], "RAMPART_GUARD_LIBRARY", &beside);
    assert_eq!((output.code, output.out.as_str()), (Some(0), ""), "{}", output.err);
    let lines: Vec<_> = output.err.lines().collect();
    assert!(
        lines.last().is_some_and(|last| last.contains("guarded") && last.contains("of heap in 1 process")),
        "{lines:?}"
    );
    if let Some(traps) = victim(&rampart, "traps") {
        for trap in ["forks", "signals"] {
            let arguments = ["run", "--cap", "4MiB", "--", &traps, trap];
            let output = rampart.run_unprivileged_with(&arguments, "RAMPART_GUARD_LIBRARY", &beside);
            assert_eq!((output.code, output.out.as_str()), (Some(0), all_right().as_str()), "{trap}: {}", output.err);
        }
    }
    if !std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|text| text.trim() == "1") {
        let told = |line: &&str| line.contains("guarded by mprotect") && line.contains("fails on a locked page");
        assert!(lines.iter().any(told), "{lines:?}");
        let refused = ["run", "--engine", "move", "--", "true"];
        let output = rampart.run_unprivileged_with(&refused, "RAMPART_GUARD_LIBRARY", &beside);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{}", output.err);
        assert!(output.err.contains("--engine move cannot guard here"), "{}", output.err);
    }
}

/// Another engine guards too, and a program under it runs on: only what the engine lacks shows that it was chosen.
#[test]
fn where_the_kernel_moves_pages_a_program_gets_that_engine_without_asking_and_its_frames_are_tested() {
    let rampart = Rampart::new();
    let options = ["--untested", "wait", "--report", "report.json"];
    let output = run(&rampart, &[&options[..], &["--", "sh", "-c", "echo done"]].concat());
    assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{}", output.err);
    let worse = |line: &&str| line.contains("guarded by mprotect") || line.contains("is not guarded");
    let chosen = output.err.lines().find(worse).map_or(Ok(()), Err);
    if granted(&[Feature::UserfaultfdMove, Feature::UserfaultfdKernelFaults], chosen).is_none() {
        return;
    }
    assert!(count(&report(&rampart), "supplied") > 0, "{}", output.err);
}

#[test]
fn before_a_program_is_stopped_a_command_may_save_what_can_be_saved() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        a_command_may_save_what_can_be_saved(&rampart, engine);
    }
}

fn a_command_may_save_what_can_be_saved(rampart: &Rampart, engine: &str) {
    let command =
        "echo $RAMPART_PID page $RAMPART_PAGE at $RAMPART_OFFSET >> saved; kill -0 $RAMPART_PID && echo alive >> saved";
    let _ = std::fs::remove_file(rampart.folder().join("saved"));
    let flips = ["--engine", engine, "--cap", "4MiB", "--codes", "crc", "--inject", "flip:locked:rate=2000/s,seed=7"];
    let on_error = ["--on-error", "checkpoint-command", command];
    let output = run(rampart, &[&flips[..], &on_error, &["--", "python3", "-c", SUMS]].concat());
    assert_eq!((output.code, output.out.as_str()), (Some(86), ""), "{}", output.err);
    let saved = std::fs::read_to_string(rampart.folder().join("saved")).expect("the command ran");
    let (first, second) = saved.trim_end().split_once('\n').expect("two lines: it ran once");
    assert!(first.contains(" page ") && second == "alive", "{saved}");
    let process = first.split(' ').next().expect("a process");
    let order = [
        "beyond correction: page ",
        "the command for the checkpoint has ended",
        &format!("process {process} was stopped"),
    ];
    let places = order.map(|text| output.err.find(text).unwrap_or_else(|| panic!("{text}: {}", output.err)));
    assert!(places.is_sorted(), "{}", output.err);
}

#[test]
fn a_program_that_goes_on_is_told_what_it_goes_on_with() {
    let rampart = Rampart::new();
    if !installed("python3") || !can_guard(&rampart) {
        return;
    }
    let flips = ["--cap", "4MiB", "--codes", "crc", "--inject", "flip:locked:rate=20/s,seed=7"];
    let options = ["--on-error", "continue", "--report", "report.json"];
    let output = run(&rampart, &[&flips[..], &options, &["--", "python3", "-c", SUMS]].concat());
    assert!(output.code != Some(86) && !output.err.contains("stopped before"), "{}", output.err);
    let report = report(&rampart);
    assert!(report["counts"]["uncorrectable"].as_u64() > Some(0), "{report}");
    assert!(output.err.contains("beyond correction: page "), "{}", output.err);
}

/// Fills 32 MiB and sweeps through it five times.
const SWEEPS: &str = "\
import array, time
words = [array.array('q', range(65536)) for i in range(64)]
for _ in range(5):
    assert sum(sum(part) for part in words) == 64 * sum(range(65536))
";

#[test]
fn the_report_is_a_page_with_drawings_that_asks_for_nothing_else_and_shows_names_as_they_are() {
    let rampart = Rampart::new();
    if !installed("python3") || !can_guard(&rampart) {
        return;
    }
    let name = "<script>alert('&')</script>";
    let options = ["--cap", "4MiB", "--block", "64KiB", "--report", "out.html", "--trace-access", "access.bin"];
    let output = run(&rampart, &[&options[..], &["--", "python3", "-c", SWEEPS, name]].concat());
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("overhead about "), "{}", output.err);
    let page = std::fs::read_to_string(rampart.folder().join("out.html")).expect("a page");
    assert!(page.contains("&lt;script&gt;alert('&amp;')&lt;/script&gt;") && !page.contains("<script"));
    assert!(page.matches("<svg").count() >= 7, "five drawings over time, and two of what was unlocked");
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
    let access = |arguments: &[&str]| {
        let mut command = rampart.command(&["access"]);
        CommandOutput::from(command.args(arguments).current_dir(rampart.folder()).output().expect("the binary runs"))
    };
    let drawn = access(&["access.bin", "--html", "access.html", "--json"]).json();
    // Where python3 is a script, its children are in the list too.
    let processes = drawn["processes"].as_array().expect("a list");
    assert!(processes.iter().any(|process| process["reads"].as_u64() > Some(100)), "{drawn}");
    assert!(processes.iter().all(|process| process["lost"] == 0), "{drawn}");
    assert!(std::fs::read_to_string(rampart.folder().join("access.html")).expect("a page").contains("<svg"));
    assert!(access(&["access.bin"]).out.contains(" for a read, "));
    let whole = std::fs::read(rampart.folder().join("access.bin")).expect("a trace");
    std::fs::write(rampart.folder().join("cut.bin"), &whole[..whole.len() - 5]).expect("a folder of ours");
    for (file, told) in [("cut.bin", "cut off"), ("out.html", "no accesses"), ("none.bin", "No such file")] {
        let output = access(&[file]);
        assert_eq!((output.code, output.out.as_str(), output.err.lines().count()), (Some(2), "", 1), "{}", output.err);
        assert!(output.err.contains(told), "{}", output.err);
    }
}

/// The report of a guarded run of [`SUMS`], whose result is checked.
fn sums(rampart: &Rampart, arguments: &[&str]) -> Value {
    let output =
        run(rampart, &[arguments, &["--cap", "4MiB", "--report", "report.json", "--", "python3", "-c", SUMS]].concat());
    assert_eq!((output.code, output.out.as_str()), (Some(0), "right\n"), "{arguments:?}: {}", output.err);
    assert!(output.err.contains(" frames tested, "), "{}", output.err);
    report(rampart)
}

#[test]
fn frames_are_tested_before_a_program_gets_them_or_soon_after() {
    let rampart = Rampart::new();
    if !installed("python3") || !can_guard(&rampart) {
        return;
    }
    for block in ["2MiB", "64KiB"] {
        let waited = sums(&rampart, &["--block", block, "--untested", "wait"]);
        assert!(count(&waited, "supplied") > 8192 && count(&waited, "untested") == 0, "{block}: {waited}");
        assert!(count(&waited, "tested") >= count(&waited, "supplied"), "{block}: {waited}");
        let hurried = sums(&rampart, &["--block", block]);
        assert!(count(&hurried, "supplied") + count(&hurried, "re_placed") > 0, "{block}: {hurried}");
        assert_eq!(count(&waited, "retired") + count(&hurried, "retired"), 0, "{block}: this memory is good");
    }
}

#[test]
fn frames_that_fail_are_taken_from_under_a_program_that_notices_nothing() {
    let rampart = Rampart::new();
    if !installed("python3") || !can_guard(&rampart) {
        return;
    }
    let report = sums(&rampart, &["--inject", "stuck-at:40,seed=3"]);
    let retired = report["counts"]["retired"].as_u64().expect("a count");
    let events = report["events"].as_array().expect("events");
    assert!(retired > 0, "{report}");
    assert!(
        events.iter().all(|event| event["event"] == "failed_emulated") && events.len() as u64 == retired,
        "{report}"
    );
    assert!(
        events.iter().all(|event| event["evidence"]["line"].is_u64() && event["bits"].as_u64() > Some(0)),
        "{report}"
    );
    let map = rampart.json(&["map", "show", "--json"]);
    assert_eq!(map["frames"].as_array().map(Vec::len), Some(0), "what was made up is not on the map");
}

#[test]
fn it_exits_as_the_program_does() {
    let rampart = Rampart::new();
    assert_eq!(run(&rampart, &["--", "sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(run(&rampart, &["--", "sh", "-c", "kill -9 $$"]).code, Some(137));
}

#[test]
fn what_cannot_be_run_or_guarded_so_is_refused_in_one_line() {
    let rampart = Rampart::new();
    for (arguments, told) in [
        (&["--", "/no/such/program"][..], "/no/such/program"),
        (&["--block", "3KiB", "--", "true"], "power of two"),
        (&["--cap", "2MiB", "--", "true"], "--cap"),
        (&["--codes", "md5", "--", "true"], "crc+pq"),
        (&["--overhead", "0.2", "--", "true"], "per cent"),
        (&["--protect", "bss", "--", "true"], "the heap is always in it"),
        (&["--protect", "heap,stack", "--", "true"], "heap,bss,mmap"),
        (&["--inject", "flip", "--", "true"], "flip:locked:rate"),
        (&["--on-error", "maybe", "--", "true"], "checkpoint-command"),
        (&["--on-error", "stop", "now", "--", "true"], "checkpoint-command"),
        (&["--on-error", "checkpoint-command", "--", "true"], "and a command"),
        (&["--inject", "stuck-at:3", "--test", "none", "--", "true"], "--test none"),
        (&["--test", "march c", "--", "true"], "March C-"),
        (&["--spare", "4KiB", "--", "true"], "2MiB"),
        (&[], "PROGRAM"),
    ] {
        let output = run(&rampart, arguments);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(told) && output.err.lines().count() == 1, "{arguments:?}: {}", output.err);
    }
}
