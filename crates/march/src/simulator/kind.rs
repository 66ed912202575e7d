//! The kinds of faults: their names in the field, and their meanings.

use std::fmt;

use serde::{Serialize, Serializer};

/// A kind of fault: a column of a coverage table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SAF: stuck-at.
    StuckAt,
    /// TF: transition.
    Transition,
    /// AF: address decoder.
    Address,
    /// SOF: stuck-open.
    StuckOpen,
    /// DRF: data retention.
    Retention,
    /// CFin: inversion coupling.
    Inversion,
    /// CFid: idempotent coupling.
    Idempotent,
    /// CFst: state coupling, as reads see it.
    State,
    /// CFst where the victim keeps the forced value.
    ForcedState,
    /// WDF: write disturb.
    WriteDisturb,
    /// RDF: read destructive.
    ReadDestructive,
    /// DRDF: deceptive read destructive.
    DeceptiveRead,
    /// IRF: incorrect read.
    IncorrectRead,
    /// CFds: disturb coupling, by any operation on the aggressor.
    Disturb,
    /// CFds by reads of the aggressor.
    DisturbByRead,
    /// CFds by writes that do not change the aggressor.
    DisturbByNonTransition,
    /// CFtr: transition coupling.
    TransitionCoupling,
    /// CFwd: write disturb coupling.
    WriteDisturbCoupling,
    /// CFrd: read destructive coupling.
    ReadDestructiveCoupling,
    /// CFdr: deceptive read destructive coupling.
    DeceptiveReadCoupling,
    /// CFir: incorrect read coupling.
    IncorrectReadCoupling,
    /// dRDF, dDRDF, dIRF: faults of a read just after a write.
    Dynamic,
    /// dCFds: disturb coupling by a write and a read of the aggressor.
    DynamicDisturb,
    /// dCFrd, dCFdr, dCFir: dynamic read faults while the aggressor holds a value.
    DynamicReadCoupling,
    /// Two linked CFid.
    LinkedIdempotent,
    /// Two linked CFin.
    LinkedInversion,
    /// A CFin linked to a CFid.
    LinkedInversionIdempotent,
    /// A TF linked to a CFid.
    LinkedTransitionIdempotent,
    /// A TF linked to a CFin.
    LinkedTransitionInversion,
    /// Every pair of static faults that can hide one another.
    LinkedStatic,
}

impl Kind {
    /// All kinds, the classic ones first.
    pub const ALL: [Self; 30] = [
        Self::StuckAt,
        Self::Transition,
        Self::Address,
        Self::StuckOpen,
        Self::Retention,
        Self::Inversion,
        Self::Idempotent,
        Self::State,
        Self::ForcedState,
        Self::WriteDisturb,
        Self::ReadDestructive,
        Self::DeceptiveRead,
        Self::IncorrectRead,
        Self::Disturb,
        Self::DisturbByRead,
        Self::DisturbByNonTransition,
        Self::TransitionCoupling,
        Self::WriteDisturbCoupling,
        Self::ReadDestructiveCoupling,
        Self::DeceptiveReadCoupling,
        Self::IncorrectReadCoupling,
        Self::Dynamic,
        Self::DynamicDisturb,
        Self::DynamicReadCoupling,
        Self::LinkedIdempotent,
        Self::LinkedInversion,
        Self::LinkedInversionIdempotent,
        Self::LinkedTransitionIdempotent,
        Self::LinkedTransitionInversion,
        Self::LinkedStatic,
    ];

    /// The field's short name, and a one-line description.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::StuckAt => ("SAF", "a cell always holds 0, or always 1"),
            Self::Transition => ("TF", "a cell cannot change from 0 to 1, or from 1 to 0"),
            Self::Address => ("AF", "an address reaches no cell, another's cell, or several"),
            Self::StuckOpen => ("SOF", "a cell is cut off; a read of it repeats the read before"),
            Self::Retention => ("DRF", "a cell loses its value in a while"),
            Self::Inversion => ("CFin", "a change of one cell inverts another"),
            Self::Idempotent => ("CFid", "a change of one cell sets another to 0, or to 1"),
            Self::State => ("CFst", "a cell is read wrong while another holds a value"),
            Self::ForcedState => ("CFst-f", "a cell loses a value while another holds one, and does not recover"),
            Self::WriteDisturb => ("WDF", "writing the value that a cell holds inverts it"),
            Self::ReadDestructive => ("RDF", "a read inverts the cell and returns the wrong value"),
            Self::DeceptiveRead => ("DRDF", "a read returns the right value and inverts the cell"),
            Self::IncorrectRead => ("IRF", "a read returns the wrong value"),
            Self::Disturb => ("CFds", "any operation on one cell inverts another"),
            Self::DisturbByRead => ("CFds-r", "a read of one cell inverts another"),
            Self::DisturbByNonTransition => ("CFds-nt", "a write that does not change one cell inverts another"),
            Self::TransitionCoupling => ("CFtr", "a cell cannot change while another holds a value"),
            Self::WriteDisturbCoupling => ("CFwd", "WDF while another cell holds a value"),
            Self::ReadDestructiveCoupling => ("CFrd", "RDF while another cell holds a value"),
            Self::DeceptiveReadCoupling => ("CFdr", "DRDF while another cell holds a value"),
            Self::IncorrectReadCoupling => ("CFir", "IRF while another cell holds a value"),
            Self::Dynamic => ("dyn", "RDF, DRDF or IRF of a read just after a write"),
            Self::DynamicDisturb => ("dCFds", "a write and a read of one cell invert another"),
            Self::DynamicReadCoupling => ("dCFrd", "dynamic RDF, DRDF or IRF while another cell holds a value"),
            Self::LinkedIdempotent => ("CFid#CFid", "two CFid on one victim, one hiding the other"),
            Self::LinkedInversion => ("CFin#CFin", "two CFin on one victim, one hiding the other"),
            Self::LinkedInversionIdempotent => ("CFin#CFid", "a CFin and a CFid on one victim"),
            Self::LinkedTransitionIdempotent => ("TF#CFid", "a TF and a CFid on one victim"),
            Self::LinkedTransitionInversion => ("TF#CFin", "a TF and a CFin on one victim"),
            Self::LinkedStatic => ("static#static", "any two static faults on one victim, one hiding the other"),
        }
    }

    /// The field's short name: `SAF`, `CFid`, `CFid#CFid`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// A one-line description for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.words().1
    }
}

impl Kind {
    /// Whether it concerns one cell alone: other cells and the order of visits do not matter.
    #[must_use]
    pub const fn is_of_one_cell(self) -> bool {
        matches!(
            self,
            Self::StuckAt
                | Self::Transition
                | Self::Retention
                | Self::WriteDisturb
                | Self::ReadDestructive
                | Self::DeceptiveRead
                | Self::IncorrectRead
                | Self::Dynamic
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
