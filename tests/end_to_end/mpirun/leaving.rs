//! Replicas that leave before the end of the program: by a crash, `MPI_Abort`, `exit`, or an error of the MPI.

use serde_json::Value;

use super::{Job, libraries};
use crate::guarded::is_whole;

const PROGRAM: &str = include_str!("../victims/leaves.c");

/// What the program prints.
const RESULT: &str = "result 3.0\n";

/// The signals of the crashes.
const CRASHES: [(&str, i32); 9] = [
    ("null", 11),
    ("smash", 7),
    ("overflow", 11),
    ("trap", 4),
    ("assert", 6),
    ("file", 7),
    ("zero", 8),
    ("free", 11),
    ("malloc", 6),
];

/// By day the first of these.
fn ways<const N: usize>(all: [(&'static str, &'static str); N]) -> impl Iterator<Item = (&'static str, &'static str)> {
    all.into_iter().take(if is_whole() { N } else { 2 })
}

fn why(how: &str) -> String {
    match CRASHES.iter().find(|(crash, _)| *crash == how) {
        Some((_, signal)) => format!("crashed by signal {signal}"),
        None if how == "abort" => "called MPI_Abort with 7, unlike the others".to_owned(),
        None => "ended without MPI_Finalize, unlike the others".to_owned(),
    }
}

#[test]
fn a_replica_that_crashes_or_leaves_alone_is_dropped_with_its_team() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        let all = [
            ("smash", "1"),
            ("abort", "0"),
            ("null", "2"),
            ("overflow", "2"),
            ("trap", "0"),
            ("assert", "1"),
            ("exit", "2"),
            ("file", "0"),
            ("zero", "1"),
            ("malloc", "1"),
            ("free", "2"),
        ];
        for (how, replica) in ways(all) {
            let (output, document) = job.run(&[], &format!("{how}:{replica}"));
            assert_eq!((output.code, output.out.as_str()), (Some(0), RESULT), "{compiler} {how}: {}", output.err);
            let [dropped] = &document["dropped"].as_array().unwrap()[..] else { panic!("{how}: {document}") };
            assert_eq!(dropped["team"], replica.parse::<u32>().unwrap(), "{document}");
            assert_eq!((&dropped["rank"], &dropped["why"]), (&2.into(), &why(how).into()), "{document}");
            assert_eq!((&document["stopped"], &document["died"]), (&Value::Null, &Value::Null), "{document}");
        }
    }
}

const FAILS: &str = include_str!("../victims/fails.c");

/// Most programs leave it to the MPI to end the job then. An error that a receive has is compared as a message is.
#[test]
fn a_replica_of_which_a_call_of_the_mpi_fails_is_dropped_with_its_team() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", FAILS) else { continue };
        let all = [("tag", "calls"), ("target", "error"), ("long,test", "calls"), ("abort,target", "MPI_Abort with 9")];
        for (how, why) in ways(all) {
            let (output, document) = job.run(&[], how);
            assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 570\n"), "{compiler} {how}: {}", output.err);
            let [dropped] = &document["dropped"].as_array().unwrap()[..] else { panic!("{how}: {document}") };
            assert_eq!(dropped["team"], 1, "{document}");
            assert!(how.starts_with("tag") || dropped["why"].as_str().unwrap().contains(why), "{how}: {document}");
            assert_eq!(document["died"], Value::Null, "{document}");
        }
    }
}

#[test]
fn an_error_of_the_mpi_in_all_replicas_ends_the_job_as_without_rampart() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", FAILS) else { continue };
        let all = [
            ("all,long,any", "truncated"),
            ("all,target", "nvalid rank"),
            ("all,tag", "truncated"),
            ("all,long,test", "truncated"),
        ];
        for (how, name) in ways(all) {
            let (output, document) = job.run(&[], how);
            assert!(output.code.is_some_and(|code| code != 0), "{compiler} {how}: {}", output.err);
            assert!(!output.out.contains("sum") && document["stopped"].is_null(), "{document}");
            assert!(document["died"]["error"].as_str().unwrap().contains(name), "{how}: {document}");
            assert!(document["dropped"].as_array().unwrap().is_empty(), "{how}: {document}");
        }
    }
}

/// What a receive from any source takes was decided by a replica that is dropped. In one replica the message is not
/// here then, but what another team says of it is.
#[test]
fn a_message_that_is_late_when_the_team_that_decides_is_dropped_is_still_compared() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "late.c", include_str!("../victims/late.c")) else { continue };
        let (output, document) = job.run(&[], "");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 135\n"), "{compiler}: {}", output.err);
        assert_eq!(document["dropped"][0]["team"], 0, "{document}");
        assert_eq!(document["differed"], 0, "{document}");
    }
}

/// They are no longer on different paths.
#[test]
fn all_replicas_of_a_rank_leave_as_without_rampart() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        for (how, _) in ways([("abort", ""), ("raise", ""), ("null", ""), ("exit", ""), ("assert", "")]) {
            let (output, document) = job.run(&[], &format!("{how}:"));
            assert!(output.code.is_some_and(|code| code != 0), "{compiler} {how}: {}", output.err);
            assert!(how != "abort" || output.code == Some(7), "{compiler}: {document}");
            assert!(!output.out.contains("result"), "{document}");
            assert_eq!(document["stopped"], Value::Null, "{document}");
            assert_eq!(document["died"].is_null(), how == "abort", "{how}: {document}");
            assert!(document["dropped"].as_array().unwrap().is_empty(), "{how}: {document}");
        }
    }
}

/// The MPI may be in any state then, also if the program handles the signal.
#[test]
fn a_crash_in_a_call_of_the_mpi_ends_the_job_and_is_named() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        let (output, document) = job.run(&[], "buffer:1");
        let died = &document["died"];
        let named = [&died["rank"], &died["replica"], &died["signal"]];
        assert_eq!(named, [2, 1, 11].map(Value::from).each_ref(), "{document}");
        assert!(output.code.is_some_and(|code| code != 0), "{}", output.err);
        let (output, document) = job.run(&[], "handler:1");
        assert_eq!(output.code, Some(7), "{document}");
    }
}
