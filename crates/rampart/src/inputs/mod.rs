//! The inputs of commands: files that a person names, the store, and the state of the daemon.

pub mod daemon;
pub mod dimm;
pub mod files;
pub mod network;
pub mod page_trace;
pub mod store;
