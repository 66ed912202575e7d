//! Policies: observations and the time go in, actions come out. No policy reads a clock, knows the machine, or holds a
//! lock.

pub mod backoff;
pub mod engine_choice;
pub mod limit;
pub mod pool_target;
pub mod prefetch;
pub mod probation;
pub mod unlocked_queue;
