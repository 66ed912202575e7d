//! Jobs that outlive the death of a process: Open MPI 5 with fault tolerance (ULFM).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::lives::{PROGRAM, check_what_is_left, replicas_of, rounds_in, text_of, wait_until};
use super::{Job, installed};
use crate::harness::end;

const RANKS: u32 = 2;

/// A job of three replicas of two ranks.
struct Outliving {
    folder: PathBuf,
    job: Job,
    child: Child,
}

impl Outliving {
    fn begin(mpi: &Path) -> Self {
        let (compiler, launcher) = (mpi.join("mpicc"), mpi.join("mpirun"));
        let job = Job::built(compiler.to_str().unwrap(), "program.c", PROGRAM).unwrap();
        let folder = job.rampart.folder().join("work");
        std::fs::create_dir(&folder).unwrap();
        let options = ["--launcher", launcher.to_str().unwrap(), "--on-death", "drop"];
        let mut command: Command = job.command(&RANKS.to_string(), &options, "slow");
        command.current_dir(&folder).envs([("PRTE_ALLOW_RUN_AS_ROOT", "1"), ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let [printed, said] = ["printed", "said"].map(|name| File::create(job.rampart.folder().join(name)).unwrap());
        let child = command.stdout(printed).stderr(said).spawn().unwrap();
        Self { folder, job, child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.job.rampart.folder().join(name)
    }

    /// Kills a process after so many rounds.
    fn kill(&mut self, native: u32, rounds: usize) {
        let printed = self.path("printed");
        wait_until(|| text_of(&printed).lines().count() >= rounds, &mut self.child);
        let victim = replicas_of(&self.path("program")).into_iter().find(|one| one.native == native).unwrap();
        let killed = Command::new("sh").args(["-c", &format!("kill -KILL {}", victim.process)]).status().unwrap();
        assert!(killed.success(), "it was there");
    }

    /// Its exit code, and what Rampart said; how many rounds are in what the job printed and in its two files.
    fn end(self) -> (Option<i32>, String, [usize; 3]) {
        let (printed, said, program) = (self.path("printed"), self.path("said"), self.path("program"));
        let code = end(self.child).code;
        let said = text_of(&said);
        check_what_is_left(&self.folder, &program, &said);
        let rounds =
            [printed, self.folder.join("log.0"), self.folder.join("log.1")].map(|path| rounds_in(&path, &said));
        (code, said, rounds)
    }
}

#[test]
fn a_job_goes_on_without_the_team_of_a_replica_that_dies() {
    let Some(mpi) = installed("openmpi5") else { return };
    // The one that decides, and another one.
    for native in [1, 4] {
        let mut job = Outliving::begin(&mpi);
        job.kill(native, 3);
        let (code, said, rounds) = job.end();
        let (replica, rank) = (native / RANKS, native % RANKS);
        let line = format!(
            "rampart: replica {replica} of rank {rank} died; team {replica} is dropped, the job goes on with 2 replicas"
        );
        assert!(said.lines().any(|one| one == line), "{said}");
        assert!(said.contains(" compared in 2 ranks of 3 replicas: 0 differed, 0 replaced"), "{said}");
        assert_eq!((code, rounds), (Some(0), [40; 3]), "{said}");
    }
}

#[test]
fn a_job_ends_when_the_second_of_three_replicas_dies() {
    let Some(mpi) = installed("openmpi5") else { return };
    let mut job = Outliving::begin(&mpi);
    job.kill(0, 3);
    job.kill(3, 6);
    let (code, said, [printed, ..]) = job.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no two teams are left"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("is dropped")).count(), 1, "{said}");
    assert!((5..40).contains(&printed), "{printed} {said}");
}
