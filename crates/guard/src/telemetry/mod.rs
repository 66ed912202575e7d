//! What a guard makes known: counts, samples over time, each unlocking, errors that it found, and whether somebody reads them.

pub mod accesses;
pub mod counts;
pub mod journal;
pub mod liveness;
pub mod observer;
pub mod samples;
