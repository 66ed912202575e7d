//! Attempts to empty blocks that failed, and when each block may be tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use rampart_memory::HotplugBlock;

/// The rest after the first failed attempt; it doubles with each.
pub const FIRST_REST: Duration = Duration::from_secs(1);

/// The rest doubles so often at most: to 17 minutes.
const MOST_DOUBLINGS: u32 = 10;

/// The failed attempts of each block.
#[derive(Clone, Debug, Default)]
pub struct FailedAttempts {
    blocks: BTreeMap<HotplugBlock, Failures>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    /// The earliest time of the next attempt.
    next: Duration,
}

impl FailedAttempts {
    /// Notes that an attempt that ended at `now` failed.
    pub fn note(&mut self, block: HotplugBlock, now: Duration) {
        let failures = self.blocks.entry(block).or_default();
        failures.next = now + FIRST_REST * (1 << failures.count.min(MOST_DOUBLINGS));
        failures.count += 1;
    }

    /// Notes that the block went: what failed before says nothing more.
    pub fn forget(&mut self, block: HotplugBlock) {
        self.blocks.remove(&block);
    }

    /// The number of failed attempts.
    pub fn count(&self, block: HotplugBlock) -> u32 {
        self.blocks.get(&block).map_or(0, |failures| failures.count)
    }

    /// The earliest time of the next attempt.
    pub fn next(&self, block: HotplugBlock) -> Duration {
        self.blocks.get(&block).map_or(Duration::ZERO, |failures| failures.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_rest_up_to_a_bound_and_a_success_ends_it() {
        let (mut failed, block) = (FailedAttempts::default(), HotplugBlock(3));
        let now = Duration::from_secs(100);
        let rests: Vec<u64> = (0..14)
            .map(|_| {
                failed.note(block, now);
                (failed.next(block) - now).as_secs()
            })
            .collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024, 1024]);
        assert_eq!((failed.count(block), failed.count(HotplugBlock(4))), (14, 0));
        failed.forget(block);
        assert_eq!((failed.count(block), failed.next(block)), (0, Duration::ZERO));
    }
}
