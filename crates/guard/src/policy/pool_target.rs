//! The pool target: how much tested memory is kept ready for a program.
//!
//! **Problem.** The test of a frame takes some hundred times as long as its first touch, so it must precede the
//! program's request; but memory in the pool is taken from everybody. **Idea.** The pool consists of *chunks* of a huge
//! page each. The target grows by every request that found the pool empty, up to the allowed maximum; if some chunks
//! stay unused for a while, it shrinks by half of them. **Why this way.** A program requests memory in bursts that
//! nothing predicts, so only the sizes of the last bursts count and are remembered. The diagnostic's controller decides
//! for a whole machine, with guarantees for each free list [Rahman16, 5.2]; here there is one list, and no guarantee:
//! untested pages are tested later ([`Guard::re_place`](crate::Guard::re_place)).

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::state::layout::MOST_PAGES;

/// Pages of a chunk.
pub const CHUNK_PAGES: u64 = MOST_PAGES as u64;

/// How long chunks must stay unused before the target shrinks.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of chunks to keep ready.
#[derive(Clone, Debug)]
pub struct PoolTarget {
    target: usize,
    most: usize,
    /// Pages that were requested in vain, less whole chunks.
    missed: u64,
    /// The fewest chunks that were ready since `since`.
    lowest: usize,
    since: Timestamp,
}

impl PoolTarget {
    /// Starts with a target of one chunk, and never exceeds `most`. With `most` 0, the target is 0.
    #[must_use]
    pub fn new(most: usize, now: Timestamp) -> Self {
        Self { target: most.min(1), most, missed: 0, lowest: most, since: now }
    }

    /// The target: how many chunks to keep ready.
    #[must_use]
    pub const fn chunks(&self) -> usize {
        self.target
    }

    /// A chunk was taken, and so many are left.
    pub fn taken(&mut self, left: usize) {
        self.lowest = self.lowest.min(left);
    }

    /// So many pages were requested, and not ready.
    pub fn missed(&mut self, pages: u64) {
        self.lowest = 0;
        self.missed += pages;
        let chunks = usize::try_from(self.missed / CHUNK_PAGES).unwrap_or(usize::MAX);
        self.missed %= CHUNK_PAGES;
        self.target = self.target.saturating_add(chunks).min(self.most);
    }

    /// Time has passed, and so many chunks are ready.
    pub fn tick(&mut self, ready: usize, now: Timestamp) {
        if now.since(self.since) < PATIENCE {
            return;
        }
        let unused = self.lowest.min(ready);
        // One chunk stays, unless there are to be none.
        self.target = self.target.saturating_sub(unused.div_ceil(2)).max(self.target.min(1));
        (self.lowest, self.since) = (ready, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_stock_that_runs_out_grows_by_what_was_missed_up_to_the_most() {
        let mut pool = PoolTarget::new(4, at(0));
        let target: Vec<_> = (0..7).map(|_| (pool.chunks(), pool.missed(CHUNK_PAGES / 2)).0).collect();
        assert_eq!(target, [1, 1, 2, 2, 3, 3, 4]);
        pool.missed(100 * CHUNK_PAGES);
        assert_eq!(pool.chunks(), 4);
    }

    #[test]
    fn what_lies_unused_is_not_wanted_for_long() {
        let mut pool = PoolTarget::new(32, at(0));
        pool.missed(31 * CHUNK_PAGES);
        assert_eq!(pool.chunks(), 32);
        pool.tick(32, at(3)); // it ran out since the start, so nothing is too much
        assert_eq!(pool.chunks(), 32);
        pool.tick(32, at(4));
        assert_eq!(pool.chunks(), 32, "two seconds have not passed");
        pool.tick(32, at(5));
        assert_eq!(pool.chunks(), 16);
        (9..60).step_by(3).for_each(|second| pool.tick(pool.chunks(), at(second)));
        assert_eq!(pool.chunks(), 1, "one stays for the next burst");
    }

    #[test]
    fn a_stock_of_none_wants_none() {
        let mut pool = PoolTarget::new(0, at(0));
        pool.missed(CHUNK_PAGES);
        pool.tick(0, at(9));
        assert_eq!(pool.chunks(), 0);
    }

    proptest! {
        /// A program with equal bursts finds enough ready from some burst on, and not much more.
        #[test]
        fn a_steady_program_is_served(burst in 1_usize..60, most in 60_usize..100) {
            let mut pool = PoolTarget::new(most, at(0));
            let mut missed = 0;
            for second in 1..120 {
                let mut ready = pool.chunks();
                missed = 0;
                for _ in 0..burst {
                    if ready == 0 {
                        pool.missed(CHUNK_PAGES);
                        missed += 1;
                    } else {
                        ready -= 1;
                        pool.taken(ready);
                    }
                }
                pool.tick(pool.chunks(), at(3 * second));
                prop_assert!(pool.chunks() <= most && pool.chunks() <= burst + 1);
            }
            prop_assert_eq!(missed, 0);
        }
    }
}
