//! The five works with their tables and figures, and how many of these are in which state.

use std::fmt::Write as _;

use serde::Serialize;

use super::arguments::WorkKey;
use super::exhibit::{Exhibit, ExhibitState};
use super::{ferreira21, fiala15, gao13, panwar15, rahman16};

/// A work that Rampart implements.
pub struct CitedWork {
    /// Its key.
    pub key: WorkKey,
    /// Its title.
    pub title: &'static str,
    /// Who wrote it, and when.
    pub author: &'static str,
    /// Its figures, then its tables.
    lists: [&'static [Exhibit]; 2],
}

impl CitedWork {
    /// Its figures, then its tables, each in the order of their numbers; or only those that are missing.
    pub fn exhibits(&self, only_missing: bool) -> impl Iterator<Item = &'static Exhibit> {
        let all = self.lists.into_iter().flatten();
        all.filter(move |exhibit| !only_missing || exhibit.state == ExhibitState::Missing)
    }
}

/// The five works, in the order of docs/references.md.
pub const WORKS: [CitedWork; 5] = [
    CitedWork {
        key: WorkKey::Rahman16,
        title: "Continuous Online Memory Diagnostic",
        author: "M. N. Rahman, 2016",
        lists: [rahman16::FIGURES, rahman16::TABLES],
    },
    CitedWork {
        key: WorkKey::Gao13,
        title: "Using Managed Runtime Systems to Tolerate Holes in Wearable Memories",
        author: "T. Gao and others, 2013",
        lists: [gao13::FIGURES, &[]],
    },
    CitedWork {
        key: WorkKey::Fiala15,
        title: "Transparent Resilience Across the Entire Software Stack for High-Performance Computing Applications",
        author: "D. J. Fiala, 2015",
        lists: [fiala15::FIGURES, fiala15::TABLES],
    },
    CitedWork {
        key: WorkKey::Panwar15,
        title: "An Allocation Framework for Optimizing Memory Power Consumption and Controlling Fragmentation",
        author: "A. Panwar, 2015",
        lists: [panwar15::FIGURES, panwar15::TABLES],
    },
    CitedWork {
        key: WorkKey::Ferreira21,
        title: "Understanding the Effects of DRAM Correctable Error Logging at Scale",
        author: "K. B. Ferreira and others, 2021",
        lists: [ferreira21::FIGURES, ferreira21::TABLES],
    },
];

/// How many tables and figures there are, in all and in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExhibitCounts {
    /// In all.
    pub all: usize,
    /// Regenerated as a whole.
    pub regenerated: usize,
    /// Regenerated in part.
    pub in_part: usize,
    /// Not written yet.
    pub missing: usize,
    /// Not possible on a machine at hand.
    pub not_here: usize,
    /// Without anything that was measured.
    pub illustrations: usize,
}

impl ExhibitCounts {
    /// Counts.
    pub fn of<'a>(exhibits: impl Iterator<Item = &'a Exhibit>) -> Self {
        let mut counts = Self::default();
        for exhibit in exhibits {
            counts.all += 1;
            *match exhibit.state {
                ExhibitState::Regenerated => &mut counts.regenerated,
                ExhibitState::InPart => &mut counts.in_part,
                ExhibitState::Missing => &mut counts.missing,
                ExhibitState::NotHere => &mut counts.not_here,
                ExhibitState::Illustration => &mut counts.illustrations,
            } += 1;
        }
        counts
    }

    /// Appends a line with these counts.
    pub fn write(self, text: &mut String, name: &str) {
        let Self { all, regenerated, in_part, missing, not_here, illustrations } = self;
        let _ = writeln!(
            text,
            "{name:<12} {all:>5} {regenerated:>12} {in_part:>8} {missing:>8} {not_here:>9} {illustrations:>14}"
        );
    }
}
