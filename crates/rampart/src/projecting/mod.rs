//! `rampart project`: what is asked, from where, and how the answer is shown.

pub mod arguments;
pub mod chart;
pub mod dimm;
pub mod show;
pub mod sweep;
