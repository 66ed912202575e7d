//! Linked faults: two on one victim; each can undo the effect of the other before a read sees it.
//!
//! The pairs of CFid, CFin and TF are those of van de Goor, *Testing Semiconductor Memories*, 1991, chapter 4; the
//! static ones follow S. Hamdioui et al., *Linked faults in random access memories*, IEEE Trans. CAD 23(5), 2004.

use super::Kind;
use super::fault::{
    BITS, Cell, Effect, NON_TRANSITIONS, Primitive, READS, Sensitizer, TRANSITIONS, bad_read, cell_pairs, cells,
    disturb, inversion, transition, write_disturb,
};

/// Every pair of a linked kind; `None` for the other kinds.
pub(super) fn pairs(kind: Kind) -> Option<Vec<[Primitive; 2]>> {
    Some(match kind {
        Kind::LinkedIdempotent => aggressor_pairs().flat_map(|(v, a, b)| two_idempotent(v, a, b)).collect(),
        Kind::LinkedInversion => aggressor_pairs().flat_map(|(v, a, b)| two_inversions(v, a, b)).collect(),
        Kind::LinkedInversionIdempotent => {
            aggressor_pairs().flat_map(|(v, a, b)| inversion_and_idempotent(v, a, b)).collect()
        }
        Kind::LinkedTransitionIdempotent => cell_pairs().flat_map(|(a, v)| transition_and_idempotent(v, a)).collect(),
        Kind::LinkedTransitionInversion => cell_pairs().flat_map(|(a, v)| transition_and_inversion(v, a)).collect(),
        Kind::LinkedStatic => cells().flat_map(static_pairs).collect(),
        _ => return None,
    })
}

/// Every victim with two aggressors, which may be one cell.
fn aggressor_pairs() -> impl Iterator<Item = (Cell, Cell, Cell)> {
    cell_pairs().flat_map(|(a, v)| cells().filter(move |&b| b != v).map(move |b| (v, a, b)))
}

/// Pairs of the two lists with different causes: one write cannot do two things to one victim.
fn with_two_causes(first: &[Primitive], second: &[Primitive]) -> Vec<[Primitive; 2]> {
    let all = first.iter().flat_map(|&p| second.iter().map(move |&q| [p, q]));
    all.filter(|[p, q]| (p.on, p.when) != (q.on, q.when)).collect()
}

fn inversions(aggressor: Cell, victim: Cell) -> [Primitive; 2] {
    BITS.map(|from| inversion(aggressor, victim, from))
}

/// The CFid that make the victim lose a value.
fn idempotent(aggressor: Cell, victim: Cell, loses: bool) -> [Primitive; 2] {
    TRANSITIONS.map(|when| disturb(aggressor, when, victim, loses))
}

fn two_idempotent(v: Cell, a: Cell, b: Cell) -> Vec<[Primitive; 2]> {
    with_two_causes(&idempotent(a, v, false), &idempotent(b, v, true))
}

/// Two CFin are the same pair in either order, so the aggressors ascend.
fn two_inversions(v: Cell, a: Cell, b: Cell) -> Vec<[Primitive; 2]> {
    match a.cmp(&b) {
        std::cmp::Ordering::Less => with_two_causes(&inversions(a, v), &inversions(b, v)),
        std::cmp::Ordering::Equal => vec![inversions(a, v)],
        std::cmp::Ordering::Greater => vec![],
    }
}

fn inversion_and_idempotent(v: Cell, a: Cell, b: Cell) -> Vec<[Primitive; 2]> {
    let both = BITS.map(|loses| idempotent(b, v, loses)).concat();
    with_two_causes(&inversions(a, v), &both)
}

/// The CFid undoes the change that the victim fails to make, so that the next write changes nothing.
fn transition_and_idempotent(v: Cell, a: Cell) -> Vec<[Primitive; 2]> {
    let of = |from| idempotent(a, v, from).map(|coupling| [transition(v, from), coupling]);
    BITS.into_iter().flat_map(of).collect()
}

fn transition_and_inversion(v: Cell, a: Cell) -> Vec<[Primitive; 2]> {
    BITS.into_iter().flat_map(|from| inversions(a, v).map(|coupling| [transition(v, from), coupling])).collect()
}

/// A static primitive that no read sees at once, with the victim's value before and after it.
#[derive(Clone, Copy)]
struct Hidden {
    primitive: Primitive,
    before: bool,
    after: bool,
}

/// Every first fault with every second one that starts where the first ends, and ends where the first began.
fn static_pairs(v: Cell) -> Vec<[Primitive; 2]> {
    let hidden = hidden_faults(v);
    let undoes = |first: &Hidden, second: &Hidden| second.before == first.after && second.after != first.after;
    let of = |first: &Hidden| {
        let first = *first;
        hidden
            .iter()
            .filter(move |second| undoes(&first, second))
            .map(move |second| [first.primitive, second.primitive])
    };
    hidden.iter().flat_map(of).collect()
}

fn hidden_faults(v: Cell) -> Vec<Hidden> {
    let stays = |primitive, before| Hidden { primitive, before, after: before };
    let flips = |primitive, before| Hidden { primitive, before, after: !before };
    let mut hidden = Vec::new();
    for value in BITS {
        let of_cell = [
            stays(transition(v, value), value),
            flips(write_disturb(v, value), value),
            flips(bad_read(v, value, Effect::Inverts), value),
        ];
        hidden.extend(of_cell);
        for a in cells().filter(|&a| a != v) {
            let operations: Vec<Sensitizer> = [TRANSITIONS, NON_TRANSITIONS, READS].concat();
            hidden.extend(operations.into_iter().map(|when| flips(disturb(a, when, v, value), value)));
            for fault in of_cell {
                hidden.extend(BITS.map(|holds| Hidden { primitive: fault.primitive.while_holds(a, holds), ..fault }));
            }
        }
    }
    hidden
}
