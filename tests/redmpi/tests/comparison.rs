//! Replicas that are compared behind the program, simulated: each runs at a speed of its own, and brings its marks in
//! batches of any size.
//!
//! What is held, for two to five replicas and each seed: each mark that differs is found once, and named if a majority
//! is right; nothing else is; nobody waits for ever; and no replica is further ahead than there is room.

use rampart_redmpi::{Comparison, ComparisonResult, Mark};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What each replica receives, and the places for it.
const MARKS: usize = 60;
const PLACES: u64 = 16;

/// A replica as the others see it.
struct Replica {
    marks: Vec<Mark>,
    written: usize,
    brought: usize,
    is_lost: bool,
}

/// What was found: the number, the replicas that are wrong, and whether they had parted.
type Found = (u64, u32, bool);

struct Simulation {
    replicas: Vec<Replica>,
    comparison: Comparison,
    found: Vec<Found>,
}

impl Simulation {
    fn new(marks: Vec<Vec<Mark>>) -> Self {
        let count = u8::try_from(marks.len()).unwrap();
        let replica = |marks| Replica { marks, written: 0, brought: 0, is_lost: false };
        let replicas = marks.into_iter().map(replica).collect();
        Self { replicas, comparison: Comparison::new(count, PLACES), found: Vec::new() }
    }

    /// The program of a replica goes on, unless the log is full.
    fn write(&mut self, own: usize) -> bool {
        let (replica, compared) = (&mut self.replicas[own], self.comparison.compared());
        if replica.is_lost || replica.written == replica.marks.len() || replica.written as u64 - compared == PLACES {
            return false;
        }
        replica.written += 1;
        true
    }

    /// A batch of any length arrives, and what has come of all is compared.
    fn bring(&mut self, own: usize, dice: &mut ChaCha8Rng) -> bool {
        let replica = &mut self.replicas[own];
        if replica.is_lost || replica.brought == replica.written {
            return false;
        }
        let until = dice.random_range(replica.brought + 1..=replica.written);
        assert!(self.comparison.take(u8::try_from(own).unwrap(), &replica.marks[replica.brought..until]));
        replica.brought = until;
        self.compare();
        true
    }

    fn compare(&mut self) {
        loop {
            match self.comparison.go_on() {
                ComparisonResult::Waits => return,
                ComparisonResult::Differs(wrong) => self.found.push((self.comparison.compared(), wrong, false)),
                ComparisonResult::Parted(wrong) => self.found.push((self.comparison.compared(), wrong, true)),
            }
        }
    }

    /// Lets things happen in any order until nothing can, or replicas have parted; some are quicker than others.
    fn play(&mut self, dice: &mut ChaCha8Rng, mut dies: Option<(usize, u32)>) {
        let count = self.replicas.len();
        let lazy = dice.random_range(0..count);
        for step in 0.. {
            if let Some((replica, _)) = dies.take_if(|(_, at)| *at == step) {
                self.replicas[replica].is_lost = true;
                self.comparison.lose(u8::try_from(replica).unwrap());
                self.compare();
            }
            let first = dice.random_range(0..2 * count);
            let mut places = (0..2 * count).map(|place| (first + place) % (2 * count));
            let happened = places.any(|place| match place / 2 {
                own if own == lazy && dice.random_bool(0.9) => false,
                own if place % 2 == 0 => self.write(own),
                own => self.bring(own, dice),
            });
            let is_stuck = !happened && !(0..count).any(|own| self.write(own) || self.bring(own, dice));
            if is_stuck || self.found.last().is_some_and(|(_, _, parted)| *parted) {
                return;
            }
        }
    }
}

/// What all receive, if nobody is wrong.
fn right_marks() -> Vec<Mark> {
    (0..MARKS as u64).map(|number| Mark { path: number, content: 7 * number }).collect()
}

/// Marks of which some are wrong in some replicas, and what is to be found of it.
fn wrong_marks(dice: &mut ChaCha8Rng, replicas: usize, part_at: usize) -> (Vec<Vec<Mark>>, Vec<Found>) {
    let (mut marks, mut expected) = (vec![right_marks(); replicas], Vec::new());
    let share = dice.random_range(0.0..0.2);
    for number in 0..MARKS {
        let mut versions = vec![0; replicas];
        for version in &mut versions {
            if dice.random_bool(share) {
                // Two of them may be wrong alike.
                *version = dice.random_range(1..3);
            }
        }
        let parts = number == part_at;
        versions[replicas - 1] = if parts { 1 } else { versions[replicas - 1] };
        for (mark, version) in marks.iter_mut().map(|marks| &mut marks[number]).zip(&versions) {
            let place = if parts { &mut mark.path } else { &mut mark.content };
            *place ^= version << 40;
        }
        if versions.iter().any(|version| *version != versions[0]) {
            expected.push((number as u64 + 1, minority(&versions), parts));
        }
        if parts && expected.last().is_some_and(|(_, _, parted)| *parted) {
            // What it does later is not the same either.
            marks[0][number + 1..].iter_mut().for_each(|mark| mark.path += 1);
            break;
        }
    }
    (marks, expected)
}

fn minority(versions: &[u64]) -> u32 {
    let votes = |one: &u64| versions.iter().filter(|other| *other == one).count();
    let right = versions.iter().find(|one| 2 * votes(one) > versions.len());
    right.map_or(0, |right| (0..versions.len()).filter(|&at| versions[at] != *right).map(|at| 1 << at).sum())
}

fn seeds() -> impl Iterator<Item = (u64, usize, ChaCha8Rng)> {
    (0..10_000).map(|seed| (seed, 2 + (seed % 4) as usize, ChaCha8Rng::seed_from_u64(seed)))
}

#[test]
fn each_difference_is_found_once_and_nothing_else() {
    for (seed, replicas, mut dice) in seeds() {
        // Some replicas do other things from a point on.
        let part_at = dice.random_range(0..2 * MARKS);
        let (marks, expected) = wrong_marks(&mut dice, replicas, part_at);
        let mut simulation = Simulation::new(marks);
        simulation.play(&mut dice, None);
        assert_eq!(simulation.found, expected, "seed {seed}");
        let has_parted = expected.last().is_some_and(|(_, _, parted)| *parted);
        assert!(has_parted || simulation.comparison.compared() == MARKS as u64, "seed {seed} waits for ever");
    }
}

#[test]
fn marks_of_a_replica_that_died_count_as_far_as_they_came() {
    for (seed, replicas, mut dice) in seeds() {
        let mut marks = vec![right_marks(); replicas];
        let (wrong, number) = (dice.random_range(0..replicas), dice.random_range(0..MARKS));
        marks[wrong][number].content += 1;
        let mut simulation = Simulation::new(marks);
        let dies = (dice.random_range(0..replicas), dice.random_range(0..100));
        simulation.play(&mut dice, Some(dies));
        assert_eq!(simulation.comparison.compared(), MARKS as u64, "seed {seed} waits for ever");
        // What it had said before counts; with two replicas, nobody is left who could differ from the other.
        let has_said = |replica: usize| dies.0 != replica || simulation.replicas[replica].brought > number;
        let can_be_seen = has_said(wrong) && (replicas > 2 || has_said(1 - wrong));
        let found: Vec<u64> = simulation.found.iter().map(|(found, _, _)| *found).collect();
        assert_eq!(found, if can_be_seen { vec![number as u64 + 1] } else { Vec::new() }, "seed {seed}");
    }
}

#[test]
fn more_marks_than_there_is_room_for_are_refused() {
    let mut comparison = Comparison::new(2, PLACES);
    let marks = right_marks();
    assert!(comparison.take(1, &marks[..10]) && !comparison.take(1, &marks[10..17]));
    assert!(comparison.take(1, &marks[10..16]) && !comparison.take(1, &marks[16..17]));
    assert!(comparison.take(0, &marks[..1]));
    assert_eq!((comparison.go_on(), comparison.compared()), (ComparisonResult::Waits, 1));
    assert!(comparison.take(1, &marks[16..17]), "a place is free again");
}
