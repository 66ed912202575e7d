//! Memory blocks taken offline and brought online again.
//!
//! **Problem.** A block goes offline only after everything in it has moved. The kernel tries that for ever if a page in
//! the block stays in use, and the write that asks for it returns only at the end. **Idea.** Each attempt has a
//! deadline, and ends earlier if something more urgent comes up: a signal ends the write, and the kernel takes the
//! attempt back. **Why this way.** A signal is the only way out that the kernel offers; the thread that asks gets it,
//! and no other.
//!
//! Source: Linux, Documentation/admin-guide/mm/memory-hotplug.rst.

mod interruptible;
mod rules;
mod settings;

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use rampart_memory::HotplugBlock;
use rustix::io::Errno;

use self::interruptible::interruptible;
pub use self::rules::onlining_rules;
pub use self::settings::{OnliningSetting, onlining_settings};
use crate::roots::text;
use crate::{Absence, Roots};

/// The option of a kernel whose memory can go offline.
const KERNEL: &str = "CONFIG_MEMORY_HOTREMOVE";

/// For what a block comes online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineUse {
    /// For anything, in a zone where the kernel's own memory lies too.
    Kernel,
    /// Only for memory that can move (`ZONE_MOVABLE`).
    Movable,
    /// As the kernel decides.
    Any,
}

/// Why a block did not change its state.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum HotplugRefusal {
    /// {0}
    Unable(Absence),
    /// something in it cannot move now
    Busy,
    /// it was not empty in time
    TimedOut,
    /// the attempt was stopped
    Stopped,
    /// the kernel refused: {0}
    Kernel(Errno),
}

/// When an attempt to empty a block ends without success.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// After this time.
    pub deadline: Duration,
    /// As soon as this says so, which another thread asks every 10 ms.
    pub stops: &'a (dyn Fn() -> bool + Sync),
}

/// Takes a block offline: everything in it moves elsewhere first. Programs that own it go on.
///
/// While this runs, SIGALRM ends system calls of this thread.
///
/// # Errors
/// [`HotplugRefusal`]; the block is then online as before.
pub fn take_offline(roots: &Roots, block: HotplugBlock, patience: Patience<'_>) -> Result<(), HotplugRefusal> {
    let began = Instant::now();
    let in_time = || began.elapsed() < patience.deadline;
    let (written, interrupted) =
        interruptible(|| in_time() && !(patience.stops)(), || write_state(roots, block, "offline"));
    match written {
        Err(_) if is_offline(roots, block) => Ok(()),
        Err(HotplugRefusal::Stopped) if interrupted && !in_time() => Err(HotplugRefusal::TimedOut),
        written => written,
    }
}

/// Brings a block online.
///
/// # Errors
/// [`HotplugRefusal`], for instance if the kernel cannot put the block into that zone: zones do not overlap.
pub fn bring_online(roots: &Roots, block: HotplugBlock, for_: OnlineUse) -> Result<(), HotplugRefusal> {
    let state = match for_ {
        OnlineUse::Kernel => "online_kernel",
        OnlineUse::Movable => "online_movable",
        OnlineUse::Any => "online",
    };
    write_state(roots, block, state)
}

/// Writes what file systems hold back. Their buffers look movable, but do not move while they wait to be written.
pub fn write_back() {
    rustix::fs::sync();
}

fn folder(block: HotplugBlock) -> String {
    format!("devices/system/memory/memory{}", block.0)
}

fn is_offline(roots: &Roots, block: HotplugBlock) -> bool {
    text(&roots.sys(folder(block)).join("state")).is_ok_and(|state| state.trim() == "offline")
}

/// Asks for a state with one write, which a signal ends.
fn write_state(roots: &Roots, block: HotplugBlock, state: &str) -> Result<(), HotplugRefusal> {
    let path = roots.sys(folder(block)).join("state");
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .map_err(|cause| HotplugRefusal::Unable(Absence::of_file(&path, &cause, KERNEL)))?;
    match rustix::io::write(&file, state.as_bytes()) {
        Ok(_whole) => Ok(()),
        Err(Errno::BUSY | Errno::AGAIN) => Err(HotplugRefusal::Busy),
        Err(Errno::INTR) => Err(HotplugRefusal::Stopped),
        Err(other) => Err(HotplugRefusal::Kernel(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const BLOCK: HotplugBlock = HotplugBlock(7);
    const PATIENT: Patience<'_> = Patience { deadline: Duration::from_secs(9), stops: &|| false };

    fn machine() -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fs::create_dir_all(roots.sys("devices/system/memory/memory7")).unwrap();
        (folder, roots)
    }

    #[test]
    fn each_request_is_the_kernels_word_for_it() {
        let (_folder, roots) = machine();
        let state = roots.sys("devices/system/memory/memory7/state");
        let asked = |ask: &dyn Fn() -> Result<(), HotplugRefusal>| {
            fs::write(&state, "").unwrap();
            ask().unwrap();
            fs::read_to_string(&state).unwrap()
        };
        assert_eq!(asked(&|| take_offline(&roots, BLOCK, PATIENT)), "offline");
        assert_eq!(asked(&|| bring_online(&roots, BLOCK, OnlineUse::Kernel)), "online_kernel");
        assert_eq!(asked(&|| bring_online(&roots, BLOCK, OnlineUse::Movable)), "online_movable");
        assert_eq!(asked(&|| bring_online(&roots, BLOCK, OnlineUse::Any)), "online");
    }

    #[test]
    fn a_block_that_is_not_there_is_refused_with_a_remedy() {
        let (_folder, roots) = machine();
        let refused = bring_online(&roots, BLOCK, OnlineUse::Any).unwrap_err().to_string();
        assert!(refused.contains("memory7/state does not exist; use a kernel with "), "{refused}");
    }

    /// An empty pipe keeps a read waiting as the kernel keeps the write.
    #[test]
    fn a_request_that_does_not_return_is_interrupted() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let began = Instant::now();
        let in_time = || began.elapsed() < Duration::from_millis(30);
        let (read, interrupted) = interruptible(in_time, || rustix::io::read(&reader, &mut [0_u8; 1]));
        assert_eq!((read, interrupted), (Err(Errno::INTR), true));
    }

    #[test]
    fn a_request_that_returns_in_time_is_not_disturbed() {
        assert_eq!(interruptible(|| true, || 7), (7, false));
    }
}
