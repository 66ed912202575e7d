//! Which faults a march test finds: computed, not quoted.
//!
//! **Problem.** Tables of what each march test finds contradict one another and hide their definitions, and none
//! contains a user's own test. **Idea.** Try it: give a memory of four cells every fault of every kind in turn, run the
//! test, and count. Four cells are enough for faults between up to three, wherever they lie in the order of visits.
//! **Why it is a proof.** A fault counts as found only if it is found from every state of the memory, in both
//! directions of each ⇕, and by a read that a sound memory would pass. A result for four cells in their order holds for
//! the same cells among any number of others, since the others take no part in the fault.
//!
//! `fault` defines the faults, `list` and `linked` enumerate them, `world` is the memory; `within` is for the bits of
//! one line.

mod fault;
mod kind;
mod linked;
mod list;
pub(crate) mod within;
mod world;

pub use kind::Kind;

use serde::Serialize;

use self::fault::Fault;
use crate::MarchTest;

/// The number of faults of one kind that a test finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The kind.
    pub kind: Kind,
    /// Faults found.
    pub detected: usize,
    /// All faults of the kind; at least 1.
    pub total: usize,
}

impl Proof {
    /// Found faults in percent, 0 to 100.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 10,000")]
    pub fn percent(&self) -> f64 {
        100.0 * self.detected as f64 / self.total as f64
    }
}

/// What a test finds, kind by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CoverageTable {
    proofs: Vec<Proof>,
}

impl CoverageTable {
    /// One for each kind, in the order of [`Kind::ALL`].
    #[must_use]
    pub fn proofs(&self) -> &[Proof] {
        &self.proofs
    }

    /// The entry of a kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> &Proof {
        self.proofs.iter().find(|proof| proof.kind == kind).expect("a table has every kind")
    }
}

/// Runs a test against every fault of every kind.
#[must_use]
pub fn prove(test: &MarchTest) -> CoverageTable {
    CoverageTable { proofs: Kind::ALL.map(|kind| prove_kind(test, kind)).to_vec() }
}

/// Runs a test against every fault of one kind.
#[must_use]
pub fn prove_kind(test: &MarchTest, kind: Kind) -> Proof {
    count(kind, |fault| world::detects(test, fault))
}

/// The number of faults of one kind that a run on a machine always finds. `whole` is the same test in several address
/// sequences, some with 0 and 1 exchanged; `further` runs too.
///
/// The result differs from [`prove_kind`] in two ways. It is lower, since a fault that shows only in the access right
/// after another does not count: a machine that reads ahead puts others in between. It is higher, since `further`,
/// which runs on other data and in an unknown order, counts for faults of one cell if it finds them with 0 and 1
/// exchanged as well.
///
/// A pair of cells may be out of order in all of `whole` but one. With 0 and 1 exchanged a test finds as many faults
/// between them, so the first stands for all; a fault of one cell is found if any of them finds it.
pub(crate) fn prove_run(whole: &[&MarchTest], further: Option<&MarchTest>, kind: Kind) -> Proof {
    let (first, others) = whole.split_first().expect("a run is in some order");
    let further = further.map(|test| [test.clone(), test.complement()]);
    let further_finds =
        |fault: &Fault| further.as_ref().is_some_and(|both| both.iter().all(|test| world::detects(test, fault)));
    let others_find = |fault: &Fault| others.iter().any(|test| world::detects(test, fault)) || further_finds(fault);
    count(kind, |fault| {
        !fault.hinges_on_the_access_before()
            && (world::detects(first, fault) || fault.is_of_one_cell() && others_find(fault))
    })
}

fn count(kind: Kind, finds: impl Fn(&Fault) -> bool) -> Proof {
    let faults = list::faults(kind);
    Proof { kind, detected: faults.iter().filter(|fault| finds(fault)).count(), total: faults.len() }
}

#[cfg(test)]
mod against_emulator;
#[cfg(test)]
mod tests;
