//! Which ranks an error has reached, when, and from where [Fiala15, 3.7.1].
//!
//! **Problem.** Without correction, a flip in one rank changes what it sends, and then what others send. Who was
//! reached first is not in one place: each process reports only which of its own messages differed. **Idea.** A rank
//! is tainted from its first flip or its first corrupt message on, and what it has compared until then says which of
//! these came first. It is tainted *directly* if that message came from a rank that a flip tainted, else *indirectly*.
//! **Why this way.** That needs no clock, and no order among processes but the steps that the program itself counts.
//!
//! Pure: flips and messages in, ranks and steps out.

use std::collections::{BTreeMap, BTreeSet};

/// A bit that was flipped in what a rank sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    pub rank: u32,
    pub step: u64,
    /// So many messages the rank had compared before.
    pub compared: u64,
}

/// A message that differed between replicas of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptMessage {
    pub rank: u32,
    pub step: u64,
    /// Which one it is among those that the rank compares, from 1.
    pub number: u64,
    /// `None` for the result of a collective operation.
    pub sender: Option<u32>,
}

/// How an error came to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintKind {
    /// By a flip.
    Injected,
    /// By a message from a rank with a flip.
    Direct,
    /// By a message from another rank.
    Indirect,
}

impl TaintKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Injected, Self::Direct, Self::Indirect];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Direct => "directly",
            Self::Indirect => "indirectly",
        }
    }
}

/// The moment since which a rank is tainted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taint {
    pub rank: u32,
    pub kind: TaintKind,
    pub step: u64,
    /// The message of the rank that tainted it, or the last one before the flip.
    pub number: u64,
    pub sender: Option<u32>,
}

/// How an error has spread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Propagation {
    /// The tainted ranks, by step and rank.
    pub taints: Vec<Taint>,
    /// Corrupt messages, by step, sender and receiver.
    pub corrupt: BTreeMap<(u64, Option<u32>, u32), u64>,
}

/// The first thing that taints a rank.
#[derive(Clone, Copy)]
enum First {
    Flip(Flip),
    Message(CorruptMessage),
}

impl First {
    /// A flip comes after the messages that were compared before it, and before the next one.
    const fn place(self) -> (u64, bool) {
        match self {
            Self::Flip(flip) => (flip.compared, true),
            Self::Message(message) => (message.number, false),
        }
    }
}

impl Propagation {
    /// Of these flips and messages, in any order; each message once.
    pub fn of(flips: &[Flip], messages: &[CorruptMessage]) -> Self {
        let mut first: BTreeMap<u32, First> = BTreeMap::new();
        let flipped = flips.iter().map(|flip| (flip.rank, First::Flip(*flip)));
        for (rank, one) in flipped.chain(messages.iter().map(|message| (message.rank, First::Message(*message)))) {
            let earliest = first.entry(rank).or_insert(one);
            if one.place() < earliest.place() {
                *earliest = one;
            }
        }
        let mut corrupt = BTreeMap::new();
        for one in messages {
            *corrupt.entry((one.step, one.sender, one.rank)).or_insert(0) += 1;
        }
        Self { taints: taints(&first), corrupt }
    }

    /// Ranks of each kind that are tainted at the end of a step, in the order of [`TaintKind::ALL`].
    pub fn tainted_by(&self, step: u64) -> [usize; 3] {
        let until = &self.taints[..self.taints.partition_point(|one| one.step <= step)];
        TaintKind::ALL.map(|kind| until.iter().filter(|one| one.kind == kind).count())
    }

    /// All corrupt messages.
    pub fn messages(&self) -> u64 {
        self.corrupt.values().sum()
    }

    /// Corrupt messages by step and receiver.
    pub fn by_step_and_rank(&self) -> BTreeMap<(u64, u32), u64> {
        let mut counts = BTreeMap::new();
        for (&(step, _, rank), count) in &self.corrupt {
            *counts.entry((step, rank)).or_insert(0) += count;
        }
        counts
    }

    /// The last step in which anything happened.
    pub fn last_step(&self) -> u64 {
        let taint = self.taints.last().map(|one| one.step);
        taint.max(self.corrupt.last_key_value().map(|(&(step, _, _), _)| step)).unwrap_or(0)
    }
}

fn taints(first: &BTreeMap<u32, First>) -> Vec<Taint> {
    let injected: BTreeSet<u32> =
        first.iter().filter(|(_, first)| matches!(first, First::Flip(_))).map(|(&rank, _)| rank).collect();
    // Before any other rank is tainted, only ranks with a flip can have made a collective operation wrong.
    let others = first.values().filter_map(|first| match first {
        First::Flip(_) => None,
        First::Message(message) => Some(message.step),
    });
    let earliest = others.min();
    let mut taints: Vec<Taint> = first
        .values()
        .map(|first| match *first {
            First::Flip(Flip { rank, step, compared }) => {
                Taint { rank, kind: TaintKind::Injected, step, number: compared, sender: None }
            }
            First::Message(CorruptMessage { rank, step, number, sender }) => {
                let is_direct = sender.map_or(Some(step) == earliest, |sender| injected.contains(&sender));
                let kind = if is_direct { TaintKind::Direct } else { TaintKind::Indirect };
                Taint { rank, kind, step, number, sender }
            }
        })
        .collect();
    taints.sort_by_key(|one| (one.step, one.rank));
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn flip(rank: u32, step: u64, compared: u64) -> Flip {
        Flip { rank, step, compared }
    }

    const fn message(rank: u32, step: u64, number: u64, sender: Option<u32>) -> CorruptMessage {
        CorruptMessage { rank, step, number, sender }
    }

    fn kinds(propagation: &Propagation) -> Vec<(u32, TaintKind, u64)> {
        propagation.taints.iter().map(|one| (one.rank, one.kind, one.step)).collect()
    }

    #[test]
    fn an_error_that_goes_from_neighbour_to_neighbour_is_direct_once() {
        let messages = [
            message(2, 3, 7, Some(1)),
            message(3, 4, 9, Some(2)),
            message(2, 4, 8, Some(1)),
            message(1, 4, 8, Some(2)),
        ];
        let found = Propagation::of(&[flip(1, 3, 6)], &messages);
        let expected = [(1, TaintKind::Injected, 3), (2, TaintKind::Direct, 3), (3, TaintKind::Indirect, 4)];
        assert_eq!(kinds(&found), expected);
        assert_eq!([2, 3, 4].map(|step| found.tainted_by(step)), [[0, 0, 0], [1, 1, 0], [1, 1, 1]]);
        assert_eq!((found.messages(), found.last_step()), (4, 4));
        assert_eq!(found.by_step_and_rank(), BTreeMap::from([((3, 2), 1), ((4, 1), 1), ((4, 2), 1), ((4, 3), 1)]));
        assert_eq!(found.taints[1].sender, Some(1));
    }

    #[test]
    fn a_flip_in_a_rank_that_is_tainted_already_changes_nothing_and_one_before_does() {
        let late = Propagation::of(&[flip(0, 1, 5), flip(2, 3, 7)], &[message(2, 3, 7, Some(0))]);
        assert_eq!(kinds(&late), [(0, TaintKind::Injected, 1), (2, TaintKind::Direct, 3)]);
        let early = Propagation::of(&[flip(0, 1, 5), flip(2, 3, 6)], &[message(2, 3, 7, Some(0))]);
        assert_eq!(kinds(&early), [(0, TaintKind::Injected, 1), (2, TaintKind::Injected, 3)]);
    }

    #[test]
    fn the_first_wrong_result_of_a_collective_operation_is_direct_and_later_ones_are_not() {
        let messages = [message(0, 5, 2, None), message(2, 5, 2, None), message(3, 6, 3, None)];
        let found = Propagation::of(&[flip(1, 5, 1)], &messages);
        let expected = [
            (0, TaintKind::Direct, 5),
            (1, TaintKind::Injected, 5),
            (2, TaintKind::Direct, 5),
            (3, TaintKind::Indirect, 6),
        ];
        assert_eq!(kinds(&found), expected);
    }

    #[test]
    fn nothing_is_tainted_without_events() {
        assert_eq!(Propagation::of(&[], &[]), Propagation::default());
        assert_eq!((Propagation::default().tainted_by(9), Propagation::default().last_step()), ([0; 3], 0));
    }

    /// What happens in one rank.
    fn happens(rank: u32, flips: &[Flip], messages: &[CorruptMessage]) -> Option<First> {
        for number in 0..100 {
            if let Some(one) = messages.iter().find(|one| (one.rank, one.number) == (rank, number)) {
                return Some(First::Message(*one));
            }
            if let Some(one) = flips.iter().find(|one| (one.rank, one.compared) == (rank, number)) {
                return Some(First::Flip(*one));
            }
        }
        None
    }

    /// Follows each rank message by message, and asks for each sender anew how it was tainted.
    fn naive(flips: &[Flip], messages: &[CorruptMessage]) -> Vec<(u32, TaintKind, u64)> {
        let is_injected = |rank| matches!(happens(rank, flips, messages), Some(First::Flip(_)));
        let others_before = |step| {
            (0..RANKS).any(|rank| match happens(rank, flips, messages) {
                Some(First::Message(other)) => other.step < step,
                _ => false,
            })
        };
        let kind = |first: &First| match first {
            First::Flip(flip) => (flip.rank, TaintKind::Injected, flip.step),
            First::Message(one) => {
                let is_direct = one.sender.map_or_else(|| !others_before(one.step), is_injected);
                (one.rank, if is_direct { TaintKind::Direct } else { TaintKind::Indirect }, one.step)
            }
        };
        let mut found: Vec<_> = (0..RANKS).filter_map(|rank| happens(rank, flips, messages)).collect();
        found.sort_by_key(|first| (kind(first).2, kind(first).0));
        found.iter().map(kind).collect()
    }

    const RANKS: u32 = 5;

    /// Histories in which steps never go back, from a seed.
    fn history(seed: u64) -> (Vec<Flip>, Vec<CorruptMessage>) {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut flips, mut messages) = (Vec::new(), Vec::new());
        for rank in 0..RANKS {
            for number in 1..8 {
                let step = number / 2;
                match random(10) {
                    0 => flips.push(flip(rank, step, number)),
                    1 => messages.push(message(rank, step, number, None)),
                    2 | 3 => {
                        let sender = u32::try_from(random(RANKS.into())).unwrap();
                        messages.push(message(rank, step, number, Some(sender)));
                    }
                    _ => {}
                }
            }
        }
        // Files are read in another order than things happened in.
        messages.reverse();
        (flips, messages)
    }

    #[test]
    fn taints_are_those_of_a_walk_from_message_to_message() {
        for seed in 0..3000 {
            let (flips, messages) = history(seed);
            let found = Propagation::of(&flips, &messages);
            assert_eq!(kinds(&found), naive(&flips, &messages), "seed {seed}: {flips:?} {messages:?}");
            assert_eq!(found.messages(), messages.len() as u64);
            assert_eq!(found.tainted_by(found.last_step()).iter().sum::<usize>(), found.taints.len());
            assert_eq!(found.by_step_and_rank().values().sum::<u64>(), found.messages());
        }
    }
}
