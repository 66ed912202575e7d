//! Recorded programs, on more ranks than they were recorded on.
//!
//! **Problem.** A program is traced on some dozens of ranks, and the question is about 16,384; expanded to a file, that
//! is gigabytes. **Idea.** Keep the trace once. Rank *b p + r* of *k p* does what rank *r* of *p* did: messages stay in
//! its own block of *p* ranks, and collectives are among all *k p*, as with LogGOPSim's tools [Ferreira21, III-C].
//! **Why this way.** The progress of a rank is its position in the trace plus its open requests, so memory does not
//! grow with the trace.
//!
//! | module | owns |
//! |---|---|
//! | [`extrapolated`] | the schedule of a trace, on a multiple of its ranks |
//! | [`file`](mod@file) | traces of real programs, as files |
//! | `record` | the records of a rank's calls |
//! | `calls` | the meaning of these records |
//! | `together` | which recorded collectives belong together |
//! | [`meetings`] | the parts of a trace between two collectives of all ranks |
//! | `written_out` | a trace as graphs |
//! | `cut` | the usable part of an interrupted run |

mod calls;
mod cut;
pub mod extrapolated;
pub mod file;
pub mod meetings;
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

/// A request of a rank; its number, below 2^32 - 1, is reused after the wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MpiRequest(pub u32);

/// Ranks that do collectives together, by the number that the trace gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Communicator(pub u32);

impl Communicator {
    /// All ranks, in their order.
    pub const WORLD: Self = Self(0);
}

/// A call of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Computing, a send or a receive; the rank proceeds when it is done.
    Blocking(Operation),
    /// The start of a send or a receive; the rank proceeds at once.
    Begin(Operation, MpiRequest),
    /// A wait until that is done.
    Wait(MpiRequest),
    /// A collective of all ranks of a communicator. A root is given by its number in the communicator.
    Collective(CollectiveKind, Bytes, Communicator),
}

/// The ranks of a communicator, in the communicator's order.
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

    /// Whether these are all of so many ranks.
    fn are_all(&self, ranks: usize) -> bool {
        self.ranks.len() == ranks
    }

    fn number(&self, rank: Rank) -> Option<u32> {
        let place = self.numbers.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
        Some(self.numbers[place].1)
    }
}

/// The calls of each rank, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiTrace {
    ranks: Vec<Vec<Call>>,
    communicators: Vec<Members>,
}

impl MpiTrace {
    /// A trace of these ranks, rank 0 first; collectives are among all of them.
    ///
    /// # Errors
    /// As [`Self::with_communicators`].
    pub fn new(ranks: Vec<Vec<Call>>) -> Result<Self, Error> {
        Self::with_communicators(ranks, Vec::new())
    }

    /// A trace of these ranks, rank 0 first. The first of `communicators` is `Communicator(1)`; [`Communicator::WORLD`]
    /// always exists.
    ///
    /// # Errors
    /// If a named rank does not exist, a request begins again before it was waited for, or ranks disagree on the
    /// collectives of a communicator.
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

    /// The number of recorded ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("checked when it was made")
    }

    /// The calls of a rank.
    #[must_use]
    pub fn calls(&self, rank: Rank) -> &[Call] {
        &self.ranks[rank.index()]
    }

    /// The same program on `factor` times as many ranks.
    ///
    /// # Errors
    /// If that is too many.
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
