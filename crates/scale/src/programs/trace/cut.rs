//! The part of an interrupted run that can be simulated.
//!
//! **Problem.** When a program is killed, each rank's file ends at a different point: one rank sent a message that the
//! other's file does not show as received, and some ranks are in a collective that others have not reached. **Idea.**
//! Go through the calls without times; each rank gets as far as the calls of the others allow, and ends there. **Why
//! this way.** The remaining program runs to its end.

use std::collections::{HashMap, VecDeque};

use super::{Call, Communicator, MpiRequest};
use crate::model::operation::{Operation, OperationKind, Rank};

/// Messages from one rank to another with one tag: they arrive in order.
type Channel = (u32, u32, u32);

/// Shortens the calls of all ranks to what they completed together. `communicators` are those after
/// [`Communicator::WORLD`].
pub(super) fn cut(ranks: &mut [Vec<Call>], communicators: &[Vec<Rank>]) {
    let (ends, _) = ends(ranks, communicators);
    for (calls, end) in ranks.iter_mut().zip(ends) {
        calls.truncate(end);
    }
    leave_out_unmatched(ranks);
}

/// How far each rank gets with the calls of the others, and how many times a rank was examined.
fn ends(ranks: &[Vec<Call>], communicators: &[Vec<Rank>]) -> (Vec<usize>, u64) {
    let mut channels = Channels::default();
    let mut arrived: HashMap<(Communicator, u64), usize> = HashMap::new();
    let mut walkers: Vec<Walker> = (0..).zip(ranks).map(|(rank, calls)| Walker::new(rank, calls)).collect();
    let world: Vec<Rank> = (0..).map(Rank).take(ranks.len()).collect();
    let members = |communicator: Communicator| match communicator {
        Communicator::WORLD => world.as_slice(),
        Communicator(number) => communicators[number as usize - 1].as_slice(),
    };
    // The ranks that may proceed: all at first, then those that others sent to or joined in a collective.
    let mut awake: VecDeque<Rank> = world.iter().copied().collect();
    let mut is_awake = vec![true; ranks.len()];
    let (mut woken, mut looks) = (Vec::new(), 0);
    while let Some(rank) = awake.pop_front() {
        is_awake[rank.index()] = false;
        looks += 1;
        walkers[rank.index()].go_on(&mut channels, &mut arrived, &members, &mut woken);
        for rank in woken.drain(..) {
            // A message may go to a rank that does not exist: that is refused later.
            if is_awake.get_mut(rank.index()).is_some_and(|awake| !std::mem::replace(awake, true)) {
                awake.push_back(rank);
            }
        }
    }
    (walkers.iter().map(|walker| walker.next).collect(), looks)
}

/// The number of messages sent and asked for.
#[derive(Default)]
struct Channels {
    sent: HashMap<Channel, u64>,
    asked: HashMap<Channel, u64>,
}

impl Channels {
    fn send(&mut self, channel: Channel) {
        *self.sent.entry(channel).or_default() += 1;
    }

    fn ask(&mut self, channel: Channel) -> (Channel, u64) {
        let asked = self.asked.entry(channel).or_default();
        *asked += 1;
        (channel, *asked)
    }

    fn is_there(&self, (channel, number): (Channel, u64)) -> bool {
        self.sent.get(&channel).is_some_and(|sent| *sent >= number)
    }
}

fn channel(rank: u32, operation: Operation) -> Channel {
    match operation.kind {
        OperationKind::Send => (rank, operation.peer, operation.tag),
        _ => (operation.peer, rank, operation.tag),
    }
}

/// The progress of one rank.
struct Walker<'a> {
    rank: u32,
    calls: &'a [Call],
    next: usize,
    /// It has reported that it reached the next call, and waits there.
    waits: Option<(Channel, u64)>,
    came: bool,
    receives: HashMap<MpiRequest, (Channel, u64)>,
    collectives: HashMap<Communicator, u64>,
}

impl<'a> Walker<'a> {
    fn new(rank: u32, calls: &'a [Call]) -> Self {
        Self { rank, calls, next: 0, waits: None, came: false, receives: HashMap::new(), collectives: HashMap::new() }
    }

    /// Proceeds as far as possible; ranks that may proceed because of that are appended to `woken`.
    fn go_on<'b>(
        &mut self,
        channels: &mut Channels,
        arrived: &mut HashMap<(Communicator, u64), usize>,
        members: &impl Fn(Communicator) -> &'b [Rank],
        woken: &mut Vec<Rank>,
    ) {
        while let Some(call) = self.calls.get(self.next) {
            let first = !self.came;
            self.came = true;
            let goes = match *call {
                Call::Blocking(operation) if operation.kind == OperationKind::Recv => {
                    if first {
                        self.waits = Some(channels.ask(channel(self.rank, operation)));
                    }
                    self.waits.is_some_and(|asked| channels.is_there(asked))
                }
                Call::Blocking(operation) | Call::Begin(operation, _) if operation.kind == OperationKind::Send => {
                    channels.send(channel(self.rank, operation));
                    woken.push(Rank(operation.peer));
                    true
                }
                Call::Begin(operation, request) => {
                    self.receives.insert(request, channels.ask(channel(self.rank, operation)));
                    true
                }
                Call::Blocking(_) => true,
                Call::Wait(request) => self.receives.get(&request).is_none_or(|asked| channels.is_there(*asked)),
                Call::Collective(_, _, communicator) => {
                    let number = *self.collectives.entry(communicator).or_default();
                    let here = arrived.entry((communicator, number)).or_default();
                    *here += usize::from(first);
                    let complete = *here == members(communicator).len();
                    if complete && first {
                        woken.extend(members(communicator));
                    }
                    complete
                }
            };
            if !goes {
                break;
            }
            if let Call::Collective(_, _, communicator) = call {
                *self.collectives.entry(*communicator).or_default() += 1;
            }
            (self.next, self.came, self.waits) = (self.next + 1, false, None);
        }
    }
}

/// Removes messages that no rank receives any more, and receives without a message.
fn leave_out_unmatched(ranks: &mut [Vec<Call>]) {
    let mut counts: HashMap<Channel, (u64, u64)> = HashMap::new();
    for (rank, calls) in (0..).zip(ranks.iter()) {
        for operation in calls.iter().filter_map(message) {
            let (sent, asked) = counts.entry(channel(rank, operation)).or_default();
            *if operation.kind == OperationKind::Send { sent } else { asked } += 1;
        }
    }
    let mut seen: HashMap<(Channel, OperationKind), u64> = HashMap::new();
    for (rank, calls) in (0..).zip(ranks) {
        calls.retain(|call| {
            let Some(operation) = message(call) else { return true };
            let channel = channel(rank, operation);
            let (sent, asked) = counts[&channel];
            let number = seen.entry((channel, operation.kind)).or_default();
            *number += 1;
            *number <= sent.min(asked)
        });
    }
}

fn message(call: &Call) -> Option<Operation> {
    match call {
        Call::Blocking(operation) | Call::Begin(operation, _) => {
            Some(*operation).filter(|it| it.kind != OperationKind::Calc)
        }
        Call::Wait(_) | Call::Collective(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use rampart_memory::Bytes;

    use super::*;
    use crate::model::operation::Tag;

    /// Each rank waits for the next one: in their order, one rank at a time can proceed.
    #[test]
    fn ranks_that_wait_for_each_other_in_a_row_are_looked_at_as_often_as_something_changes() {
        let (count, bytes, tag) = (5000_u32, Bytes::new(1), Tag(0));
        let calls = |rank: u32| {
            let receive = (rank + 1 < count).then(|| Operation::recv(Some(Rank(rank + 1)), bytes, Some(tag)));
            let send = (rank > 0).then(|| Operation::send(Rank(rank - 1), bytes, tag));
            receive.into_iter().chain(send).map(Call::Blocking).collect::<Vec<_>>()
        };
        let ranks: Vec<Vec<Call>> = (0..count).map(calls).collect();
        let (ends, looks) = ends(&ranks, &[]);
        assert!(ends.iter().zip(&ranks).all(|(end, calls)| *end == calls.len()));
        assert!(looks <= 2 * u64::from(count), "{looks}");
    }
}
