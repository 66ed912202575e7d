//! The vote on who has left the common path, simulated: one replica leaves it at any step, the one that decides
//! included; notices arrive in any order, and replicas are at any distance from each other.
//!
//! What is held, for three to five replicas and each seed: all that are left find the one that has left the path, no
//! other is ever out, and while all are on the path none is. So it is where another rank says at any time that the
//! replica is out. All that are left come to the end of the program, and no vote goes on then.

use std::collections::VecDeque;

use rampart_redmpi::{Course, Notice, Paths};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Steps of the program.
const STEPS: usize = 12;

/// Steps of a replica that has left the path: it may do more.
const MOST_STEPS: usize = STEPS + 3;

/// A program that does its last steps only if others follow: what a step is, and whether it is a decision.
struct Program {
    is_decision: Vec<bool>,
    /// The replica that does something else from a step on: its hashes differ. If it is the one that decides, the
    /// others never hear the decisions after that.
    wrong: Option<(usize, usize)>,
    /// When another rank says that this one is out.
    dropped_at: Option<usize>,
}

impl Program {
    fn hash(&self, replica: usize, step: usize) -> u64 {
        let has_left = self.wrong.is_some_and(|(wrong, from)| wrong == replica && step >= from);
        step as u64 * 2 + u64::from(has_left)
    }

    /// What a replica has done when it is after so many steps. Another one decides if `is_first_out`.
    fn course(&self, replica: usize, steps: usize, is_first_out: bool) -> Course {
        let decided = |step: usize| (1..step).filter(|&one| self.is_decision[one]).count() as u64;
        Course {
            hashes: (0..=steps).map(|step| self.hash(replica, step)).collect(),
            decided: (0..=steps).map(decided).collect(),
            decisions: decided(steps + 1),
            waits: (!is_first_out && self.waits(replica, steps)).then(|| (0, (steps as u64 + 1) * 2)),
        }
    }

    /// Whether it wants a decision next that the first replica does not make.
    fn waits(&self, replica: usize, steps: usize) -> bool {
        replica != 0
            && steps < STEPS
            && self.is_decision[steps + 1]
            && self.wrong.is_some_and(|(wrong, from)| wrong == 0 && steps + 1 >= from)
    }

    /// Whether it can go on. If the first is out, the next one decides when all know that.
    fn can_go_on(&self, replica: usize, steps: usize, out: &[u32]) -> bool {
        let is_wrong = |one: usize| self.wrong.is_some_and(|(wrong, _)| wrong == one);
        let last = if is_wrong(replica) { MOST_STEPS } else { STEPS };
        let all_know = (0..out.len()).all(|one| is_wrong(one) || out[one] & 1 != 0);
        steps < last && (!self.waits(replica, steps) || all_know)
    }
}

fn play(program: &Program, replicas: usize, dice: &mut ChaCha8Rng) -> Vec<u32> {
    let mut paths: Vec<Paths> =
        (0..replicas).map(|own| Paths::new(u8::try_from(replicas).unwrap(), u8::try_from(own).unwrap())).collect();
    let mut notices: Vec<Vec<VecDeque<Notice>>> = vec![vec![VecDeque::new(); replicas]; replicas];
    let mut steps = vec![0; replicas];
    let mut out = vec![0_u32; replicas];
    for moment in 0..20_000 {
        let own = dice.random_range(0..replicas);
        let course = program.course(own, steps[own], out[own] & 1 != 0);
        let other = dice.random_range(0..replicas);
        match dice.random_range(0..4) {
            0 if program.can_go_on(own, steps[own], &out) => steps[own] += 1,
            // Seldom enough that notices do not pile up.
            1 if dice.random_bool(0.2) => out[own] |= paths[own].step(None, &course),
            _ => {
                if let Some(notice) = notices[other][own].pop_front() {
                    out[own] |= paths[own].step(Some((u8::try_from(other).unwrap(), notice)), &course);
                }
            }
        }
        // Who has found it tells all others, at some time; so does another rank.
        let from_outside = program.wrong.filter(|_| program.dropped_at.is_some_and(|at| at < moment));
        let news = (out[other] | from_outside.map_or(0, |(wrong, _)| 1 << wrong)) & !out[own];
        if news != 0 && dice.random_bool(0.1) {
            out[own] |= news | paths[own].leave_out(news);
        }
        while let Some((to, notice)) = paths[own].say() {
            notices[own][usize::from(to)].push_back(notice);
        }
    }
    assert!(paths.iter().all(|one| !one.are_stopped()), "a majority is right");
    say_the_rest(program, &mut paths, &mut notices, &steps, &out);
    for own in (0..replicas).filter(|&own| program.wrong.is_none_or(|(wrong, _)| wrong != own)) {
        assert_eq!((steps[own], paths[own].are_open()), (STEPS, false), "{own}");
    }
    out
}

/// Nobody goes on any more, and each looks once: what is still said comes to an end, instead of calling for ever more.
fn say_the_rest(
    program: &Program,
    paths: &mut [Paths],
    notices: &mut [Vec<VecDeque<Notice>>],
    steps: &[usize],
    out: &[u32],
) {
    let replicas = paths.len();
    let course = |own: usize| program.course(own, steps[own], out[own] & 1 != 0);
    for own in 0..replicas {
        paths[own].step(None, &course(own));
        while let Some((to, notice)) = paths[own].say() {
            notices[own][usize::from(to)].push_back(notice);
        }
    }
    let waiting: usize = notices.iter().flatten().map(VecDeque::len).sum();
    for _ in 0..20 * (waiting + 10) {
        let found = (0..replicas * replicas).find(|place| !notices[place / replicas][place % replicas].is_empty());
        let Some(place) = found else { return };
        let (other, own) = (place / replicas, place % replicas);
        let notice = notices[other][own].pop_front().expect("it was found");
        paths[own].step(Some((u8::try_from(other).unwrap(), notice)), &course(own));
        while let Some((to, notice)) = paths[own].say() {
            notices[own][usize::from(to)].push_back(notice);
        }
    }
    panic!("{waiting} notices cause ever more of them");
}

#[test]
fn the_replica_that_leaves_the_path_is_found_and_no_other() {
    let mut missed = 0;
    for seed in 0..600 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let replicas = 3 + usize::try_from(seed % 3).unwrap();
        let is_decision: Vec<bool> = (0..=MOST_STEPS).map(|_| dice.random_bool(0.4)).collect();
        let wrong = (dice.random_range(0..replicas), dice.random_range(1..=STEPS));
        let dropped_at = dice.random_bool(0.5).then(|| dice.random_range(0..300));
        let program = Program { is_decision, wrong: Some(wrong), dropped_at };
        for (replica, out) in play(&program, replicas, &mut dice).into_iter().enumerate() {
            assert_eq!(out & !(1 << wrong.0), 0, "seed {seed}: {replica} accuses another one");
            missed += usize::from(replica != wrong.0 && out == 0);
        }
    }
    assert!(missed == 0, "{missed}");
}

#[test]
fn nobody_is_accused_while_all_are_on_the_path() {
    for seed in 0..200 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let replicas = 3 + usize::try_from(seed % 3).unwrap();
        let is_decision = (0..=MOST_STEPS).map(|_| dice.random_bool(0.4)).collect();
        let program = Program { is_decision, wrong: None, dropped_at: None };
        assert!(play(&program, replicas, &mut dice).iter().all(|out| *out == 0), "seed {seed}");
    }
}
