//! A job that its launcher does not start: the launcher's reason is said first, and not that the MPI may be wrong.

use std::process::Command;

use rampart_skips::{Feature, root, skip};

use crate::harness::{CommandOutput, Rampart};

const PROGRAM: &str = "#include <mpi.h>\n#include <stdlib.h>\nint main(int count, char **words)\n{\n\
    MPI_Init(&count, &words);\n\tMPI_Barrier(MPI_COMM_WORLD);\n\tif (count > 1)\n\t\texit(atoi(words[1]));\n\
    MPI_Finalize();\n\treturn 0;\n}\n";

/// Root may run jobs of Open MPI.
const ALLOWED: [(&str, &str); 2] = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// A program of one MPI, and its launcher; `None`, audibly, where that MPI is not installed.
fn built(mpi: &str) -> Option<(Rampart, String)> {
    let (rampart, compiler) = (Rampart::new(), format!("mpicc.{mpi}"));
    std::fs::write(rampart.folder().join("program.c"), PROGRAM).unwrap();
    let mut command = Command::new(&compiler);
    command.current_dir(rampart.folder()).args(["-o", "program", "program.c"]);
    let Ok(status) = command.status() else {
        skip(if mpi == "mpich" { Feature::Mpich } else { Feature::OpenMpi }, format!("no {compiler}"));
        return None;
    };
    assert!(status.success(), "{compiler} builds the program");
    Some((rampart, format!("mpirun.{mpi}")))
}

fn output(rampart: &Rampart, words: &[&str], settings: &[(&str, &str)]) -> CommandOutput {
    let mut command = rampart.command_within(120, words);
    for (name, _) in ALLOWED {
        command.env_remove(name);
    }
    command.current_dir(rampart.folder()).envs(settings.iter().copied());
    CommandOutput::from(command.output().expect("the binary runs"))
}

/// Exit code 2, and one line of ours, which has all these parts and blames no compiler.
fn refused(output: &CommandOutput, parts: &[&str]) {
    let ours: Vec<&str> = output.err.lines().filter(|line| line.contains("rampart: ")).collect();
    assert_eq!((output.code, ours.len()), (Some(2), 1), "{output:?}");
    assert!(parts.iter().all(|part| ours[0].contains(part)), "{parts:?}: {output:?}");
    assert!(!ours[0].contains("--mpicc"), "{output:?}");
    assert!(output.err.ends_with(&format!("{}\n", ours[0])), "it is the last line: {output:?}");
}

#[test]
fn as_root_one_line_says_how_open_mpi_runs_all_the_same() {
    if !root("Open MPI refuses root only") {
        return;
    }
    let Some((rampart, launcher)) = built("openmpi") else { return };
    let cause = ["failed (exit code 1)", "as root", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"];
    let trace = output(&rampart, &["trace", "-o", "trace", "--", &launcher, "-n", "2", "./program"], &[]);
    refused(&trace, &[&cause[..], &[&launcher, "nothing was recorded", "mpirun --allow-run-as-root"]].concat());
    assert!(trace.err.contains("has detected an attempt to run as root"), "its own words are passed on: {trace:?}");
    let replicas = output(&rampart, &["mpirun", "-n", "2", "--replicas", "2", "--", "./program"], &[]);
    refused(&replicas, &[&cause[..], &["did not begin", "--launcher-option=--allow-run-as-root"]].concat());
    let calibrated = output(&rampart, &["project", "calibrate", "--", &launcher, "-n", "2"], &[]);
    refused(&calibrated, &["cannot start the measurement", cause[2]]);
    // What the line says helps.
    let with =
        ["trace", "-o", "trace", "--", &launcher, "--allow-run-as-root", "--oversubscribe", "-n", "2", "./program"];
    assert_eq!(output(&rampart, &with, &[]).code, Some(0));
    let replicas = ["mpirun", "-n", "2", "--replicas", "2", "--launcher-option=--allow-run-as-root", "--", "./program"];
    assert_eq!(output(&rampart, &replicas, &[]).code, Some(0));
}

#[test]
fn where_slots_are_few_one_line_says_how_to_have_more() {
    let Some((rampart, launcher)) = built("openmpi") else { return };
    let trace = output(&rampart, &["trace", "-o", "trace", "--", &launcher, "-n", "9999", "./program"], &ALLOWED);
    let cause = ["failed (exit code 1)", "fewer slots", "start fewer"];
    refused(&trace, &[&cause[..], &["nothing was recorded", "mpirun --oversubscribe"]].concat());
    assert!(!rampart.folder().join("trace").exists());
    // Under its own name, `rampart mpirun` asks for more slots itself.
    let own = format!("#!/bin/sh\nexec {launcher} \"$@\"\n");
    let mut made = Command::new("sh");
    made.current_dir(rampart.folder()).args(["-c", "printf %s \"$0\" > own && chmod +x own", &own]);
    assert!(made.status().expect("sh runs").success());
    let head = ["mpirun", "-n", "3333", "--replicas", "3", "--launcher", "./own", "--mpicc", "mpicc.openmpi"];
    let replicas = output(&rampart, &[&head[..], &["--", "./program"]].concat(), &ALLOWED);
    refused(&replicas, &[&cause[..], &["./own", "--launcher-option=--oversubscribe"]].concat());
}

#[test]
fn a_program_that_is_not_there_or_not_executable_is_named_and_no_mpi_is_blamed() {
    for mpi in ["openmpi", "mpich"] {
        let Some((rampart, launcher)) = built(mpi) else { continue };
        for name in ["./none", "./program.c"] {
            let words = ["trace", "-o", "trace", "--", &launcher, "-n", "1", name];
            // By itself, too, MPICH's launcher dies of SIGPIPE in one of a hundred such runs, before it says anything.
            let mut runs = (0..5).map(|_| output(&rampart, &words, &ALLOWED));
            let said = runs.find(|run| !run.err.contains("ended by signal 13")).expect("not five in a row");
            refused(&said, &[&launcher, &format!("cannot run {name}"), "executable"]);
        }
    }
    // Without a launcher, before anything is built.
    let rampart = Rampart::new();
    std::fs::write(rampart.folder().join("plain"), "").unwrap();
    for (name, why) in [("no-such-program", "No such file"), ("./plain", "Permission denied")] {
        let words = ["trace", "-o", "trace", "--mpicc", "no-such-mpicc", "--", name];
        refused(&output(&rampart, &words, &[]), &[&format!("cannot run {name}: {why}")]);
    }
}

#[test]
fn a_program_that_fails_is_reported_first_with_its_exit_code() {
    let Some((rampart, launcher)) = built("openmpi").or_else(|| built("mpich")) else { return };
    let head = ["trace", "-o", "trace", "--", &launcher, "-n", "1"];
    let recorded = output(&rampart, &[&head[..], &["./program", "7"]].concat(), &ALLOWED);
    let ours: Vec<&str> = recorded.err.lines().filter(|line| line.starts_with("rampart: ")).collect();
    assert_eq!(recorded.code, Some(7), "{recorded:?}");
    assert_eq!(ours[0], format!("rampart: {launcher} failed (exit code 7)"), "{recorded:?}");
    assert!(ours[1].contains("a cut-off run of 1 rank"), "{recorded:?}");
    let nothing = output(&rampart, &[&head[..], &["false"]].concat(), &ALLOWED);
    let last = nothing.err.lines().last().unwrap();
    let first = format!("rampart: {launcher} failed (exit code 1), and nothing was recorded: ");
    assert!(nothing.code == Some(2) && last.starts_with(&first) && last.contains("--mpicc"), "{nothing:?}");
}
