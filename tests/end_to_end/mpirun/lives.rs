//! Replicas that die, and ranks that wait for ever.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::{Job, libraries};
use crate::guarded::is_whole;
use crate::harness::{end, signal};

pub const PROGRAM: &str = include_str!("../victims/lives.c");
const RANKS: u32 = 2;

/// A process of the program.
pub struct Replica {
    pub process: u32,
    pub native: u32,
}

/// Those that run now. Each has the program's own path as its first word, and the launcher's variable with its number.
pub fn replicas_of(program: &Path) -> Vec<Replica> {
    let replica = |process: u32| {
        let read = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
        let words = read("cmdline");
        let is_program = words.split(|&byte| byte == 0).next() == Some(program.to_str()?.as_bytes());
        let variables = String::from_utf8_lossy(&read("environ")).into_owned();
        let native = |name: &str| variables.split('\0').find_map(|one| one.strip_prefix(name)?.parse().ok());
        let native = native("OMPI_COMM_WORLD_RANK=").or_else(|| native("PMI_RANK="));
        Some(Replica { process, native: native.filter(|_| is_program)? })
    };
    let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter_map(replica).collect()
}

/// What became of a job of which one replica was killed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Named,
    Unnamed,
    /// It had come to its end, at least to that of `MPI_Finalize` in this library.
    Finished,
}

pub fn wait_until(mut is_so: impl FnMut() -> bool, child: &mut Child) {
    while !is_so() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills one replica after so many rounds and a pause, or so long after the first sign of its life.
fn kill_one(job: &Job, how: &str, signal: &str, native: u32, rounds: usize, pause: Duration) -> Outcome {
    let (folder, program) = (job.rampart.folder().join("work"), job.rampart.folder().join("program"));
    _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let (printed, said) = (job.rampart.folder().join("printed"), job.rampart.folder().join("said"));
    let mut command = job.command(&RANKS.to_string(), &[], how);
    command.current_dir(&folder).stdout(File::create(&printed).unwrap()).stderr(File::create(&said).unwrap());
    let mut child = command.spawn().unwrap();
    let mut victim = None;
    let find = || {
        // On a busy machine, a job may end between two looks: then it has finished.
        victim = replicas_of(&program).into_iter().find(|one| one.native == native).or(victim.take());
        victim.is_some() && text_of(&printed).lines().count() >= rounds
    };
    wait_until(find, &mut child);
    std::thread::sleep(pause);
    let victim = victim.expect("each replica begins").process;
    _ = std::process::Command::new("sh").args(["-c", &format!("kill -{signal} {victim} 2>&-")]).status();
    let code = end(child).code;
    let said = text_of(&said);
    let counts = [printed, folder.join("log.0"), folder.join("log.1")].map(|path| rounds_in(&path, &said));
    check_what_is_left(&folder, &program, &said);
    if code == Some(0) || said.contains("rampart: 240 messages compared") {
        assert_eq!(counts, [40; 3], "{said}");
        return Outcome::Finished;
    }
    outcome(&said, native, victim)
}

pub fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A job that ends early leaves what is right as far as it goes.
pub fn rounds_in(path: &Path, said: &str) -> usize {
    let text = text_of(path);
    let rounds = text.lines().filter(|line| line.starts_with("round"));
    rounds.enumerate().map(|(place, line)| assert_eq!(line, format!("round {place}"), "{said}")).count()
}

pub fn check_what_is_left(folder: &Path, program: &Path, said: &str) {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let others: Vec<_> = names.filter(|name| !name.to_str().unwrap().starts_with("log.")).collect();
    assert!(others.is_empty(), "nothing else is left: {others:?} {said}");
    for _ in 0..500 {
        if !replicas_of(program).is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(replicas_of(program).is_empty(), "no process is left: {said}");
}

/// Whether the line names the one that was killed, and no other.
fn outcome(said: &str, native: u32, victim: u32) -> Outcome {
    let named = format!("rampart: replica {} of rank {} died", native / RANKS, native % RANKS);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("rampart: replica")).collect();
    assert!(!lines.is_empty() || said.contains("rampart: a process died") || said.contains("did not begin"), "{said}");
    assert!(lines.iter().all(|line| line.starts_with(&named)), "another one is named: {native} {said}");
    assert!(lines.len() <= 1 && lines.iter().all(|line| line.contains(&format!("process {victim} "))), "{said}");
    if lines.is_empty() { Outcome::Unnamed } else { Outcome::Named }
}

/// At four moments; at night also at a hundred of a job, from its first process to its end. Before the replicas have
/// met in `MPI_Init`, none can name another one.
#[test]
fn a_replica_that_dies_is_named_and_nothing_is_left() {
    for [compiler, _] in libraries() {
        let Some(job) = Job::built(compiler, "program.c", PROGRAM) else { continue };
        let kills = [("KILL", 3, 1), ("TERM", 4, 9)];
        let early =
            kills.map(|(signal, native, rounds)| kill_one(&job, "slow", signal, native, rounds, Duration::ZERO));
        // The launcher may end the others before they can say anything.
        assert!(early.contains(&Outcome::Named) && !early.contains(&Outcome::Finished), "{compiler} {early:?}");
        let mut seed = 7_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        // Half of them while the program runs.
        let mut kill = |moment: usize| {
            let (native, rounds) = (next(3 * RANKS), if moment.is_multiple_of(2) { 0 } else { 1 + next(35) });
            let pause = Duration::from_millis(next(if rounds == 0 { 1500 } else { 12 }).into());
            kill_one(&job, "rounds", "KILL", native, rounds as usize, pause)
        };
        let outcomes: Vec<Outcome> = (0..if is_whole() { 100 } else { 0 }).map(&mut kill).collect();
        let count = |outcome| outcomes.iter().filter(|one| **one == outcome).count();
        let [named, unnamed, finished] = [Outcome::Named, Outcome::Unnamed, Outcome::Finished].map(count);
        println!("{compiler}: {named} named, {unnamed} not named, {finished} had ended");
    }
}

/// With one MPI: what waits is the library. Before that, one rank computes for longer than the user's patience.
#[test]
fn a_job_in_which_all_wait_says_who_waits_for_whom() {
    let Some(job) = libraries().into_iter().find_map(|[c, _]| Job::built(c, "program.c", PROGRAM)) else { return };
    let mut command = job.command("3", &["--replicas", "2", "--patience", "1"], "waits");
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.filter(|line| line.starts_with("ra")).take(6).collect();
    signal(&child, "TERM");
    assert_ne!(end(child).code, Some(0), "it was asked to end");
    let expected = [
        "rank 0 goes on",
        "rampart: nothing has gone on for 1 s, and all ranks wait; Ctrl-C ends the job",
        "rampart: rank 0 waits in MPI_Barrier",
        "rampart: rank 1 waits for a message of rank 2, tag 7",
        "rampart: rank 2 waits for a message of rank 1, tag 7",
        "rampart: a deadlock: ranks 1, 2 wait for each other in a circle",
    ];
    assert_eq!(said, expected);
}
