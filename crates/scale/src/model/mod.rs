//! The simulated machine: time, network, CPUs, and what interrupts them.

pub mod calibration;
pub mod detour;
pub mod network;
pub mod noise;
pub mod operation;
pub mod system;
