//! The program's heap: jemalloc's arenas on one range of addresses.

pub mod arenas;
pub mod backing;
pub mod call_sites;
mod foreign;
mod hooks;
pub(crate) mod jemalloc;
pub mod private;
mod range;
mod range_size;
