//! Unusual schedules, traces and records as input of `rampart project`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{CommandOutput, Rampart};

/// Runs with so many KiB of address space, for half a minute at most.
fn within(rampart: &Rampart, kib: u32, arguments: &[&str]) -> CommandOutput {
    let plain = rampart.command(arguments);
    let limited = format!("ulimit -v {kib}; exec timeout -k 5 30 \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).arg(plain.get_program()).args(plain.get_args());
    CommandOutput::from(command.env("RAMPART_STORE", rampart.store()).output().expect("sh runs"))
}

fn is_one_line(output: &CommandOutput) {
    assert_eq!((output.code, output.err.lines().count(), output.out.as_str()), (Some(2), 1, ""), "{output:?}");
}

/// 40,000 ranks, one of which uses CPU and NIC 254: a table of all pairs for all ranks would take 20 GB.
#[test]
fn a_schedule_takes_memory_for_the_cpus_and_nics_that_it_uses() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("wide.goal");
    let mut goal =
        "num_ranks 40000\nrank 0 { send 8b to 1 cpu 254 nic 254 }\nrank 1 { recv 8b from 0 cpu 254 }\n".to_owned();
    (2..40_000).for_each(|rank| writeln!(goal, "rank {rank}{{}}").unwrap());
    fs::write(&file, goal).unwrap();
    let file = file.to_str().unwrap();
    let output = within(&rampart, 1 << 20, &["project", "--goal", file, "--mtbce", "1s", "--seeds", "2", "--one-node"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{output:?}");
}

/// A byte per rank: an estimate by the file's length is far too low.
#[test]
fn a_schedule_that_runs_out_of_memory_ends_in_one_line() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("ranks.goal");
    // 2^22 ranks without any operation.
    let mut bytes = b"RAMPGOAL\x01\x80\x80\x80\x02".to_vec();
    bytes.resize(bytes.len() + (1 << 22), 0);
    fs::write(&file, bytes).unwrap();
    let output = within(&rampart, 300 << 10, &["project", "--goal", file.to_str().unwrap(), "--mtbce", "1s"]);
    is_one_line(&output);
    assert!(output.err.contains("out of memory"), "{output:?}");
}

#[test]
fn what_is_no_file_or_far_too_long_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let at = |name: &str| rampart.folder().join(name).to_str().unwrap().to_owned();
    let (fifo, sparse) = (at("fifo"), at("sparse"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::File::create(&sparse).unwrap().set_len(4 << 30).unwrap();
    let folder = rampart.folder().to_str().unwrap().to_owned();
    for path in ["/dev/urandom", "/dev/zero", &fifo, &folder, &sparse] {
        for arguments in [
            &["--trace", path] as &[_],
            &["--trace", path, "--mtbce", "1s"],
            &["--goal", path, "--mtbce", "1s"],
            &["--detours", path],
            &["--network", path, "--mtbce", "1s"],
            &["--from-errors", path, "--dimm", "A1"],
        ] {
            is_one_line(&within(&rampart, 4 << 20, &[&["project"], arguments].concat()));
        }
    }
    assert!(Path::new(&fifo).exists());
}

#[test]
fn times_that_do_not_fit_are_refused_in_one_line() {
    let rampart = Rampart::new();
    let file = rampart.folder().join("long.goal");
    fs::write(&file, "num_ranks 1\nrank 0 {\ncalc 18446744073709551\ncalc 18446744073709551\n}\n").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, expected) in [
        (&["project", "--mtbce", "30000000s"] as &[_], "at most 18446744s"),
        (&["project", "--mtbce", "1s", "--cost", "1year"], "at most 18446744s"),
        (&["noise", "--for", "300d"], "at most 18446744s"),
        (&["simulate", "figure34", "--for", "2years"], "at most 366d"),
        (&["simulate", "figure34", "--seeds", "18446744073709551615"], "100000"),
        (&["project", "--goal", file, "--mtbce", "1000000s", "--seeds", "2"], "more than 213 days"),
        // Each error takes 213 days, and one is dropped each microsecond.
        (
            &["project", "--mtbce", "1us", "--cost", "18446744s", "--dropped", "--nodes", "1"],
            "more than can be simulated",
        ),
        (&["project", "--mtbce", "1000000us", "--cost", "999999999ns", "--nodes", "1"], "more than can be simulated"),
    ] {
        let output = within(&rampart, 4 << 20, arguments);
        is_one_line(&output);
        assert!(output.err.contains(expected), "{output:?}");
    }
}
