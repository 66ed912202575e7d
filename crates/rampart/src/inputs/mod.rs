//! The inputs of commands: files that a person names, the store, and the states of the daemon and of
//! the pools.

pub mod daemon;
pub mod dimm;
pub mod dimm_map;
pub mod files;
pub mod host_report;
pub mod network;
pub mod page_trace;
pub mod pools;
pub mod store;
