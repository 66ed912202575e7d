//! Runs each page allocator without std, without alloc and without a C library, in memory of a static array.
//!
//! **Problem.** A crate that says `no_std` may still need an allocator or a C library through a dependency, and nobody
//! notices on a machine that has both. **Idea.** This program has neither, and no start code but `start.s`. If anything
//! needs them, it does not link. **Why one file for two.** It runs as a process on the machine that builds it, and as
//! the only software of a machine, where the allocators are all that manages memory.
//!
//! The exit status is 0, or 101 after a panic, as of other Rust programs.

#![no_std]
#![no_main]

mod drive;

use core::arch::global_asm;
use core::panic::PanicInfo;

global_asm!(include_str!("start.s"));

// SAFETY: `start.s` defines `stop`, which takes one number and never returns.
unsafe extern "C" {
    /// Ends the program.
    safe fn stop(status: u32) -> !;
}

// SAFETY: `start.s` calls this by its name, once, on an aligned stack; no other symbol has the name.
#[unsafe(no_mangle)]
extern "C" fn freestanding() -> u32 {
    drive::all();
    0
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    stop(101)
}
