//! What is known of the guarded range: how it is cut into blocks, units and pages, and the state of each block.

pub mod layout;
pub mod table;
pub mod units;
