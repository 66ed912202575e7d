//! The third thread of the guard, which nobody waits for: it tests frames.
//!
//! Memory for the pool is tested as soon as it is short, because the program is about to need it. Re-placement is not
//! urgent: after each block the thread rests long enough to leave the program nine tenths of the memory's bandwidth.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rampart_guard::{Replacement, ReplacementRound};
use rampart_memory::Clock;

use crate::frames::pool::{TestedFramePool, TesterStep};

use super::live::{LiveGuard, NAP};

/// The tester's rest, as a multiple of its work.
const REST: u32 = 9;

impl LiveGuard {
    /// Tests what is due until the process ends.
    pub(super) fn test_frames(&self, pool: &TestedFramePool) {
        let mut round = ReplacementRound::default();
        loop {
            let began = Instant::now();
            let rest = match pool.work() {
                TesterStep::Ahead => continue,
                TesterStep::Returned => began.elapsed() * REST,
                TesterStep::None if self.paused.load(Ordering::Acquire) != 0 => NAP,
                TesterStep::None => match self.guard.re_place(&mut round, pool.settings().lifetime, self.clock.now()) {
                    Replacement::RePlaced | Replacement::Nothing => Duration::ZERO,
                    Replacement::NoFrames | Replacement::RoundDone => NAP,
                },
            };
            if !rest.is_zero() {
                thread::park_timeout(rest);
            }
        }
    }
}
