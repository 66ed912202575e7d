//! What the guards of a run leave behind: counts, events and journals in a folder, and pictures of them.

pub mod folder;
pub mod left;
pub mod pictures;
pub mod recorded;
