//! One row of the list: a numbered table or figure of a work, and what Rampart has of it.
//!
//! A row reads as a sentence: `figure("15", "…").by(&["rampart simulate figure15"]).see(&["docs/experiments.md"])`.

use serde::Serialize;

/// A numbered table or figure of a work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Exhibit {
    /// Which of both.
    pub kind: ExhibitKind,
    /// Its number, such as 3.10 or II.
    pub number: &'static str,
    /// What it shows, in our words.
    pub title: &'static str,
    /// What Rampart has of it.
    pub state: ExhibitState,
    /// The command lines that regenerate it; of one that is not here, those that would.
    pub commands: &'static [&'static str],
    /// Where in this tree the results lie; nothing if they are only printed.
    pub results: &'static [&'static str],
    /// Of one in part: what lacks. Of a missing one: why. Of one that is not here: what is absent. Else: a note.
    pub remark: Option<&'static str>,
}

/// A table or a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExhibitKind {
    /// A figure.
    Figure,
    /// A table.
    Table,
}

impl ExhibitKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Figure => "figure",
            Self::Table => "table",
        }
    }
}

/// What Rampart has of a table or a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExhibitState {
    /// A command regenerates it.
    Regenerated,
    /// A command regenerates a part of it, or shows the same of another program or size.
    InPart,
    /// What would regenerate it is not written yet.
    Missing,
    /// No machine at hand has what it takes.
    NotHere,
    /// Nothing was measured: a drawing, an algorithm, a list of settings.
    Illustration,
}

impl ExhibitState {
    /// Its name in a row, and what the remark of a row says.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Regenerated => ("regenerated", "note"),
            Self::InPart => ("in part", "but"),
            Self::Missing => ("missing", "why"),
            Self::NotHere => ("not here", "absent"),
            Self::Illustration => ("illustration", "note"),
        }
    }
}

/// A figure, an illustration unless more is said.
pub const fn figure(number: &'static str, title: &'static str) -> Exhibit {
    exhibit(ExhibitKind::Figure, number, title)
}

/// A table, without anything that was measured unless more is said.
pub const fn table(number: &'static str, title: &'static str) -> Exhibit {
    exhibit(ExhibitKind::Table, number, title)
}

const fn exhibit(kind: ExhibitKind, number: &'static str, title: &'static str) -> Exhibit {
    Exhibit { kind, number, title, state: ExhibitState::Illustration, commands: &[], results: &[], remark: None }
}

impl Exhibit {
    /// These commands regenerate it.
    pub const fn by(self, commands: &'static [&'static str]) -> Self {
        Self { state: ExhibitState::Regenerated, commands, ..self }
    }

    /// The results lie there.
    pub const fn see(self, results: &'static [&'static str]) -> Self {
        Self { results, ..self }
    }

    /// The commands regenerate only a part, since this lacks or differs.
    pub const fn but(self, lacks: &'static str) -> Self {
        Self { state: ExhibitState::InPart, remark: Some(lacks), ..self }
    }

    /// Nothing regenerates it yet.
    pub const fn missing(self, why: &'static str) -> Self {
        Self { state: ExhibitState::Missing, remark: Some(why), ..self }
    }

    /// No machine at hand has this.
    pub const fn not_here(self, absent: &'static str) -> Self {
        Self { state: ExhibitState::NotHere, remark: Some(absent), ..self }
    }

    /// A remark that changes nothing of its state.
    pub const fn note(self, note: &'static str) -> Self {
        Self { remark: Some(note), ..self }
    }
}
