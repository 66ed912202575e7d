//! Signals, and programs that commands start.

pub mod launcher;
pub mod program;
pub mod signals;
