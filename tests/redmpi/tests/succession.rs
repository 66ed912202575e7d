//! The replica that decides is dropped, and the next one decides; simulated. Decisions are on their way for as long as
//! it takes, each replica learns of the drop at its own time, and the next one that decides may be dropped, too.
//!
//! What is held, for three to five replicas, one to three drops, and each seed: what one of those that are left has
//! followed, all of them follow, in the same order; receives take the same messages in all; and all go on.

use std::collections::{BTreeMap, VecDeque};

use rampart_redmpi::{Decision, DecisionKind, Inheritance, Succession, one_ahead};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[derive(Default)]
struct Replica {
    followed: Succession,
    count: u64,
    /// What was followed, with each test in vain as one.
    path: Vec<(DecisionKind, i32)>,
    /// What its receives take.
    taken: BTreeMap<u64, i32>,
    /// A mask of those that it knows to be dropped.
    out: u32,
    first: usize,
    is_taking: bool,
    others: Vec<Inheritance>,
    /// Logs that have come, or are on their way.
    logs: Vec<Option<Inheritance>>,
    /// Decisions on their way, by who has made them.
    decisions: Vec<VecDeque<Decision>>,
    /// Tests in vain that are still to be followed.
    in_vain: i32,
}

impl Replica {
    fn new(replicas: usize) -> Self {
        let none = || vec![Inheritance::default(); replicas];
        Self {
            others: none(),
            logs: vec![None; replicas],
            decisions: vec![VecDeque::new(); replicas],
            ..Self::default()
        }
    }

    fn follow(&mut self, decision: Decision) {
        self.followed.follow(&decision);
        self.count += 1;
        let number = if decision.kind == DecisionKind::Nothing { 0 } else { decision.numbers[0] };
        self.path.push((decision.kind, number));
    }

    fn take(&mut self, decision: Decision) {
        if self.taken.insert(decision.receive, decision.numbers[0]).is_none() {
            self.followed.follow(&decision);
        }
    }
}

struct Job {
    replicas: Vec<Replica>,
    /// Those that are dropped.
    out: u32,
    dice: ChaCha8Rng,
}

impl Job {
    /// Those that are left, as far as it knows.
    fn others(&self, own: usize) -> Vec<usize> {
        let out = self.replicas[own].out;
        (0..self.replicas.len()).filter(|&other| other != own && out >> other & 1 == 0).collect()
    }

    fn mask(&self, own: usize) -> u32 {
        self.others(own).iter().fold(0, |mask, other| mask | 1 << other)
    }

    /// It learns of a drop. What it has heard and not followed is void.
    fn learn(&mut self, own: usize) {
        self.replicas[own].out = self.out;
        let first = self.out.trailing_ones() as usize;
        let replica = &mut self.replicas[own];
        if first == replica.first {
            return;
        }
        replica.decisions[replica.first].clear();
        (replica.first, replica.in_vain, replica.is_taking) = (first, 0, first == own);
        if first != own {
            let log = replica.followed.copy();
            self.replicas[first].logs[own] = Some(log);
        }
    }

    /// It decides from now on, if all others that are left have handed over their logs.
    fn take_over(&mut self, own: usize) {
        let others = self.others(own);
        if others.iter().any(|&other| self.replicas[own].logs[other].is_none()) {
            return;
        }
        for other in others {
            let log = self.replicas[own].logs[other].take().unwrap();
            let missing = self.replicas[own].followed.copy().missing(log.count);
            self.replicas[own].others[other] = log;
            self.replicas[other].decisions[own].extend(missing);
        }
        self.replicas[own].is_taking = false;
    }

    /// To all that have not followed as many.
    fn tell(&mut self, own: usize, decision: Decision) {
        let count = self.replicas[own].count;
        for other in self.others(own) {
            if decision.kind == DecisionKind::Resolved || count > self.replicas[own].others[other].count {
                self.replicas[other].decisions[own].push_back(decision);
            }
        }
    }

    /// It makes one decision, or follows one of those that another has followed.
    fn decide(&mut self, own: usize) {
        let replica = &self.replicas[own];
        if let Some(ahead) = one_ahead(&replica.others, self.mask(own), replica.count) {
            let next = replica.others[ahead].next(replica.count).expect("its log goes on");
            self.replicas[own].follow(next);
            self.tell(own, next);
            return;
        }
        let number = self.dice.random_range(0..1000);
        let receive = (1..).find(|number| !replica.taken.contains_key(number)).unwrap();
        let known = replica.others.iter().find_map(|other| other.receive(receive));
        let decision = match self.dice.random_range(0..3) {
            0 => Decision::new(DecisionKind::Nothing, 1, 0),
            1 => Decision::new(DecisionKind::Found, number, 0),
            _ => known.unwrap_or(Decision::new(DecisionKind::Resolved, number, receive)),
        };
        match decision.kind {
            DecisionKind::Resolved => self.replicas[own].take(decision),
            _ => self.replicas[own].follow(decision),
        }
        self.tell(own, decision);
    }

    /// A follower carries out the next decision that it has received.
    fn hear(&mut self, own: usize) {
        let replica = &mut self.replicas[own];
        if replica.in_vain == 0 {
            match replica.decisions[replica.first].pop_front() {
                None => return,
                Some(decision) if decision.kind == DecisionKind::Nothing => replica.in_vain = decision.numbers[0],
                Some(decision) if decision.kind == DecisionKind::Resolved => return replica.take(decision),
                Some(decision) => return replica.follow(decision),
            }
        }
        replica.in_vain -= 1;
        replica.follow(Decision::new(DecisionKind::Nothing, 1, 0));
    }

    /// One replica does something.
    fn go_on(&mut self, may_decide: bool) {
        let own = self.dice.random_range(0..self.replicas.len());
        let knows = self.replicas[own].out == self.out;
        if self.replicas[own].out >> own & 1 != 0 || (!knows && self.dice.random_bool(0.1)) {
            self.learn(own);
        } else if self.replicas[own].first != own {
            self.hear(own);
        } else if self.replicas[own].is_taking {
            self.take_over(own);
        } else if may_decide
            || one_ahead(&self.replicas[own].others, self.mask(own), self.replicas[own].count).is_some()
        {
            self.decide(own);
        }
    }
}

#[test]
fn what_one_has_followed_all_that_are_left_follow() {
    let mut unequal = 0;
    for seed in 0..300 {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        let count = dice.random_range(3..6);
        let drops = dice.random_range(1..count - 1);
        let replicas = (0..count).map(|_| Replica::new(count)).collect();
        let mut job = Job { replicas, out: 0, dice };
        for _ in 0..drops {
            for _ in 0..job.dice.random_range(0..300) {
                job.go_on(true);
            }
            job.out |= job.out + 1;
            let counts: Vec<u64> = job.replicas.iter().map(|one| one.count).collect();
            unequal += usize::from(counts[1..].iter().any(|one| *one != counts[1]));
        }
        let before = job.replicas.iter().map(|one| one.count).max().unwrap();
        for moment in 0..1_500 * count {
            job.go_on(moment < 300 * count);
        }
        let [first, others @ ..] = &job.replicas[drops..] else { unreachable!("two are left") };
        assert!(first.count > before, "seed {seed}: it goes on");
        for other in others {
            assert_eq!(other.path, first.path, "seed {seed}");
            assert_eq!(other.taken, first.taken, "seed {seed}");
        }
    }
    assert!(unequal > 100, "often, one of them is ahead: {unequal}");
}
