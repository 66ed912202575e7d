//! All-to-all algorithms.

use super::RankPart;

/// Messages in flight at once in the scattered algorithm: MPICH's `MPIR_CVAR_ALLTOALL_THROTTLE`.
pub const AT_ONCE: u32 = 32;

/// Bruck: in round j, all data whose distance has bit j moves by 2^j.
pub(super) fn bruck(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    let (hop, ranks) = (1 << round, u64::from(part.ranks));
    // The number of distances below `ranks` that have this bit: half of each whole period of 2^(j+1), plus what the
    // last period holds above its half.
    let period = 2 * u64::from(hop);
    let blocks = ranks / period * u64::from(hop) + (ranks % period).saturating_sub(hop.into());
    let bytes = part.bytes.saturating_mul(blocks);
    part.send(part.after(hop), bytes);
    part.recv(part.before(hop), bytes);
    true
}

/// One peer after the other, `at_once` of them at a time.
pub(super) fn pairwise(part: &mut RankPart, round: u32, at_once: u32) -> bool {
    let first = round.saturating_mul(at_once).saturating_add(1);
    for distance in first..part.ranks.min(first.saturating_add(at_once)) {
        part.send(part.after(distance), part.bytes);
        part.recv(part.before(distance), part.bytes);
    }
    first < part.ranks
}
