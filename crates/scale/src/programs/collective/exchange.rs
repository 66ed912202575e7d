//! Collectives in which all ranks exchange: barrier, allreduce, allgather, scan.
//!
//! Some algorithms need a power of two. Let r be the number of ranks above that power. Of the first 2·r ranks, each
//! even one gives its part to the odd one after it and gets the result in the end; the remaining ranks are renumbered
//! (Thakur et al., 4.5).

use super::RankPart;
use crate::model::operation::Rank;

pub(super) fn dissemination(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    part.send(part.after(1 << round), 0);
    part.recv(part.before(1 << round), 0);
    true
}

/// The role of a rank where an algorithm needs a power of two.
enum Role {
    /// Gives its part to the next rank, and waits for the result.
    Idle,
    /// Takes part, with this number.
    Active(u32),
}

fn power(part: &RankPart) -> u32 {
    1 << part.ranks.ilog2()
}

fn role(part: &RankPart) -> Role {
    let above = part.ranks - power(part);
    match part.me {
        me if me >= 2 * above => Role::Active(me - above),
        me if me % 2 == 0 => Role::Idle,
        me => Role::Active(me / 2),
    }
}

/// The rank with this number among the active ones.
fn active(part: &RankPart, number: u32) -> u32 {
    let above = part.ranks - power(part);
    if number < above { 2 * number + 1 } else { number + above }
}

/// The first step: idle ranks give their parts to active ones.
fn fold_in(part: &mut RankPart) {
    match role(part) {
        Role::Idle => part.send(part.me + 1, part.bytes),
        Role::Active(_) if is_paired(part) => part.recv(part.me - 1, part.bytes),
        Role::Active(_) => {}
    }
}

/// The last step: idle ranks get the result.
fn fold_out(part: &mut RankPart) {
    match role(part) {
        Role::Idle => part.recv(part.me + 1, part.bytes),
        Role::Active(_) if is_paired(part) => part.send(part.me - 1, part.bytes),
        Role::Active(_) => {}
    }
}

fn is_paired(part: &RankPart) -> bool {
    part.me < 2 * (part.ranks - power(part))
}

fn swap(part: &mut RankPart, partner: u32, bytes: u64) {
    part.send(partner, bytes);
    part.recv(partner, bytes);
}

/// Recursive doubling.
pub(super) fn allreduce(part: &mut RankPart, round: u32) -> bool {
    let doublings = part.ranks.ilog2();
    match (round, role(part)) {
        (0, _) => fold_in(part),
        (round, Role::Active(number)) if round <= doublings => {
            swap(part, active(part, number ^ (1 << (round - 1))), part.bytes);
        }
        (round, _) if round == doublings + 1 => fold_out(part),
        _ => {}
    }
    round <= doublings
}

/// Recursive halving, then recursive doubling the same way back.
pub(super) fn rabenseifner(part: &mut RankPart, round: u32) -> bool {
    let doublings = part.ranks.ilog2();
    match (round, role(part)) {
        (0, _) => fold_in(part),
        (round, Role::Active(number)) if round <= doublings => halve(part, number, round - 1),
        (round, Role::Active(number)) if round <= 2 * doublings => halve(part, number, 2 * doublings - round),
        (round, _) if round == 2 * doublings + 1 => fold_out(part),
        _ => {}
    }
    round <= 2 * doublings
}

/// An exchange over bit `level`. The first exchange is of half of the data; each further one, of half of that.
fn halve(part: &mut RankPart, number: u32, level: u32) {
    let bytes = part.bytes.div_ceil(2 << level);
    swap(part, active(part, number ^ (1 << level)), bytes);
}

/// Recursive halving, then a gather of the parts to the root. The root must be an active rank: an idle one gets the
/// parts from its partner.
pub(super) fn reduce(part: &mut RankPart, root: Rank, round: u32) -> bool {
    let doublings = part.ranks.ilog2();
    let root_is_idle = is_idle(part, root.0);
    let head = if root_is_idle { root.0 + 1 } else { root.0 };
    match (round, role(part)) {
        (0, _) => fold_in(part),
        (round, Role::Active(number)) if round <= doublings => halve(part, number, round - 1),
        (round, Role::Active(number)) if round <= 2 * doublings => {
            collect(part, number ^ number_of(part, head), number, 2 * doublings - round);
        }
        (round, _) if round == 2 * doublings + 1 && root_is_idle => {
            if part.me == root.0 {
                part.recv(head, part.bytes);
            } else if part.me == head {
                part.send(root.0, part.bytes);
            }
        }
        _ => {}
    }
    round <= 2 * doublings
}

/// One of two ranks gives its part to the other, which is nearer to the head. Levels go from the highest down, so that
/// a part given away is complete below.
fn collect(part: &mut RankPart, from_head: u32, number: u32, level: u32) {
    let bytes = part.bytes.div_ceil(2 << level);
    let partner = active(part, number ^ (1 << level));
    if from_head >> level == 1 {
        part.send(partner, bytes);
    } else if from_head >> level == 0 {
        part.recv(partner, bytes);
    }
}

fn is_idle(part: &RankPart, rank: u32) -> bool {
    rank < 2 * (part.ranks - power(part)) && rank.is_multiple_of(2)
}

/// The number of an active rank.
fn number_of(part: &RankPart, rank: u32) -> u32 {
    let above = part.ranks - power(part);
    if rank < 2 * above { rank / 2 } else { rank - above }
}

/// A reduce-scatter and an allgather, both in a ring.
pub(super) fn allreduce_ring(part: &mut RankPart, round: u32) -> bool {
    part.bytes = part.bytes.div_ceil(part.ranks.into());
    let once = part.ranks - 1;
    allgather_ring(part, if round < once { round } else { round - once }) && round < 2 * once
}

pub(super) fn allgather_ring(part: &mut RankPart, round: u32) -> bool {
    if round + 1 >= part.ranks {
        return false;
    }
    part.send(part.after(1), part.bytes);
    part.recv(part.before(1), part.bytes);
    true
}

/// Only for a power of two of ranks.
pub(super) fn allgather_doubling(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    swap(part, part.me ^ (1 << round), part.bytes.saturating_mul(1 << round));
    true
}

pub(super) fn allgather_bruck(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    let hop = 1 << round;
    let bytes = part.bytes.saturating_mul(u64::from(hop.min(part.ranks - hop)));
    part.send(part.before(hop), bytes);
    part.recv(part.after(hop), bytes);
    true
}

/// Partners exchange the data of all ranks before them.
pub(super) fn scan(part: &mut RankPart, round: u32) -> bool {
    if round >= part.doublings() {
        return false;
    }
    let partner = part.me ^ (1 << round);
    if partner < part.ranks {
        swap(part, partner, part.bytes);
    }
    true
}
