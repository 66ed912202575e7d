//! Who a process is, and what it draws from the kernel's random numbers: the same in all replicas of a rank.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{Job, libraries};

const PROGRAM: &str = include_str!("../victims/who.c");

/// Starts what a launcher wants to have started on a node, on this one, under the name of that one.
const AGENT: &str = "#!/bin/sh
while [ \"${1#-}\" != \"$1\" ]; do shift; done
node=$1; shift; exec unshare --uts sh -c \"hostname node-$node; $*\"
";

/// Options of a launcher of MPICH for three nodes with names of their own; none where names cannot be given.
fn nodes_with_names(job: &Job) -> Vec<String> {
    if !Command::new("unshare").args(["--uts", "true"]).status().is_ok_and(|status| status.success()) {
        println!("no names of nodes: not permitted");
        return Vec::new();
    }
    let agent = job.rampart.folder().join("agent");
    std::fs::write(&agent, AGENT).unwrap();
    std::fs::set_permissions(&agent, Permissions::from_mode(0o755)).unwrap();
    let hosts = "127.0.0.2:2,127.0.0.3:2,127.0.0.4:2";
    ["-launcher", "rsh", "-launcher-exec", agent.to_str().unwrap(), "-hosts", hosts]
        .map(|option| format!("--launcher-option={option}"))
        .to_vec()
}

/// All that the program learns of itself is in a message, which would differ.
#[test]
fn replicas_of_a_rank_are_one_process_and_draw_the_same_numbers() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        let nodes = if compiler.ends_with("mpich") { nodes_with_names(&job) } else { Vec::new() };
        let options: Vec<&str> = nodes.iter().map(String::as_str).chain(["--replicas", "3"]).collect();
        let run = || {
            let (output, document) = job.run_ranks("2", &options, "");
            assert_eq!((output.code, &document["differed"]), (Some(0), &0.into()), "{output:?}");
            assert_eq!((&document["compared"], &document["output_mismatches"]), (&6.into(), &serde_json::json!([])));
            assert!(!output.out.contains("fails"), "{output:?}");
            let mut lines: Vec<String> = output.out.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let lines = run();
        let word = |rank: usize, place: usize| lines[rank].split(' ').nth(place).unwrap().to_owned();
        assert_ne!(word(0, 3), word(1, 3), "each rank is a process: {lines:?}");
        assert!(nodes.is_empty() || [0, 1].map(|rank| word(rank, 5)) == ["node-127.0.0.2"; 2], "{lines:?}");
        assert!(!nodes.is_empty() || run() != lines, "another job draws other numbers");
    }
}

/// Sends and prints where its stack is.
const STACK: &str = "#include <mpi.h>
#include <stdio.h>
int main(int count, char **words)
{
    MPI_Init(&count, &words);
    long here = (long)&count, least;
    MPI_Allreduce(&here, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    printf(\"%lx\\n\", here == least ? here : 0);
    MPI_Finalize();
    return 0;
}
";

/// The stack lies below the environment, which is longer for the twelfth process than for the ninth. Whether that moves
/// it depends on the length of the rest.
#[test]
fn stacks_of_replicas_are_at_the_same_address() {
    for job in libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", STACK)) {
        for length in [0, 4, 8, 12] {
            let mut command = job.command("4", &["--replicas", "3", "--json"], "");
            let output = command.env("LENGTH", "x".repeat(length)).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("\"differed\": 0"), "{length}: {said}");
            assert!(said.contains("\"output_mismatches\": []"), "{length}: {said}");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(printed.lines().count() == 4 && !printed.lines().any(|line| line == "0"), "{length}: {printed}");
        }
    }
}
