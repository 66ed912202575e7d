//! Finds the collectives that belong together.
//!
//! **Problem.** Each rank recorded its own part of a collective, with its own number of bytes. An algorithm needs one
//! size, or ranks would wait for messages that nobody sends. **Idea.** MPI orders the collectives of a communicator
//! (MPI 4.1, 6.14), so the n-th collective of one rank is the n-th of another. **Why this way.** The ranks need not
//! agree on anything while the program runs.

use std::collections::HashMap;

use rampart_memory::Bytes;

use super::{Call, Communicator, Members};
use crate::error::Error;
use crate::model::operation::Rank;
use crate::programs::collective::CollectiveKind;

/// Refuses ranks that disagree on the collectives of a communicator.
pub(super) fn check(ranks: &[Vec<Call>], communicators: &[Members]) -> Result<(), Error> {
    let mut first: Vec<Vec<(CollectiveKind, Bytes)>> = vec![Vec::new(); communicators.len()];
    let mut counts: Vec<HashMap<Communicator, usize>> = Vec::new();
    for (rank, calls) in (0..).zip(ranks) {
        let mut seen: HashMap<Communicator, usize> = HashMap::new();
        for call in calls {
            let Call::Collective(kind, bytes, communicator) = *call else { continue };
            let place = seen.entry(communicator).or_default();
            let of_first = &mut first[communicator.0 as usize];
            if communicators[communicator.0 as usize].numbers[0].0 == Rank(rank) {
                of_first.push((kind, bytes));
            } else if of_first.get(*place) != Some(&(kind, bytes)) {
                return Err(Error::Apart { rank });
            }
            *place += 1;
        }
        counts.push(seen);
    }
    for ((communicator, members), first) in (0..).map(Communicator).zip(communicators).zip(&first) {
        let count = |rank: &Rank| counts[rank.index()].get(&communicator).copied().unwrap_or(0);
        if let Some(rank) = members.ranks.iter().find(|rank| count(rank) != first.len()) {
            return Err(Error::Apart { rank: rank.0 });
        }
    }
    Ok(())
}

/// The bytes that the ranks gave to one collective.
#[derive(Clone, Copy, Default)]
struct Given {
    sum: u64,
    most: u64,
    ranks: u64,
}

impl Given {
    fn and(self, bytes: Bytes) -> Self {
        let bytes = bytes.get();
        Self { sum: self.sum.saturating_add(bytes), most: self.most.max(bytes), ranks: self.ranks + 1 }
    }

    /// The bytes per rank; where each rank gives a part of its own, the mean, so that the total stays the same.
    fn each(self, kind: CollectiveKind) -> Bytes {
        Bytes::new(match kind {
            CollectiveKind::Gather(_)
            | CollectiveKind::Scatter(_)
            | CollectiveKind::Allgather
            | CollectiveKind::Alltoall => self.sum.div_ceil(self.ranks),
            CollectiveKind::Barrier
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(_)
            | CollectiveKind::Allreduce
            | CollectiveKind::Scan => self.most,
        })
    }
}

/// Gives each collective the same bytes on all ranks.
pub(super) fn agree(ranks: &mut [Vec<Call>]) {
    let mut given: HashMap<(Communicator, usize), Given> = HashMap::new();
    each(ranks, |place, _, bytes| {
        let entry = given.entry(place).or_default();
        *entry = entry.and(*bytes);
    });
    each(ranks, |place, kind, bytes| *bytes = given[&place].each(kind));
}

fn each(ranks: &mut [Vec<Call>], mut visit: impl FnMut((Communicator, usize), CollectiveKind, &mut Bytes)) {
    for calls in ranks {
        let mut seen: HashMap<Communicator, usize> = HashMap::new();
        for call in calls {
            let Call::Collective(kind, bytes, communicator) = call else { continue };
            let place = seen.entry(*communicator).or_default();
            visit((*communicator, *place), *kind, bytes);
            *place += 1;
        }
    }
}
