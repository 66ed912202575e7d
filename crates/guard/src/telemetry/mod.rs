//! A guard reports: counts, samples over time, each unlocking, each error that it found; and it checks that somebody
//! reads them.

pub mod accesses;
pub mod counts;
pub mod journal;
pub mod liveness;
pub mod observer;
pub mod samples;
