//! What errors cost a program on a system.

pub mod project;
pub mod slowdown;
