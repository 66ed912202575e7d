//! Jobs under Slurm's own launcher: three nodes on this machine, where Slurm is installed and this is root.

use std::path::{Path, PathBuf};
use std::process::Command;

use rampart_skips::{Feature, installed};
use serde_json::{Value, json};

use super::Job;
use super::nodes::PROGRAM;
use crate::harness::CommandOutput;

/// Nodes that end with this.
struct Nodes(PathBuf);

impl Nodes {
    fn script(action: &str, folder: &Path) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/redmpi/slurm/nodes");
        Command::new(script).arg(action).arg(folder).status().is_ok_and(|status| status.success())
    }

    /// `None` where Slurm is not installed.
    fn start(folder: &Path) -> Option<Self> {
        let is_there = |name: &&str| installed(name, Feature::Slurm);
        if !rampart_skips::root("only root starts nodes") || !["slurmctld", "slurmd", "salloc"].iter().all(is_there) {
            return None;
        }
        let nodes = Self(folder.to_owned());
        assert!(Self::script("start", folder), "the nodes come up");
        Some(nodes)
    }

    /// Runs a job in an allocation of its own; the options are those of Slurm.
    fn run(&self, job: &Job, allocation: &[&str], options: &[&str], argument: &str) -> CommandOutput {
        let slurm = ["--launcher", "srun", "--launcher-option=--mpi=pmi2", "--mpicc", "mpicc.mpich"];
        let inner = job.command("2", &[&slurm, options].concat(), argument);
        let mut command = Command::new("salloc");
        command.arg("--quiet").args(allocation).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(job.rampart.folder()).env("SLURM_CONF", self.0.join("slurm.conf"));
        command.env("RAMPART_STORE", job.rampart.store()).env("SET_BEFORE", "it is set");
        CommandOutput::from(command.output().unwrap())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        Self::script("stop", &self.0);
    }
}

#[test]
fn replicas_run_under_slurm_on_different_nodes_and_end_together() {
    let Some(job) = Job::built("mpicc.mpich", "program.c", PROGRAM) else { return };
    let Some(nodes) = Nodes::start(&job.rampart.folder().join("slurm")) else { return };
    for (replicas, more) in [("3", "--launcher-option=--distribution=cyclic"), ("3", "--json"), ("2", "--json")] {
        let output = nodes.run(&job, &["-N3", "--ntasks-per-node=2"], &["--replicas", replicas, more], "0");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 2380, it is set\n"), "{output:?}");
        assert!(!output.err.contains("several replicas on node"), "{output:?}");
    }
    let flip = ["--json", "--inject", "flip:send:at=7,rank=1,replica=2"];
    let output = nodes.run(&job, &["-N3", "--ntasks-per-node=2"], &flip, "0");
    let begin = output.err.rfind("{\n  \"compared\"").unwrap_or_else(|| panic!("{output:?}"));
    let document: Value = serde_json::from_str(&output.err[begin..]).unwrap();
    assert_eq!((&document["replaced"], &document["crowded_nodes"]), (&1.into(), &json!({})), "{document}");
    assert_eq!(document["erring_nodes"], json!({ "n3": 1 }), "by Slurm's name: {document}");
    let three = ["--replicas", "3"];
    for (call, argument, team) in [("call:at=7,rank=1,replica=2,change=skip", "0", 2), ("", "dies", 1)] {
        let inject = ["--inject", call];
        let options = [&three[..], if call.is_empty() { &[] } else { &inject }].concat();
        let output = nodes.run(&job, &["-N3", "--ntasks-per-node=2"], &options, argument);
        assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 2380, it is set\n"), "{output:?}");
        assert!(output.err.contains(&format!("team {team} is dropped")), "{output:?}");
    }
    let stops = [&three[..], &["--on-divergence", "stop"]].concat();
    let output = nodes.run(&job, &["-N3", "--ntasks-per-node=2"], &stops, "dies");
    assert!(output.err.contains("replica 1 of rank 1 died"), "it does not wait for ever: {output:?}");
    let output = nodes.run(&job, &["-N3", "--ntasks-per-node=2"], &["--launcher-option=--mpi=none"], "0");
    assert!(output.code == Some(1) && output.err.contains("each process as a job of its own"), "{output:?}");
}
