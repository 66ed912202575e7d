//! Vaults on the kernel that runs here; what it does not allow is skipped, and says so.

mod faults;
mod fork;
mod giving;
mod moves;
mod pins;
mod taking;
mod world;
mod writes;
