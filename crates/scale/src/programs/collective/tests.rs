//! Collectives, run by a reference model without time. Ranks take their rounds in any order that the messages allow,
//! and a message carries what its sender knew when it was sent.

use std::collections::{BTreeSet, HashMap, VecDeque};

use proptest::prelude::*;
use rampart_memory::Bytes;

use super::{Algorithm, Collective, CollectiveKind};
use crate::model::operation::{Action, Operation, Rank};

/// Messages in flight: the bytes, and what the sender knew.
type Wire = VecDeque<(u64, BTreeSet<u32>)>;

/// The contributions that each rank knows in the end, and all bytes sent.
fn knowledge(collective: Collective, ranks: u32, knows: impl Fn(u32) -> bool) -> (Vec<BTreeSet<u32>>, u64) {
    let mut known: Vec<BTreeSet<u32>> =
        (0..ranks).map(|rank| (0..ranks).filter(|one| *one == rank && knows(rank)).collect()).collect();
    let mut rounds: Vec<VecDeque<Vec<Operation>>> = (0..ranks).map(|rank| rounds_of(collective, rank, ranks)).collect();
    let mut wires: HashMap<(u32, u32), Wire> = HashMap::new();
    let (mut sent, mut total) = (vec![false; ranks as usize], 0);
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for me in 0..ranks {
            let (index, Some(round)) = (me as usize, rounds[me as usize].front()) else { continue };
            if !std::mem::replace(&mut sent[index], true) {
                for (to, bytes) in sends(round) {
                    total += bytes;
                    wires.entry((me, to)).or_default().push_back((bytes, known[index].clone()));
                }
                moved = true;
            }
            if recvs(round).all(|(from, _)| wires.get(&(from, me)).is_some_and(|wire| !wire.is_empty())) {
                for (from, bytes) in recvs(round) {
                    let (carried, knew) = wires.get_mut(&(from, me)).unwrap().pop_front().expect("one from each");
                    assert_eq!(carried, bytes, "{collective:?}: {me} of {ranks} from {from}");
                    known[index].extend(knew);
                }
                rounds[index].pop_front();
                sent[index] = false;
                moved = true;
            }
        }
    }
    assert!(rounds.iter().all(VecDeque::is_empty), "{collective:?} of {ranks} does not end");
    assert!(wires.values().all(VecDeque::is_empty), "{collective:?} of {ranks} leaves messages");
    (known, total)
}

fn rounds_of(collective: Collective, rank: u32, ranks: u32) -> VecDeque<Vec<Operation>> {
    let mut rounds = VecDeque::new();
    for number in 0.. {
        let mut round = Vec::new();
        let more = collective.round(Rank(rank), ranks, number, &mut round);
        rounds.push_back(round);
        if !more {
            break;
        }
    }
    rounds
}

fn sends(round: &[Operation]) -> impl Iterator<Item = (u32, u64)> {
    round.iter().filter_map(|operation| match operation.action() {
        Action::Send { to, bytes, .. } => Some((to.0, bytes.get())),
        _ => None,
    })
}

fn recvs(round: &[Operation]) -> impl Iterator<Item = (u32, u64)> {
    round.iter().filter_map(|operation| match operation.action() {
        Action::Recv { from, bytes, .. } => Some((from.expect("named").0, bytes.get())),
        _ => None,
    })
}

const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::Dissemination,
    Algorithm::Binomial,
    Algorithm::ScatterAllgather,
    Algorithm::RecursiveDoubling,
    Algorithm::Rabenseifner,
    Algorithm::Ring,
    Algorithm::Bruck,
    Algorithm::Pairwise,
    Algorithm::Scattered,
];

fn all_of(kind: CollectiveKind, bytes: u64, ranks: u32) -> impl Iterator<Item = Collective> {
    ALGORITHMS.into_iter().filter_map(move |algorithm| Collective::by(algorithm, kind, Bytes::new(bytes), ranks))
}

#[test]
fn everyone_learns_of_everyone_where_the_collective_says_so() {
    for ranks in (1..=20).chain([31, 32, 33, 64, 70]) {
        let everyone: BTreeSet<u32> = (0..ranks).collect();
        for kind in
            [CollectiveKind::Barrier, CollectiveKind::Allreduce, CollectiveKind::Allgather, CollectiveKind::Alltoall]
        {
            for collective in all_of(kind, 1000, ranks) {
                let (known, _) = knowledge(collective, ranks, |_| true);
                assert!(known.iter().all(|known| *known == everyone), "{collective:?} of {ranks}: {known:?}");
            }
        }
        for collective in all_of(CollectiveKind::Scan, 8, ranks) {
            let (known, _) = knowledge(collective, ranks, |_| true);
            assert!((0..ranks).all(|rank| (0..=rank).all(|below| known[rank as usize].contains(&below))), "{ranks}");
        }
    }
}

#[test]
fn the_root_learns_of_all_and_all_of_the_root() {
    for ranks in (1..=20).chain([32, 33]) {
        for root in (0..ranks).map(Rank) {
            for collective in [CollectiveKind::Reduce(root), CollectiveKind::Gather(root)]
                .into_iter()
                .flat_map(|kind| all_of(kind, 4096, ranks))
            {
                let (known, _) = knowledge(collective, ranks, |_| true);
                assert_eq!(known[root.index()].len(), ranks as usize, "{collective:?} of {ranks}");
            }
            for collective in [CollectiveKind::Broadcast(root), CollectiveKind::Scatter(root)]
                .into_iter()
                .flat_map(|kind| all_of(kind, 4096, ranks))
            {
                let (known, _) = knowledge(collective, ranks, |rank| rank == root.0);
                assert!(known.iter().all(|known| known.contains(&root.0)), "{collective:?} of {ranks}");
            }
        }
    }
}

#[test]
fn they_send_what_the_literature_says_they_send() {
    let sent = |algorithm, kind, bytes, ranks| {
        let collective = Collective::by(algorithm, kind, Bytes::new(bytes), ranks).unwrap();
        knowledge(collective, ranks, |_| true).1
    };
    let root = Rank(0);
    assert_eq!(sent(Algorithm::Binomial, CollectiveKind::Broadcast(root), 100, 13), 12 * 100);
    assert_eq!(sent(Algorithm::RecursiveDoubling, CollectiveKind::Allreduce, 8, 16), 16 * 4 * 8);
    // 2 (p - 1) / p of the data from each.
    assert_eq!(sent(Algorithm::Rabenseifner, CollectiveKind::Allreduce, 1600, 16), 16 * 2 * 1500);
    assert_eq!(sent(Algorithm::Ring, CollectiveKind::Allreduce, 1500, 15), 15 * 2 * 1400);
    assert_eq!(sent(Algorithm::Rabenseifner, CollectiveKind::Reduce(root), 1600, 16), 16 * 1500 + 4 * 800);
    // p - 1 contributions for each.
    for algorithm in [Algorithm::Bruck, Algorithm::Ring] {
        assert_eq!(sent(algorithm, CollectiveKind::Allgather, 10, 13), 13 * 12 * 10);
    }
    assert_eq!(sent(Algorithm::Pairwise, CollectiveKind::Alltoall, 10, 13), 13 * 12 * 10);
    assert_eq!(sent(Algorithm::Scattered, CollectiveKind::Alltoall, 10, 40), 40 * 39 * 10);
    // A block makes one hop per set bit of its distance: over 16 ranks 32 of 64.
    assert_eq!(sent(Algorithm::Bruck, CollectiveKind::Alltoall, 10, 16), 16 * 32 * 10);
    assert_eq!(sent(Algorithm::Binomial, CollectiveKind::Gather(root), 10, 8), (4 + 2 + 4 + 2) * 10);
}

#[test]
fn the_algorithm_is_the_one_that_mpich_picks() {
    use Algorithm as A;
    let picked = |kind, bytes, ranks| Collective::new(kind, Bytes::new(bytes), ranks).algorithm();
    for (kind, bytes, ranks, algorithm) in [
        (CollectiveKind::Allreduce, 2048, 1000, A::RecursiveDoubling),
        (CollectiveKind::Allreduce, 2049, 1000, A::Rabenseifner),
        (CollectiveKind::Broadcast(Rank(0)), 12_287, 64, A::Binomial),
        (CollectiveKind::Broadcast(Rank(0)), 12_288, 64, A::ScatterAllgather),
        (CollectiveKind::Broadcast(Rank(0)), 1 << 20, 7, A::Binomial),
        (CollectiveKind::Allgather, 1000, 64, A::RecursiveDoubling),
        (CollectiveKind::Allgather, 1000, 63, A::Bruck),
        (CollectiveKind::Allgather, 10_000, 63, A::Ring),
        (CollectiveKind::Alltoall, 256, 8, A::Bruck),
        (CollectiveKind::Alltoall, 256, 7, A::Scattered),
        (CollectiveKind::Alltoall, 32_769, 8, A::Pairwise),
    ] {
        assert_eq!(picked(kind, bytes, ranks), algorithm, "{kind:?} {bytes} {ranks}");
    }
}

proptest! {
    #[test]
    fn whatever_is_picked_ends_and_leaves_no_message(which in 0..9_usize, bytes in 0..1_000_000_u64, ranks in 1..50_u32, root: u32) {
        let root = Rank(root % ranks);
        let kinds = [
            CollectiveKind::Barrier, CollectiveKind::Broadcast(root), CollectiveKind::Reduce(root), CollectiveKind::Gather(root), CollectiveKind::Scatter(root), CollectiveKind::Allreduce,
            CollectiveKind::Allgather, CollectiveKind::Alltoall, CollectiveKind::Scan,
        ];
        knowledge(Collective::new(kinds[which], Bytes::new(bytes), ranks), ranks, |_| true);
    }
}

/// On 8 ranks with 800 bytes each: messages, bytes, and the rounds in which rank 0 (the root, if there is one) sends or
/// receives. The numbers were computed by hand from Thakur et al., section 4.
#[test]
fn each_pair_of_kind_and_algorithm_generates_its_own_rounds_and_no_other_pair_exists() {
    use Algorithm as A;
    use CollectiveKind as K;
    const RANKS: u32 = 8;
    let root = Rank(0);
    let pairs = [
        (K::Barrier, A::Dissemination, (24, 0, 3)),
        (K::Broadcast(root), A::Binomial, (7, 5_600, 1)),
        (K::Broadcast(root), A::ScatterAllgather, (31, 6_800, 4)),
        (K::Reduce(root), A::Binomial, (7, 5_600, 3)),
        (K::Reduce(root), A::Rabenseifner, (31, 6_800, 6)),
        (K::Gather(root), A::Binomial, (7, 9_600, 3)),
        (K::Scatter(root), A::Binomial, (7, 9_600, 1)),
        (K::Allreduce, A::RecursiveDoubling, (24, 19_200, 3)),
        (K::Allreduce, A::Rabenseifner, (48, 11_200, 6)),
        (K::Allreduce, A::Ring, (112, 11_200, 14)),
        (K::Allgather, A::RecursiveDoubling, (24, 44_800, 3)),
        (K::Allgather, A::Bruck, (24, 44_800, 3)),
        (K::Allgather, A::Ring, (56, 44_800, 7)),
        (K::Alltoall, A::Bruck, (24, 76_800, 3)),
        (K::Alltoall, A::Pairwise, (56, 44_800, 7)),
        (K::Alltoall, A::Scattered, (56, 44_800, 1)),
        (K::Scan, A::RecursiveDoubling, (24, 19_200, 3)),
    ];
    let kinds = pairs.iter().fold(Vec::new(), |mut kinds, (kind, ..)| {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
        kinds
    });
    for (kind, algorithm) in kinds.iter().flat_map(|kind| ALGORITHMS.map(|algorithm| (*kind, algorithm))) {
        let expected = pairs.iter().find(|(k, a, _)| (*k, *a) == (kind, algorithm)).map(|(.., numbers)| *numbers);
        let generated = Collective::by(algorithm, kind, Bytes::new(800), RANKS).map(|collective| {
            let rounds: Vec<_> = (0..RANKS).map(|rank| rounds_of(collective, rank, RANKS)).collect();
            let sent: Vec<u64> =
                rounds.iter().flatten().flat_map(|round| sends(round)).map(|(_, bytes)| bytes).collect();
            (sent.len(), sent.iter().sum::<u64>(), rounds[0].iter().filter(|round| !round.is_empty()).count())
        });
        assert_eq!(generated, expected, "{kind:?} by {algorithm:?}");
    }
}
