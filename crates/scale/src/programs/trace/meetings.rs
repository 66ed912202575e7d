//! The parts of a trace between two collectives of all ranks.
//!
//! **Problem.** A run must meet many errors, and a short trace has few steps. **Idea.** Cut the trace where all ranks
//! meet in a collective. A part that no message enters or leaves can be simulated alone, and repeated. **Why this
//! way.** Programs that take steps meet at the end of each, so the cut needs no knowledge of the program.

use std::collections::HashMap;

use rampart_memory::Bytes;

use super::{Call, MpiTrace};
use crate::error::Error;
use crate::model::operation::{Operation, OperationKind};
use crate::programs::collective::CollectiveKind;

/// What ranks do between two collectives of all ranks, and the second of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePart {
    /// The calls before the collective.
    pub calls: MpiTrace,
    /// The collective, and the bytes of each rank.
    pub meeting: (CollectiveKind, Bytes),
}

impl MpiTrace {
    /// The parts of the trace, in order. What comes after the last collective of all ranks is left out.
    ///
    /// # Errors
    /// [`Error::Crossing`] if a message is sent in one part and received in another.
    pub fn parts(&self) -> Result<Vec<TracePart>, Error> {
        let mut by_rank: Vec<_> = self.ranks.iter().map(|calls| self.parts_of(calls).into_iter()).collect();
        let mut parts = Vec::new();
        loop {
            // The ranks agree on their collectives: that was checked when the trace was made.
            let of_all: Option<Vec<_>> = by_rank.iter_mut().map(Iterator::next).collect();
            let Some(of_all) = of_all.filter(|of_all| !of_all.is_empty()) else { return Ok(parts) };
            let meeting = of_all[0].1;
            let ranks: Vec<Vec<Call>> = of_all.into_iter().map(|(calls, _)| calls.to_vec()).collect();
            if let Some((from, to)) = crossing(&ranks) {
                return Err(Error::Crossing { from, to, part: parts.len() });
            }
            let calls = Self { ranks, communicators: self.communicators.clone() };
            parts.push(TracePart { calls, meeting });
        }
    }

    /// The calls of a rank before each of its collectives of all ranks.
    fn parts_of<'a>(&self, calls: &'a [Call]) -> Vec<(&'a [Call], (CollectiveKind, Bytes))> {
        let (mut parts, mut first) = (Vec::new(), 0);
        for (place, call) in calls.iter().enumerate() {
            let Call::Collective(kind, bytes, communicator) = *call else { continue };
            if self.communicators[communicator.0 as usize].are_all(self.ranks.len()) {
                parts.push((&calls[first..place], (kind, bytes)));
                first = place + 1;
            }
        }
        parts
    }
}

/// The first sender and receiver, if any, whose numbers of messages sent and received in this part differ.
fn crossing(ranks: &[Vec<Call>]) -> Option<(u32, u32)> {
    let mut in_flight: HashMap<(u32, u32, u32), i64> = HashMap::new();
    for (rank, calls) in (0..).zip(ranks) {
        for operation in calls.iter().filter_map(message) {
            let (channel, change) = match operation.kind {
                OperationKind::Send => ((rank, operation.peer, operation.tag), 1),
                _ => ((operation.peer, rank, operation.tag), -1),
            };
            *in_flight.entry(channel).or_default() += change;
        }
    }
    let crossing = in_flight.into_iter().filter(|(_, count)| *count != 0);
    crossing.map(|((from, to, _), _)| (from, to)).min()
}

fn message(call: &Call) -> Option<&Operation> {
    match call {
        Call::Blocking(operation) | Call::Begin(operation, _) => {
            (operation.kind != OperationKind::Calc).then_some(operation)
        }
        Call::Wait(_) | Call::Collective(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Communicator, MpiRequest};
    use super::*;
    use crate::{Rank, Tag, Time};

    const MEET: Call = Call::Collective(CollectiveKind::Barrier, Bytes::ZERO, Communicator::WORLD);

    fn compute(nanos: u64) -> Call {
        Call::Blocking(Operation::calc(Time::from_nanos(nanos)))
    }

    fn send(to: u32) -> Call {
        Call::Blocking(Operation::send(Rank(to), Bytes::new(1), Tag(0)))
    }

    fn begin(from: u32) -> Call {
        Call::Begin(Operation::recv(Some(Rank(from)), Bytes::new(1), Some(Tag(0))), MpiRequest(0))
    }

    #[test]
    fn a_trace_is_cut_where_all_ranks_meet_and_the_rest_is_left_out() {
        let zero = vec![compute(1), MEET, send(1), compute(2), MEET, compute(9)];
        let one = vec![MEET, begin(0), Call::Wait(MpiRequest(0)), MEET];
        let parts = MpiTrace::new(vec![zero, one]).unwrap().parts().unwrap();
        let calls = |part: usize, rank| parts[part].calls.calls(Rank(rank)).to_vec();
        assert_eq!(parts.len(), 2);
        assert_eq!((calls(0, 0), calls(0, 1)), (vec![compute(1)], vec![]));
        assert_eq!((calls(1, 0), calls(1, 1)), (vec![send(1), compute(2)], vec![begin(0), Call::Wait(MpiRequest(0))]));
        assert_eq!(parts[0].meeting, (CollectiveKind::Barrier, Bytes::ZERO));
    }

    #[test]
    fn a_collective_of_some_ranks_is_no_cut_and_one_of_all_in_another_order_is() {
        let of = |communicator| Call::Collective(CollectiveKind::Barrier, Bytes::ZERO, Communicator(communicator));
        let (pair, all) = (vec![Rank(0), Rank(1)], vec![Rank(2), Rank(1), Rank(0)]);
        let both = vec![of(1), of(2)];
        let trace = MpiTrace::with_communicators(vec![both.clone(), both, vec![of(2)]], vec![pair, all]).unwrap();
        let parts = trace.parts().unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].calls.calls(Rank(1)), [of(1)]);
    }

    #[test]
    fn a_message_that_crosses_a_cut_is_refused() {
        let ranks = vec![vec![send(1), MEET, MEET], vec![MEET, begin(0), Call::Wait(MpiRequest(0)), MEET]];
        let refused = MpiTrace::new(ranks).unwrap().parts().unwrap_err();
        assert_eq!(refused, Error::Crossing { from: 0, to: 1, part: 0 });
    }
}
