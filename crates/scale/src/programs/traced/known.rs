//! Programs by their names.

use super::{TRACES, TracedWorkload};
use crate::error::Error;
use crate::programs::workload::{WORKLOADS, Workload};

/// What follows the name of a workload in that of its skeleton.
const OF_SKELETON: &str = "-skeleton";

/// A program that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownProgram {
    /// A trace of the real program.
    Traced(TracedWorkload),
    /// A skeleton of it.
    Skeleton(Workload),
}

impl KnownProgram {
    /// All programs: the nine skeletons, then the traces.
    pub fn all() -> impl Iterator<Item = Self> {
        WORKLOADS.into_iter().map(Self::Skeleton).chain(TRACES.into_iter().map(Self::Traced))
    }

    /// The program of this name. The name of a workload means its trace if there is one, else its skeleton; with
    /// `-skeleton` it always means the skeleton.
    ///
    /// # Errors
    /// If there is none; the error lists the known names.
    pub fn named(name: &str) -> Result<Self, Error> {
        if let Some(traced) = TRACES.into_iter().find(|traced| traced.name == name) {
            return Ok(Self::Traced(traced));
        }
        let of_workload = name.strip_suffix(OF_SKELETON).unwrap_or(name);
        let skeleton = WORKLOADS.into_iter().find(|workload| workload.name == of_workload);
        skeleton.map(Self::Skeleton).ok_or_else(|| Error::NoSuchWorkload { name: name.to_owned(), known: known() })
    }

    /// The name on the command line: a skeleton without a trace has that of its workload.
    #[must_use]
    pub fn name(&self) -> String {
        let suffix = if self.is_the_only_one() { "" } else { OF_SKELETON };
        match self {
            Self::Traced(traced) => traced.name.to_owned(),
            Self::Skeleton(workload) => format!("{}{suffix}", workload.name),
        }
    }

    /// The name of the workload, which a trace and a skeleton have in common.
    #[must_use]
    pub const fn workload(&self) -> &'static str {
        match self {
            Self::Traced(traced) => traced.name,
            Self::Skeleton(workload) => workload.name,
        }
    }

    /// Whether it is a trace of the real program.
    #[must_use]
    pub const fn is_traced(&self) -> bool {
        matches!(self, Self::Traced(_))
    }

    /// What it is: `trace` or `skeleton`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        if self.is_traced() { "trace" } else { "skeleton" }
    }

    fn is_the_only_one(&self) -> bool {
        TRACES.iter().all(|traced| traced.name != self.workload())
    }
}

/// The names for an error.
fn known() -> String {
    let traces = TRACES.map(|traced| traced.name).join(", ");
    let skeletons = WORKLOADS.map(|workload| KnownProgram::Skeleton(workload).name()).join(", ");
    format!("{traces} (traces); {skeletons} (skeletons)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_trace_where_there_is_one_and_each_program_has_one_name() {
        assert!(KnownProgram::named("lulesh").unwrap().is_traced());
        for (name, is_called) in [("lulesh-skeleton", "lulesh-skeleton"), ("cth", "cth"), ("cth-skeleton", "cth")] {
            let program = KnownProgram::named(name).unwrap();
            assert!(!program.is_traced(), "{name}");
            assert_eq!(program.name(), is_called);
        }
        for program in KnownProgram::all() {
            assert_eq!(KnownProgram::named(&program.name()), Ok(program));
        }
    }

    #[test]
    fn where_no_program_has_a_name_the_names_are_listed_by_kind() {
        let error = KnownProgram::named("linpack").unwrap_err().to_string();
        assert!(error.contains("hpcg, ") && error.contains(" (traces); "), "{error}");
        assert!(error.contains("hpcg-skeleton, cth, ") && error.contains("(skeletons)"), "{error}");
        assert!(KnownProgram::named("-skeleton").is_err());
    }
}
