//! What ranks do: schedules that are read, expanded from patterns and collectives, or recorded.

pub mod collective;
pub mod goal;
pub mod pattern;
pub mod rounds;
pub mod schedule;
pub mod trace;
pub mod workload;
