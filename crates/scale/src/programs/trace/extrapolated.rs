//! The schedule of a trace, on a multiple of its ranks.
//!
//! **Problem.** The next operation of a rank depends on its position in its calls, on its position in a collective, and
//! on its requests. **Idea.** Proceed from call to call until one has to wait, and remember what it waits for. **Why
//! this way.** That is what the program did.

use std::collections::VecDeque;

use rampart_memory::Bytes;

use super::{Call, Communicator, Members, MpiRequest, MpiTrace};
use crate::model::operation::{OpId, Operation, Rank};
use crate::programs::collective::{Collective, CollectiveKind};
use crate::programs::schedule::Schedule;
use crate::time::Time;

/// A trace on a multiple of its ranks.
#[derive(Clone, Copy, Debug)]
pub struct Extrapolated<'a> {
    pub(super) trace: &'a MpiTrace,
    ranks: u32,
}

/// The number of operations without a request.
const BLOCKING: OpId = OpId(u32::MAX);

/// The progress of one rank.
#[derive(Clone, Debug, Default)]
pub struct TraceProgress {
    /// The next call.
    call: u32,
    /// What it waits for.
    until: Until,
    /// Its current collective.
    collective: Option<Within>,
    /// Requests not yet done, in order of their numbers: most complete at one end.
    open: VecDeque<OpId>,
}

impl TraceProgress {
    fn begin(&mut self, request: OpId) {
        match self.open.back() {
            Some(last) if *last > request => {
                let place = self.open.partition_point(|open| *open < request);
                self.open.insert(place, request);
            }
            _ => self.open.push_back(request),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Until {
    /// Nothing: the rank has ended.
    #[default]
    Ended,
    /// This many operations without a request to complete.
    Done(u32),
    /// A request to complete.
    Request(OpId),
    /// The latest operation to start.
    Started,
}

/// A rank's progress in a collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    collective: Collective,
    communicator: Communicator,
    /// The next round.
    round: u32,
}

impl<'a> Extrapolated<'a> {
    pub(super) fn new(trace: &'a MpiTrace, ranks: u32) -> Self {
        Self { trace, ranks }
    }

    /// A communicator, and its number of ranks in this run: a communicator of all recorded ranks grows with the run.
    fn members(&self, communicator: Communicator) -> (&'a Members, u32) {
        let members = &self.trace.communicators[communicator.0 as usize];
        let all = members.are_all(self.trace.ranks.len());
        (members, if all { self.ranks } else { u32::try_from(members.ranks.len()).expect("no more than all") })
    }

    /// The start of a collective; with only one rank there is nothing to do.
    pub(super) fn enter(&self, kind: CollectiveKind, bytes: Bytes, communicator: Communicator) -> Option<Within> {
        let ranks = self.members(communicator).1;
        let collective = Collective::new(kind, bytes, ranks);
        (ranks > 1).then_some(Within { collective, communicator, round: 0 })
    }

    /// Appends the operations of a rank in a round, and returns the remaining part of the collective.
    pub(super) fn round(&self, rank: Rank, within: Within, free: &mut Vec<Operation>) -> Option<Within> {
        let of_trace = self.trace.ranks();
        let (block, own) = (rank.0 / of_trace, Rank(rank.0 % of_trace));
        let (members, ranks) = self.members(within.communicator);
        let (count, number) = (members.ranks.len(), members.number(own).expect("checked when it was made"));
        let grown = ranks as usize > count;
        let number = if grown { block * of_trace + number } else { number };
        let before = free.len();
        let more = within.collective.round(Rank(number), ranks, within.round, free);
        for operation in &mut free[before..] {
            let peer = operation.peer as usize;
            let block = if grown { operation.peer / of_trace } else { block };
            operation.peer = block * of_trace + members.ranks[peer % count].0;
            operation.id = BLOCKING;
        }
        more.then_some(Within { round: within.round + 1, ..within })
    }

    /// Proceeds to the call at which the rank has to wait.
    fn go_on(&self, rank: Rank, progress: &mut TraceProgress, free: &mut Vec<Operation>) {
        let of_trace = self.trace.ranks();
        let (block, calls) = (rank.0 / of_trace * of_trace, self.trace.calls(Rank(rank.0 % of_trace)));
        loop {
            if let Some(within) = progress.collective {
                let before = free.len();
                progress.collective = self.round(rank, within, free);
                if free.len() > before {
                    progress.until = Until::Done(u32::try_from(free.len() - before).expect("a round is short"));
                    return;
                }
                continue;
            }
            let Some(call) = calls.get(progress.call as usize) else {
                progress.until = Until::Ended;
                return;
            };
            progress.call += 1;
            match *call {
                Call::Blocking(operation) => {
                    free.push(operation.shifted(block).named(BLOCKING));
                    progress.until = Until::Done(1);
                    return;
                }
                Call::Begin(operation, MpiRequest(request)) => {
                    free.push(operation.shifted(block).named(OpId(request)));
                    progress.begin(OpId(request));
                    progress.until = Until::Started;
                    return;
                }
                Call::Wait(MpiRequest(request)) if progress.open.binary_search(&OpId(request)).is_ok() => {
                    progress.until = Until::Request(OpId(request));
                    return;
                }
                Call::Wait(_) => {}
                Call::Collective(kind, bytes, communicator) => {
                    progress.collective = self.enter(kind, bytes, communicator);
                }
            }
        }
    }
}

impl Schedule for Extrapolated<'_> {
    type Progress = TraceProgress;

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> TraceProgress {
        let mut progress = TraceProgress::default();
        self.go_on(rank, &mut progress, free);
        progress
    }

    fn started(&self, rank: Rank, progress: &mut TraceProgress, _: OpId, free: &mut Vec<Operation>) {
        // Only the start of a request is waited for in this way, and everything before it started long ago.
        if progress.until == Until::Started {
            self.go_on(rank, progress, free);
        }
    }

    fn done(&self, rank: Rank, progress: &mut TraceProgress, operation: OpId, _: Time, free: &mut Vec<Operation>) {
        // Operations without a request are not among them: their number is that of no request.
        if let Ok(place) = progress.open.binary_search(&operation) {
            progress.open.remove(place);
        }
        match progress.until {
            Until::Done(left) if operation == BLOCKING && left > 1 => progress.until = Until::Done(left - 1),
            Until::Done(_) if operation == BLOCKING => self.go_on(rank, progress, free),
            Until::Request(request) if operation == request => self.go_on(rank, progress, free),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::detour::Undisturbed;
    use crate::programs::goal::text;
    use crate::{Error, LogGops, Tag, simulate};

    const TO_ALL: Bytes = Bytes::new(8);

    fn makespans(trace: &MpiTrace, factor: u32) -> Vec<u64> {
        let run = simulate(&trace.extrapolated(factor).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
        run.finished.iter().map(|time| time.nanos()).collect()
    }

    /// Each rank computes, begins to receive from its partner, sends to it, and waits.
    fn partners(compute: [u64; 2]) -> Vec<Vec<Call>> {
        let calls = |me: u32| {
            let partner = Rank(1 - me);
            vec![
                Call::Blocking(Operation::calc(Time::from_nanos(compute[me as usize]))),
                Call::Begin(Operation::recv(Some(partner), Bytes::new(100), Some(Tag(3))), MpiRequest(5)),
                Call::Begin(Operation::send(partner, Bytes::new(100), Tag(3)), MpiRequest(6)),
                Call::Wait(MpiRequest(6)),
                Call::Wait(MpiRequest(5)),
            ]
        };
        vec![calls(0), calls(1)]
    }

    #[test]
    fn a_trace_takes_as_long_as_the_graph_that_it_means() {
        let trace = MpiTrace::new(partners([1000, 50_000])).unwrap();
        let rank = |me: u32, compute: u64| {
            let partner = 1 - me;
            format!(
                "rank {me} {{\nc: calc {compute}\nr: recv 100b from {partner} tag 3\ns: send 100b to {partner} tag 3\n\
                 r requires c\ns irequires r\n}}\n"
            )
        };
        let goal = format!("num_ranks 2\n{}{}", rank(0, 1000), rank(1, 50_000));
        let run = simulate(&text::read(&goal).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
        let expected: Vec<u64> = run.finished.iter().map(|time| time.nanos()).collect();
        assert_eq!(makespans(&trace, 1), expected);
    }

    #[test]
    fn blocks_of_a_larger_run_do_what_the_trace_did() {
        let trace = MpiTrace::new(partners([1000, 50_000])).unwrap();
        let once = makespans(&trace, 1);
        assert_eq!(makespans(&trace, 3), [once.clone(), once.clone(), once].concat());
    }

    #[test]
    fn collectives_join_all_ranks_of_a_larger_run() {
        let mut calls = partners([1000, 50_000]);
        calls
            .iter_mut()
            .for_each(|calls| calls.push(Call::Collective(CollectiveKind::Allreduce, TO_ALL, Communicator::WORLD)));
        let trace = MpiTrace::new(calls).unwrap();
        // One more round for each doubling: o + L + o.
        let last = |factor| makespans(&trace, factor).into_iter().max().unwrap();
        assert_eq!(last(2) - last(1), last(4) - last(2));
        assert!(last(2) - last(1) >= 5500);
    }

    #[test]
    fn a_receive_from_anyone_never_takes_the_message_of_a_collective() {
        // Rank 1 is in the barrier long before rank 0 receives, from any rank, the message that rank 1 sends after it.
        let barrier = Call::Collective(CollectiveKind::Barrier, Bytes::ZERO, Communicator::WORLD);
        let zero = vec![
            Call::Begin(Operation::recv(None, Bytes::new(1), None), MpiRequest(0)),
            Call::Blocking(Operation::calc(Time::from_nanos(100_000))),
            barrier,
            Call::Wait(MpiRequest(0)),
        ];
        let one = vec![barrier, Call::Blocking(Operation::send(Rank(0), Bytes::new(1), Tag(0)))];
        assert_eq!(makespans(&MpiTrace::new(vec![zero, one]).unwrap(), 1).len(), 2);
    }

    #[test]
    fn a_trace_that_cannot_be_run_is_refused() {
        let send = Operation::send(Rank(1), Bytes::new(1), Tag(0));
        let of_one = |calls| MpiTrace::new(vec![calls]).unwrap_err();
        assert_eq!(of_one(vec![Call::Blocking(send)]), Error::NoSuchRank { rank: 1, ranks: 1 });
        assert_eq!(
            of_one(vec![Call::Collective(CollectiveKind::Reduce(Rank(9)), TO_ALL, Communicator::WORLD)]),
            Error::NoSuchRank { rank: 9, ranks: 1 }
        );
        let twice = Call::Begin(Operation::recv(None, Bytes::new(1), None), MpiRequest(2));
        assert_eq!(of_one(vec![twice, twice]), Error::RequestTwice { rank: 0, request: 2 });
        let apart = MpiTrace::new(vec![
            vec![Call::Collective(CollectiveKind::Barrier, Bytes::ZERO, Communicator::WORLD)],
            vec![],
        ])
        .unwrap_err();
        assert_eq!(apart, Error::Apart { rank: 1 });
        assert!(MpiTrace::new(vec![vec![]]).unwrap().extrapolated(1 << 25).is_err());
    }
}
