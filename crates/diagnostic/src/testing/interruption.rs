//! What interrupts a tester: the end of all testing, and programs that need the memory of its block back.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a resting tester checks whether it is interrupted.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// The state that the main thread sets and the testers read.
#[derive(Debug, Default)]
pub struct Interruption {
    halt: AtomicBool,
    needed_back: AtomicBool,
}

impl Interruption {
    /// Stops all testers.
    pub fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }

    /// Whether all testers must stop.
    pub fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }

    /// Sets whether one tester must give its block back.
    pub fn set_needed_back(&self, needed: bool) {
        self.needed_back.store(needed, Ordering::Relaxed);
    }

    /// Whether a tester must give its block back now. Returns true to only one tester.
    pub fn takes_back(&self) -> bool {
        self.needed_back.load(Ordering::Relaxed) && self.needed_back.swap(false, Ordering::Relaxed)
    }
}

/// Sleeps for `time`; breaks early if `interrupted` returns true.
pub fn rest(time: Duration, mut interrupted: impl FnMut() -> bool) -> ControlFlow<()> {
    let end = Instant::now() + time;
    loop {
        if interrupted() {
            return ControlFlow::Break(());
        }
        let remaining = end.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return ControlFlow::Continue(());
        }
        thread::sleep(remaining.min(CHECK_EVERY));
    }
}

/// Waits until something has come about, on a busy machine too.
#[cfg(test)]
pub fn await_that(mut is: impl FnMut() -> bool) {
    let awaited = rest(Duration::from_mins(1), &mut is);
    assert!(awaited.is_break() || is(), "it does not come about");
}

/// Stops all testers at its end: a test that fails ends too.
#[cfg(test)]
pub struct HaltAtEnd<'a>(pub &'a Interruption);

#[cfg(test)]
impl Drop for HaltAtEnd<'_> {
    fn drop(&mut self) {
        self.0.halt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_tester_gives_its_block_back() {
        let state = Interruption::default();
        assert_eq!([state.takes_back(), state.halted()], [false; 2]);
        state.set_needed_back(true);
        assert_eq!([state.takes_back(), state.takes_back()], [true, false]);
        state.halt();
        assert!(state.halted());
    }

    #[test]
    fn a_rest_ends_early_when_it_is_interrupted_and_checks_at_least_once() {
        let mut checks = 0;
        let interrupted = rest(Duration::from_secs(3600), || {
            checks += 1;
            checks == 2
        });
        assert!(interrupted.is_break() && checks == 2);
        assert!(rest(Duration::ZERO, || true).is_break());
        assert!(rest(Duration::ZERO, || false).is_continue());
    }
}
