//! The handshake by which all mutators stop, and the queue of failed lines.
//!
//! **Problem.** A collection needs all mutators to stand still, at places where their references are known; and a line
//! may fail at any time, even during a collection or while another failure is dealt with. **Idea.** One flag says that
//! something is wanted, and each mutator looks at it often. One lock keeps who runs, who has stopped the others, and
//! which lines have failed; the flag changes only under that lock, so a failure that comes while the last ones are
//! dealt with leaves it set. **Why this way.** Looking costs one load. Nothing is lost, as the end of a stop looks at
//! the queue and at the flag in one step [Gao13, 3.3.3].

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// The handshake.
#[derive(Debug, Default)]
pub(super) struct Safepoint {
    is_wanted: AtomicBool,
    state: Mutex<SafepointState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SafepointState {
    /// Mutators that may use the heap now.
    running: usize,
    /// A mutator has stopped the others, or waits until they have stopped.
    is_stopped: bool,
    /// Offsets of lines that have failed and were not dealt with.
    failed: Vec<u32>,
    /// The same of lines whose data is gone.
    lost: Vec<u32>,
}

impl SafepointState {
    fn is_any_failed(&self) -> bool {
        !self.failed.is_empty() || !self.lost.is_empty()
    }
}

/// All mutators stand still as long as it exists.
pub(super) struct Stop<'a>(&'a Safepoint);

/// Why a mutator wants the others to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// It needs a collection.
    Collection,
    /// Only if lines have failed.
    Failures,
}

impl Safepoint {
    /// Whether a mutator should stop. A hint: what must be ordered is ordered by the lock.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// A mutator begins to run, once nobody has stopped the others.
    pub fn enter(&self) {
        let mut state = self.changed.wait_while(self.state.lock(), |state| state.is_stopped);
        state.running += 1;
    }

    /// A running mutator does not use the heap any more.
    pub fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        drop(state);
        self.changed.notify_all();
    }

    /// A running mutator, whose roots are where others find them, stops all others. If another does, it waits until
    /// that one has ended, and there is `None`.
    pub fn stop(&self, reason: StopReason) -> Option<Stop<'_>> {
        let mut state = self.state.lock();
        let is_first = !state.is_stopped;
        if is_first && reason == StopReason::Failures && !state.is_any_failed() {
            return None;
        }
        state.running -= 1;
        if is_first {
            state.is_stopped = true;
            self.is_wanted.store(true, Ordering::Relaxed);
            drop(self.changed.wait_while(state, |state| state.running > 0));
            return Some(Stop(self));
        }
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.is_stopped);
        state.running += 1;
        None
    }

    /// A line has failed: the next mutator that looks deals with it.
    pub fn fail(&self, offset: u32) {
        let mut state = self.state.lock();
        state.failed.push(offset);
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// A line has failed, and its data is gone.
    pub fn lose(&self, offset: u32) {
        let mut state = self.state.lock();
        state.lost.push(offset);
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a mutator has stopped the others.
    pub fn is_stopped(&self) -> bool {
        let state = self.state.lock();
        state.is_stopped && state.running == 0
    }

    /// The lines that have failed and were not dealt with, and those whose data is gone.
    pub fn into_failed(self) -> (Vec<u32>, Vec<u32>) {
        let SafepointState { failed, lost, .. } = self.state.into_inner();
        (failed, lost)
    }

    /// How many lines have failed that were not dealt with.
    pub fn failed(&self) -> usize {
        let state = self.state.lock();
        state.failed.len() + state.lost.len()
    }
}

impl Stop<'_> {
    /// The lines that have failed since the last call.
    pub fn take_failed(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.state.lock().failed)
    }

    /// The lines whose data is gone, which the next call of [`Self::take_lost`] takes.
    pub fn lost(&self) -> Vec<u32> {
        self.0.state.lock().lost.clone()
    }

    /// The lines whose data is gone since the last call.
    pub fn take_lost(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.state.lock().lost)
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_stopped = false;
        state.running += 1;
        self.0.is_wanted.store(state.is_any_failed(), Ordering::Relaxed);
        drop(state);
        self.0.changed.notify_all();
    }
}
