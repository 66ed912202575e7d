//! What errors cost a program on a system.

pub mod attribution;
pub mod memory;
pub mod project;
pub mod replicas;
pub mod slowdown;
