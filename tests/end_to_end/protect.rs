//! A program under guard with more than its heap: its own mappings and its static data.

use std::process::Command;

use serde_json::Value;

use crate::guarded::{count, engines, filled, installed, is_whole, passes_trap, report, run, victim, victim_with};
use crate::harness::{CommandOutput, Rampart};

/// Guards everything that can be guarded.
const ALL: [&str; 2] = ["--protect", "heap,bss,mmap"];

/// The traps of the heap that depend on the kind of memory.
const TRAPS: [&str; 9] =
    ["system-calls", "threads", "forks", "executes", "gives-back", "signals", "remaps", "fixed-buffers", "own-faults"];

/// Runs a victim with everything guarded, and returns its output and the report.
fn guarded(rampart: &Rampart, options: &[&str], program: &[&str]) -> (CommandOutput, Value) {
    let output = run(rampart, &[&ALL, options, &["--cap", "4MiB", "--report", "report.json", "--"], program].concat());
    let report = report(rampart);
    (output, report)
}

/// At night, runs all traps with every engine in mappings and in static data; otherwise each with every engine in one
/// of the two.
fn falls_into_no_trap_of(memory: &str, turn: usize, counter: &str, traps: &str, rampart: &Rampart) {
    for (engine_number, engine) in engines(rampart).enumerate() {
        let is_its_turn = |number: usize| is_whole() || (number + engine_number) % 2 == turn;
        for (number, trap) in TRAPS.iter().enumerate().filter(|(number, _)| is_its_turn(*number)) {
            // Blocks of both kinds, in turn: on the heap, each trap runs with all of them.
            let (block, cap) = [("2MiB", "4MiB"), ("64KiB", "1MiB")][number % 2];
            let options = [&ALL[..], &["--cap", cap, "--engine", engine, "--block", block]].concat();
            let (_, report) = passes_trap(rampart, &options, &[traps, trap, memory]);
            assert!(count(&report, counter) >= filled(), "{trap} {engine}: {report}");
        }
    }
}

#[test]
fn mappings_of_a_program_fall_into_no_trap_of_the_heap() {
    let rampart = Rampart::new();
    if let Some(traps) = victim(&rampart, "traps") {
        falls_into_no_trap_of("mmap", 0, "most_mapped", &traps, &rampart);
    }
}

#[test]
fn static_data_falls_into_no_trap_of_the_heap() {
    let rampart = Rampart::new();
    if let Some(traps) = victim(&rampart, "traps") {
        falls_into_no_trap_of("bss", 1, "data", &traps, &rampart);
    }
}

fn maps(name: &str) {
    let rampart = Rampart::new();
    let Some(program) = victim(&rampart, "maps") else { return };
    for engine in engines(&rampart) {
        for block in ["2MiB", "64KiB"] {
            let (output, report) = guarded(&rampart, &["--engine", engine, "--block", block], &[&program, name]);
            assert_eq!(
                (output.code, output.out.as_str()),
                (Some(0), "right\n"),
                "{name} {engine} {block}: {}",
                output.err
            );
            assert!(!output.err.contains("is not guarded"), "{name} {engine} {block}: {}", output.err);
            let mapped = count(&report, "most_mapped") > 0 && count(&report, "locked") > 0;
            assert!(mapped != (name == "leaves-alone"), "{name} {engine} {block}: {report}");
        }
    }
}

#[test]
fn a_mapping_may_be_unmapped_in_parts() {
    maps("unmaps-parts");
}

#[test]
fn addresses_are_mapped_again_and_again() {
    maps("again-and-again");
}

#[test]
fn a_mapping_may_grow_shrink_and_move() {
    maps("grows-and-moves");
}

#[test]
fn other_memory_may_be_mapped_over_a_mapping() {
    maps("maps-over");
}

#[test]
fn rights_that_a_program_sets_are_kept_and_a_child_has_them_too() {
    maps("has-protection");
}

#[test]
fn advice_is_taken() {
    maps("takes-advice");
}

#[test]
fn threads_have_their_stacks_in_a_mapping() {
    maps("has-stacks");
}

#[test]
fn mappings_come_and_go_in_many_threads_while_children_are_forked() {
    maps("races");
}

#[test]
fn what_cannot_be_guarded_works_as_ever() {
    maps("leaves-alone");
}

#[test]
fn what_cannot_be_guarded_is_counted() {
    let rampart = Rampart::new();
    let Some(program) = victim(&rampart, "maps") else { return };
    for engine in engines(&rampart) {
        let (output, report) = guarded(&rampart, &["--engine", engine], &[&program, "leaves-alone"]);
        assert_eq!((output.code, count(&report, "unguarded_mappings")), (Some(0), 5), "{engine}: {}", output.err);
        assert!(output.err.contains("left alone: 5 mappings"), "{engine}: {}", output.err);
        // With the heap alone nothing is counted, and smaller mappings never are.
        for protect in ["heap", "heap,mmap=9MiB"] {
            let output = run(&rampart, &["--engine", engine, "--protect", protect, "--", &program, "leaves-alone"]);
            assert!(output.code == Some(0) && !output.err.contains("left alone"), "{engine}: {}", output.err);
        }
    }
}

#[test]
fn flips_in_mappings_and_in_static_data_are_corrected_and_told_with_their_addresses() {
    let rampart = Rampart::new();
    let Some(traps) = victim_with(&rampart, "traps", &[]) else { return };
    for engine in engines(&rampart) {
        for (memory, said_so) in [("mmap", "mappings (up to 64"), ("bss", "static data (6")] {
            let flips = ["--engine", engine, "--block", "64KiB", "--inject", "flip:locked:rate=50/s,seed=5"];
            let (output, report) = guarded(&rampart, &flips, &[&traps, "waits", memory]);
            let right = (output.code, output.out.as_str()) == (Some(0), "16384 pages are right\n");
            // Two flips may hit one page: then the program stops, and never goes on with wrong content.
            assert!(right || output.code == Some(86), "{engine} {memory}: {}", output.err);
            let least = if right { 10 } else { 0 };
            assert!(count(&report, "corrected") > least, "{engine} {memory}: {report}");
            assert!(output.err.contains(said_so), "{engine} {memory}: {}", output.err);
            let first = report["events"].as_array().and_then(|events| events.first()).expect("events");
            let [address, offset] = ["address", "offset"].map(|name| first[name].as_u64().expect("a number"));
            assert!(address % 4096 == 0 && offset % 4096 == 0, "{engine} {memory}: {first}");
        }
    }
}

/// The guard's threads also use a library's variable in the executable; data beside it is guarded.
#[test]
fn an_executable_at_fixed_addresses_is_guarded_but_for_what_libraries_have_in_it() {
    let rampart = Rampart::new();
    let Some(traps) = victim_with(&rampart, "traps", &["-no-pie"]) else { return };
    for engine in engines(&rampart) {
        let (output, report) = guarded(&rampart, &["--engine", engine, "--block", "4KiB"], &[&traps, "forks", "bss"]);
        let ended = (output.code, output.out.as_str());
        assert_eq!(ended, (Some(0), "16384 pages are right\n"), "{engine}: {}", output.err);
        let (data, left) = (count(&report, "data"), count(&report, "unguarded_data"));
        assert!(data >= 16_384 && (1..200).contains(&left), "{engine}: {data} and {left} pages");
    }
}

#[test]
fn real_programs_do_what_they_do_without() {
    let rampart = Rampart::new();
    let script = rampart.folder().join("sums.py");
    let text = "import array\nwords = [array.array('q', range(i, i + 65536)) for i in range(64)]\n\
                objects = {i: [i] * 9 for i in range(60000)}\n\
                print(sum(map(sum, words)), sum(map(len, objects.values())))\n";
    std::fs::write(&script, text).expect("a folder of ours");
    let programs: [(&str, &[&str]); 3] = [
        ("python3", &["sums.py"]),
        ("node", &["-e", "let a=[];for(let i=0;i<2e5;i++)a.push({i});console.log(a.reduce((s,o)=>s+o.i,0))"]),
        ("perl", &["-e", "my %h; $h{$_}=\"v$_\" for 1..100000; my $t=0; $t+=length $_ for values %h; print \"$t\\n\""]),
    ];
    for (program, arguments) in programs.into_iter().filter(|(program, _)| installed(program)) {
        let alone = Command::new(program).args(arguments).current_dir(rampart.folder()).output().expect("it runs");
        for engine in engines(&rampart) {
            let (output, _) = guarded(&rampart, &["--engine", engine], &[&[program], arguments].concat());
            let expected = String::from_utf8(alone.stdout.clone()).expect("text");
            assert_eq!((output.code, output.out), (Some(0), expected), "{program} {engine}: {}", output.err);
        }
    }
}
