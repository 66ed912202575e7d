//! Frames below a guarded heap: which of them are tested, which are bad, and which are under suspicion.

pub mod chunks;
pub mod injected;
pub mod known_bad;
pub mod numbers;
pub mod pool;
pub mod suspects;
pub mod test;
