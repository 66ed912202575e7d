//! Frames below a guarded heap: tested ones, bad ones, and suspect ones.

pub mod chunks;
#[cfg(test)]
mod fake_frames;
pub mod injected;
pub mod known_bad;
pub mod numbers;
pub mod pool;
pub mod suspects;
pub mod test;
