//! Collectives as messages from rank to rank.
//!
//! **Problem.** The algorithm that the library picks decides what a collective costs and which ranks wait for which.
//! **Idea.** Each algorithm gives the operations of a rank in a round: some sends, some receives; the next round begins
//! when these are done. The size selects the algorithm, as in MPICH, or the caller names one. **Why this way.** Nothing
//! is stored: a round of a rank is computed from its number.
//!
//! Algorithms: Thakur, Rabenseifner, Gropp, *Optimization of Collective Communication Operations in MPICH* (IJHPCA
//! 2005), and for the ring Patarasuk, Yuan (JPDC 2009). Limits: MPICH 4, the defaults of its `MPIR_CVAR_*`. The model
//! leaves out the computing of a reduction; a program adds it as an operation of its own.
//!
//! | module | owns |
//! |---|---|
//! | [`tree`] | along a binomial tree: broadcast, reduce, gather, scatter |
//! | [`exchange`] | all ranks exchange: barrier, allreduce, allgather, scan |
//! | [`alltoall`] | all-to-all |

pub mod alltoall;
pub mod exchange;
#[cfg(test)]
mod tests;
pub mod tree;

use rampart_memory::Bytes;

use crate::model::operation::{COLLECTIVES, Operation, Rank};

/// What a collective does. Bytes are those of one rank's contribution: for `MPI_Allgather`, the bytes that each rank
/// gives; for `MPI_Alltoall`, the bytes that each rank gives to each other.
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
    /// `MPI_Alltoall`; also `MPI_Alltoallv` with parts of similar size.
    Alltoall,
    /// `MPI_Scan`.
    Scan,
}

impl CollectiveKind {
    /// The root, for collectives that have one.
    pub(crate) fn root(self) -> Option<Rank> {
        match self {
            Self::Broadcast(root) | Self::Reduce(root) | Self::Gather(root) | Self::Scatter(root) => Some(root),
            Self::Barrier | Self::Allreduce | Self::Allgather | Self::Alltoall | Self::Scan => None,
        }
    }
}

/// The algorithm of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// In round j each rank sends to the rank 2^j further. Barrier.
    Dissemination,
    /// Along a binomial tree. Broadcast, reduce, gather, scatter.
    Binomial,
    /// A binomial scatter, then an allgather by recursive doubling (a power of two ranks) or in a ring. Broadcast.
    ScatterAllgather,
    /// In round j partners 2^j apart exchange all their data. Allreduce, allgather (a power of two ranks), scan.
    RecursiveDoubling,
    /// A reduce-scatter by recursive halving, then an allgather or gather by recursive doubling. Allreduce, reduce.
    Rabenseifner,
    /// Each rank sends to its right neighbour, round after round. Allreduce, allgather.
    Ring,
    /// Like dissemination, with data. Allgather, alltoall.
    Bruck,
    /// In round j each rank sends to the rank j further. Alltoall.
    Pairwise,
    /// Like pairwise, 32 rounds at once. Alltoall.
    Scattered,
}

/// A collective together with an algorithm for it: one function generates the rounds of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expansion {
    BarrierDissemination,
    BroadcastBinomial(Rank),
    BroadcastScatterAllgather(Rank),
    ReduceBinomial(Rank),
    ReduceRabenseifner(Rank),
    GatherBinomial(Rank),
    ScatterBinomial(Rank),
    AllreduceRecursiveDoubling,
    AllreduceRabenseifner,
    AllreduceRing,
    AllgatherRecursiveDoubling,
    AllgatherBruck,
    AllgatherRing,
    AlltoallBruck,
    AlltoallPairwise,
    AlltoallScattered,
    ScanRecursiveDoubling,
}

impl Expansion {
    /// `None` if the algorithm cannot do this collective with this number of ranks. An expansion that no arm makes is
    /// dead code, which the lints refuse.
    fn of(kind: CollectiveKind, algorithm: Algorithm, ranks: u32) -> Option<Self> {
        use Algorithm as A;
        use CollectiveKind as K;
        match (kind, algorithm) {
            (K::Barrier, A::Dissemination) => Some(Self::BarrierDissemination),
            (K::Broadcast(root), A::Binomial) => Some(Self::BroadcastBinomial(root)),
            (K::Broadcast(root), A::ScatterAllgather) => Some(Self::BroadcastScatterAllgather(root)),
            (K::Reduce(root), A::Binomial) => Some(Self::ReduceBinomial(root)),
            (K::Reduce(root), A::Rabenseifner) => Some(Self::ReduceRabenseifner(root)),
            (K::Gather(root), A::Binomial) => Some(Self::GatherBinomial(root)),
            (K::Scatter(root), A::Binomial) => Some(Self::ScatterBinomial(root)),
            (K::Allreduce, A::RecursiveDoubling) => Some(Self::AllreduceRecursiveDoubling),
            (K::Allreduce, A::Rabenseifner) => Some(Self::AllreduceRabenseifner),
            (K::Allreduce, A::Ring) => Some(Self::AllreduceRing),
            (K::Allgather, A::RecursiveDoubling) => ranks.is_power_of_two().then_some(Self::AllgatherRecursiveDoubling),
            (K::Allgather, A::Bruck) => Some(Self::AllgatherBruck),
            (K::Allgather, A::Ring) => Some(Self::AllgatherRing),
            (K::Alltoall, A::Bruck) => Some(Self::AlltoallBruck),
            (K::Alltoall, A::Pairwise) => Some(Self::AlltoallPairwise),
            (K::Alltoall, A::Scattered) => Some(Self::AlltoallScattered),
            (K::Scan, A::RecursiveDoubling) => Some(Self::ScanRecursiveDoubling),
            _ => None,
        }
    }
}

/// A collective of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    algorithm: Algorithm,
    expansion: Expansion,
    bytes: u64,
}

impl Collective {
    /// With the algorithm that MPICH picks for this size and number of ranks.
    #[must_use]
    pub fn new(kind: CollectiveKind, bytes: Bytes, ranks: u32) -> Self {
        let (size, count) = (bytes.get(), u64::from(ranks));
        let algorithm = match kind {
            CollectiveKind::Barrier => Algorithm::Dissemination,
            CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => Algorithm::Binomial,
            CollectiveKind::Scan => Algorithm::RecursiveDoubling,
            CollectiveKind::Broadcast(_) if size < 12_288 || ranks < 8 => Algorithm::Binomial,
            CollectiveKind::Broadcast(_) => Algorithm::ScatterAllgather,
            CollectiveKind::Reduce(_) if size <= 2048 => Algorithm::Binomial,
            CollectiveKind::Allreduce if size <= 2048 => Algorithm::RecursiveDoubling,
            CollectiveKind::Reduce(_) | CollectiveKind::Allreduce => Algorithm::Rabenseifner,
            CollectiveKind::Allgather if ranks.is_power_of_two() && size.saturating_mul(count) < 524_288 => {
                Algorithm::RecursiveDoubling
            }
            CollectiveKind::Allgather if size.saturating_mul(count) < 81_920 => Algorithm::Bruck,
            CollectiveKind::Allgather => Algorithm::Ring,
            CollectiveKind::Alltoall if size <= 256 && ranks >= 8 => Algorithm::Bruck,
            CollectiveKind::Alltoall if size <= 32_768 => Algorithm::Scattered,
            CollectiveKind::Alltoall => Algorithm::Pairwise,
        };
        Self::by(algorithm, kind, bytes, ranks).expect("an algorithm of this kind")
    }

    /// With this algorithm; `None` if it cannot do the collective with this number of ranks.
    #[must_use]
    pub fn by(algorithm: Algorithm, kind: CollectiveKind, bytes: Bytes, ranks: u32) -> Option<Self> {
        Expansion::of(kind, algorithm, ranks).map(|expansion| Self { algorithm, expansion, bytes: bytes.get() })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends the operations of a rank in a round, counted from 0; there may be none. Returns whether a later round
    /// may follow.
    pub(crate) fn round(&self, rank: Rank, ranks: u32, round: u32, out: &mut Vec<Operation>) -> bool {
        let mut part = RankPart { me: rank.0, ranks, bytes: self.bytes, out };
        match self.expansion {
            Expansion::BarrierDissemination => exchange::dissemination(&mut part, round),
            Expansion::BroadcastBinomial(root) => tree::broadcast(&mut part, root, round),
            Expansion::BroadcastScatterAllgather(root) => tree::scatter_allgather(&mut part, root, round),
            Expansion::ReduceBinomial(root) => tree::reduce(&mut part, root, round),
            Expansion::ReduceRabenseifner(root) => exchange::reduce(&mut part, root, round),
            Expansion::GatherBinomial(root) => tree::gather(&mut part, root, round),
            Expansion::ScatterBinomial(root) => tree::scatter(&mut part, root, round),
            Expansion::AllreduceRecursiveDoubling => exchange::allreduce(&mut part, round),
            Expansion::AllreduceRabenseifner => exchange::rabenseifner(&mut part, round),
            Expansion::AllreduceRing => exchange::allreduce_ring(&mut part, round),
            Expansion::AllgatherRecursiveDoubling => exchange::allgather_doubling(&mut part, round),
            Expansion::AllgatherBruck => exchange::allgather_bruck(&mut part, round),
            Expansion::AllgatherRing => exchange::allgather_ring(&mut part, round),
            Expansion::AlltoallBruck => alltoall::bruck(&mut part, round),
            Expansion::AlltoallPairwise => alltoall::pairwise(&mut part, round, 1),
            Expansion::AlltoallScattered => alltoall::pairwise(&mut part, round, alltoall::AT_ONCE),
            Expansion::ScanRecursiveDoubling => exchange::scan(&mut part, round),
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

    /// The rank this distance after, round the ring.
    fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.me) + u64::from(distance)) % u64::from(self.ranks)).try_into().expect("below the ranks")
    }

    /// The rank this distance before, round the ring.
    fn before(&self, distance: u32) -> u32 {
        self.after(self.ranks - distance % self.ranks)
    }

    /// The number of doublings until a distance covers all ranks.
    fn doublings(&self) -> u32 {
        self.ranks.next_power_of_two().ilog2()
    }
}
