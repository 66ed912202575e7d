//! `rampart project`: what is asked, from where, and how the answer is shown.

pub mod arguments;
pub mod calibrate;
pub mod chart;
pub mod dimm;
pub mod network;
pub mod schedule;
pub mod show;
pub mod sweep;
pub mod traced;
