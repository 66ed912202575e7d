//! When each rank is done: event by event, or round by round.

pub mod engine;
pub mod lockstep;
