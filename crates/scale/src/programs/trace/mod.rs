//! Programs as they were recorded, on more ranks than they were recorded on.
//!
//! **Problem.** A program is traced on some dozens of ranks and is asked about on 16,384; written out, that is
//! gigabytes. **Idea.** The trace is kept once. Rank *b p + r* of *k p* does what rank *r* of *p* did: messages shifted
//! into its own block of *p* ranks, collectives among all *k p*, as LogGOPSim's tools do [Ferreira21, III-C]. **Why
//! this way.** A rank's progress is its place in the trace and the requests that it has open, so memory does not grow
//! with the trace.
//!
//! | module | owns |
//! |---|---|
//! | [`extrapolated`] | the schedule of a trace, on a multiple of its ranks |
//! | [`file`](mod@file) | traces of real programs, as files |
//! | `record` | what a rank wrote down of its calls |
//! | `calls` | what these records mean |
//! | `together` | which collectives are one |
//! | `written_out` | a trace as graphs |
//! | `cut` | what is left of a run that was cut off |

mod calls;
mod cut;
pub mod extrapolated;
pub mod file;
mod record;
#[cfg(test)]
mod tests;
mod together;
mod written_out;

use std::collections::HashSet;

use rampart_memory::Bytes;

use crate::error::Error;
use crate::model::operation::{Operation, Rank};
use crate::programs::collective::CollectiveKind;
use crate::programs::goal::MOST_RANKS;
pub use extrapolated::Extrapolated;

/// A request of a rank, by a number that is free again when it was waited for; below 2^32 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MpiRequest(pub u32);

/// Ranks that do collectives together, by a number that the trace gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Communicator(pub u32);

impl Communicator {
    /// All ranks, in their order.
    pub const WORLD: Self = Self(0);
}

/// What a rank called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It computed, sent or received, and went on when that was done.
    Blocking(Operation),
    /// It began to send or to receive, and went on at once.
    Begin(Operation, MpiRequest),
    /// It waited until that was done.
    Wait(MpiRequest),
    /// All ranks of a communicator did this together. A root is named by its number in the communicator.
    Collective(CollectiveKind, Bytes, Communicator),
}

/// The ranks of a communicator, in their order there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    ranks: Vec<Rank>,
    /// Each rank and its number, the lowest rank first.
    numbers: Vec<(Rank, u32)>,
}

impl Members {
    fn new(ranks: Vec<Rank>) -> Self {
        let mut numbers: Vec<(Rank, u32)> = ranks.iter().copied().zip(0..).collect();
        numbers.sort_unstable();
        Self { ranks, numbers }
    }

    fn number(&self, rank: Rank) -> Option<u32> {
        let place = self.numbers.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
        Some(self.numbers[place].1)
    }
}

/// What each rank called, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiTrace {
    ranks: Vec<Vec<Call>>,
    communicators: Vec<Members>,
}

impl MpiTrace {
    /// A trace of these ranks, the first is rank 0; collectives are of all of them.
    ///
    /// # Errors
    /// As [`Self::with_communicators`].
    pub fn new(ranks: Vec<Vec<Call>>) -> Result<Self, Error> {
        Self::with_communicators(ranks, Vec::new())
    }

    /// A trace of these ranks, the first is rank 0. The first of `communicators` is `Communicator(1)`,
    /// [`Communicator::WORLD`] is there always.
    ///
    /// # Errors
    /// If a rank is named that is not there, a request is begun again before it was waited for, or ranks are not in the
    /// same collectives of a communicator.
    pub fn with_communicators(ranks: Vec<Vec<Call>>, communicators: Vec<Vec<Rank>>) -> Result<Self, Error> {
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        if count > MOST_RANKS {
            return Err(Error::TooManyRanks { ranks: count });
        }
        let world = (0..count).map(Rank).collect();
        let communicators: Vec<Members> = std::iter::once(world).chain(communicators).map(Members::new).collect();
        let members = communicators.iter().flat_map(|members| &members.ranks);
        if let Some(stray) = members.copied().find(|rank| rank.0 >= count) {
            return Err(Error::NoSuchRank { rank: stray.0, ranks: count });
        }
        for (rank, calls) in (0..).zip(&ranks) {
            if u32::try_from(calls.len()).is_err() {
                return Err(Error::TooLarge { rank });
            }
            check(calls, rank, count, &communicators)?;
        }
        together::check(&ranks, &communicators)?;
        Ok(Self { ranks, communicators })
    }

    /// On how many ranks it was recorded.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("checked when it was made")
    }

    /// What a rank called.
    #[must_use]
    pub fn calls(&self, rank: Rank) -> &[Call] {
        &self.ranks[rank.index()]
    }

    /// The same program on `factor` times as many ranks.
    ///
    /// # Errors
    /// If these are too many.
    pub fn extrapolated(&self, factor: u32) -> Result<Extrapolated<'_>, Error> {
        let ranks = self.ranks().checked_mul(factor).filter(|ranks| *ranks <= MOST_RANKS);
        let ranks = ranks.ok_or(Error::TooManyRanks { ranks: self.ranks().saturating_mul(factor) })?;
        Ok(Extrapolated::new(self, ranks))
    }
}

fn check(calls: &[Call], rank: u32, ranks: u32, communicators: &[Members]) -> Result<(), Error> {
    let mut open: HashSet<MpiRequest> = HashSet::new();
    for call in calls {
        let (named, below) = match call {
            Call::Blocking(operation) => (operation.peer(), ranks),
            Call::Begin(operation, request) => {
                if request.0 == u32::MAX || !open.insert(*request) {
                    return Err(Error::RequestTwice { rank, request: request.0 });
                }
                (operation.peer(), ranks)
            }
            Call::Wait(request) => {
                open.remove(request);
                (None, ranks)
            }
            Call::Collective(kind, _, communicator) => {
                let members = communicators.get(communicator.0 as usize);
                let members = members.filter(|members| members.number(Rank(rank)).is_some());
                (kind.root(), members.ok_or(Error::Apart { rank })?.ranks.len().try_into().unwrap_or(ranks))
            }
        };
        if let Some(stray) = named.filter(|peer| peer.0 >= below) {
            return Err(Error::NoSuchRank { rank: stray.0, ranks: below });
        }
    }
    Ok(())
}
