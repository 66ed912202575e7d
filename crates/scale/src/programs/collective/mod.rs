//! Collectives as messages from rank to rank.
//!
//! **Problem.** What a collective costs, and who waits for whom in it, is decided by the algorithm that the library picks.
//! **Idea.** Each algorithm says what a rank does in a round: some sends, some receives; the next round begins when these are done.
//! The algorithm is picked by size as MPICH picks it, or named. **Why this way.** Nothing is stored: a round of a rank is computed
//! from its number.
//!
//! Algorithms: Thakur, Rabenseifner, Gropp, *Optimization of Collective Communication Operations in MPICH* (IJHPCA 2005), and for
//! the ring Patarasuk, Yuan (JPDC 2009). Limits: MPICH 4, the defaults of its `MPIR_CVAR_*`. The time that a reduction computes is
//! not in the model: a program that wants it computes beside.
//!
//! | module | owns |
//! |---|---|
//! | [`tree`] | along a binomial tree: broadcast, reduce, gather, scatter |
//! | [`exchange`] | among all: barrier, allreduce, allgather, scan |
//! | [`alltoall`] | from each to each |

pub mod alltoall;
pub mod exchange;
#[cfg(test)]
mod tests;
pub mod tree;

use rampart_memory::Bytes;

use crate::model::operation::{COLLECTIVES, Operation, Rank};

/// What a collective does. Bytes are those of one rank's contribution: of `MPI_Allgather`, what each gives; of `MPI_Alltoall`, what
/// each gives to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Broadcast(Rank),
    /// `MPI_Reduce`.
    Reduce(Rank),
    /// `MPI_Gather`.
    Gather(Rank),
    /// `MPI_Scatter`.
    Scatter(Rank),
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`; also `MPI_Alltoallv` where all parts are about as large.
    Alltoall,
    /// `MPI_Scan`.
    Scan,
}

impl CollectiveKind {
    /// The rank that is unlike the others.
    pub(crate) fn root(self) -> Option<Rank> {
        match self {
            Self::Broadcast(root) | Self::Reduce(root) | Self::Gather(root) | Self::Scatter(root) => Some(root),
            Self::Barrier | Self::Allreduce | Self::Allgather | Self::Alltoall | Self::Scan => None,
        }
    }
}

/// How it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// In round j each tells the one 2^j further on. Barrier.
    Dissemination,
    /// Along a binomial tree. Broadcast, reduce, gather, scatter.
    Binomial,
    /// A binomial scatter, then an allgather by recursive doubling (a power of two ranks) or in a ring. Broadcast.
    ScatterAllgather,
    /// In round j partners 2^j apart exchange all they have. Allreduce, allgather (a power of two ranks), scan.
    RecursiveDoubling,
    /// A reduce-scatter by recursive halving, then an allgather or gather by recursive doubling. Allreduce, reduce.
    Rabenseifner,
    /// From each to its right neighbour, round and round. Allreduce, allgather.
    Ring,
    /// As dissemination, with data. Allgather, alltoall.
    Bruck,
    /// In round j each sends to the one j further on. Alltoall.
    Pairwise,
    /// As pairwise, 32 rounds at once. Alltoall.
    Scattered,
}

/// A collective of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    kind: CollectiveKind,
    algorithm: Algorithm,
    bytes: u64,
}

impl Collective {
    /// By the algorithm that MPICH picks for this size and number of ranks.
    #[must_use]
    pub fn new(kind: CollectiveKind, bytes: Bytes, ranks: u32) -> Self {
        let (bytes, count) = (bytes.get(), u64::from(ranks));
        let algorithm = match kind {
            CollectiveKind::Barrier => Algorithm::Dissemination,
            CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => Algorithm::Binomial,
            CollectiveKind::Scan => Algorithm::RecursiveDoubling,
            CollectiveKind::Broadcast(_) if bytes < 12_288 || ranks < 8 => Algorithm::Binomial,
            CollectiveKind::Broadcast(_) => Algorithm::ScatterAllgather,
            CollectiveKind::Reduce(_) if bytes <= 2048 => Algorithm::Binomial,
            CollectiveKind::Allreduce if bytes <= 2048 => Algorithm::RecursiveDoubling,
            CollectiveKind::Reduce(_) | CollectiveKind::Allreduce => Algorithm::Rabenseifner,
            CollectiveKind::Allgather if ranks.is_power_of_two() && bytes.saturating_mul(count) < 524_288 => {
                Algorithm::RecursiveDoubling
            }
            CollectiveKind::Allgather if bytes.saturating_mul(count) < 81_920 => Algorithm::Bruck,
            CollectiveKind::Allgather => Algorithm::Ring,
            CollectiveKind::Alltoall if bytes <= 256 && ranks >= 8 => Algorithm::Bruck,
            CollectiveKind::Alltoall if bytes <= 32_768 => Algorithm::Scattered,
            CollectiveKind::Alltoall => Algorithm::Pairwise,
        };
        Self { kind, algorithm, bytes }
    }

    /// By this algorithm; `None` if it cannot do that with so many ranks.
    #[must_use]
    pub fn by(algorithm: Algorithm, kind: CollectiveKind, bytes: Bytes, ranks: u32) -> Option<Self> {
        use Algorithm as A;
        let can = match kind {
            CollectiveKind::Barrier => algorithm == A::Dissemination,
            CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => algorithm == A::Binomial,
            CollectiveKind::Scan => algorithm == A::RecursiveDoubling,
            CollectiveKind::Broadcast(_) => matches!(algorithm, A::Binomial | A::ScatterAllgather),
            CollectiveKind::Reduce(_) => matches!(algorithm, A::Binomial | A::Rabenseifner),
            CollectiveKind::Allreduce => matches!(algorithm, A::RecursiveDoubling | A::Rabenseifner | A::Ring),
            CollectiveKind::Allgather => {
                matches!(algorithm, A::Bruck | A::Ring) || algorithm == A::RecursiveDoubling && ranks.is_power_of_two()
            }
            CollectiveKind::Alltoall => matches!(algorithm, A::Bruck | A::Pairwise | A::Scattered),
        };
        can.then_some(Self { kind, algorithm, bytes: bytes.get() })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends what a rank does in a round, 0 first, perhaps nothing; whether a later round may follow.
    pub(crate) fn round(&self, rank: Rank, ranks: u32, round: u32, out: &mut Vec<Operation>) -> bool {
        let mut part = RankPart { me: rank.0, ranks, bytes: self.bytes, out };
        match (self.kind, self.algorithm) {
            (CollectiveKind::Barrier, _) => exchange::dissemination(&mut part, round),
            (CollectiveKind::Broadcast(root), Algorithm::Binomial) => tree::broadcast(&mut part, root, round),
            (CollectiveKind::Broadcast(root), _) => tree::scatter_allgather(&mut part, root, round),
            (CollectiveKind::Reduce(root), Algorithm::Binomial) => tree::reduce(&mut part, root, round),
            (CollectiveKind::Reduce(root), _) => exchange::reduce(&mut part, root, round),
            (CollectiveKind::Gather(root), _) => tree::gather(&mut part, root, round),
            (CollectiveKind::Scatter(root), _) => tree::scatter(&mut part, root, round),
            (CollectiveKind::Allreduce, Algorithm::RecursiveDoubling) => exchange::allreduce(&mut part, round),
            (CollectiveKind::Allreduce, Algorithm::Ring) => exchange::allreduce_ring(&mut part, round),
            (CollectiveKind::Allreduce, _) => exchange::rabenseifner(&mut part, round),
            (CollectiveKind::Allgather, Algorithm::RecursiveDoubling) => exchange::allgather_doubling(&mut part, round),
            (CollectiveKind::Allgather, Algorithm::Bruck) => exchange::allgather_bruck(&mut part, round),
            (CollectiveKind::Allgather, _) => exchange::allgather_ring(&mut part, round),
            (CollectiveKind::Alltoall, Algorithm::Bruck) => alltoall::bruck(&mut part, round),
            (CollectiveKind::Alltoall, Algorithm::Scattered) => alltoall::pairwise(&mut part, round, alltoall::AT_ONCE),
            (CollectiveKind::Alltoall, _) => alltoall::pairwise(&mut part, round, 1),
            (CollectiveKind::Scan, _) => exchange::scan(&mut part, round),
        }
    }
}

/// One rank's part in a collective.
#[derive(Debug)]
pub struct RankPart<'a> {
    me: u32,
    ranks: u32,
    bytes: u64,
    out: &'a mut Vec<Operation>,
}

impl RankPart<'_> {
    fn send(&mut self, to: u32, bytes: u64) {
        self.out.push(Operation::send(Rank(to), Bytes::new(bytes), COLLECTIVES));
    }

    fn recv(&mut self, from: u32, bytes: u64) {
        self.out.push(Operation::recv(Some(Rank(from)), Bytes::new(bytes), Some(COLLECTIVES)));
    }

    /// The rank so much further on, round the ring.
    fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.me) + u64::from(distance)) % u64::from(self.ranks)).try_into().expect("below the ranks")
    }

    /// The rank so much before, round the ring.
    fn before(&self, distance: u32) -> u32 {
        self.after(self.ranks - distance % self.ranks)
    }

    /// Rounds until powers of two have passed all ranks.
    fn doublings(&self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }
}
