//! Collectives along a binomial tree: counted from the root, the parent of a rank has the same number without the
//! lowest set bit.

use super::{RankPart, exchange};
use crate::model::operation::Rank;

/// A rank's place in the tree.
struct Place {
    /// Its distance from the root.
    number: u32,
    root: u32,
    ranks: u32,
}

impl Place {
    fn of(part: &RankPart, root: Rank) -> Self {
        Self { number: part.before(root.0), root: root.0, ranks: part.ranks }
    }

    fn rank(&self, number: u32) -> u32 {
        ((u64::from(number) + u64::from(self.root)) % u64::from(self.ranks)).try_into().expect("below the ranks")
    }

    fn parent(&self) -> Option<u32> {
        (self.number > 0).then(|| self.rank(self.number & (self.number - 1)))
    }

    /// The bit below which its children differ from it.
    fn span(&self) -> u32 {
        if self.number == 0 { self.ranks.next_power_of_two() } else { self.number & self.number.wrapping_neg() }
    }

    /// The child that differs in this bit.
    fn child(&self, bit: u32) -> Option<u32> {
        (bit < self.span() && self.number + bit < self.ranks).then(|| self.rank(self.number + bit))
    }

    /// The size of the subtree of the rank with this number and span.
    fn subtree(&self, number: u32, span: u32) -> u64 {
        u64::from(span.min(self.ranks - number))
    }
}

/// First round: from the parent. Second round: to all children, the largest subtree first.
pub(super) fn broadcast(part: &mut RankPart, root: Rank, round: u32) -> bool {
    down(part, root, round, |part, _| part.bytes)
}

/// Like a broadcast; each message has the data of its subtree.
pub(super) fn scatter(part: &mut RankPart, root: Rank, round: u32) -> bool {
    down(part, root, round, |part, subtree| part.bytes.saturating_mul(subtree))
}

fn down(part: &mut RankPart, root: Rank, round: u32, bytes: impl Fn(&RankPart, u64) -> u64) -> bool {
    let place = Place::of(part, root);
    if round == 0 {
        if let Some(parent) = place.parent() {
            part.recv(parent, bytes(part, place.subtree(place.number, place.span())));
        }
        return true;
    }
    for bit in (0..part.doublings()).rev().map(|bit| 1 << bit) {
        if let Some(child) = place.child(bit) {
            part.send(child, bytes(part, place.subtree(place.number + bit, bit)));
        }
    }
    false
}

/// A round per bit: from the child that differs in it, or finally to the parent.
pub(super) fn reduce(part: &mut RankPart, root: Rank, round: u32) -> bool {
    up(part, root, round, |part, _| part.bytes)
}

/// Like a reduce; each message has the data of its subtree.
pub(super) fn gather(part: &mut RankPart, root: Rank, round: u32) -> bool {
    up(part, root, round, |part, subtree| part.bytes.saturating_mul(subtree))
}

fn up(part: &mut RankPart, root: Rank, round: u32, bytes: impl Fn(&RankPart, u64) -> u64) -> bool {
    let place = Place::of(part, root);
    if round >= part.doublings() {
        return false;
    }
    let bit = 1 << round;
    if let Some(child) = place.child(bit) {
        part.recv(child, bytes(part, place.subtree(place.number + bit, bit)));
    } else if let Some(parent) = place.parent().filter(|_| bit == place.span()) {
        part.send(parent, bytes(part, place.subtree(place.number, bit)));
    }
    true
}

/// A scatter of parts, then an allgather of them.
pub(super) fn scatter_allgather(part: &mut RankPart, root: Rank, round: u32) -> bool {
    part.bytes = part.bytes.div_ceil(part.ranks.into());
    if round < 2 {
        scatter(part, root, round);
        return true;
    }
    // Below 512 KiB MPICH uses doubling where it can: the ring has more rounds but loads the network less.
    if part.ranks.is_power_of_two() && part.bytes.saturating_mul(part.ranks.into()) < 524_288 {
        exchange::allgather_doubling(part, round - 2)
    } else {
        exchange::allgather_ring(part, round - 2)
    }
}
