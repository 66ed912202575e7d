//! The calls of one copy, in an order in which nothing waits for what comes later.
//!
//! **Problem.** Where errors are frequent, most copies are disturbed all the time, and events are slow. **Idea.** The
//! trace says which message is for which receive, so the calls of all ranks can be put into one order, once. Going
//! through it takes some additions a call. **Why this way.** All copies have the same order, whatever disturbs them.
//!
//! The rules are those of the engine, with two simplifications: a message takes CPU time of its receiver when the
//! receiver waits for it, not when it arrives; and a sender in rendezvous waits for the receive, and not for the
//! receiver's CPU.

use std::collections::HashMap;

use crate::model::detour::Detours;
use crate::model::network::LogGops;
use crate::model::operation::{ANY, Operation, OperationKind, Rank};
use crate::programs::trace::{Call, MpiRequest, MpiTrace};
use crate::time::Time;

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
    /// Computes for this time.
    Compute(Time),
    /// Sends this many bytes.
    Send(u64),
    /// Is ready to receive.
    Post,
    /// Waits until the receiver of its message is ready.
    Meet,
    /// Waits for a message of this many bytes, and takes it.
    Take(u64),
}

/// A step of a rank. Computing has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    kind: StepKind,
    rank: Rank,
    message: u32,
}

/// The steps of all ranks of a copy, each after those that it waits for.
#[derive(Clone, Debug)]
pub(super) struct OrderedSteps {
    steps: Vec<Step>,
    ranks: usize,
    messages: usize,
}

/// The times of a message.
#[derive(Clone, Copy, Default)]
struct MessageTimes {
    arrives: Time,
    posted: Time,
}

/// The times of a rank.
struct RankTimes<C> {
    cursor: C,
    at: Time,
    /// The time at which its NIC can send, and receive, the next message.
    sends: Time,
    receives: Time,
}

impl OrderedSteps {
    /// Puts the calls in order; `None` if there is a collective, a receive that no rank waits for or that does not name
    /// its sender and tag, or no such order.
    pub fn of(trace: &MpiTrace, network: &LogGops) -> Option<Self> {
        let mut numbers = MessageNumbers::default();
        let by_rank: Option<Vec<Vec<Step>>> =
            (0..trace.ranks()).map(|rank| steps_of(Rank(rank), trace, network, &mut numbers)).collect();
        let (by_rank, messages) = (by_rank?, numbers.count as usize);
        let steps = in_order(&by_rank, messages)?;
        Some(Self { steps, ranks: by_rank.len(), messages })
    }

    /// The time at which the last rank is done.
    pub fn makespan<D: Detours>(&self, network: &LogGops, detours: &D) -> Time {
        let begun = |rank: u32| RankTimes {
            cursor: detours.begin(Rank(rank)),
            at: Time::ZERO,
            sends: Time::ZERO,
            receives: Time::ZERO,
        };
        let mut ranks: Vec<RankTimes<D::Cursor>> = (0..).take(self.ranks).map(begun).collect();
        let mut messages = vec![MessageTimes::default(); self.messages];
        for &Step { kind, rank, message } in &self.steps {
            let of_rank = &mut ranks[rank.index()];
            let mut work = |start, work| detours.finish(rank, &mut of_rank.cursor, start, work);
            match kind {
                StepKind::Compute(takes) => of_rank.at = work(of_rank.at, takes),
                StepKind::Send(bytes) => {
                    let start = of_rank.at.max(of_rank.sends);
                    let sent = work(start, network.overhead);
                    of_rank.at = work(sent, network.copy(bytes));
                    of_rank.sends = start.plus(network.gap).plus(network.wire(bytes));
                    messages[message as usize].arrives = sent.plus(network.latency);
                }
                StepKind::Post => messages[message as usize].posted = of_rank.at,
                StepKind::Meet => {
                    let MessageTimes { arrives, posted } = messages[message as usize];
                    of_rank.at = of_rank.at.max(arrives).max(posted);
                }
                StepKind::Take(bytes) => {
                    let start = of_rank.at.max(of_rank.receives).max(messages[message as usize].arrives);
                    let taken = work(start, network.overhead);
                    let wire = network.wire(bytes);
                    of_rank.at = work(taken, network.copy(bytes)).max(taken.plus(wire));
                    of_rank.receives = start.plus(network.gap).plus(wire);
                }
            }
        }
        ranks.iter().map(|rank| rank.at).max().unwrap_or_default()
    }
}

/// A sender, a receiver and a tag: their messages arrive in order.
type Channel = (Rank, Rank, u32);

/// The numbers of messages: the n-th that is sent on a channel is the n-th that is received on it.
#[derive(Default)]
struct MessageNumbers {
    known: HashMap<(Channel, u32), u32>,
    /// How many messages of a channel were sent, and how many received.
    sent: HashMap<Channel, u32>,
    received: HashMap<Channel, u32>,
    count: u32,
}

impl MessageNumbers {
    fn next(&mut self, channel: Channel, kind: OperationKind) -> u32 {
        let side = if kind == OperationKind::Send { &mut self.sent } else { &mut self.received };
        let place = side.entry(channel).or_default();
        let key = (channel, *place);
        *place += 1;
        *self.known.entry(key).or_insert_with(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

/// The steps of a rank, in its own order.
fn steps_of(rank: Rank, trace: &MpiTrace, network: &LogGops, numbers: &mut MessageNumbers) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    // What the wait for a request waits for, if anything.
    let mut open: HashMap<MpiRequest, Option<Step>> = HashMap::new();
    for call in trace.calls(rank) {
        match *call {
            Call::Blocking(operation) => {
                let waits = begin(rank, operation, network, numbers, &mut steps)?;
                steps.extend(waits);
            }
            Call::Begin(operation, request) => {
                let waits = begin(rank, operation, network, numbers, &mut steps)?;
                open.insert(request, waits);
            }
            Call::Wait(request) => steps.extend(open.remove(&request).flatten()),
            Call::Collective(..) => return None,
        }
    }
    let left = open.into_values().flatten().any(|step| matches!(step.kind, StepKind::Take(_)));
    (!left).then_some(steps)
}

/// Appends the start of an operation; returns the step that waits for its end, if one has to.
#[expect(clippy::option_option, reason = "the outer one: whether it is known which message is meant")]
fn begin(
    rank: Rank,
    operation: Operation,
    network: &LogGops,
    numbers: &mut MessageNumbers,
    steps: &mut Vec<Step>,
) -> Option<Option<Step>> {
    let Operation { kind, size, peer, tag, .. } = operation;
    if kind == OperationKind::Calc {
        steps.push(Step { kind: StepKind::Compute(Time::from_picos(size)), rank, message: 0 });
        return Some(None);
    }
    if peer == ANY || tag == ANY {
        return None;
    }
    let channel = if kind == OperationKind::Send { (rank, Rank(peer), tag) } else { (Rank(peer), rank, tag) };
    let message = numbers.next(channel, kind);
    let step = |kind| Step { kind, rank, message };
    Some(if kind == OperationKind::Send {
        steps.push(step(StepKind::Send(size)));
        (size > network.eager.get()).then(|| step(StepKind::Meet))
    } else {
        steps.push(step(StepKind::Post));
        Some(step(StepKind::Take(size)))
    })
}

/// All steps, each after those that it waits for; `None` if ranks wait for each other.
fn in_order(by_rank: &[Vec<Step>], messages: usize) -> Option<Vec<Step>> {
    let all = by_rank.iter().map(Vec::len).sum();
    let mut steps = Vec::with_capacity(all);
    let mut next = vec![0; by_rank.len()];
    let (mut sent, mut posted) = (vec![false; messages], vec![false; messages]);
    while steps.len() < all {
        let before = steps.len();
        for (of_rank, next) in by_rank.iter().zip(&mut next) {
            while let Some(step) = of_rank.get(*next) {
                let message = step.message as usize;
                match step.kind {
                    StepKind::Compute(_) => {}
                    StepKind::Send(_) => sent[message] = true,
                    StepKind::Post => posted[message] = true,
                    StepKind::Meet if !posted[message] => break,
                    StepKind::Take(_) if !sent[message] => break,
                    StepKind::Meet | StepKind::Take(_) => {}
                }
                steps.push(*step);
                *next += 1;
            }
        }
        if steps.len() == before {
            return None;
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use rampart_memory::Bytes;

    use super::*;
    use crate::model::detour::Undisturbed;
    use crate::programs::collective::CollectiveKind;
    use crate::programs::trace::Communicator;
    use crate::{Tag, simulate};

    /// More than fits into the network's eager messages.
    const LARGE: u64 = 100_000;

    fn compute(nanos: u64) -> Call {
        Call::Blocking(Operation::calc(Time::from_nanos(nanos)))
    }

    fn send(to: u32, bytes: u64) -> Operation {
        Operation::send(Rank(to), Bytes::new(bytes), Tag(0))
    }

    fn receive(from: u32, bytes: u64) -> Operation {
        Operation::recv(Some(Rank(from)), Bytes::new(bytes), Some(Tag(0)))
    }

    fn ordered(ranks: Vec<Vec<Call>>) -> Option<OrderedSteps> {
        OrderedSteps::of(&MpiTrace::new(ranks).unwrap(), &LogGops::cray_xc40())
    }

    /// The makespan by steps, and by the engine.
    fn both(ranks: Vec<Vec<Call>>) -> (Time, Time) {
        let (network, trace) = (LogGops::cray_xc40(), MpiTrace::new(ranks.clone()).unwrap());
        let by_engine = simulate(&trace.extrapolated(1).unwrap(), &network, &Undisturbed).unwrap().makespan();
        (ordered(ranks).unwrap().makespan(&network, &Undisturbed), by_engine)
    }

    /// Two messages, the second received first by its wait: both are there by then.
    #[test]
    fn messages_take_as_long_as_by_events() {
        for bytes in [1, 5000, LARGE] {
            let zero = vec![compute(1000), Call::Blocking(send(1, bytes)), Call::Blocking(send(1, bytes)), compute(10)];
            let [one, two] = [MpiRequest(1), MpiRequest(2)];
            let begun = |request| Call::Begin(receive(0, bytes), request);
            let waits =
                |first, second| vec![begun(one), begun(two), compute(50), Call::Wait(first), Call::Wait(second)];
            let (ours, theirs) = both(vec![zero.clone(), waits(one, two)]);
            assert_eq!(ours, theirs, "{bytes} bytes");
            assert!(both(vec![zero, waits(two, one)]).0 >= ours, "{bytes} bytes");
        }
    }

    /// A sender of many bytes waits until its receiver is ready; one of few does not.
    #[test]
    fn a_sender_in_rendezvous_waits_for_the_receive() {
        for (bytes, waits) in [(LARGE, true), (100, false)] {
            let zero = vec![Call::Begin(send(1, bytes), MpiRequest(0)), Call::Wait(MpiRequest(0)), compute(5_000_000)];
            let one = vec![compute(1_000_000), Call::Blocking(receive(0, bytes))];
            let (ours, theirs) = both(vec![zero, one]);
            assert_eq!(ours, theirs, "{bytes} bytes");
            assert_eq!(ours >= Time::from_nanos(6_000_000), waits, "{bytes} bytes: {ours}");
        }
    }

    #[test]
    fn what_has_no_order_of_its_own_is_refused() {
        let barrier = Call::Collective(CollectiveKind::Barrier, Bytes::ZERO, Communicator::WORLD);
        assert!(ordered(vec![vec![barrier], vec![barrier]]).is_none(), "a collective");
        let small = || vec![Call::Blocking(send(1, 1))];
        assert!(ordered(vec![small(), vec![Call::Begin(receive(0, 1), MpiRequest(0))]]).is_none(), "never waited for");
        let from_anyone = Call::Blocking(Operation::recv(None, Bytes::new(1), None));
        assert!(ordered(vec![small(), vec![from_anyone]]).is_none(), "from anyone");
        let crossed = |other| vec![Call::Blocking(send(other, LARGE)), Call::Blocking(receive(other, LARGE))];
        assert!(ordered(vec![crossed(1), crossed(0)]).is_none(), "each waits for the other");
        assert!(ordered(vec![small(), vec![Call::Blocking(receive(0, 1))]]).is_some());
    }
}
