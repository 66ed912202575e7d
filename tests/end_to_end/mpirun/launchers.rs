//! Launchers that do not do as they should when they are asked where they place processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{Job, PROGRAM, libraries};
use crate::harness::{CommandOutput, signal};
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
