//! What commands read: files that a person names, the store, and what the daemon says of itself.

pub mod daemon;
pub mod dimm;
pub mod files;
pub mod network;
pub mod store;
