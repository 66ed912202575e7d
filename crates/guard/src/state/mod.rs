//! The guarded range: its division into blocks, units and pages, and the state of each block.

pub mod layout;
pub mod table;
pub mod units;
