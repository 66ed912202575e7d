//! The daemon's face: its options and configuration file, what it shows, and where programs find it.
//!
//! A person sees a line at the bottom of the terminal; programs read events, the state file ([`live`]) or metrics. All of
//! it is told by [`rampart_diagnostic::watch`]; nothing is decided here.

pub mod arguments;
pub mod config;
pub mod live;
pub mod metrics;
pub mod observer;
pub mod show;
