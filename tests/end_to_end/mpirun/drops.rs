//! Replicas that leave the common path: the job goes on without their teams.

use serde_json::Value;

use super::{Job, libraries};
use crate::guarded::is_whole;
use crate::harness::CommandOutput;

const PROGRAM: &str = include_str!("../victims/drops.c");

/// What the program prints and writes.
const RESULT: &str = "total 357.327296\n";

/// Runs a job of which one call is another one.
fn run(job: &Job, options: &[&str], call: &str, how: &str) -> (Option<i32>, String, Value) {
    let call = format!("call:{call}");
    let (output, document) = job.run(&[&["--inject", &call], options].concat(), how);
    (output.code, output.out, document)
}

/// What it is where messages from any source decide it.
const ANY_RESULT: &str = "total 2258765.000000\n";

/// Whichever replica it is, the one that decides included; at night also in other ways.
#[test]
fn a_team_of_which_a_replica_leaves_the_path_is_dropped_and_the_result_is_right() {
    let by_day = [("tag", 0, "any"), ("target", 0, "ring"), ("crash", 0, "any")];
    let at_night = [
        ("skip", 1, "ring"),
        ("loop", 1, "all"),
        ("skip", 0, "all"),
        ("length", 2, "any"),
        ("skip", 0, "any"),
        ("crash", 1, "all"),
        ("abort", 0, "any"),
        ("exit", 2, "ring"),
    ];
    let ways = if is_whole() { [&by_day[..], &at_night].concat() } else { by_day.to_vec() };
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        for (change, replica, how) in &ways {
            let call = format!("at=7,rank=2,replica={replica},change={change}");
            let (code, out, document) = run(&job, &[], &call, how);
            let dropped = &document["dropped"];
            assert_eq!((code, dropped.as_array().unwrap().len()), (Some(0), 1), "{compiler} {call} {how}: {document}");
            assert_eq!((&dropped[0]["team"], &dropped[0]["rank"]), (&(*replica).into(), &2.into()), "{document}");
            assert_eq!(document["stopped"], Value::Null, "{document}");
            let written = std::fs::read_to_string(job.rampart.folder().join("out.txt")).unwrap();
            assert_eq!((out.lines().count(), &out), (1, &written), "{call} {how}: {document}");
            let right = [("ring", RESULT), ("any", ANY_RESULT)].into_iter().find(|(name, _)| name == how);
            assert!(right.is_none_or(|(_, right)| out == right), "{call} {how}: {out}");
            assert!(document["output_mismatches"].as_array().unwrap().is_empty(), "{document}");
        }
    }
}

#[test]
fn two_replicas_that_part_stop_the_job_and_three_if_the_user_wants_it() {
    let Some(job) = libraries().into_iter().find_map(|[c, _]| Job::built(c, "program.c", PROGRAM)) else { return };
    for options in [["--replicas", "2"], ["--on-divergence", "stop"]] {
        let (code, _, document) = run(&job, &options, "at=7,rank=2,replica=1,change=skip", "ring");
        assert_eq!(code, Some(1), "{document}");
        assert!(document["stopped"].is_string(), "by the first message that is missing, or by the path: {document}");
        assert_eq!(document["dropped"].as_array().unwrap().len(), 0, "{document}");
    }
}

/// MPICH takes no messages while it waits for all processes at its end. Here it has room for four between two processes
/// (UCX's shared memory), and a process that was dropped takes only few at a time.
#[test]
fn what_was_sent_to_a_team_that_is_dropped_keeps_no_process_from_its_end() {
    let Some(job) = Job::built("mpicc.mpich", "many.c", include_str!("../victims/many.c")) else { return };
    for (replica, change) in [(2, "crash"), (0, "skip")] {
        let call = format!("call:at=290,rank=0,replica={replica},change={change}");
        let mut command = job.command("4", &["--inject", &call], "");
        command.envs(["UCX_POSIX_FIFO_SIZE", "UCX_SYSV_FIFO_SIZE"].map(|name| (name, "4")));
        let output = CommandOutput::from(command.output().unwrap());
        assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 45750\n"), "{change}: {}", output.err);
        assert!(output.err.contains(&format!("team {replica} is dropped")), "{}", output.err);
    }
}

/// What the team that decided had decided can let the others wait for ever.
#[test]
fn a_job_that_stands_still_without_a_team_is_ended() {
    let stuck = include_str!("../victims/stuck.c");
    let Some(job) = libraries().into_iter().find_map(|[c, _]| Job::built(c, "stuck.c", stuck)) else { return };
    let (output, document) = job.run(&["--patience", "1"], "");
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(document["stopped"].as_str().is_some_and(|why| why.contains("stands still")), "{document}");
    assert_eq!((&document["dropped"][0]["team"], &document["died"]), (&0.into(), &Value::Null), "{document}");
    assert!(output.err.contains("a deadlock: ranks 0, 1, 2, 3 wait for each other"), "{}", output.err);
}
