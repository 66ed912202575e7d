//! The user's settings, and their way to the guarded program: as text in its environment, or in a file.

pub mod bad_frames;
pub mod frames;
pub mod pages;
pub mod protect;
