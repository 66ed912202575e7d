//! Passes faults from a signal handler to the fault handler thread, and back.
//!
//! **Problem.** Where a touch of a locked page is a SIGSEGV, it arrives in a signal handler, which may not lock,
//! allocate or verify anything. **Idea.** The signal handler writes the page into a slot of a table, wakes the fault
//! handler thread, and waits in the slot for the answer; two words and two futexes (futex(2)). **Why this way.** The
//! guard is the same for signals as for messages of a userfaultfd; and a signal handler does only what POSIX allows.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rampart_guard::accesses::Touch;
use rampart_guard::{FaultOutcome, PageIndex};
use rustix::thread::futex;

/// Threads that can wait at once; more of them take turns.
const SLOTS: usize = 256;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const POSTED: u32 = 2;
const GOES_ON: u32 = 3;
const LEFT: u32 = 4;
/// The asking thread waits until the process ends.
const HELD: u32 = 5;

/// The slots.
#[derive(Debug)]
pub struct Mailbox {
    slots: [Slot; SLOTS],
    /// Counts posted faults; the fault handler waits for it to change.
    posted: AtomicU32,
}

#[derive(Debug)]
struct Slot {
    state: AtomicU32,
    /// The page, and in the lowest bit whether it is written.
    touch: AtomicU64,
}

/// What the faulting thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAnswer {
    /// It tries again.
    TryAgain,
    /// It tries again, and if it faults again, the fault is the program's.
    Left,
}

impl Mailbox {
    /// A mailbox without waiting threads.
    pub const fn new() -> Self {
        let slots = [const { Slot { state: AtomicU32::new(FREE), touch: AtomicU64::new(0) } }; SLOTS];
        Self { slots, posted: AtomicU32::new(0) }
    }

    /// Waits until the page was served. Async-signal-safe.
    pub fn ask(&self, page: PageIndex, touch: Touch) -> FaultAnswer {
        let slot = self.take();
        slot.touch.store(page.0 << 1 | u64::from(touch == Touch::Write), Ordering::Relaxed);
        slot.state.store(POSTED, Ordering::Release);
        self.posted.fetch_add(1, Ordering::Release);
        wake(&self.posted);
        let answer = loop {
            match slot.state.load(Ordering::Acquire) {
                state @ (POSTED | HELD) => wait(&slot.state, state),
                LEFT => break FaultAnswer::Left,
                _ => break FaultAnswer::TryAgain,
            }
        };
        slot.state.store(FREE, Ordering::Release);
        answer
    }

    fn take(&self) -> &Slot {
        loop {
            let take =
                |slot: &&Slot| slot.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if let Some(slot) = self.slots.iter().find(take) {
                return slot;
            }
            rustix::thread::sched_yield();
        }
    }

    /// Serves posted faults, or waits for one. Only one thread may do so.
    pub fn serve(&self, serve: impl Fn(PageIndex, Touch) -> FaultOutcome) {
        let posted = self.posted.load(Ordering::Acquire);
        let mut served = false;
        for slot in self.slots.iter().filter(|slot| slot.state.load(Ordering::Acquire) == POSTED) {
            let touched = slot.touch.load(Ordering::Relaxed);
            let touch = if touched & 1 == 1 { Touch::Write } else { Touch::Read };
            let answer = match serve(PageIndex(touched >> 1), touch) {
                FaultOutcome::Left => LEFT,
                FaultOutcome::Stop => HELD,
                _ => GOES_ON,
            };
            slot.state.store(answer, Ordering::Release);
            wake(&slot.state);
            served = true;
        }
        if !served {
            wait(&self.posted, posted);
        }
    }

    /// In a child, none of the parent's threads waits.
    pub fn forget_all(&self) {
        self.slots.iter().for_each(|slot| slot.state.store(FREE, Ordering::Relaxed));
    }
}

/// Returns at once if the word differs; otherwise it may return too early.
fn wait(word: &AtomicU32, while_it_is: u32) {
    // An interruption is as good as a wake: the waiting thread checks again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, while_it_is, None);
}

/// Wakes the thread that waits for a word to change.
fn wake(word: &AtomicU32) {
    // Nothing can go wrong with a word that exists; the waiting thread checks the word again in any case.
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn each_of_many_threads_gets_the_answer_to_its_own_page() {
        const THREADS: u64 = 300;
        const TIMES: u64 = 20;
        let (mailbox, served) = (Mailbox::new(), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for time in 0..TIMES {
                        let page = thread * TIMES + time;
                        let right = if page.is_multiple_of(3) { FaultAnswer::Left } else { FaultAnswer::TryAgain };
                        let touch = if page.is_multiple_of(2) { Touch::Read } else { Touch::Write };
                        assert_eq!(mailbox.ask(PageIndex(page), touch), right);
                    }
                });
            }
            while served.load(Ordering::Relaxed) < THREADS * TIMES {
                mailbox.serve(|page, touch| {
                    assert_eq!(touch == Touch::Read, page.0.is_multiple_of(2));
                    served.fetch_add(1, Ordering::Relaxed);
                    if page.0.is_multiple_of(3) { FaultOutcome::Left } else { FaultOutcome::GoesOn }
                });
            }
        });
        assert!(mailbox.slots.iter().all(|slot| slot.state.load(Ordering::Relaxed) == FREE));
    }
}
