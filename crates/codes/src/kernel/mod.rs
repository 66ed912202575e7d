//! The inner loops, one set for each generation of processors; all of this crate's `unsafe` is here.
//!
//! A code is written once, over the operations of an instruction set ([`vector::Vector`], [`transposed::Lanes`],
//! [`accumulator::Crc`]). An instruction set is a file that provides them. Pages are read through raw pointers only.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("write the `arch` module of this processor beside theirs; the portable kernel alone is enough");
mod accumulator;
mod engine;
mod hamming;
mod page;
mod pass;
mod plus_q;
mod portable;
mod transposed;
mod vector;

pub use self::engine::CodeEngine;
pub use self::page::{Page, Pages};
