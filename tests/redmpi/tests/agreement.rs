//! The agreement of replicas, simulated: any senders and receivers are wrong, and notices arrive in any order.
//!
//! What is held, for two to five replicas and each seed: no program gets a wrong message while a majority of senders is
//! right, nothing waits for ever, and nothing stops that need not. [Fiala15, 3.3.2] has the protocols and their limits.

use std::collections::VecDeque;

use rampart_redmpi::{Agreement, AgreementState, Digest, Notice, teams_compared};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Digests that are remembered.
const MEMORY: u8 = 8;

/// What a message says; right is 0.
type Content = u64;

/// What happens to one message.
struct Fate {
    /// What each team's sender sends, and what it says of it to other teams.
    sent: Vec<Content>,
    said: Vec<Content>,
    /// What arrives at each receiver.
    received: Vec<Content>,
}

impl Fate {
    /// Senders send this, and nothing else goes wrong.
    fn of_senders(sent: Vec<Content>) -> Self {
        Self { received: sent.clone(), said: sent.clone(), sent }
    }
}

struct Replica {
    agreement: Agreement,
    /// Messages so far; of the last one, what is in memory.
    at: usize,
    memory: Content,
    /// What the program got.
    got: Vec<Content>,
    is_dead: bool,
}

struct Simulation {
    fates: Vec<Fate>,
    replicas: Vec<Replica>,
    /// By sender and receiver; in order, as a connection delivers.
    notices: Vec<Vec<VecDeque<(Notice, Content)>>>,
}

fn digest(content: Content) -> Digest {
    Digest { bytes: 8, low: content, high: !content }
}

impl Simulation {
    fn new(fates: Vec<Fate>, replicas: u8) -> Self {
        let replica = |own| Replica {
            agreement: Agreement::new(replicas, own, MEMORY),
            at: 0,
            memory: 0,
            got: Vec::new(),
            is_dead: false,
        };
        let all = usize::from(replicas);
        let notices = (0..all).map(|_| (0..all).map(|_| VecDeque::new()).collect()).collect();
        Self { fates, replicas: (0..replicas).map(replica).collect(), notices }
    }

    fn send(&mut self, own: usize) {
        let replica = &mut self.replicas[own];
        while let Some((to, notice)) = replica.agreement.say() {
            self.notices[own][usize::from(to)].push_back((notice, replica.memory));
        }
    }

    /// The program takes its message, or receives the next one.
    fn run(&mut self, own: usize) -> bool {
        let count = self.replicas.len();
        let replica = &mut self.replicas[own];
        if replica.is_dead || replica.agreement.state() != AgreementState::Accepted {
            return false;
        }
        if replica.got.len() < replica.at {
            let arrived = self.fates[replica.got.len()].received[own];
            assert!(!replica.agreement.is_replaced() || replica.memory != arrived, "a right message is replaced");
            replica.agreement.hand_over();
            replica.got.push(replica.memory);
            return true;
        }
        let Some(fate) = self.fates.get(replica.at) else { return false };
        replica.at += 1;
        replica.memory = fate.received[own];
        let teams = usize::from(teams_compared(u8::try_from(count).unwrap()));
        let said = |team: usize| (u8::try_from(team).unwrap(), digest(fate.said[team]));
        let others: Vec<_> = (1..=teams).map(|back| said((own + count - back) % count)).collect();
        replica.agreement.compare(digest(replica.memory), &others);
        self.send(own);
        true
    }

    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some((notice, content)) = self.notices[from][to].pop_front() else { return false };
        let replica = &mut self.replicas[to];
        if replica.is_dead {
            return true;
        }
        let from = u8::try_from(from).unwrap();
        if notice.has_message() {
            let was = replica.agreement.is_replaced();
            replica.agreement.hear(from, notice.with(digest(content)));
            if !was && replica.agreement.is_replaced() {
                replica.memory = content;
            }
        } else {
            replica.agreement.hear(from, notice);
        }
        self.send(to);
        true
    }

    /// A replica dies; the others learn it at some time, after what it has sent.
    fn kill(&mut self, replica: usize) {
        self.replicas[replica].is_dead = true;
        for other in 0..self.replicas.len() {
            if other != replica && !self.replicas[other].is_dead {
                self.replicas[other].agreement.lose(u8::try_from(replica).unwrap());
                self.send(other);
            }
        }
    }

    /// Lets things happen in any order until nothing can.
    fn play(&mut self, dice: &mut ChaCha8Rng, mut dies: Option<(usize, u32)>) {
        let count = self.replicas.len();
        let mut steps = 0;
        loop {
            if let Some((replica, _)) = dies.take_if(|(_, at)| *at == steps) {
                self.kill(replica);
            }
            steps += 1;
            let first = dice.random_range(0..count * (count + 1));
            let mut places = (0..count * (count + 1)).map(|place| (first + place) % (count * (count + 1)));
            let happened = places.any(|place| {
                let (own, what) = (place / (count + 1), place % (count + 1));
                if what == count { self.run(own) } else { self.deliver(own, what) }
            });
            if !happened {
                return;
            }
        }
    }
}

fn majority(sent: &[Content]) -> Option<Content> {
    sent.iter().copied().find(|one| 2 * sent.iter().filter(|other| *other == one).count() > sent.len())
}

/// Messages, each with up to all senders wrong, alike or not.
fn wrong_senders(dice: &mut ChaCha8Rng, replicas: usize) -> Vec<Fate> {
    let fate = |dice: &mut ChaCha8Rng| {
        let (share, alike) = (dice.random_range(0.0..1.0), dice.random_bool(0.5));
        let sent: Vec<Content> = (0..replicas)
            .map(|_| {
                if !dice.random_bool(share) {
                    0
                } else if alike {
                    1
                } else {
                    dice.random_range(1..u64::MAX)
                }
            })
            .collect();
        Fate::of_senders(sent)
    };
    (0..4).map(|_| fate(dice)).collect()
}

fn seeds() -> impl Iterator<Item = (u64, usize, ChaCha8Rng)> {
    (0..100_000).map(|seed| (seed, 2 + (seed % 4) as usize, ChaCha8Rng::seed_from_u64(seed)))
}

#[test]
fn wrong_senders_never_reach_a_program_and_are_replaced_while_a_majority_is_right() {
    for (seed, replicas, mut dice) in seeds() {
        let fates = wrong_senders(&mut dice, replicas);
        let mut simulation = Simulation::new(fates, u8::try_from(replicas).unwrap());
        simulation.play(&mut dice, None);
        let voted: Vec<_> = simulation.fates.iter().map(|fate| majority(&fate.sent)).collect();
        let until = voted.iter().position(Option::is_none).unwrap_or(voted.len());
        for replica in &simulation.replicas {
            let got: Vec<_> = replica.got.iter().copied().map(Some).collect();
            assert_eq!(got[..], voted[..got.len()], "seed {seed}");
            assert!(got.len() == until || got.len() == voted.len(), "seed {seed}: {} of {until}", got.len());
        }
        if until < voted.len() {
            assert!(
                simulation.replicas.iter().any(|one| one.agreement.state() == AgreementState::Stopped),
                "seed {seed}"
            );
        }
    }
}

/// Messages that some receivers have wrong, though their senders are right.
fn wrong_receivers(dice: &mut ChaCha8Rng, replicas: usize) -> Vec<Fate> {
    let share = dice.random_range(0.0..0.3);
    let receive = |dice: &mut ChaCha8Rng| if dice.random_bool(share) { dice.random_range(1..u64::MAX) } else { 0 };
    let fate = |dice: &mut ChaCha8Rng| Fate {
        received: (0..replicas).map(|_| receive(dice)).collect(),
        ..Fate::of_senders(vec![0; replicas])
    };
    (0..4).map(|_| fate(dice)).collect()
}

#[test]
fn a_wrong_receiver_gets_the_message_of_another_or_stops() {
    let (mut replaced, mut stopped) = (0, 0);
    for (seed, replicas, mut dice) in seeds() {
        let fates = wrong_receivers(&mut dice, replicas);
        let mut simulation = Simulation::new(fates, u8::try_from(replicas).unwrap());
        simulation.play(&mut dice, None);
        let mut is_stopped = false;
        for (own, replica) in simulation.replicas.iter().enumerate() {
            assert!(replica.got.iter().all(|content| *content == 0), "seed {seed}");
            let was_wrong = (0..replica.got.len()).filter(|&at| simulation.fates[at].received[own] != 0).count();
            replaced += was_wrong;
            is_stopped |= replica.agreement.state() == AgreementState::Stopped;
        }
        stopped += usize::from(is_stopped);
        let all_got = simulation.replicas.iter().all(|one| one.got.len() == simulation.fates.len());
        assert!(is_stopped || all_got, "seed {seed} waits for ever");
    }
    // Where only a receiver is hit, the others notice nothing and have often handed their message over. One that is
    // asked before it has the message sends it.
    assert!(replaced > 30_000 && stopped > 1000, "both happen: {replaced} {stopped}");
}

/// Messages with which a minority of teams has everything wrong that can be, each in its own way.
#[test]
fn teams_that_have_anything_wrong_reach_no_program_and_let_nobody_wait() {
    for (seed, replicas, mut dice) in seeds() {
        let fates = (0..4).map(|_| {
            let mut fate = Fate::of_senders(vec![0; replicas]);
            for _ in 0..(replicas - 1) / 2 {
                let team = dice.random_range(0..replicas);
                fate.sent[team] = dice.random_range(0..3);
                fate.said[team] = dice.random_range(0..3);
                fate.received[team] = if dice.random_bool(0.5) { fate.sent[team] } else { dice.random_range(0..3) };
            }
            fate
        });
        let mut simulation = Simulation::new(fates.collect(), u8::try_from(replicas).unwrap());
        simulation.play(&mut dice, None);
        let is_stopped = simulation.replicas.iter().any(|one| one.agreement.state() == AgreementState::Stopped);
        for replica in &simulation.replicas {
            assert!(replica.got.iter().all(|content| *content == 0), "seed {seed}");
            assert!(is_stopped || replica.got.len() == simulation.fates.len(), "seed {seed} waits for ever");
        }
    }
}

/// Messages of which one team says something else than it sends, and is otherwise right.
#[test]
fn a_wrong_word_of_a_right_message_is_no_reason_to_stop() {
    for (seed, replicas, mut dice) in seeds() {
        let fates = (0..4).map(|_| {
            let mut fate = Fate::of_senders(vec![0; replicas]);
            fate.said[dice.random_range(0..replicas)] = dice.random_range(0..3);
            fate
        });
        let mut simulation = Simulation::new(fates.collect(), u8::try_from(replicas).unwrap());
        simulation.play(&mut dice, None);
        for replica in &simulation.replicas {
            assert_eq!(replica.got, [0; 4], "seed {seed}");
            assert!(!replica.agreement.is_replaced(), "seed {seed}");
        }
    }
}

#[test]
fn a_replica_that_dies_is_waited_for_by_nobody() {
    for (seed, replicas, mut dice) in seeds() {
        let fates = (0..4).map(|_| {
            let wrong = dice.random_range(0..2 * replicas);
            let sent: Vec<_> = (0..replicas).map(|one| u64::from(one == wrong)).collect();
            Fate::of_senders(sent)
        });
        let mut simulation = Simulation::new(fates.collect(), u8::try_from(replicas).unwrap());
        let dies = (dice.random_range(0..replicas), dice.random_range(0..60));
        simulation.play(&mut dice, Some(dies));
        let is_stopped = simulation.replicas.iter().any(|one| one.agreement.state() == AgreementState::Stopped);
        for replica in simulation.replicas.iter().filter(|one| !one.is_dead) {
            assert!(replica.got.iter().all(|content| *content == 0) || replicas == 2, "seed {seed}");
            assert!(is_stopped || replica.got.len() == simulation.fates.len(), "seed {seed} waits for ever");
        }
    }
}

#[test]
fn a_replica_that_is_asked_for_what_it_has_forgotten_does_not_count() {
    let fates = |wrong_at| {
        (0..30).map(move |at| {
            let sent = vec![0, u64::from(at == wrong_at), 0];
            Fate::of_senders(sent)
        })
    };
    // Replica 0 compares with team 2 only, and goes on; replica 2 asks for a message that it has forgotten. Replica 1
    // takes the word of team 0 for it.
    let mut simulation = Simulation::new(fates(3).collect(), 3);
    while simulation.run(0) {}
    simulation.play(&mut ChaCha8Rng::seed_from_u64(1), None);
    assert_eq!(simulation.replicas[2].agreement.state(), AgreementState::Stopped);
    assert!(simulation.replicas.iter().all(|one| one.got.iter().all(|content| *content == 0)));
    let mut simulation = Simulation::new(fates(25).collect(), 3);
    while simulation.run(0) {}
    simulation.play(&mut ChaCha8Rng::seed_from_u64(1), None);
    assert!(simulation.replicas.iter().all(|one| one.got == [0; 30]));
}
