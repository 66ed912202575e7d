//! A cycle of a program, worked out once: which message of whom each rank takes in each round.

use rampart_memory::Bytes;

use crate::collective::{Collective, Kind};
use crate::network::LogGops;
use crate::operation::{Action, Operation, Rank};
use crate::rounds::Program;
use crate::time::Time;
use crate::workload::{Phase, Running};

/// What one message costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Price {
    /// *(s - 1) G*.
    pub wire: Time,
    /// *(s - 1) O*.
    pub copy: Time,
    /// The sender waits until the message was taken.
    pub rendezvous: bool,
}

/// What all ranks do in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Each computes for so long.
    Compute(Time),
    /// Each sends and receives.
    Messages(Messages),
}

/// The messages of one round, rank by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Messages {
    /// The index in `prices` of each message sent, sender by sender.
    pub sends: Vec<u8>,
    /// Where in `sends` each sender begins, and the end.
    pub sends_of: Vec<u32>,
    /// The message, as an index of `sends`, that each receive takes, receiver by receiver.
    pub takes: Vec<u32>,
    /// Where in `takes` each receiver begins, and the end.
    pub takes_of: Vec<u32>,
    pub prices: Vec<Price>,
}

/// A cycle: rounds that are all different, and in which order they come.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub rounds: Vec<Round>,
    /// Indices of `rounds`.
    pub order: Vec<u32>,
}

impl Plan {
    pub fn new(program: &Running, network: &LogGops) -> Self {
        let (mut rounds, mut order) = (Vec::new(), Vec::new());
        let mut known: Vec<(Phase, Vec<u32>)> = Vec::new();
        for phase in program.phases() {
            if let Some((_, these)) = known.iter().find(|(other, _)| other == phase) {
                order.extend(these);
                continue;
            }
            let new: Vec<Round> = of_phase(program, *phase, network);
            let first = u32::try_from(rounds.len()).expect("a cycle is short");
            let these: Vec<u32> = (first..).take(new.len()).collect();
            rounds.extend(new);
            order.extend(&these);
            known.push((*phase, these));
        }
        Self { rounds, order }
    }

    /// The most messages of a round.
    pub fn most_messages(&self) -> usize {
        let messages = |round: &Round| if let Round::Messages(messages) = round { messages.sends.len() } else { 0 };
        self.rounds.iter().map(messages).max().unwrap_or(0)
    }
}

fn of_phase(program: &Running, phase: Phase, network: &LogGops) -> Vec<Round> {
    let ranks = program.ranks();
    let gathered = |of_rank: &dyn Fn(Rank, &mut Vec<Operation>)| {
        let mut operations = Vec::new();
        let starts: Vec<usize> = (0..ranks)
            .map(|rank| {
                let start = operations.len();
                of_rank(Rank(rank), &mut operations);
                start
            })
            .collect();
        Round::Messages(Messages::new(&operations, &starts, network))
    };
    match phase {
        Phase::Compute(time) => vec![Round::Compute(time)],
        Phase::Exchange(_) | Phase::Shift { .. } => {
            vec![gathered(&|rank, operations| program.messages(rank, phase, operations))]
        }
        Phase::Allreduce(bytes) => {
            let collective = Collective::new(Kind::Allreduce, Bytes::new(bytes), ranks);
            let round = |number: u32| {
                gathered(&|rank, operations| {
                    collective.round(rank, ranks, number, operations);
                })
            };
            (0..collective.rounds(ranks)).map(round).collect()
        }
    }
}

impl Messages {
    /// The messages of these operations; a rank's begin at its start. Messages of one rank to another are taken in their order.
    fn new(operations: &[Operation], starts: &[usize], network: &LogGops) -> Self {
        let mut these = Self::default();
        let of = |rank: usize| &operations[starts[rank]..starts.get(rank + 1).copied().unwrap_or(operations.len())];
        let place = |length: usize| u32::try_from(length).expect("fewer than 2^32 messages in a round");
        // To whom each message goes, until it was taken.
        let mut receivers = Vec::new();
        for rank in 0..starts.len() {
            these.sends_of.push(place(these.sends.len()));
            for operation in of(rank) {
                if let Action::Send { to, bytes, .. } = operation.action() {
                    receivers.push(Some(to));
                    let price = these.price(bytes, network);
                    these.sends.push(price);
                }
            }
        }
        these.sends_of.push(place(these.sends.len()));
        for (rank, me) in (0..starts.len()).zip((0..).map(Rank)) {
            these.takes_of.push(place(these.takes.len()));
            for operation in of(rank) {
                if let Action::Recv { from: Some(from), .. } = operation.action() {
                    let first = these.sends_of[from.index()] as usize;
                    let of_sender = &mut receivers[first..these.sends_of[from.index() + 1] as usize];
                    let message = of_sender.iter().position(|to| *to == Some(me));
                    let message = message.expect("what is received in a round is sent in it");
                    of_sender[message] = None;
                    these.takes.push(place(first + message));
                }
            }
        }
        these.takes_of.push(place(these.takes.len()));
        these
    }

    fn price(&mut self, bytes: Bytes, network: &LogGops) -> u8 {
        let rendezvous = bytes > network.eager;
        let price = Price { wire: network.wire(bytes.get()), copy: network.copy(bytes.get()), rendezvous };
        let known = self.prices.iter().position(|other| *other == price);
        let place = known.unwrap_or_else(|| {
            self.prices.push(price);
            self.prices.len() - 1
        });
        u8::try_from(place).expect("a round has a handful of sizes")
    }
}
