//! The engines: the heap's memory under guard, and the ways to lock its pages.
//!
//! **Problem.** There are three ways to take pages away from a program, and a process chooses one only when it starts.
//! **Idea.** Two traits describe them: [`interface::GuardedMemory`] for the range, which exists from the first
//! allocation on, and [`interface::ProcessEngine`] for the engine that a guard works with. [`prepare`] alone names the
//! three. **Why this way.** A virtual call costs nanoseconds where a page fault costs microseconds, and a new engine
//! touches only its own file and [`prepare`].

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

/// Reserves a range for the engine of the settings. At first it is ordinary memory.
pub fn prepare(bytes: Bytes, settings: &GuardSettings) -> Result<Box<dyn GuardedMemory>, Error> {
    // Huge pages and larger ones are blocks of the largest size.
    let kind = if settings.block_pages == MOST_PAGES { PageKind::Huge } else { PageKind::Base };
    Ok(match settings.method {
        EngineKind::Move => Box::new(MovedMemory::prepare(bytes, kind)?),
        EngineKind::Minor => Box::new(SharedMemory::prepare(bytes, settings.unit_pages)?),
        EngineKind::Mprotect => Box::new(ProtectedMemory::prepare(bytes, kind)?),
    })
}
