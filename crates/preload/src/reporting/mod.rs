//! The guard's reports for others: counts, events and records in a folder, and the context of a fault.

pub mod exit_line;
pub mod fault_context;
pub mod folder;
pub mod liveness;
pub mod published;
pub mod recorder;
