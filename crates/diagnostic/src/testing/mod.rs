//! The shared parts of `rampart test` and `rampart watch`.

pub mod bad_frame;
pub mod findings;
pub mod frames;
pub mod injected;
pub mod interruption;
pub mod known_bad;
pub mod mismatch;
#[cfg(test)]
pub mod observed;
pub mod observer;
pub mod prepare;
pub mod publishing;
pub mod record;
pub mod retire;
pub mod seen;
pub mod verdict;
