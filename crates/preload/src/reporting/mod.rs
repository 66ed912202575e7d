//! What others are to know of this guard: counts, events and records in a folder, and what they say of a fault.

pub mod exit_line;
pub mod fault_context;
pub mod folder;
pub mod liveness;
pub mod published;
pub mod recorder;
