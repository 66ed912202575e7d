//! The machine that programs run on: time, network, CPUs, and what takes time from them.

pub mod calibration;
pub mod detour;
pub mod network;
pub mod noise;
pub mod operation;
pub mod system;
