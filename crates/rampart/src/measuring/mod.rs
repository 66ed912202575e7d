//! `rampart noise`: what is measured, and how it is shown.

pub mod arguments;
pub mod chart;
pub mod errors;
pub mod show;
