//! Every fault of each kind that four cells can have.

use super::fault::{
    AddressFault, BITS, Cell, Effect, Fault, Floating, NON_TRANSITIONS, Primitive, READS, Sensitizer, TRANSITIONS,
    Wired, bad_read, bad_read_after_write, cell_pairs, cells, disturb, forced_state_coupling, inversion, retention,
    state_coupling, stuck_at, transition, write_disturb,
};
use super::{Kind, linked};

const READ_EFFECTS: [Effect; 3] = [Effect::InvertsAndMisreads, Effect::Inverts, Effect::Misreads];

/// Every fault of a kind.
pub(super) fn faults(kind: Kind) -> Vec<Fault> {
    match kind {
        Kind::Address => address_faults().into_iter().map(Fault::Address).collect(),
        Kind::StuckOpen => cells().map(Fault::StuckOpen).collect(),
        _ => match linked::pairs(kind) {
            Some(pairs) => pairs.into_iter().map(|pair| Fault::Primitives(pair.to_vec())).collect(),
            None => simple(kind).into_iter().map(|primitive| Fault::Primitives(vec![primitive])).collect(),
        },
    }
}

/// The faults that are one primitive.
pub(super) fn simple(kind: Kind) -> Vec<Primitive> {
    use Effect::{Inverts, InvertsAndMisreads, Misreads};
    match kind {
        Kind::StuckAt => of_cell(stuck_at),
        Kind::Transition => of_cell(transition),
        Kind::WriteDisturb => of_cell(write_disturb),
        Kind::Retention => of_cell(retention),
        Kind::ReadDestructive => of_cell(|cell, value| bad_read(cell, value, InvertsAndMisreads)),
        Kind::DeceptiveRead => of_cell(|cell, value| bad_read(cell, value, Inverts)),
        Kind::IncorrectRead => of_cell(|cell, value| bad_read(cell, value, Misreads)),
        Kind::Inversion => of_pair(|a, v| BITS.map(|from| inversion(a, v, from)).to_vec()),
        Kind::State => of_states(state_coupling),
        Kind::ForcedState => of_states(forced_state_coupling),
        Kind::Idempotent => of_disturbance(&TRANSITIONS),
        Kind::DisturbByRead => of_disturbance(&READS),
        Kind::DisturbByNonTransition => of_disturbance(&NON_TRANSITIONS),
        Kind::Disturb => of_disturbance(&[TRANSITIONS, NON_TRANSITIONS, READS].concat()),
        Kind::TransitionCoupling => while_coupled(transition),
        Kind::WriteDisturbCoupling => while_coupled(write_disturb),
        Kind::ReadDestructiveCoupling => while_coupled(|v, value| bad_read(v, value, InvertsAndMisreads)),
        Kind::DeceptiveReadCoupling => while_coupled(|v, value| bad_read(v, value, Inverts)),
        Kind::IncorrectReadCoupling => while_coupled(|v, value| bad_read(v, value, Misreads)),
        Kind::Dynamic => cells().flat_map(dynamic).collect(),
        Kind::DynamicDisturb => of_disturbance(&writes().map(|(from, to)| Sensitizer::WriteRead(from, to))),
        Kind::DynamicReadCoupling => of_pair(|a, v| {
            let coupled = |primitive: Primitive| BITS.map(|holds| primitive.while_holds(a, holds));
            dynamic(v).into_iter().flat_map(coupled).collect()
        }),
        Kind::Address
        | Kind::StuckOpen
        | Kind::LinkedIdempotent
        | Kind::LinkedInversion
        | Kind::LinkedInversionIdempotent
        | Kind::LinkedTransitionIdempotent
        | Kind::LinkedTransitionInversion
        | Kind::LinkedStatic => vec![],
    }
}

/// All pairs of an old and a new value.
fn writes() -> [(bool, bool); 4] {
    [(false, false), (false, true), (true, false), (true, true)]
}

fn of_cell(fault: impl Fn(Cell, bool) -> Primitive) -> Vec<Primitive> {
    cells().flat_map(|cell| BITS.map(|value| fault(cell, value))).collect()
}

fn of_pair(faults: impl Fn(Cell, Cell) -> Vec<Primitive>) -> Vec<Primitive> {
    cell_pairs().flat_map(|(a, v)| faults(a, v)).collect()
}

/// A fault for each value of the aggressor and each of the victim.
fn of_states(fault: impl Fn(Cell, bool, Cell, bool) -> Primitive) -> Vec<Primitive> {
    of_pair(|a, v| BITS.into_iter().flat_map(|x| BITS.map(|y| fault(a, x, v, y))).collect())
}

/// A fault of one cell, for each of its values, and for each value that an aggressor must hold for the fault to act.
fn while_coupled(fault: impl Fn(Cell, bool) -> Primitive) -> Vec<Primitive> {
    of_states(|a, holds, v, value| fault(v, value).while_holds(a, holds))
}

fn of_disturbance(operations: &[Sensitizer]) -> Vec<Primitive> {
    of_pair(|a, v| operations.iter().flat_map(|&when| BITS.map(|loses| disturb(a, when, v, loses))).collect())
}

fn dynamic(cell: Cell) -> Vec<Primitive> {
    let of_write = |(from, to)| READ_EFFECTS.map(|effect| bad_read_after_write(cell, from, to, effect));
    writes().into_iter().flat_map(of_write).collect()
}

/// The four combinations of decoder faults that can occur alone (van de Goor, 1991, section 4.1), with every way in
/// which an undriven or doubly driven bit line may read.
fn address_faults() -> Vec<AddressFault> {
    const FLOATING: [Floating; 3] = [Floating::At(false), Floating::At(true), Floating::Last];
    const WIRED: [Wired; 2] = [Wired::And, Wired::Or];
    let mut faults: Vec<_> =
        cells().flat_map(|v| FLOATING.map(|floating| AddressFault::nowhere(v, floating))).collect();
    for (a, v) in cell_pairs() {
        faults.push(AddressFault::misled(v, a));
        for wired in WIRED {
            faults.push(AddressFault::spread(v, a, wired));
            faults.extend(FLOATING.map(|floating| AddressFault::taken_over(v, a, floating, wired)));
        }
    }
    faults
}
