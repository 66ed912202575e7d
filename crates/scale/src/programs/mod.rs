//! What ranks do: schedules from files, from patterns and collectives, or from recordings.

pub mod collective;
pub mod goal;
pub mod pattern;
pub mod rounds;
pub mod schedule;
pub mod trace;
pub mod traced;
pub mod workload;
