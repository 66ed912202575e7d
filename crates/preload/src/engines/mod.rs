//! The engines: the memory that a heap stands on under guard, and how its pages are taken away.
//!
//! **Problem.** There are three ways to take pages away from a program, and which of them a process uses is known only
//! when it starts. **Idea.** What is asked of each stands in two traits: [`interface::GuardedMemory`] for the range,
//! which is there from the first allocation on, and [`interface::ProcessEngine`] for the engine that a guard works
//! with. [`prepare`] alone names the three. **Why this way.** A call through a table of functions costs nanoseconds
//! where a page fault costs microseconds, and whoever adds an engine touches its own file and [`prepare`].

pub mod interface;
pub mod mailbox;
mod minor;
mod move_pages;
mod mprotect;
mod poisoned;

use rampart_guard::layout::MOST_PAGES;
use rampart_guard::{EngineKind, GuardSettings};
use rampart_linux::{Error, PageKind};
use rampart_memory::Bytes;

use self::interface::GuardedMemory;
use self::minor::SharedMemory;
use self::move_pages::MovedMemory;
use self::mprotect::ProtectedMemory;

/// Reserves a range for the engine that the knobs name. For now it is ordinary memory.
pub fn prepare(bytes: Bytes, knobs: &GuardSettings) -> Result<Box<dyn GuardedMemory>, Error> {
    // Huge pages and what is larger are blocks of as many pages as a block may have.
    let kind = if knobs.block_pages == MOST_PAGES { PageKind::Huge } else { PageKind::Base };
    Ok(match knobs.method {
        EngineKind::Move => Box::new(MovedMemory::prepare(bytes, kind)?),
        EngineKind::Minor => Box::new(SharedMemory::prepare(bytes, knobs.unit_pages)?),
        EngineKind::Mprotect => Box::new(ProtectedMemory::prepare(bytes, kind)?),
    })
}
