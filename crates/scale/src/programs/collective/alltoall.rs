//! From each to each.

use super::RankPart;

/// Messages that are on their way at once in the scattered algorithm: MPICH's `MPIR_CVAR_ALLTOALL_THROTTLE`.
pub const AT_ONCE: u32 = 32;

/// Bruck: in round j, all that has to go a distance with bit j goes 2^j on.
pub(super) fn bruck(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    let (hop, ranks) = (1 << round, u64::from(part.ranks));
    // Distances below `ranks` that have this bit: whole periods of 2^(j+1), and what the last one holds above its half.
    let period = 2 * u64::from(hop);
    let blocks = ranks / period * u64::from(hop) + (ranks % period).saturating_sub(hop.into());
    let bytes = part.bytes.saturating_mul(blocks);
    part.send(part.after(hop), bytes);
    part.recv(part.before(hop), bytes);
    true
}

/// Each in turn, so many at once.
pub(super) fn pairwise(part: &mut RankPart, round: u32, at_once: u32) -> bool {
    let first = round.saturating_mul(at_once).saturating_add(1);
    for distance in first..part.ranks.min(first.saturating_add(at_once)) {
        part.send(part.after(distance), part.bytes);
        part.recv(part.before(distance), part.bytes);
    }
    first < part.ranks
}
