//! When each rank is done: event by event, round by round, or from meeting to meeting.

pub mod blocks;
pub mod engine;
pub mod lockstep;
