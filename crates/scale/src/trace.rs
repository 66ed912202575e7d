//! Programs as they were recorded, on more ranks than they were recorded on.
//!
//! **Problem.** A program is traced on some dozens of ranks and is asked about on 16,384; written out, that is gigabytes.
//! **Idea.** The trace is kept once. Rank *b p + r* of *k p* does what rank *r* of *p* did: messages shifted into its own block of
//! *p* ranks, collectives among all *k p*, as the paper's tool chain does (004_c4a115d9f0ebac82.txt, III-C). **Why this way.** A
//! rank's progress is its place in the trace and the requests that it has open, so memory does not grow with the trace.

use crate::collective::{Collective, Kind};
use crate::error::Error;
use crate::goal::MOST_RANKS;
use crate::operation::{OpId, Operation, Rank};
use crate::schedule::Schedule;
use rampart_memory::Bytes;

/// A request of a rank, by a number that is free again when it was waited for; below 2^32 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub u32);

/// What a rank called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It computed, sent or received, and went on when that was done.
    Blocking(Operation),
    /// It began to send or to receive, and went on at once.
    Begin(Operation, Request),
    /// It waited until that was done.
    Wait(Request),
    /// All ranks did this together.
    Collective(Kind, Bytes),
}

/// What each rank called, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    ranks: Vec<Vec<Call>>,
}

impl Trace {
    /// A trace of these ranks, the first is rank 0.
    ///
    /// # Errors
    /// If a rank is named that is not there, a request is begun again before it was waited for, or ranks are not in the same
    /// collectives.
    pub fn new(ranks: Vec<Vec<Call>>) -> Result<Self, Error> {
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        if count > MOST_RANKS {
            return Err(Error::TooManyRanks { ranks: count });
        }
        for (rank, calls) in (0..).zip(&ranks) {
            if u32::try_from(calls.len()).is_err() {
                return Err(Error::TooLarge { rank });
            }
            check(calls, rank, count)?;
            if !collectives(calls).eq(collectives(&ranks[0])) {
                return Err(Error::Apart { rank });
            }
        }
        Ok(Self { ranks })
    }

    /// The same program on `factor` times as many ranks.
    ///
    /// # Errors
    /// If these are too many, or none.
    pub fn extrapolated(&self, factor: u32) -> Result<Extrapolated<'_>, Error> {
        let count = u32::try_from(self.ranks.len()).expect("checked when it was made");
        let ranks = count.checked_mul(factor).filter(|ranks| *ranks <= MOST_RANKS);
        let ranks = ranks.ok_or(Error::TooManyRanks { ranks: count.saturating_mul(factor) })?;
        Ok(Extrapolated { trace: self, ranks })
    }
}

fn check(calls: &[Call], rank: u32, ranks: u32) -> Result<(), Error> {
    let mut open: Vec<Request> = Vec::new();
    for call in calls {
        match call {
            Call::Begin(_, request) if open.contains(request) || request.0 == BLOCKING.0 => {
                return Err(Error::RequestTwice { rank, request: request.0 });
            }
            Call::Begin(_, request) => open.push(*request),
            Call::Wait(request) => open.retain(|other| other != request),
            Call::Blocking(_) | Call::Collective(..) => {}
        }
        let named = match call {
            Call::Blocking(operation) | Call::Begin(operation, _) => operation.peer(),
            Call::Collective(kind, _) => kind.root(),
            Call::Wait(_) => None,
        };
        if let Some(stray) = named.filter(|peer| peer.0 >= ranks) {
            return Err(Error::NoSuchRank { rank: stray.0, ranks });
        }
    }
    Ok(())
}

fn collectives(calls: &[Call]) -> impl Iterator<Item = (&Kind, &Bytes)> {
    calls.iter().filter_map(|call| if let Call::Collective(kind, bytes) = call { Some((kind, bytes)) } else { None })
}

/// A trace on a multiple of its ranks.
#[derive(Clone, Copy, Debug)]
pub struct Extrapolated<'a> {
    trace: &'a Trace,
    ranks: u32,
}

/// The number of what a rank does without a request.
const BLOCKING: OpId = OpId(u32::MAX);

/// How far one rank is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The next call.
    call: u32,
    /// What it goes on after.
    until: Until,
    /// The collective that it is in, and the next round of that.
    collective: Option<(Collective, u32)>,
    /// Requests that are not done.
    open: Vec<OpId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Until {
    /// Nothing: it has ended.
    #[default]
    Ended,
    /// So many operations without a request are done.
    Done(u32),
    /// A request is done.
    Request(OpId),
    /// What began last has started.
    Started,
}

impl Extrapolated<'_> {
    /// Goes on to where the rank has to wait.
    fn go_on(&self, rank: Rank, progress: &mut Progress, free: &mut Vec<Operation>) {
        let of_trace = u32::try_from(self.trace.ranks.len()).expect("checked when it was made");
        let (block, calls) = (rank.0 / of_trace * of_trace, &self.trace.ranks[(rank.0 % of_trace) as usize]);
        loop {
            if let Some((collective, round)) = progress.collective {
                let before = free.len();
                let more = collective.round(rank, self.ranks, round, free);
                progress.collective = more.then_some((collective, round + 1));
                free[before..].iter_mut().for_each(|operation| *operation = operation.named(BLOCKING));
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
                Call::Begin(operation, Request(request)) => {
                    free.push(operation.shifted(block).named(OpId(request)));
                    progress.open.push(OpId(request));
                    progress.until = Until::Started;
                    return;
                }
                Call::Wait(Request(request)) if progress.open.contains(&OpId(request)) => {
                    progress.until = Until::Request(OpId(request));
                    return;
                }
                Call::Wait(_) => {}
                Call::Collective(kind, bytes) => {
                    progress.collective = Some((Collective::new(kind, bytes, self.ranks), 0));
                }
            }
        }
    }
}

impl Schedule for Extrapolated<'_> {
    type Progress = Progress;

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> Progress {
        let mut progress = Progress::default();
        self.go_on(rank, &mut progress, free);
        progress
    }

    fn started(&self, rank: Rank, progress: &mut Progress, _: OpId, free: &mut Vec<Operation>) {
        // Only what begins is waited for so, and what was before it has started long since.
        if progress.until == Until::Started {
            self.go_on(rank, progress, free);
        }
    }

    fn done(&self, rank: Rank, progress: &mut Progress, operation: OpId, free: &mut Vec<Operation>) {
        if operation != BLOCKING {
            progress.open.retain(|request| *request != operation);
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
    use crate::detour::Undisturbed;
    use crate::goal::text;
    use crate::{LogGops, Tag, Time, simulate};

    const TO_ALL: Bytes = Bytes::new(8);

    fn makespans(trace: &Trace, factor: u32) -> Vec<u64> {
        let run = simulate(&trace.extrapolated(factor).unwrap(), &LogGops::loggopsim(), &Undisturbed).unwrap();
        run.finished.iter().map(|time| time.nanos()).collect()
    }

    /// Each computes, begins to receive from its partner, sends to it, waits.
    fn partners(compute: [u64; 2]) -> Vec<Vec<Call>> {
        let calls = |me: u32| {
            let partner = Rank(1 - me);
            vec![
                Call::Blocking(Operation::calc(Time::from_nanos(compute[me as usize]))),
                Call::Begin(Operation::recv(Some(partner), Bytes::new(100), Some(Tag(3))), Request(5)),
                Call::Begin(Operation::send(partner, Bytes::new(100), Tag(3)), Request(6)),
                Call::Wait(Request(6)),
                Call::Wait(Request(5)),
            ]
        };
        vec![calls(0), calls(1)]
    }

    #[test]
    fn a_trace_takes_as_long_as_the_graph_that_it_means() {
        let trace = Trace::new(partners([1000, 50_000])).unwrap();
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
        let trace = Trace::new(partners([1000, 50_000])).unwrap();
        let once = makespans(&trace, 1);
        assert_eq!(makespans(&trace, 3), [once.clone(), once.clone(), once].concat());
    }

    #[test]
    fn collectives_join_all_ranks_of_a_larger_run() {
        let mut calls = partners([1000, 50_000]);
        calls.iter_mut().for_each(|calls| calls.push(Call::Collective(Kind::Allreduce, TO_ALL)));
        let trace = Trace::new(calls).unwrap();
        // A round more for each doubling: o + L + o.
        let last = |factor| makespans(&trace, factor).into_iter().max().unwrap();
        assert_eq!(last(2) - last(1), last(4) - last(2));
        assert!(last(2) - last(1) >= 5500);
    }

    #[test]
    fn a_receive_from_anyone_never_takes_the_message_of_a_collective() {
        // Rank 1 is in the barrier long before rank 0 receives from anyone what rank 1 sends after it.
        let barrier = Call::Collective(Kind::Barrier, Bytes::ZERO);
        let zero = vec![
            Call::Begin(Operation::recv(None, Bytes::new(1), None), Request(0)),
            Call::Blocking(Operation::calc(Time::from_nanos(100_000))),
            barrier,
            Call::Wait(Request(0)),
        ];
        let one = vec![barrier, Call::Blocking(Operation::send(Rank(0), Bytes::new(1), Tag(0)))];
        assert_eq!(makespans(&Trace::new(vec![zero, one]).unwrap(), 1).len(), 2);
    }

    #[test]
    fn a_trace_that_cannot_be_run_is_refused() {
        let send = Operation::send(Rank(1), Bytes::new(1), Tag(0));
        let of_one = |calls| Trace::new(vec![calls]).unwrap_err();
        assert_eq!(of_one(vec![Call::Blocking(send)]), Error::NoSuchRank { rank: 1, ranks: 1 });
        assert_eq!(
            of_one(vec![Call::Collective(Kind::Reduce(Rank(9)), TO_ALL)]),
            Error::NoSuchRank { rank: 9, ranks: 1 }
        );
        let twice = Call::Begin(Operation::recv(None, Bytes::new(1), None), Request(2));
        assert_eq!(of_one(vec![twice, twice]), Error::RequestTwice { rank: 0, request: 2 });
        let apart = Trace::new(vec![vec![Call::Collective(Kind::Barrier, Bytes::ZERO)], vec![]]).unwrap_err();
        assert_eq!(apart, Error::Apart { rank: 1 });
        assert!(Trace::new(vec![vec![]]).unwrap().extrapolated(1 << 25).is_err());
    }
}
