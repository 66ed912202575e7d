//! The end of a job in which teams may be dropped, simulated: replicas come to their ends in any order, notices are on
//! their way for as long as it takes, and a process that knows that the job is over closes its connections.
//!
//! Some replicas have called a vote shortly before, and call again until they have the votes of all others. These
//! answer when they have come to the end themselves, and no longer once they have closed their connections.
//!
//! What is held, for one to four ranks of three to five replicas and each seed: no team meets before all replicas of
//! its ranks that are left have come to the end and have the votes that they wait for, unless another team has met so;
//! and all processes end, also those of a team that was dropped. Replicas that leave before the end do so only
//! together, and those that come to the end wait for them.

use std::collections::VecDeque;

use rampart_redmpi::{Ending, LastWord};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Where the program of a process is. Another thread speaks and hears meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Runs,
    Waits,
    Meets,
    HasMet,
    Closed,
}

/// What processes say to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Last(LastWord),
    /// It has called a vote.
    Call,
    Vote,
}

struct Process {
    rank: usize,
    replica: usize,
    ending: Ending,
    stage: Stage,
    /// A mask of the replicas of its rank whose votes it waits for.
    missing: u32,
    /// What was said to it, and by a process of which team.
    heard: VecDeque<(usize, Word)>,
}

struct Job {
    ranks: usize,
    /// The team that is dropped, if one is. It does not come to the end.
    out: Option<usize>,
    processes: Vec<Process>,
}

impl Job {
    fn new(ranks: usize, replicas: usize, out: Option<usize>) -> Self {
        let process = |one| Process {
            rank: one % ranks,
            replica: one / ranks,
            ending: Ending::default(),
            stage: Stage::Runs,
            missing: 0,
            heard: VecDeque::new(),
        };
        Self { ranks, out, processes: (0..ranks * replicas).map(process).collect() }
    }

    fn are_left(&self, rank: usize) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |one| one.rank == rank && Some(one.replica) != self.out)
    }

    /// The others of its rank that are left.
    fn others_left(&self, own: usize) -> u32 {
        let Process { rank, replica, .. } = self.processes[own];
        self.are_left(rank).filter(|one| one.replica != replica).fold(0, |mask, one| mask | 1 << one.replica)
    }

    fn begin_vote(&mut self, own: usize) {
        self.processes[own].missing = self.others_left(own);
    }

    /// The program of a process goes on, if it can.
    fn go_on(&mut self, own: usize) {
        let Process { rank, replica, .. } = self.processes[own];
        let others = self.others_left(own);
        let have_come = self.are_left(rank).all(|one| one.stage > Stage::Runs);
        let is_team_here =
            self.processes.iter().filter(|one| one.replica == replica).all(|one| one.stage >= Stage::Meets);
        let Process { ending, stage, missing, .. } = &mut self.processes[own];
        match stage {
            Stage::Runs if Some(replica) != self.out => {
                ending.come();
                *stage = Stage::Waits;
            }
            Stage::Waits if ending.may_meet(others, *missing > 0) => {
                assert!(ending.is_over() || (have_come && *missing == 0), "all have come");
                *stage = Stage::Meets;
            }
            Stage::Meets if is_team_here => {
                ending.meet();
                *stage = Stage::HasMet;
            }
            Stage::HasMet if ending.is_over() => *stage = Stage::Closed,
            _ => {}
        }
    }

    /// Sends a word to all that are to hear it. A process that has closed its connections sends nothing.
    fn say(&mut self, own: usize, word: Word) {
        let Process { rank, replica, stage, .. } = self.processes[own];
        let is_next = |one: usize, other: usize| (one + 1) % self.ranks == other;
        for other in self.processes.iter_mut().filter(|_| stage != Stage::Closed) {
            let is_peer = other.rank == rank && other.replica != replica;
            let is_near = other.replica == replica && (is_next(rank, other.rank) || is_next(other.rank, rank));
            if is_peer || (is_near && word == Word::Last(LastWord::Over)) {
                other.heard.push_back((replica, word));
            }
        }
    }

    fn hear(&mut self, own: usize, from: usize, word: Word) {
        let Process { rank, replica, ending, stage, missing, .. } = &mut self.processes[own];
        match word {
            Word::Last(word) if ending.hear(u8::try_from(from).unwrap(), word) => {
                self.say(own, Word::Last(LastWord::Over));
            }
            Word::Last(_) => {}
            Word::Vote => *missing &= !(1 << from),
            Word::Call if *stage == Stage::Runs || *stage == Stage::Closed => {}
            Word::Call => {
                let (rank, replica) = (*rank, *replica);
                let caller = self.processes.iter_mut().find(|one| one.rank == rank && one.replica == from);
                caller.unwrap().heard.push_back((replica, Word::Vote));
            }
        }
    }

    /// Its thread hears one word, or says what it has to.
    fn speak(&mut self, own: usize, dice: &mut ChaCha8Rng) {
        let process = &mut self.processes[own];
        if dice.random_bool(0.5) {
            if let Some((from, word)) = process.heard.pop_front() {
                self.hear(own, from, word);
            }
        } else if process.stage != Stage::Closed {
            while let Some(word) = self.processes[own].ending.say() {
                self.say(own, Word::Last(word));
            }
        }
    }
}

#[test]
fn all_processes_end_in_any_order_also_those_of_a_team_that_was_dropped() {
    for seed in 0..10_000 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let (ranks, replicas) = (dice.random_range(1..5), dice.random_range(3..6));
        let out = dice.random_bool(0.5).then(|| dice.random_range(0..replicas));
        let mut job = Job::new(ranks, replicas, out);
        (0..ranks * replicas).filter(|_| dice.random_bool(0.2)).for_each(|own| job.begin_vote(own));
        for _ in 0..200 * ranks * replicas {
            let own = dice.random_range(0..ranks * replicas);
            if dice.random_bool(0.3) {
                job.go_on(own);
            } else if job.processes[own].missing > 0 && dice.random_bool(0.1) {
                job.say(own, Word::Call);
            } else {
                job.speak(own, &mut dice);
            }
        }
        for Process { rank, replica, ending, stage, .. } in &job.processes {
            let has_ended = if Some(*replica) == out { ending.is_over() } else { *stage == Stage::Closed };
            assert!(has_ended, "seed {seed}: replica {replica} of rank {rank} of {ranks}");
        }
    }
}

/// Replicas of one rank: each comes to the end, or is about to leave after a path of this hash.
struct Rank {
    paths: Vec<Option<u64>>,
    endings: Vec<Ending>,
    heard: Vec<VecDeque<(usize, LastWord)>>,
}

impl Rank {
    fn new(paths: Vec<Option<u64>>) -> Self {
        let endings = paths.iter().map(|_| Ending::default()).collect();
        let heard = paths.iter().map(|_| VecDeque::new()).collect();
        Self { paths, endings, heard }
    }

    /// A replica begins to end, says what it has to, or hears a word.
    fn go_on(&mut self, own: usize, has_begun: &mut [bool], dice: &mut ChaCha8Rng) {
        if !std::mem::replace(&mut has_begun[own], true) {
            match self.paths[own] {
                Some(path) => self.endings[own].leave(path),
                None => self.endings[own].come(),
            }
        } else if dice.random_bool(0.5) {
            while let Some(word) = self.endings[own].say() {
                for (_, heard) in self.heard.iter_mut().enumerate().filter(|(other, _)| *other != own) {
                    heard.push_back((own, word));
                }
            }
        } else if let Some((from, word)) = self.heard[own].pop_front() {
            self.endings[own].hear(u8::try_from(from).unwrap(), word);
        }
    }

    /// Whether a replica may end, if these teams are dropped.
    fn may_end(&self, own: usize, out: u32) -> bool {
        let others = ((1 << self.paths.len()) - 1) & !out & !(1 << own);
        let ending = &self.endings[own];
        if self.paths[own].is_some() { ending.may_leave(others) } else { ending.may_meet(others, false) }
    }
}

#[test]
fn replicas_that_leave_before_the_end_leave_together_or_are_dropped() {
    for seed in 0..10_000 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let replicas = dice.random_range(3..6);
        let common = dice.random_bool(0.5).then_some(7);
        let others = [None, Some(7), Some(8)];
        let odd = dice.random_range(0..=replicas / 2);
        let mut paths = vec![common; replicas];
        (0..odd).for_each(|one| paths[one] = others[dice.random_range(0..3)]);
        let out = (0..replicas).filter(|&one| paths[one] != common).fold(0_u32, |mask, one| mask | 1 << one);
        let mut rank = Rank::new(paths);
        let mut has_begun = vec![false; replicas];
        for _ in 0..60 * replicas {
            let own = dice.random_range(0..replicas);
            let may_end = has_begun[own] && rank.may_end(own, 0);
            assert!(!may_end || (out == 0 && has_begun.iter().all(|begun| *begun)), "seed {seed}: {own} alone");
            rank.go_on(own, &mut has_begun, &mut dice);
        }
        let left = (0..replicas).filter(|one| out & 1 << one == 0);
        left.for_each(|own| assert!(rank.may_end(own, out), "seed {seed}: {own} waits for ever"));
    }
}
