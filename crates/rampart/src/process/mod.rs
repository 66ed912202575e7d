//! Signals, and the program that a command starts.

pub mod program;
pub mod signals;
