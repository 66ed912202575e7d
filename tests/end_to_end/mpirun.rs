//! Replicas of real MPI programs, for each MPI that is installed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{CommandOutput, Rampart};

const PROGRAM: &str = include_str!("victims/replicas.c");
const WRITER: &str = include_str!("victims/files.c");
const IN_FORTRAN: &str = include_str!("victims/ring.f90");

/// C and Fortran compilers, as Debian names them.
const LIBRARIES: [[&str; 2]; 2] = [["mpicc.openmpi", "mpif90.openmpi"], ["mpicc.mpich", "mpif90.mpich"]];

/// Open MPI wants to be asked twice to run as root.
const SETTINGS: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// A program, built for one MPI.
struct Job {
    rampart: Rampart,
}

impl Job {
    fn built(compiler: &str, name: &str, program: &str) -> Option<Self> {
        let rampart = Rampart::new();
        let source = rampart.folder().join(name);
        std::fs::write(&source, program).unwrap();
        let mut command = Command::new(compiler);
        // Others can call the functions of the program, by -rdynamic.
        let built =
            command.args(["-w", "-rdynamic", "-o"]).arg(rampart.folder().join("program")).arg(&source).status().ok()?;
        assert!(built.success(), "{compiler} builds the program");
        Some(Self { rampart })
    }

    /// Runs replicas of four ranks, in a folder of their own.
    fn run(&self, options: &[&str], argument: &str) -> (CommandOutput, Value) {
        let program = self.rampart.folder().join("program");
        let head = ["mpirun", "-n", "4", "--json"];
        let words = [&head, options, &["--", program.to_str().unwrap(), argument]].concat();
        let mut command = self.rampart.command(&words);
        command.current_dir(self.rampart.folder());
        let output = CommandOutput::from(command.envs(SETTINGS).output().expect("the binary runs"));
        let begin = output.err.rfind("{\n  \"compared\"").unwrap_or_else(|| panic!("no document: {output:?}"));
        let document = serde_json::from_str(&output.err[begin..]).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output, document)
    }
}

/// The program for each MPI that is installed.
fn jobs() -> Vec<Job> {
    let jobs: Vec<Job> = LIBRARIES.iter().filter_map(|[c, _]| Job::built(c, "program.c", PROGRAM)).collect();
    if jobs.is_empty() {
        println!("skipped: no MPI (neither mpicc.openmpi nor mpicc.mpich)");
    }
    jobs
}

/// Compared in one rank and replica: its receives, and the operations that it gets something of.
#[test]
fn replicas_take_the_same_messages_tell_the_same_time_and_never_differ() {
    for job in jobs() {
        for replicas in ["2", "3"] {
            let (output, document) = job.run(&["--replicas", replicas], "all");
            assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
            assert_eq!((&document["differed"], &document["stopped"]), (&0.into(), &Value::Null), "{document}");
            assert!(document["compared"].as_u64().unwrap() > 4 * 60, "{document}");
        }
    }
    for [_, fortran] in LIBRARIES {
        let Some(job) = Job::built(fortran, "program.f90", IN_FORTRAN) else { continue };
        let (output, document) = job.run(&["--replicas", "2"], "");
        assert_eq!(output.code, Some(0), "{output:?}");
        // Ten rounds of three receives, a sum, and a broadcast that the first of each half has already.
        assert_eq!(document["compared"], 2 * (4 * 10 * 4 + 2 * 10), "{document}");
        assert_eq!(document["differed"], 0, "{document}");
    }
}

/// [Fiala15, 3.7.2]: no wrong message of one replica reaches the program, in any number.
#[test]
fn what_one_replica_sends_wrong_is_replaced_and_the_output_is_right() {
    for job in jobs() {
        let (right, document) = job.run(&["--replicas", "3"], "ring");
        assert_eq!((right.code, &document["replaced"]), (Some(0), &0.into()), "{right:?}");
        for (flips, injected) in [("flip:at=7,rank=2,replica=1", 1), ("flip:odds=20,replica=0,seed=3", 2)] {
            let (output, document) = job.run(&["--replicas", "3", "--inject", flips], "ring");
            assert_eq!((output.code, &output.out), (Some(0), &right.out), "{flips}: {output:?}");
            assert!(document["injected"].as_u64().unwrap() >= injected, "{flips}: {document}");
            assert!(document["replaced"].as_u64().unwrap() >= injected, "{flips}: {document}");
            assert_eq!(document["replaced"], document["differed"], "{flips}: one replica is wrong");
        }
        let (_, document) = job.run(&["--replicas", "3", "--inject", "flip:at=7,rank=2,replica=1"], "ring");
        let first = document["mismatches"].as_array().unwrap().iter().find(|one| one["peer"] == 2).unwrap();
        assert_eq!((&first["rank"], &first["wrong_replicas"]), (&3.into(), &serde_json::json!([1])), "{document}");
        assert_eq!((&first["bytes"], &first["tag"], &first["number"]), (&4000.into(), &7.into(), &7.into()));
    }
}

#[test]
fn two_replicas_that_differ_end_the_job_before_the_program_goes_on() {
    for job in jobs() {
        let flips = ["--replicas", "2", "--inject", "flip:at=7,rank=2,replica=1"];
        let (output, document) = job.run(&flips, "ring");
        assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "{output:?}");
        assert!(document["stopped"].as_str().unwrap().contains("no majority"), "{document}");
        let (output, document) = job.run(&[&flips[..], &["--on-mismatch", "continue"]].concat(), "ring");
        assert_eq!((output.code, &document["stopped"]), (Some(0), &Value::Null), "{output:?}");
        assert!(document["differed"].as_u64().unwrap() > 0, "{document}");
    }
}

/// [Fiala15, 3.3.2.2.1]: a replica that was hit, and sends nothing wrong, does not spoil the output.
#[test]
fn what_most_replicas_print_is_printed_once() {
    let expected: Vec<String> =
        (0..4).flat_map(|rank| (0..=100).map(move |line| format!("rank {rank} line {line}"))).collect();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // Of each rank in its order.
        lines.sort_by_key(|line| line.split(' ').nth(1).map(str::to_owned));
        lines
    };
    for job in jobs() {
        let (output, document) = job.run(&["--replicas", "2"], "print");
        assert_eq!((output.code, sorted(&output.out)), (Some(0), expected.clone()), "{output:?}");
        assert_eq!(document["output_mismatches"], serde_json::json!([]), "{document}");
        assert_eq!(output.err.matches("rank 3 is at the end\n").count(), 1, "{output:?}");
        // Before line 60 there are ten lines of 14 bytes and fifty of 15; its number begins at byte 12.
        for (how, offset) in [("print-wrong", 10 * 14 + 50 * 15 + 13), ("print-more", 10 * 14 + 90 * 15 + 16)] {
            let (output, document) = job.run(&["--replicas", "3"], how);
            assert_eq!((output.code, sorted(&output.out)), (Some(0), expected.clone()), "{how}: {output:?}");
            let wrong = serde_json::json!([{ "rank": 3, "wrong_replica": 1, "first_difference": offset }]);
            assert_eq!(document["output_mismatches"], wrong, "{how}: {document}");
            let (output, document) = job.run(&["--replicas", "2"], how);
            assert_eq!(output.code, Some(1), "{how}: {output:?}");
            assert!(!output.out.contains("more") && !output.out.contains("line 67\nrank 3 line 61"), "{output:?}");
            assert!(document["stopped"].as_str().unwrap().contains("what they print"), "{document}");
        }
    }
}

/// The file that replica 1 writes wrong, without a message of it [Fiala15, 3.3.2.2.1].
#[test]
fn files_are_those_of_most_replicas() {
    for [compiler, _] in LIBRARIES {
        let Some(job) = Job::built(compiler, "program.c", WRITER) else { continue };
        let work = job.rampart.folder().join("made");
        let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap_or_else(|_| "nothing".to_owned());
        for (replicas, how) in [("3", ""), ("3", "wrong"), ("2", "wrong"), ("3", "cut")] {
            prepare_work(&work);
            let (output, document) = job.run(&["--replicas", replicas], how);
            let undecided = replicas == "2";
            let code = if how == "cut" { 7 } else { i32::from(undecided) };
            let printed = if how == "cut" { "" } else { "right\n" };
            assert_eq!((output.code, output.out.as_str()), (Some(code), printed), "{output:?}");
            for (name, expected) in [
                ("before", "as it was\nand more\n"),
                ("old", "nothing"),
                ("gone/only", "nothing"),
                ("deleted", "nothing"),
                ("new/state", "complete"),
                ("new/moved", "moved\n"),
                ("moved", "again\n"),
                ("link", "complete"),
                ("by-child", "complete"),
                ("short", "shor"),
                ("untouched", "untouched\n"),
                ("turns", "part of rank 0\npart of rank 1\npart of rank 2\npart of rank 3\n"),
                ("shared", "part of rank 0\npart of rank 1\npart of rank 2\npart of rank 3\n"),
                ("collective", "aabbccddeeffgghh"),
                ("log", if how == "cut" { "one\ntwo\n" } else { "nothing" }),
            ] {
                assert_eq!(read(name), expected, "{name} {replicas} {how}");
            }
            let text = "c".repeat(3999);
            let right = text.clone() + if how == "cut" { "" } else { "the end\n" };
            let mismatches = document["file_mismatches"].as_array().unwrap();
            assert_eq!(mismatches.len(), usize::from(how == "wrong"), "{document}");
            if let Some(one) = mismatches.first() {
                assert_eq!(
                    (&one["first_difference"], one["kept"].as_array().unwrap().len()),
                    (&1234.into(), if undecided { 2 } else { 0 })
                );
                assert_eq!(one["wrong_replicas"], if undecided { Value::Null } else { serde_json::json!([1]) });
            }
            if undecided {
                assert_eq!((read("rank.2"), read("rank.2.replica-0")), ("nothing".to_owned(), right), "{document}");
                assert_eq!(read("rank.2.replica-1").chars().filter(|&one| one != 'c').count(), 1 + "the end\n".len());
            } else {
                assert_eq!(read("rank.2"), right, "{how}: {document}");
            }
            let left = std::fs::read_dir(&work).unwrap().count();
            assert_eq!(left, 15 + usize::from(undecided) + usize::from(how == "cut"), "nothing else is there");
        }
    }
}

/// What the program expects to find.
fn prepare_work(work: &Path) {
    _ = std::fs::remove_dir_all(work);
    std::fs::create_dir_all(work.join("gone")).unwrap();
    for (name, text) in [
        ("before", "as it was\n"),
        ("old", "old\n"),
        ("deleted", "deleted\n"),
        ("moved", "moved\n"),
        ("gone/only", "only\n"),
        ("untouched", "untouched\n"),
        ("short", "shorter\n"),
    ] {
        std::fs::write(work.join(name), text).unwrap();
    }
    std::fs::set_permissions(work.join("before"), Permissions::from_mode(0o640)).unwrap();
}

/// Starts what a launcher wants to have started on a node, on this one, which has the name of that one then.
const AGENT: &str = "#!/bin/sh
while [ \"${1#-}\" != \"$1\" ]; do shift; done
export RAMPART_NODE=node-$1; shift; exec sh -c \"$*\"
";

/// [Fiala15, 3.3.1]: so an error of one node hits one replica of a rank only.
#[test]
fn replicas_of_a_rank_are_on_different_nodes_where_there_is_a_choice() {
    let Some(job) = Job::built("mpicc.mpich", "program.c", PROGRAM) else {
        println!("skipped: no MPI (mpicc.mpich)");
        return;
    };
    let agent = job.rampart.folder().join("agent");
    std::fs::write(&agent, AGENT).unwrap();
    std::fs::set_permissions(&agent, Permissions::from_mode(0o755)).unwrap();
    let run = |hosts: &str, more: &[&str]| {
        let option = |option: &str| format!("--launcher-option={option}");
        let agent = agent.to_str().unwrap();
        let options = ["-launcher", "rsh", "-launcher-exec", agent, "-hosts", hosts].map(option);
        let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        job.run(&options, "ring")
    };
    // Processes 0 and 1 are on the first node, 2 and 3 on the second, 6 and 7 on the first again.
    let hosts = "127.0.0.2:2,127.0.0.3:2,127.0.0.4:2";
    let (output, document) = run(hosts, &["--inject", "flip:odds=20,replica=1,seed=3"]);
    assert_eq!((output.code, &document["crowded_nodes"]), (Some(0), &serde_json::json!({})), "{output:?}");
    let erring = document["erring_nodes"].as_object().unwrap();
    assert_eq!(erring.keys().collect::<Vec<_>>(), ["node-127.0.0.3"], "{document}");
    let (_, document) = run("127.0.0.2:6,127.0.0.3:6", &[]);
    assert!(document["crowded_nodes"].as_object().unwrap().len() == 2, "{document}");
    // By this map, the first process is replica 2 of rank 3.
    let map: String = (0..12).rev().map(|place| format!("{} {}\n", place % 4, place / 4)).collect();
    std::fs::write(job.rampart.folder().join("map"), map).unwrap();
    let (output, document) = run(hosts, &["--map", "map", "--inject", "flip:at=7,rank=3,replica=2"]);
    assert_eq!((output.code, &document["injected"]), (Some(0), &1.into()), "{output:?}");
    // What replica 2 of rank 0 adds up in the end is wrong, too.
    assert_eq!(
        document["erring_nodes"],
        serde_json::json!({ "node-127.0.0.2": 24, "node-127.0.0.3": 1 }),
        "{document}"
    );
}

/// What is put into a window is mended before it leaves.
#[test]
fn what_one_replica_puts_wrong_is_replaced() {
    for job in jobs() {
        let (by_messages, _) = job.run(&["--replicas", "2"], "ring");
        for flips in ["flip:at=9,rank=2,replica=1", "flip:odds=20,replica=0,seed=3"] {
            let (output, document) = job.run(&["--replicas", "3", "--inject", flips], "windows");
            assert_eq!((output.code, &output.out), (Some(0), &by_messages.out), "{flips}: {output:?}");
            assert!(document["injected"].as_u64().unwrap() > 0, "{flips}: {document}");
            assert_eq!(document["replaced"], document["injected"], "{flips}: {document}");
            let first = &document["mismatches"][0];
            assert!(first["what"] == "MPI_Put" || flips.contains("odds"), "{flips}: {document}");
        }
    }
}

/// The flip makes one replica do more or fewer rounds than the others.
#[test]
fn a_replica_that_does_other_things_is_noticed() {
    for job in jobs() {
        for seed in 1..4 {
            let flip = format!("flip:at=2,rank=1,replica=1,seed={seed}");
            let (output, document) = job.run(&["--replicas", "3", "--inject", &flip], "path");
            if output.code == Some(0) {
                // A round that is beyond the bound ends the loop as it would have ended.
                assert_eq!(output.out, "done\n", "{output:?}");
            } else {
                let why = document["stopped"].as_str().unwrap_or_else(|| panic!("{output:?}"));
                assert!(why.contains("different things") || why.contains("other things"), "{why}");
            }
        }
    }
}

#[test]
fn what_cannot_have_replicas_is_refused_in_one_line() {
    for job in jobs() {
        let (output, document) = job.run(&["--replicas", "2"], "file");
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(document["stopped"].as_str().unwrap().contains("MPI_File_write_shared"), "{document}");
    }
    let rampart = Rampart::new();
    for (words, why) in [
        (&["mpirun", "-n", "2", "--", "true"][..], "needs no MPI library"),
        (&["mpirun", "-n", "2", "--", "/no/such/program"], "no such program"),
        (&["mpirun", "-n", "2", "--replicas", "1", "--", "true"], "2..=16"),
        (&["mpirun", "-n", "0", "--", "true"], "-n"),
        (&["mpirun", "-n", "2", "--inject", "flip:often=1", "--", "true"], "none of odds"),
    ] {
        let output = rampart.run(words);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains(why), "{output:?}");
    }
}
