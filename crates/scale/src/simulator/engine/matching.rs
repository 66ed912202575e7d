//! Matches messages with receives.
//!
//! **Problem.** A message goes to the first matching receive, and a receive takes the first matching message; a receive
//! may have wildcards for sender and tag (MPI 4.1, 3.5 and 3.2.4). **Idea.** Two ordered lists per rank: receives
//! without a message, and messages without a receive. A new entry searches the other list from its front. A list that
//! grows long is sorted into queues by sender and tag; a search then examines four queues, whatever the length of the
//! list. **Why this way.** In a program that scales, a list has few entries, side by side in memory; in one that does
//! not, a search through all entries would make the run quadratic.
//!
//! | module | owns |
//! |---|---|
//! | [`posted`] | receives that wait |
//! | [`arrived`] | messages that wait |

pub(super) mod arrived;
pub(super) mod posted;

use crate::model::operation::{ANY, COLLECTIVES, Operation};
pub(super) use arrived::Arrived;
pub(super) use posted::Posted;

/// A list longer than this is sorted into queues.
const SHORT: usize = 32;

/// The pattern of a receive: the sender and the tag, or [`ANY`].
type Pattern = (u32, u32);

/// The two lists of a rank. No entry of one matches an entry of the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    posted: posted::PostedReceives,
    arrived: arrived::ArrivedMessages,
}

impl Matching {
    /// A message arrived: returns the receive that takes it, or lets it wait.
    pub fn arrive(&mut self, message: Arrived) -> Option<Posted> {
        let taken = self.posted.take(message.send.peer, message.send.tag);
        if taken.is_none() {
            self.arrived.add(message);
        }
        taken
    }

    /// A receive is posted: returns the message that it takes, or lets it wait.
    pub fn post(&mut self, receive: Operation) -> Option<Arrived> {
        let taken = self.arrived.take((receive.peer, receive.tag));
        if taken.is_none() {
            self.posted.add(Posted { from: receive.peer, tag: receive.tag, id: receive.id });
        }
        taken
    }

    /// The first receive that still waits.
    pub fn first_posted(&self) -> Option<Posted> {
        self.posted.first()
    }

    /// The first message that nobody received.
    pub fn first_arrived(&self) -> Option<Arrived> {
        self.arrived.first()
    }

    /// The number of entries of lists and queues that were examined.
    #[cfg(test)]
    fn looked_at(&self) -> u64 {
        self.posted.looked_at + self.arrived.looked_at
    }
}

/// Whether a receive takes a message.
fn fits((from, wanted): Pattern, sender: u32, tag: u32) -> bool {
    (from == ANY || from == sender) && (wanted == tag || wanted == ANY && tag != COLLECTIVES.0)
}

/// All patterns of receives that match this message.
fn patterns(sender: u32, tag: u32) -> impl Iterator<Item = Pattern> {
    let all = [(sender, tag), (ANY, tag), (sender, ANY), (ANY, ANY)];
    all.into_iter().filter(move |pattern| fits(*pattern, sender, tag))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rampart_memory::Bytes;

    use super::*;
    use crate::model::operation::{OpId, Rank, Tag};
    use crate::time::Time;

    fn message(sender: u32, tag: u32, number: u32) -> Arrived {
        let send = Operation::send(Rank(sender), Bytes::new(1), Tag(tag)).named(OpId(number));
        Arrived { send, ready: Time::ZERO }
    }

    fn receive(from: u32, tag: u32, number: u32) -> Operation {
        let (from, tag) = ((from != ANY).then_some(Rank(from)), (tag != ANY).then_some(Tag(tag)));
        Operation::recv(from, Bytes::new(1), tag).named(OpId(number))
    }

    /// The reference model: two lists that are searched from the front.
    #[derive(Default)]
    struct ReferenceModel {
        posted: Vec<Operation>,
        arrived: Vec<Arrived>,
    }

    impl ReferenceModel {
        fn arrive(&mut self, message: Arrived) -> Option<OpId> {
            let Operation { peer, tag, .. } = message.send;
            let place = self.posted.iter().position(|receive| fits((receive.peer, receive.tag), peer, tag));
            if place.is_none() {
                self.arrived.push(message);
            }
            place.map(|place| self.posted.remove(place).id)
        }

        fn post(&mut self, receive: Operation) -> Option<OpId> {
            let fitting = |message: &Arrived| fits((receive.peer, receive.tag), message.send.peer, message.send.tag);
            let place = self.arrived.iter().position(fitting);
            if place.is_none() {
                self.posted.push(receive);
            }
            place.map(|place| self.arrived.remove(place).send.id)
        }
    }

    /// Whether a message arrives or a receive is posted, the sender, and the tag.
    fn steps(most: usize) -> impl Strategy<Value = Vec<(bool, u32, u32)>> {
        let sender = prop_oneof![8 => 0..4_u32, 1 => Just(ANY)];
        let tag = prop_oneof![8 => 0..4_u32, 1 => Just(ANY), 2 => Just(COLLECTIVES.0)];
        // More of one kind than of the other: otherwise no list grows long.
        (0.1..0.9, prop::collection::vec((0.0..1.0, sender, tag), 0..most)).prop_map(|(share, steps)| {
            steps.into_iter().map(|(draw, sender, tag)| (draw < share, sender, tag)).collect()
        })
    }

    proptest! {
        #[test]
        fn who_takes_what_is_what_a_search_through_lists_finds(steps in steps(600)) {
            let (mut matching, mut model) = (Matching::default(), ReferenceModel::default());
            for (number, (comes, sender, tag)) in (0..).zip(steps) {
                if comes && sender != ANY && tag != ANY {
                    let message = message(sender, tag, number);
                    prop_assert_eq!(matching.arrive(message).map(|posted| posted.id), model.arrive(message));
                } else {
                    let receive = receive(sender, tag, number);
                    prop_assert_eq!(matching.post(receive).map(|arrived| arrived.send.id), model.post(receive));
                }
                prop_assert_eq!(matching.first_posted().map(|posted| posted.id), model.posted.first().map(|first| first.id));
                let first = matching.first_arrived().map(|arrived| arrived.send.id);
                prop_assert_eq!(first, model.arrived.first().map(|first| first.send.id));
            }
        }
    }

    /// Entries examined for this many messages, the last first, and their receives.
    fn looked_at(count: u32, messages_first: bool, pattern: impl Fn(u32) -> Pattern) -> u64 {
        let mut matching = Matching::default();
        let arrive = |matching: &mut Matching| {
            for tag in (0..count).rev() {
                matching.arrive(message(1, tag, tag));
            }
        };
        if messages_first {
            arrive(&mut matching);
        }
        for number in 0..count {
            let (from, tag) = pattern(number);
            matching.post(receive(from, tag, number));
        }
        if !messages_first {
            arrive(&mut matching);
        }
        assert!(matching.first_posted().is_none() && matching.first_arrived().is_none());
        matching.looked_at()
    }

    #[test]
    fn messages_out_of_order_are_not_looked_at_one_by_one() {
        let most = u64::try_from(2 * SHORT * SHORT).unwrap() + 8 * 20_000;
        for messages_first in [true, false] {
            let looked_at = [
                looked_at(20_000, messages_first, |number| (1, number)),
                looked_at(20_000, messages_first, |number| (ANY, number)),
                looked_at(20_000, messages_first, |_| (1, ANY)),
                looked_at(20_000, messages_first, |_| (ANY, ANY)),
            ];
            assert!(looked_at.iter().all(|looks| *looks < most), "{looked_at:?}");
        }
    }
}
