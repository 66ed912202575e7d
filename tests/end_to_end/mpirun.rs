//! Replicas of real MPI programs, for each MPI that is installed.

use std::process::Command;

use serde_json::Value;

use crate::harness::{CommandOutput, Rampart};

const PROGRAM: &str = include_str!("victims/replicas.c");
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
        let built = command.args(["-w", "-rdynamic", "-o"]).arg(rampart.folder().join("program")).arg(&source).status().ok()?;
        assert!(built.success(), "{compiler} builds the program");
        Some(Self { rampart })
    }

    /// Runs replicas of four ranks.
    fn run(&self, options: &[&str], argument: &str) -> (CommandOutput, Value) {
        let program = self.rampart.folder().join("program");
        let head = ["mpirun", "-n", "4", "--json"];
        let words = [&head, options, &["--", program.to_str().unwrap(), argument]].concat();
        let mut command = self.rampart.command(&words);
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

#[test]
fn many_windows_share_what_the_library_needs_for_them() {
    for job in jobs() {
        let (output, document) = job.run(&["--replicas", "2"], "many");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!(document["differed"], 0, "{document}");
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
        assert!(document["stopped"].as_str().unwrap().contains("MPI_File_open"), "{document}");
        let (output, document) = job.run(&["--replicas", "2"], "session");
        let why = document["stopped"].as_str();
        assert!(output.out.contains("no sessions") || why.unwrap().contains("MPI_Session_init"), "{output:?}");
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
