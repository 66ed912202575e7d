//! The third thread of the guard, which nobody waits for: it tests frames.
//!
//! Memory for the stock is tested as soon as it is short, since the program is about to want it. Pages are renewed at
//! leisure: after each block the thread rests for as long as leaves the program nine tenths of the memory's bandwidth.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rampart_guard::{Renewal, Round};
use rampart_memory::Clock;

use crate::frames::pool::{Pool, Work};

use super::live::{Live, NAP};

/// How many times as long as it worked the tester rests.
const REST: u32 = 9;

impl Live {
    /// Tests what is due until the process ends.
    pub(super) fn test_frames(&self, pool: &Pool) {
        let mut round = Round::default();
        loop {
            let began = Instant::now();
            let rest = match pool.work() {
                Work::Ahead => continue,
                Work::Returned => began.elapsed() * REST,
                Work::None if self.paused.load(Ordering::Acquire) != 0 => NAP,
                Work::None => match self.guard.renew(&mut round, pool.knobs().lifetime, self.clock.now()) {
                    Renewal::Renewed | Renewal::Nothing => Duration::ZERO,
                    Renewal::NoFrames | Renewal::RoundDone => NAP,
                },
            };
            if !rest.is_zero() {
                thread::park_timeout(rest);
            }
        }
    }
}
