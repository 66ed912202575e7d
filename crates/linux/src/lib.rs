//! Rampart's interface to Linux: memory to test, its frames, other programs' need of memory, and the retirement of bad
//! frames.
//!
//! **Problem.** An ordinary program's knowledge of its memory, and its power over it, depend on kernel, privilege and
//! sandbox, and none of these must decide whether a test runs. **Idea.** This crate alone makes system calls and reads
//! `/proc` and `/sys`. It measures, claims, pins and retires; a feature that a machine lacks is an [`Absence`], a
//! reason and a remedy, and not a failure. **Why this way.** No policy is here, so every decision above runs in a
//! simulation too; and every file is read below [`Roots`] that are passed in, so a test can fake any machine.
//!
//! | module | owns |
//! |---|---|
//! | [`capabilities`] | which features exist here, and why others do not |
//! | [`topology`] | nodes, their CPUs and memory |
//! | [`memory_state`] | free memory, watermarks, pressure, the container's limit |
//! | [`block`] | claimed memory: populated, pinned, given back |
//! | [`memory_loss`] | accesses that survive that memory is taken away |
//! | `loss_notices` | pages that the hardware has lost, before they are read |
//! | [`pagemap`], [`frame_flags`] | the frame of a page; the use of each frame |
//! | `frame_use` | whether a frame may be handed out now ([`FrameUses`]) |
//! | `iomem` | the names of all addresses: which memory the host gave by virtio-mem |
//! | `boot_table` | the table of memory of the last boot |
//! | [`memory_tables`] | which memory the firmware switches as a whole, or interleaves, and which is on which DIMM |
//! | [`memory_blocks`] | the units of hotplug: state, zones, node |
//! | [`hotplug`] | taking them offline and online |
//! | [`retire`] | retiring a frame |
//! | [`tracing`] | the kernel's trace events: allocated and freed pages |
//! | [`kernel_module`] | loading and unloading Rampart's kernel module, what it shows, and the frames that it hands out |
//! | [`errors`] | errors that the hardware reported, and those that it injects on request |
//! | [`userfaultfd`] | page faults that this program resolves itself |
//! | [`own_memory`] | a limit for this process, and one line where its memory ends |
//! | [`AddressReservation`] | addresses of which only a part is memory |
//! | [`PlacedPages`] | pages with known frames, each at any address |
//! | [`vault`] | memory of a program that is absent until it is touched |
//! | [`shared`] | the same by a file that is mapped twice |
//! | [`SharedWords`] | words of a file that other processes write meanwhile |
//! | [`protect`] | the same by protections alone, where pages cannot be moved |
//! | `program` | the program's addresses of the pages of each: in one range, and through a [`Window`] elsewhere |
//! | [`usage`] | the memory, CPU time and open files of this process |
//! | [`cpu`] | where threads run, how they yield, the clock, detours |
//!
//! `unsafe` is where memory is mapped, registered and moved (below [`block`], [`memory_loss`], [`userfaultfd`],
//! [`vault`], [`shared`], [`kernel_module`], `placed_pages`, `shared_words`, `program` and [`protect`]), in the
//! allocator of [`own_memory`], in the code of [`process`] between fork and exec, in the interruption below
//! [`hotplug`], in one system call and one instruction below [`cpu`], and in one call of `loss_notices`.
//!
//! Works from Linux 5.10 on, with 4 KiB pages.
//!
//! Libraries: `rustix` (system calls without a C detour, most of them safe), `io-uring` (registered buffers, for pins),
//! `libc` (one call, a type and a flag that the two lack), `displaydoc` and `thiserror` (an error's doc comment is its
//! message), `serde` and `serde_json` (reports, and errors that other programs report).

#![deny(unsafe_code)]

mod absence;
pub mod block;
mod boot_table;
pub mod capabilities;
pub mod cpu;
mod cpu_number;
mod error;
pub mod errors;
pub mod executable;
pub mod frame_flags;
mod frame_use;
pub mod hotplug;
mod iomem;
pub mod kernel_module;
mod loss_notices;
pub mod memory_blocks;
pub mod memory_loss;
pub mod memory_state;
pub mod memory_tables;
mod mlocking;
pub mod own_memory;
mod page;
pub mod pagemap;
mod placed_pages;
pub mod process;
mod program;
pub mod protect;
mod reservation;
pub mod retire;
mod roots;
pub mod shared;
mod shared_words;
mod span;
pub mod topology;
pub mod tracing;
pub mod usage;
pub mod userfaultfd;
pub mod vault;

pub use absence::Absence;
pub use block::{Block, PageKind, PinRefusal, PinReport, Pinning};
pub use boot_table::boot_table;
pub use capabilities::{Capability, CapabilityState, Feature};
pub use cpu::{CpuNumber, SteadyClock, SystemClock};
pub use error::Error;
pub use errors::{EdacDimm, EinjInjector, ErrorCounts, ErrorFeed, InjectionTarget};
pub use frame_flags::{Census, FlagTable, FrameClass, FrameFlags, PageUnit};
pub use frame_use::FrameUses;
pub use hotplug::{HotplugRefusal, OnlineUse, Patience};
pub use iomem::{MemoryOrigin, MemoryOrigins};
pub use loss_notices::{LossBell, count_loss_notices, take_loss_notices};
pub use memory_blocks::{BlockZones, HotplugState, MemoryBlock, MemoryBlocks};
pub use memory_state::{KernelWatermarks, MemoryState};
pub use memory_tables::{CxlWindow, MemoryTables, PowerNode, SmbiosDevice, SmbiosMemory, SmbiosRange};
pub use pagemap::{Backing, Pagemap};
pub use placed_pages::{MovedPage, PageView, PlacedPages};
pub use program::Window;
pub use reservation::AddressReservation;
pub use retire::{RetireOutcome, Retirer, Way};
pub use roots::Roots;
pub use shared_words::SharedWords;
pub use topology::Topology;
pub use tracing::{FeedCounts, KernelPageChange, KernelPageEvent, PageEventFeed};
pub use usage::{MemoryUsage, ProcessUsage};

use page::check_page_size;
use rampart_memory::PAGE_BYTES;

/// Whether this process has root's rights over files, which decides the place of its own.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The name of this node, as `uname -n` prints it.
#[must_use]
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
