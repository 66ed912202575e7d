//! Notices of memory that the hardware has lost, before anybody reads it.
//!
//! **Problem.** When a scrubber finds an error that it cannot correct, the kernel takes the page away and, by default,
//! says nothing until the page is touched: then the program ends. **Idea.** A process can ask for a signal at once
//! (`PR_MCE_KILL_EARLY`): a SIGBUS with `BUS_MCEERR_AO` names the page. The handler notes the address, and the owner of
//! the memory asks for its notices when it can act on them. **Why this way.** A signal comes between any two
//! instructions, when no heap is in a state that a collector could work with. Noting is one atomic write.
//!
//! A page that is touched before that still ends the program (`BUS_MCEERR_AR`): nothing false is read.
//!
//! Sources: prctl(2), sigaction(2).

#![expect(unsafe_code, reason = "a system call that rustix lacks")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most notices that wait. The kernel loses pages one by one, years apart.
const MOST: usize = 64;

/// The addresses; 0 is none.
static NOTICES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

static ARE_WANTED: AtomicBool = AtomicBool::new(false);

/// Asks the kernel for signals, once they are caught.
pub(crate) fn want() -> io::Result<()> {
    ARE_WANTED.store(true, Ordering::Relaxed);
    // SAFETY: it changes a setting of this thread.
    match unsafe { libc::prctl(libc::PR_MCE_KILL, libc::PR_MCE_KILL_SET, libc::PR_MCE_KILL_EARLY, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Notes a lost page, from a signal handler. Returns whether somebody will see it.
pub(crate) fn note(address: usize) -> bool {
    let is_noted = |slot: &AtomicUsize| slot.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    ARE_WANTED.load(Ordering::Relaxed) && address != 0 && NOTICES.iter().any(is_noted)
}

/// Takes the notices of the caller's own memory. Others stay.
pub fn take_loss_notices(is_own: impl Fn(usize) -> bool) -> Vec<usize> {
    let take = |slot: &AtomicUsize| {
        let address = Some(slot.load(Ordering::Relaxed)).filter(|address| *address != 0 && is_own(*address))?;
        slot.store(0, Ordering::Relaxed);
        Some(address)
    };
    NOTICES.iter().filter_map(take).collect()
}
