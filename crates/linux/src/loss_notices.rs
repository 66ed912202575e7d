//! Notices of memory that the hardware has lost, before anybody reads it.
//!
//! **Problem.** When a scrubber finds an error that it cannot correct, the kernel takes the page away and, by default,
//! says nothing until the page is touched: then the program ends. **Idea.** A process can ask for a signal at once
//! (`PR_MCE_KILL_EARLY`): a SIGBUS with `BUS_MCEERR_AO` names the page. The handler notes the address, and the owner of
//! the memory asks for its notices when it can act on them. **Why this way.** A signal comes between any two
//! instructions, when no heap is in a state that a collector could work with. Noting is two atomic writes.
//!
//! A signal of a kind that is already pending is not queued: of two pages that are lost at once, one notice may be
//! missing. So whoever hears of one page looks for others ([`crate::PlacedPages::moved`]).
//!
//! A page that is touched before that ends the program (`BUS_MCEERR_AR`): nothing false is read.
//!
//! Sources: prctl(2), sigaction(2).

#![expect(unsafe_code, reason = "a system call that rustix lacks, and a word of others")]

use std::hint::spin_loop;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// The most notices that wait. The kernel loses pages one by one, years apart.
const MOST: usize = 64;

/// The addresses; 0 is none.
static NOTICES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

/// How many came, noted or not.
static COUNT: AtomicUsize = AtomicUsize::new(0);

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

/// Notes a lost page, from a signal handler. Returns whether somebody will heed it: if there is no room for the
/// address, by the count.
pub(crate) fn note(address: usize) -> bool {
    if !are_wanted() || address == 0 {
        return false;
    }
    let is_noted = |slot: &AtomicUsize| slot.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let _is_noted = NOTICES.iter().any(is_noted);
    COUNT.fetch_add(1, Ordering::SeqCst);
    ring();
    true
}

/// Whether somebody asked for notices.
pub(crate) fn are_wanted() -> bool {
    ARE_WANTED.load(Ordering::Relaxed)
}

/// How many notices came so far, of all memory of this process: if there are more than before, pages were lost.
pub fn count_loss_notices() -> usize {
    COUNT.load(Ordering::SeqCst)
}

/// The word that each notice sets to 0.
static BELL: AtomicPtr<[AtomicU32; 2]> = AtomicPtr::new(null_mut());

/// How many handlers are using it.
static RINGING: AtomicUsize = AtomicUsize::new(0);

/// Two words that each notice sets to 0, such as a limit that a running program compares with. Whoever sets them asks
/// [`count_loss_notices`] afterwards.
#[derive(Debug)]
pub struct LossBell(NonNull<[AtomicU32; 2]>);

// SAFETY: it is a shared reference to atomic words.
unsafe impl Send for LossBell {}
// SAFETY: as for `Send`.
unsafe impl Sync for LossBell {}

impl LossBell {
    /// The words of the only bell of this process, in the place of one that there may be.
    ///
    /// # Safety
    /// They stay where they are, and are used as atomic words, until the bell is dropped.
    pub unsafe fn at(words: NonNull<[AtomicU32; 2]>) -> Self {
        BELL.store(words.as_ptr(), Ordering::SeqCst);
        Self(words)
    }
}

impl Drop for LossBell {
    fn drop(&mut self) {
        let ours = self.0.as_ptr();
        let _other_bell = BELL.compare_exchange(ours, null_mut(), Ordering::SeqCst, Ordering::SeqCst);
        // A handler of another thread may have read it before.
        while RINGING.load(Ordering::SeqCst) > 0 {
            spin_loop();
        }
    }
}

fn ring() {
    RINGING.fetch_add(1, Ordering::SeqCst);
    if let Some(words) = NonNull::new(BELL.load(Ordering::SeqCst)) {
        // SAFETY: whoever drops the bell waits for this handler; until then, `LossBell::at` was promised the words.
        unsafe { words.as_ref() }.iter().for_each(|word| word.store(0, Ordering::SeqCst));
    }
    RINGING.fetch_sub(1, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_loss::{raise_hardware_notice, want_loss_notices};

    #[test]
    fn a_notice_rings_the_bell_and_counts_even_without_room_for_its_address() {
        want_loss_notices().unwrap();
        let words = Box::new([7, 8].map(AtomicU32::new));
        let seen = || words.each_ref().map(|word| word.load(Ordering::SeqCst));
        // SAFETY: the words outlive the bell, and are atomic.
        let bell = unsafe { LossBell::at(NonNull::from(&*words)) };
        let before = count_loss_notices();
        (1..=MOST + 10).for_each(|page| raise_hardware_notice(page << 12));
        assert_eq!((count_loss_notices() - before, seen()), (MOST + 10, [0, 0]));
        let mine = |address| (1..=MOST + 10).contains(&(address >> 12));
        assert_eq!(take_loss_notices(mine).len(), MOST);
        drop(bell);
        words[0].store(7, Ordering::SeqCst);
        raise_hardware_notice(1 << 12);
        assert_eq!((take_loss_notices(mine).len(), seen()), (1, [7, 0]));
    }
}
