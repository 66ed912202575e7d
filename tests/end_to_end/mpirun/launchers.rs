//! Launchers of another MPI, and those that do not do as they should when they are asked where they place processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{Job, PROGRAM, libraries};
use crate::harness::{CommandOutput, Rampart, signal};
use crate::watch::eventually;

/// With a launcher that first does this when it is asked.
fn job_with(what_it_does: &str) -> Option<(Job, String)> {
    let [compiler, _] = libraries().into_iter().next()?;
    let job = Job::built(compiler, "program.c", PROGRAM)?;
    let launcher = compiler.replace("mpicc", "mpirun");
    let path = job.rampart.folder().join("mpirun.stubborn");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *rampart-node*) touch asked; {what_it_does}; esac\nexec {launcher} \"$@\"\n",
        what_it_does = what_it_does.replace("LAUNCHER", &launcher)
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    Some((job, path.to_str().unwrap().to_owned()))
}

/// `mpirun` of Open MPI 4.1.4 does so at times, with 192 processes.
#[test]
fn a_launcher_that_does_not_end_after_its_answers_keeps_no_job_from_its_begin() {
    let Some((job, launcher)) = job_with("LAUNCHER \"$@\"; trap '' TERM; while :; do sleep 1; done") else { return };
    let (output, document) = job.run(&["--launcher", &launcher], "ring");
    assert_eq!((output.code, &document["differed"]), (Some(0), &0.into()), "{output:?}");
    assert!(job.rampart.folder().join("asked").exists());
}

#[test]
fn a_job_that_is_to_end_before_it_began_leaves_nothing() {
    let Some((job, launcher)) = job_with("exec sleep 1000") else { return };
    let mut command = job.command("4", &["--launcher", &launcher], "ring");
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it is asked", || job.rampart.folder().join("asked").exists().then_some(()));
    signal(&child, "TERM");
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    let said = "rampart: stopped before the program began";
    assert!(output.code == Some(2) && output.err.contains(said), "{output:?}");
    let names = fs::read_dir(job.rampart.folder()).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with(".rampart-mpirun")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The other one has its name only.
#[test]
fn a_launcher_of_another_mpi_than_the_program_s_is_refused_in_one_line() {
    let [[compiler, _], ..] = libraries()[..] else { return };
    let (rampart, launcher) = (Rampart::new(), compiler.replace("mpicc", "mpirun"));
    let (other, mpi) =
        if compiler.ends_with("mpich") { ("libmpi.so.40", "Open MPI") } else { ("libmpich.so.12", "MPICH") };
    let build = |words: &[&str]| {
        let status = Command::new("cc").current_dir(rampart.folder()).args(words).status().expect("a compiler is here");
        assert!(status.success(), "{words:?}");
    };
    fs::write(rampart.folder().join("program.c"), "int main(void) { return 0; }\n").unwrap();
    build(&["-shared", "-o", other, &format!("-Wl,-soname,{other}"), "-x", "c", "/dev/null"]);
    build(&["-o", "program", "program.c", "-Wl,--no-as-needed", other]);
    let program = rampart.folder().join("program");
    let words = ["mpirun", "-n", "2", "--launcher", &launcher, "--", program.to_str().unwrap()];
    let output = rampart.run(&words);
    assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
    assert!(output.err.contains(mpi) && output.err.contains(compiler), "{output:?}");
}
