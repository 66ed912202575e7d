//! The guard reports: counts, samples over time, each unlock, each error; and it checks that `rampart run` reads them.

pub mod accesses;
pub mod counts;
pub mod journal;
pub mod liveness;
pub mod observer;
pub mod samples;
