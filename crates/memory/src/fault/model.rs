//! The faults of memory, in the terms of the march-test literature.
//!
//! The taxonomy is that of van de Goor, *Using March Tests to Test SRAMs* (IEEE Design & Test, 1993) and *Testing
//! Semiconductor Memories* (1991): `<S/F>` for a fault of one cell, `<S;F>` for a coupling, where S sensitizes the
//! fault and F is its effect on the victim. A cell is one bit of a line; an address is a line, because a tester reads
//! and writes a line at once.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{FaultCell, LineSpan, Probability, TransitionDirection, WordPattern};
use crate::{LINE_WORDS, LineBits, LineData, RegionLine};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FaultKind {
    /// SAF: the cell always reads as `value`.
    StuckAt {
        /// The cell.
        cell: FaultCell,
        /// The value that it reads as.
        value: bool,
    },
    /// TF: the cell cannot make one transition.
    Transition {
        /// The cell.
        cell: FaultCell,
        /// The transition that fails.
        blocked: TransitionDirection,
    },
    /// CFin: a change of the aggressor inverts the victim.
    Inversion {
        /// The cell whose change acts.
        aggressor: FaultCell,
        /// The change that acts.
        on: TransitionDirection,
        /// The cell inverted.
        victim: FaultCell,
    },
    /// CFid: a change of the aggressor forces the victim to a value.
    Idempotent(Idempotent),
    /// CFst: while the aggressor holds a state, the victim reads as a value; the victim's content does not change.
    State {
        /// The cell whose state acts.
        aggressor: FaultCell,
        /// The state that acts.
        holds: bool,
        /// The cell that reads wrong.
        victim: FaultCell,
        /// The value that it reads as.
        reads: bool,
    },
    /// AF: a line's address reaches the wrong cells.
    Address(AddressFault),
    /// SOF: the cell cannot be accessed. Writes are lost; a read returns what its sense amplifier last read.
    StuckOpen {
        /// The cell.
        cell: FaultCell,
        /// The lines whose reads pass the same sense amplifiers: the emulator must see them.
        column: LineSpan,
    },
    /// DRF: the cell loses a value if it is not written for some time.
    Retention {
        /// The cell.
        cell: FaultCell,
        /// The value that it loses.
        loses: bool,
        /// How long it holds the value.
        after: Duration,
    },
    /// Linked CFid: two couplings on one victim, one of which can undo the other's effect before it is seen.
    Linked {
        /// One coupling.
        first: Idempotent,
        /// The other, on the same victim.
        second: Idempotent,
    },
    /// Several cells of one 64-bit word that always read as given values.
    MultiBit {
        /// The line.
        line: RegionLine,
        /// The cells, and the values that they read as.
        stuck: WordPattern,
    },
}

/// CFid, `<↑;0>` and similar: one change of the aggressor forces the victim to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Idempotent {
    /// The cell whose change acts.
    pub aggressor: FaultCell,
    /// The change that acts.
    pub on: TransitionDirection,
    /// The cell acted upon.
    pub victim: FaultCell,
    /// The victim's value afterwards.
    pub value: bool,
}

/// An address decoder fault between lines: the four combinations of van de Goor. His single faults (an address without
/// a cell, a cell without an address, an address with two cells, a cell with two addresses) never occur alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum AddressFault {
    /// Type A: the line's address reaches no cells. Writes are lost; reads float.
    NoCell {
        /// The address.
        line: RegionLine,
        /// The answer of its reads.
        floating: Floating,
    },
    /// Type B: the address of `line` does not reach its cells; that of `by` does, besides its own cells.
    Taken {
        /// The address that reaches nothing.
        line: RegionLine,
        /// The address that reaches both lines' cells.
        by: RegionLine,
        /// The answer of reads of `line`.
        floating: Floating,
        /// How reads of `by` combine.
        wired: Wired,
    },
    /// Type C: the line's address reaches the cells of `other` instead of its own.
    Instead {
        /// The address.
        line: RegionLine,
        /// The line whose cells it reaches.
        other: RegionLine,
    },
    /// Type D: the line's address reaches the cells of `other` besides its own.
    Also {
        /// The address.
        line: RegionLine,
        /// The line whose cells it also reaches.
        other: RegionLine,
        /// How its reads combine.
        wired: Wired,
    },
}

/// The bus content when no cell drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floating {
    /// All bits 0.
    Zeros,
    /// All bits 1.
    Ones,
    /// The last read or written data. The span names the lines whose accesses the emulator must see for that.
    LastOnBus(LineSpan),
}

/// How two cells combine that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wired {
    /// A 0 in either cell wins.
    And,
    /// A 1 in either cell wins.
    Or,
}

impl Wired {
    /// The result of reading both.
    #[must_use]
    pub fn combine(self, one: &LineData, other: &LineData) -> LineData {
        LineData(std::array::from_fn(|i| match self {
            Self::And => one.0[i] & other.0[i],
            Self::Or => one.0[i] | other.0[i],
        }))
    }
}

/// When a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "acts")]
pub enum Persistence {
    /// Whenever it can.
    Permanent,
    /// Each time that it could change something, with a probability.
    Intermittent {
        /// The probability that it acts.
        probability: Probability,
    },
    /// Only while the line where it acts (the victim's; for an address, the accessed line) holds a pattern, as in a
    /// neighbourhood pattern-sensitive fault. A write counts with its new data: all bits of a line change at once.
    PatternSensitive {
        /// The pattern.
        neighbourhood: WordPattern,
    },
}

/// A fault at its place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedFault {
    /// The fault and its cells.
    pub kind: FaultKind,
    /// When it acts.
    pub persistence: Persistence,
}

/// The cells that an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// None: reads float.
    Nothing(Floating),
    /// Those of one line.
    One(RegionLine),
    /// Those of two lines at once.
    Two(RegionLine, RegionLine, Wired),
}

/// The effect of an aggressor's change on a victim: CFin and CFid in one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coupling {
    /// The cell whose change acts.
    pub aggressor: FaultCell,
    /// The change that acts.
    pub on: TransitionDirection,
    /// The cell acted upon.
    pub victim: FaultCell,
    /// The effect on the victim.
    pub effect: Effect,
}

/// The effect of a coupling on its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The victim is inverted.
    Invert,
    /// The victim takes this value.
    Force(bool),
}

impl AddressFault {
    /// The cells that the address of `line` reaches; `None` if this fault does not affect that address.
    #[must_use]
    pub fn reached_by(&self, address: RegionLine) -> Option<Reached> {
        match *self {
            Self::NoCell { line, floating } | Self::Taken { line, floating, .. } if address == line => {
                Some(Reached::Nothing(floating))
            }
            Self::Taken { line, by, wired, .. } if address == by => Some(Reached::Two(by, line, wired)),
            Self::Instead { line, other } if address == line => Some(Reached::One(other)),
            Self::Also { line, other, wired } if address == line => Some(Reached::Two(line, other, wired)),
            _ => None,
        }
    }

    /// The lines whose reads it can make wrong, also through a wrong write.
    fn victims(&self) -> Vec<RegionLine> {
        match *self {
            Self::NoCell { line, .. } => vec![line],
            Self::Taken { line, by: other, .. } | Self::Instead { line, other } | Self::Also { line, other, .. } => {
                vec![line, other]
            }
        }
    }

    fn traffic(&self) -> Option<LineSpan> {
        match *self {
            Self::NoCell { floating: Floating::LastOnBus(span), .. }
            | Self::Taken { floating: Floating::LastOnBus(span), .. } => Some(span),
            _ => None,
        }
    }
}

impl From<Idempotent> for Coupling {
    fn from(Idempotent { aggressor, on, victim, value }: Idempotent) -> Self {
        Self { aggressor, on, victim, effect: Effect::Force(value) }
    }
}

impl FaultKind {
    /// The couplings in which a change of an aggressor acts on a victim, without state couplings.
    pub fn couplings(&self) -> impl Iterator<Item = Coupling> + use<> {
        let couplings = match *self {
            Self::Inversion { aggressor, on, victim } => {
                [Some(Coupling { aggressor, on, victim, effect: Effect::Invert }), None]
            }
            Self::Idempotent(coupling) => [Some(coupling.into()), None],
            Self::Linked { first, second } => [Some(first.into()), Some(second.into())],
            _ => [None, None],
        };
        couplings.into_iter().flatten()
    }

    /// The lines that it only observes, or whose cells act on victims: these lines stay right.
    fn observed(&self) -> Vec<RegionLine> {
        match *self {
            Self::State { aggressor, .. } => vec![aggressor.line],
            Self::StuckOpen { column, .. } => column.iter().collect(),
            Self::Address(address) => address.traffic().into_iter().flat_map(LineSpan::iter).collect(),
            _ => self.couplings().map(|coupling| coupling.aggressor.line).collect(),
        }
    }
}

impl PlacedFault {
    /// A fault that acts whenever it can.
    #[must_use]
    pub const fn permanent(kind: FaultKind) -> Self {
        Self { kind, persistence: Persistence::Permanent }
    }

    /// The bits that it can make wrong, by line, ascending: each of its mismatches is at one of them.
    #[must_use]
    pub fn victims(&self) -> Vec<(RegionLine, LineBits)> {
        let mut victims = match &self.kind {
            FaultKind::StuckAt { cell, .. }
            | FaultKind::Transition { cell, .. }
            | FaultKind::StuckOpen { cell, .. }
            | FaultKind::Retention { cell, .. }
            | FaultKind::State { victim: cell, .. } => vec![(cell.line, cell.bits())],
            FaultKind::Inversion { .. } | FaultKind::Idempotent(_) | FaultKind::Linked { .. } => {
                self.kind.couplings().map(|coupling| (coupling.victim.line, coupling.victim.bits())).collect()
            }
            FaultKind::Address(address) => {
                address.victims().into_iter().map(|line| (line, LineBits(LineData([u64::MAX; LINE_WORDS])))).collect()
            }
            FaultKind::MultiBit { line, stuck } => vec![(*line, stuck.bits())],
        };
        victims.sort_unstable_by_key(|(line, _)| *line);
        victims.dedup_by(|(line, bits), (kept, all)| {
            let same = line == kept;
            if same {
                *all = all.union(bits);
            }
            same
        });
        victims
    }

    /// Every line that it touches, ascending: its victims' lines, its aggressors', and those whose accesses it needs.
    #[must_use]
    pub fn lines(&self) -> Vec<RegionLine> {
        let mut lines = self.kind.observed();
        lines.extend(self.victims().into_iter().map(|(line, _)| line));
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}
