//! Replicas of real MPI programs, for each MPI that is installed.

mod communicators;
mod deaths;
mod drops;
mod identity;
mod jobs;
mod launchers;
mod leaving;
mod lives;
mod nodes;
mod slurm;
mod standard_abi;
mod time_stamps;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::Value;

use self::jobs::{Job, LIBRARIES, installed, jobs, libraries};
use crate::harness::{CommandOutput, Rampart};

const PROGRAM: &str = include_str!("victims/replicas.c");
const WRITER: &str = include_str!("victims/files.c");
const COPIES: &str = include_str!("victims/copies.c");
const SPREAD: &str = include_str!("victims/spread.c");
const IN_FORTRAN: &str = include_str!("victims/ring.f90");
const IN_FORTRAN_2008: &str = include_str!("victims/ring08.f90");

/// Compared in one rank and replica: its receives, and the operations that it gets something of.
#[test]
fn replicas_take_the_same_messages_tell_the_same_time_and_never_differ() {
    for job in jobs() {
        for (replicas, protocol) in [("2", "msgplushash"), ("3", "msgplushash"), ("2", "all-to-all")] {
            let (output, document) = job.run(&["--replicas", replicas, "--protocol", protocol], "all");
            assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
            assert_eq!((&document["differed"], &document["stopped"]), (&0.into(), &Value::Null), "{document}");
            assert!(document["compared"].as_u64().unwrap() > 4 * 60, "{document}");
        }
    }
    for [_, fortran] in libraries() {
        let Some(job) = Job::built(fortran, "program.f90", IN_FORTRAN) else { continue };
        let (output, document) = job.run(&["--replicas", "2"], "");
        assert_eq!(output.code, Some(0), "{output:?}");
        // Ten rounds of three receives, a sum, and a broadcast that the first of each half has already.
        assert_eq!(document["compared"], 2 * (4 * 10 * 4 + 2 * 10), "{document}");
        assert_eq!(document["differed"], 0, "{document}");
    }
}

/// Sections of arrays, errors that the program does not ask for, statuses that it ignores, its own operation.
#[test]
fn fortran_2008_is_compared_and_corrected_as_well() {
    for [c, fortran] in libraries() {
        let Some(job) = Job::built(fortran, "program.f90", IN_FORTRAN_2008) else { continue };
        // Ten rounds of five receives, a sum and a broadcast as above; then one from a neighbour. Open MPI has no
        // sections that are received later.
        let rounds = if c.contains("mpich") { 7 } else { 6 };
        let (right, document) = job.run(&["--replicas", "2"], "");
        assert_eq!((right.code, right.out.as_str()), (Some(0), "sums   6.0   4.0\n"), "{right:?}");
        assert_eq!(document["compared"], 2 * (4 * 10 * rounds + 2 * 10 + 4), "{document}");
        assert_eq!(document["differed"], 0, "{document}");
        let flips = ["--replicas", "3", "--inject", "flip:send:rate=1/20,replica=1,seed=3"];
        let (output, document) = job.run(&flips, "");
        assert_eq!((output.code, output.out), (Some(0), right.out), "{document}");
        assert!(document["replaced"].as_u64().unwrap() > 1, "{document}");
        assert_eq!(document["replaced"], document["differed"], "one replica is wrong");
    }
}

/// [Fiala15, 3.7.2]: no wrong message of one replica reaches the program, in any number.
#[test]
fn what_one_replica_sends_wrong_is_replaced_and_the_output_is_right() {
    for job in jobs() {
        let (right, document) = job.run(&["--replicas", "3"], "ring");
        assert_eq!((right.code, &document["replaced"]), (Some(0), &0.into()), "{right:?}");
        for (flips, injected) in [("flip:send:at=7,rank=2,replica=1", 1), ("flip:send:rate=1/20,replica=0,seed=3", 2)] {
            let (output, document) = job.run(&["--replicas", "3", "--inject", flips], "ring");
            assert_eq!((output.code, &output.out), (Some(0), &right.out), "{flips}: {output:?}");
            assert!(document["injected"].as_u64().unwrap() >= injected, "{flips}: {document}");
            assert!(document["replaced"].as_u64().unwrap() >= injected, "{flips}: {document}");
            assert_eq!(document["replaced"], document["differed"], "{flips}: one replica is wrong");
        }
        let (_, document) = job.run(&["--replicas", "3", "--inject", "flip:send:at=7,rank=2,replica=1"], "ring");
        let first = document["mismatches"].as_array().unwrap().iter().find(|one| one["peer"] == 2).unwrap();
        assert_eq!((&first["rank"], &first["wrong_replicas"]), (&3.into(), &serde_json::json!([1])), "{document}");
        assert_eq!((&first["bytes"], &first["tag"], &first["number"]), (&4000.into(), &7.into(), &7.into()));
    }
}

/// What a job with the program `copies` is to send: messages, and their bytes.
fn sent(replicas: u64, sends_copies: bool) -> Value {
    // Of a team: 300 messages of 20,000 bytes, one of 0, and three more.
    let (messages, bytes) = (304, 300 * 20_000 + 400 + 80 + 2_000);
    if sends_copies {
        let others = replicas * (replicas - 1);
        let beside = others * (8 * messages + bytes);
        return serde_json::json!({ "messages": replicas * replicas * messages, "bytes": replicas * bytes + beside });
    }
    // Of the longer ones a hash of 16 bytes, of the others the message, and of all their length.
    let beside = replicas * (8 * messages + 301 * 16 + 400 + 80);
    serde_json::json!({ "messages": 2 * replicas * messages, "bytes": replicas * bytes + beside })
}

/// [Fiala15, 3.3.2]: 2r messages for each message with hashes, r² of them with copies. The replicas in the masks send
/// wrong ones.
#[test]
fn copies_of_all_senders_are_decided_upon_by_each_receiver_alone() {
    for job in libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", COPIES)) {
        let run = |protocol: &str, replicas: &str, mask: &str| {
            job.run_ranks("2", &["--protocol", protocol, "--replicas", replicas], mask)
        };
        let (right, document) = run("msgplushash", "3", "0");
        assert_eq!((right.code, &document["sent"]), (Some(0), &sent(3, false)), "{right:?}");
        // Two of 304 never differ: the empty message, and the one that is cut off because its buffer is too small.
        for (replicas, mask, wrong) in [("3", "2", vec![1]), ("5", "18", vec![1, 4])] {
            let (output, document) = run("all-to-all", replicas, mask);
            assert_eq!((output.code, &output.out), (Some(0), &right.out), "{document}");
            assert_eq!(document["sent"], sent(replicas.parse().unwrap(), true), "{replicas}");
            assert_eq!((&document["differed"], &document["replaced"]), (&302.into(), &(302 * wrong.len()).into()));
            for one in document["mismatches"].as_array().unwrap() {
                assert_eq!(one["wrong_replicas"], serde_json::json!(wrong), "{one}");
                let is_wrong = wrong.iter().any(|&replica| one["replica"] == replica);
                assert_eq!(one["verdict"], if is_wrong { "replaced" } else { "right" }, "{one}");
            }
        }
        for (replicas, mask) in [("2", "2"), ("4", "6")] {
            let (output, document) = run("all-to-all", replicas, mask);
            assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "{output:?}");
            assert!(document["stopped"].as_str().unwrap().contains("no majority"), "{document}");
        }
    }
}

#[test]
fn two_replicas_that_differ_end_the_job_before_the_program_goes_on() {
    for job in jobs() {
        let flips = ["--replicas", "2", "--inject", "flip:send:at=7,rank=2,replica=1"];
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
    let jobs = libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", WRITER));
    for (place, job) in jobs.enumerate() {
        let work = job.rampart.folder().join("made");
        let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap_or_else(|_| "nothing".to_owned());
        // Only MPI I/O is that of the MPI.
        let runs = [("3", "wrong"), ("2", "wrong"), ("3", ""), ("3", "cut")];
        for (replicas, how) in runs.into_iter().take(if place == 0 { 4 } else { 1 }) {
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
                ("target", "through a link\n"),
                ("now/x", "second\n"),
                ("first/x", "first\n"),
                ("settings", "mine\n"),
                ("default", "default\n"),
                ("gone-link", "nothing"),
                ("alias", "untouched\n"),
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
            assert_eq!(left, 24 + usize::from(undecided) + usize::from(how == "cut"), "nothing else is there");
        }
    }
}

/// What the program expects to find.
fn prepare_work(work: &Path) {
    _ = std::fs::remove_dir_all(work);
    for folder in ["gone", "first", "second"] {
        std::fs::create_dir_all(work.join(folder)).unwrap();
    }
    for (name, text) in [
        ("before", "as it was\n"),
        ("old", "old\n"),
        ("deleted", "deleted\n"),
        ("first/x", "first\n"),
        ("second/x", "second\n"),
        ("default", "default\n"),
        ("readable", "readable\n"),
        ("moved", "moved\n"),
        ("gone/only", "only\n"),
        ("untouched", "untouched\n"),
        ("short", "shorter\n"),
    ] {
        std::fs::write(work.join(name), text).unwrap();
    }
    for (link, target) in [("now", "first"), ("settings", "default"), ("later", "target"), ("gone-link", "first")] {
        symlink(target, work.join(link)).unwrap();
    }
    std::fs::set_permissions(work.join("before"), Permissions::from_mode(0o640)).unwrap();
    std::fs::set_permissions(work.join("readable"), Permissions::from_mode(0o444)).unwrap();
}

/// Starts what a launcher wants to have started on a node, on this one, which has the name of that one then.
const AGENT: &str = "#!/bin/sh
while [ \"${1#-}\" != \"$1\" ]; do shift; done
export RAMPART_NODE=node-$1; shift; exec sh -c \"$*\"
";

/// [Fiala15, 3.3.1]: so an error of one node hits one replica of a rank only.
#[test]
fn replicas_of_a_rank_are_on_different_nodes_where_there_is_a_choice() {
    let Some(job) = Job::built("mpicc.mpich", "program.c", PROGRAM) else { return };
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
    let (output, document) = run(hosts, &["--inject", "flip:send:rate=1/20,replica=1,seed=3"]);
    assert_eq!((output.code, &document["crowded_nodes"]), (Some(0), &serde_json::json!({})), "{output:?}");
    let erring = document["erring_nodes"].as_object().unwrap();
    assert_eq!(erring.keys().collect::<Vec<_>>(), ["node-127.0.0.3"], "{document}");
    let (_, document) = run("127.0.0.2:6,127.0.0.3:6", &[]);
    assert!(document["crowded_nodes"].as_object().unwrap().len() == 2, "{document}");
    // By this map, the first process is replica 2 of rank 3.
    let map: String = (0..12).rev().map(|place| format!("{} {}\n", place % 4, place / 4)).collect();
    std::fs::write(job.rampart.folder().join("map"), map).unwrap();
    let (output, document) = run(hosts, &["--map", "map", "--inject", "flip:send:at=7,rank=3,replica=2"]);
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
        for flips in ["flip:send:at=9,rank=2,replica=1", "flip:send:rate=1/20,replica=0,seed=3"] {
            let (output, document) = job.run(&["--replicas", "3", "--inject", flips], "windows");
            assert_eq!((output.code, &output.out), (Some(0), &by_messages.out), "{flips}: {output:?}");
            assert!(document["injected"].as_u64().unwrap() > 0, "{flips}: {document}");
            assert_eq!(document["replaced"], document["injected"], "{flips}: {document}");
            let first = &document["mismatches"][0];
            assert!(first["what"] == "MPI_Put" || flips.contains("rate"), "{flips}: {document}");
        }
    }
}

/// The messages that differed, each once, by rank and number.
fn differing(document: &Value) -> BTreeSet<(u64, u64)> {
    let place = |one: &Value| (one["rank"].as_u64().unwrap(), one["number"].as_u64().unwrap());
    document["mismatches"].as_array().unwrap().iter().map(place).collect()
}

/// Replicas that are compared behind the program are found to differ wherever those are that wait for each other.
#[test]
fn errors_are_found_behind_the_program_and_none_is_missed() {
    let flip = ["--on-mismatch", "continue", "--inject", "flip:send:at=7,rank=2,replica=1"];
    for (place, job) in jobs().into_iter().enumerate() {
        // What is one-sided is compared in the same way with each MPI, and so is all else that follows.
        for (program, replicas) in [("ring", "3"), ("windows", "2")].into_iter().take(2 - place) {
            let (_, now) = job.run(&[&flip[..], &["--replicas", "2"]].concat(), program);
            let options = [&flip[..], &["--mode", "later", "--replicas", replicas]].concat();
            let (output, document) = job.run(&options, program);
            assert_eq!((output.code, &document["stopped"]), (Some(0), &Value::Null), "{output:?}");
            assert_eq!((&document["mode"], &document["replaced"]), (&"later".into(), &0.into()), "{document}");
            assert_eq!(differing(&document), differing(&now), "{program}: {document}");
            let share = document["comparer_share"].as_f64().unwrap();
            assert!(share > 0.0 && share < 0.1, "{document}");
            let mismatches = document["mismatches"].as_array().unwrap();
            let named: &[u32] = if replicas == "3" { &[1] } else { &[] };
            assert!(mismatches.iter().all(|one| one["wrong_replicas"] == serde_json::json!(named)), "{document}");
            let is_ring = program == "ring";
            let first = mismatches.iter().find(|one| one["rank"] == if is_ring { 3 } else { 2 }).unwrap();
            assert_eq!((&first["bytes"], &first["first_difference"]), (&4000.into(), &Value::Null), "{first}");
            let sender = if is_ring { 2.into() } else { Value::Null };
            assert_eq!((&first["sender"], &first["peer"]), (&sender, &sender), "{first}");
        }
        if place > 0 {
            continue;
        }
        let (output, document) = job.run(&["--mode", "later"], "all");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!((&document["differed"], &document["stopped"]), (&0.into(), &Value::Null), "{document}");
    }
}

/// The program computes for ten seconds after the error, and calls nothing.
#[test]
fn a_job_with_an_error_is_stopped_soon_while_the_program_computes() {
    // The MPI has no part in it.
    for job in jobs().into_iter().take(1) {
        let flip = ["--inject", "flip:send:at=1,rank=2,replica=1"];
        for (how, options, why) in [
            ("ticks", &flip[..], "the program has them already"),
            ("ticks-abort", &flip[..], "the program has them already"),
            ("ticks-other", &["--on-mismatch", "continue"], "do different things before message 1"),
        ] {
            let (output, document) = job.run(&[options, &["--mode", "later"]].concat(), how);
            assert_eq!(output.code, Some(1), "{output:?}");
            assert!(document["stopped"].as_str().unwrap().contains(why), "{document}");
            assert!(output.out.lines().count() < 50, "{output:?}");
            assert_eq!(
                document["mismatches"].as_array().unwrap().len(),
                usize::from(how != "ticks-other"),
                "{document}"
            );
        }
    }
}

/// A replica that is as far ahead as the log has places waits for the one behind.
#[test]
fn a_replica_that_is_far_ahead_waits() {
    for job in jobs().into_iter().take(1) {
        let shared = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        shared.as_file().set_len(4096).unwrap();
        let options = ["--mode", "later", "--replicas", "2"];
        let (output, document) = job.run_ranks("1", &options, &format!("ahead:{}", shared.path().display()));
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!((&document["compared"], &document["differed"]), (&140_000.into(), &0.into()), "{document}");
    }
}

/// The program through which errors spread, for each MPI.
fn spreading() -> Vec<Job> {
    libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", SPREAD)).collect()
}

/// The tainted ranks of a study: how, in which step, and from which rank.
fn taints(study: &Value) -> BTreeMap<u64, (String, u64, Option<u64>)> {
    let taint = |one: &Value| {
        let how = one["how"].as_str().unwrap().to_owned();
        (one["rank"].as_u64().unwrap(), (how, one["step"].as_u64().unwrap(), one["from"].as_u64()))
    };
    study["taints"].as_array().unwrap().iter().map(taint).collect()
}

/// [Fiala15, 3.7.1, figures 3.10 to 3.12]: where neighbours exchange edges, an error goes from neighbour to neighbour.
#[test]
fn an_error_spreads_step_by_step_through_a_stencil() {
    for job in spreading() {
        let flip = ["--inject", "flip:send:step=3,rank=5,replica=1", "--replicas", "2"];
        let pages = ["--propagation", "spread.html", "--report", "job.html"];
        let (output, document) = job.run_ranks("16", &[flip, pages].concat(), "stencil");
        assert_eq!((output.code, &document["stopped"]), (Some(0), &Value::Null), "{output:?}");
        let study = &document["propagation"];
        let taints = taints(study);
        assert_eq!(
            (&study["step"], &study["steps"], taints.len()),
            (&"MPI_Pcontrol".into(), &24.into(), 16),
            "{study}"
        );
        assert_eq!((&study["injected"], &study["directly"], &study["indirectly"]), (&1.into(), &4.into(), &11.into()));
        assert_eq!(taints[&5], ("injected".to_owned(), 3, None));
        for (rank, (how, step, from)) in &taints {
            let (row, column) = (rank / 4, rank % 4);
            let distance = row.abs_diff(1) + column.abs_diff(1);
            assert_eq!(how == "indirectly", distance > 1, "{rank}: {study}");
            // The error has crossed the three cells of a rank when it reaches the next one.
            if let Some(from) = from {
                assert!(taints[from].1 <= *step && *step <= taints[from].1 + 3, "{rank}: {study}");
            }
        }
        let mut steps: Vec<u64> = taints.values().map(|(_, step, _)| *step).collect();
        steps.sort_unstable();
        steps.dedup();
        assert!(steps.len() >= 5, "it takes several steps: {steps:?}");
        // Each message that was compared in the last step is corrupt, in both replicas: 24 pairs of neighbours.
        let last: Vec<&Value> = study["corrupt"].as_array().unwrap().iter().filter(|one| one["step"] == 24).collect();
        assert_eq!(last.iter().map(|one| one["messages"].as_u64().unwrap()).sum::<u64>(), 48, "{study}");
        assert_eq!(study["corrupt_messages"], document["differed"]);
        assert_eq!(document["injections"][0]["step"], 3, "{document}");
        for page in ["spread.html", "job.html"] {
            let page = std::fs::read_to_string(job.rampart.folder().join(page)).unwrap();
            assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
            assert!(page.matches("<svg").count() >= 3 && !page.contains("<script"), "{page}");
        }
    }
}

/// [Fiala15, 3.7.1, figures 3.13 to 3.16]: where all add up in each step, an error is everywhere within two steps.
#[test]
fn an_error_is_everywhere_at_once_where_all_add_up() {
    for job in spreading() {
        let step = ["--step", "MPI_Allreduce", "--replicas", "2", "--propagation", "spread.html"];
        // In the first step no sum is changed: what is hit is the sum of the first Allreduce, or an edge after it.
        for flip in ["flip:send:step=5,rank=6,replica=1,seed=2", "flip:send:at=9,rank=6,replica=0,seed=2"] {
            let (output, document) = job.run_ranks("16", &[&step[..], &["--inject", flip]].concat(), "reduce");
            assert_eq!((output.code, &document["stopped"]), (Some(0), &Value::Null), "{output:?}");
            let study = &document["propagation"];
            assert_eq!((&study["step"], &study["steps"]), (&"MPI_Allreduce".into(), &13.into()), "{study}");
            let taints = taints(study);
            let first = taints[&6].1;
            assert_eq!((taints.len(), taints[&6].0.as_str()), (16, "injected"), "{flip}: {study}");
            assert!(taints.values().all(|(_, step, _)| *step <= first + 2), "{flip}: {study}");
        }
        // Nobody counts steps: then messages are counted.
        let options =
            ["--replicas", "3", "--propagation", "spread.html", "--inject", "flip:send:at=9,rank=2,replica=1"];
        let (output, document) = job.run(&options, "reduce");
        assert_eq!((output.code, &document["replaced"]), (Some(0), &0.into()), "nothing is corrected: {output:?}");
        assert_eq!(
            (&document["propagation"]["step"], &document["propagation"]["tainted"]),
            (&"message".into(), &4.into())
        );
    }
}

/// Calls that the library makes itself are none of the program.
#[test]
fn steps_are_counted_in_fortran_too_and_only_the_program_s() {
    // The last step of the second one, whose checks would find an error in another.
    let programs = [(IN_FORTRAN, "MPI_Irecv", 20), (IN_FORTRAN_2008, "MPI_Allreduce", 10)];
    for ([_, fortran], (program, step, steps)) in
        libraries().into_iter().flat_map(|one| programs.map(|other| (one, other)))
    {
        let Some(job) = Job::built(fortran, "program.f90", program) else { continue };
        let flip =
            ["--inject", "flip:send:step=10,rank=1,replica=1", "--replicas", "2", "--propagation", "spread.html"];
        let (output, document) = job.run(&[&flip[..], &["--step", step]].concat(), "");
        assert_eq!((output.code, &document["propagation"]["steps"]), (Some(0), &steps.into()), "{output:?}");
    }
    // MPI_Pcontrol, which this program also calls in each step, counts no longer.
    for job in spreading() {
        let flip = ["--inject", "flip:send:step=2,rank=1,replica=1", "--replicas", "2", "--propagation", "spread.html"];
        let (output, document) = job.run(&[&flip[..], &["--step", "MPI_Waitall"]].concat(), "stencil");
        assert_eq!((output.code, &document["propagation"]["steps"]), (Some(0), &24.into()), "{output:?}");
    }
}

/// Runs a study of a program in which a replica does something else after the flip.
fn leaves_its_path(job: &Job, how: &str, why: &str) {
    let page = format!("{how}.html");
    let flip = ["--inject", "flip:send:at=2,rank=1,replica=1,seed=3", "--replicas", "2", "--propagation", &page];
    let (output, document) = job.run(&flip, how);
    assert_eq!(output.code, Some(0), "{how}: {output:?}");
    let study = &document["propagation"];
    assert_eq!((&study["injected"], &study["directly"]), (&1.into(), &1.into()), "{how}: {study}");
    assert_eq!(study["left_common_path"], how != "crash", "{how}: {document}");
    assert_eq!(study["came_to_its_end"], false, "{how}: {document}");
    assert!(document["stopped"].as_str().unwrap_or("").contains(why), "{how}: {document}");
    let page = std::fs::read_to_string(job.rampart.folder().join(page)).unwrap();
    let line = if how == "crash" { "did not come to its end" } else { "left their common path" };
    assert!(page.contains(line), "{how}: {page}");
}

/// That a replica does something else after the flip, or nothing more, is a result.
#[test]
fn a_study_ends_also_if_replicas_leave_their_path() {
    // With one MPI: each of these waits for seconds, of which none is the MPI's.
    for job in spreading().into_iter().take(1) {
        std::thread::scope(|threads| {
            for (how, why) in
                [("more", "different things"), ("loop", "stands still"), ("wait", "different things"), ("crash", "")]
            {
                let job = &job;
                threads.spawn(move || leaves_its_path(job, how, why));
            }
        });
        // What is never hit is no study.
        let never = ["--inject", "flip:send:step=2,replica=1", "--replicas", "2", "--propagation", "spread.html"];
        let (output, document) = job.run(&never, "more");
        assert_eq!((output.code, &document["propagation"]["flips"]), (Some(1), &0.into()), "{output:?}");
        let other = ["--inject", "flip:send:step=2,replica=1", "--replicas", "2", "--step", "MPI_Alreduce"];
        let program = job.rampart.folder().join("program");
        let words = [&["mpirun", "-n", "2"], &other[..], &["--", program.to_str().unwrap()]].concat();
        let output = job.rampart.run(&words);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains("MPI_Alreduce"), "{output:?}");
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
            let flip = format!("flip:send:at=2,rank=1,replica=1,seed={seed}");
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
        let (output, document) = job.run(&["--replicas", "2"], "session");
        let why = document["stopped"].as_str();
        assert!(output.out.contains("no sessions") || why.unwrap().contains("MPI_Session_init"), "{output:?}");
        // None of the MPIs of Debian 12 can.
        let output = CommandOutput::from(job.command("2", &["--on-death", "drop"], "ring").output().unwrap());
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains("Open MPI 5"), "{output:?}");
    }
    let rampart = Rampart::new();
    for (words, why) in [
        (&["mpirun", "-n", "2", "--", "true"][..], "needs no MPI library"),
        (&["mpirun", "-n", "2", "--", "/no/such/program"], "no such program"),
        (&["mpirun", "-n", "2", "--replicas", "1", "--", "true"], "2..=16"),
        (&["mpirun", "-n", "0", "--", "true"], "-n"),
        (&["mpirun", "-n", "2", "--inject", "flip:send:often=1", "--", "true"], "none of rate"),
        (&["mpirun", "-n", "2", "--inject", "flip:send:at=1,rank=2", "--", "true"], "no rank 2"),
        (
            &["mpirun", "-n", "2", "--inject", "flip:send:at=1", "--propagation", "a", "--", "true"],
            "must name a replica",
        ),
        (&["mpirun", "-n", "2", "--propagation", "a", "--", "true"], "--inject"),
        (
            &["mpirun", "-n", "2", "--mode", "later", "--inject", "flip:send:at=1", "--propagation", "a", "--", "true"],
            "--mode now",
        ),
        (&["mpirun", "-n", "2", "--replicas", "2", "--on-death", "drop", "--", "true"], "three replicas"),
        (&["mpirun", "-n", "2", "--mode", "later", "--on-death", "drop", "--", "true"], "correct errors"),
        (&["mpirun", "-n", "2", "--report", "/no/folder/a", "--", "true"], "/no/folder/a"),
    ] {
        let output = rampart.run(words);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains(why), "{output:?}");
    }
}
