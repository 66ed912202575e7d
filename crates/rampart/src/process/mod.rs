//! Signals, and programs that commands start.

pub mod program;
pub mod signals;
