//! The files of the guards of a run: counts, events and journals in a folder, and drawings of the journals.

pub mod folder;
pub mod journals;
pub mod pictures;
pub mod report;
