//! Vaults on the running kernel; a test that it does not allow is skipped, with a message.

mod faults;
mod fork;
mod giving;
mod moves;
mod pins;
mod taking;
mod world;
mod writes;
