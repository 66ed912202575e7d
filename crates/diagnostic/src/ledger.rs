//! Which block is tested next, by whom, and when a pass is over.
//!
//! **Problem.** Several testers share one supply of blocks; memory comes and goes while they work; each frame should be tested
//! once a pass. **Idea.** A tested block is *held*, not given back, until the test ends: the kernel hands out last what was
//! freed last, so a block given back would come straight back and be tested twice. Under pressure the held blocks go first:
//! their work is done. **Why this way.** The ledger is data and pure decisions, generic over what a block is, so a test of
//! the policy needs no memory at all.

use std::collections::VecDeque;
use std::time::Duration;

use rampart_memory::Bytes;

use crate::polite::{Advice, SMALLEST_CLAIM};

/// How much is to be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// What is free when the test starts, as far as it stays free.
    Free,
    /// This much, waiting for it if need be.
    Exactly(Bytes),
}

/// What a tester does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<B> {
    /// Claim a new block of this size, the `index`th of the test, and test it.
    Claim {
        /// 0 first; each index is given out once.
        index: u64,
        /// A multiple of [`SMALLEST_CLAIM`].
        bytes: Bytes,
    },
    /// Test this block once more.
    Again(B),
    /// Nothing just now.
    Wait,
    /// The test is over.
    Finished,
}

/// Blocks, passes, and what is still to be done.
#[derive(Debug)]
pub struct Ledger<B> {
    goal: Goal,
    block: Bytes,
    passes: Option<u32>,
    pass: u32,
    granted: Bytes,
    mapped: Bytes,
    next_index: u64,
    claiming: Bytes,
    testing: usize,
    untested: VecDeque<B>,
    held: VecDeque<B>,
    supply_ended: bool,
    last_progress: Duration,
    stopped: bool,
}

impl<B> Ledger<B> {
    /// How long to wait for memory that was promised and then taken by programs.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// A test of `goal` in blocks of `block`, `passes` times over (`None`: until stopped).
    #[must_use]
    pub fn new(goal: Goal, block: Bytes, passes: Option<u32>) -> Self {
        assert!(block >= SMALLEST_CLAIM, "a block is at least a huge page");
        Self {
            goal,
            block,
            passes,
            pass: 1,
            granted: Bytes::ZERO,
            mapped: Bytes::ZERO,
            next_index: 0,
            claiming: Bytes::ZERO,
            testing: 0,
            untested: VecDeque::new(),
            held: VecDeque::new(),
            supply_ended: false,
            last_progress: Duration::ZERO,
            stopped: false,
        }
    }

    /// The pass under way, 1 first.
    #[must_use]
    pub const fn pass(&self) -> u32 {
        self.pass
    }

    /// Passes asked for, if their number was.
    #[must_use]
    pub const fn passes(&self) -> Option<u32> {
        self.passes
    }

    /// Memory claimed so far.
    #[must_use]
    pub const fn granted(&self) -> Bytes {
        self.granted
    }

    /// Memory that is claimed, or being claimed, and not given back yet.
    #[must_use]
    pub const fn mapped(&self) -> Bytes {
        self.mapped
    }

    /// What a tester does next, at `now` since the start, given what the machine's memory allows.
    pub fn next(&mut self, advice: Advice, now: Duration) -> Next<B> {
        if self.stopped {
            return Next::Finished;
        }
        if let Some(block) = self.untested.pop_front() {
            self.testing += 1;
            return Next::Again(block);
        }
        if !self.supply_ended
            && let Some(next) = self.supply(advice, now)
        {
            return next;
        }
        if self.testing > 0 {
            return Next::Wait;
        }
        self.end_pass()
    }

    fn supply(&mut self, advice: Advice, now: Duration) -> Option<Next<B>> {
        let wanted = match self.goal {
            Goal::Free => self.block,
            Goal::Exactly(bytes) => Bytes::new(bytes.get() - self.granted.get()).min(self.block),
        };
        let allowed = match advice {
            Advice::Claim(bytes) => bytes.saturating_sub(self.claiming).min(wanted).round_down(SMALLEST_CLAIM),
            Advice::Keep | Advice::GiveBack(_) => Bytes::ZERO,
        };
        // A goal given exactly is cut into equal blocks whatever the moment allows; so block `index` always covers the same
        // part of the test, and emulated faults planted there are planted.
        let enough = match self.goal {
            Goal::Free => allowed >= SMALLEST_CLAIM,
            Goal::Exactly(_) => wanted > Bytes::ZERO && allowed == wanted,
        };
        if enough {
            let index = self.next_index;
            self.next_index += 1;
            self.granted = Bytes::new(self.granted.get() + allowed.get());
            self.mapped = Bytes::new(self.mapped.get() + allowed.get());
            self.claiming = Bytes::new(self.claiming.get() + allowed.get());
            self.testing += 1;
            self.last_progress = now;
            return Some(Next::Claim { index, bytes: allowed });
        }
        let patient = matches!(self.goal, Goal::Exactly(_))
            && wanted > Bytes::ZERO
            && (self.testing > 0 || now.saturating_sub(self.last_progress) < Self::PATIENCE);
        let in_flight = self.claiming > Bytes::ZERO;
        if patient || (in_flight && wanted > Bytes::ZERO) {
            return Some(Next::Wait);
        }
        self.supply_ended = true;
        None
    }

    fn end_pass(&mut self) -> Next<B> {
        if self.held.is_empty() || self.passes.is_some_and(|passes| self.pass >= passes) {
            self.stopped = true;
            return Next::Finished;
        }
        self.pass += 1;
        self.untested.append(&mut self.held);
        let block = self.untested.pop_front().expect("blocks were held");
        self.testing += 1;
        Next::Again(block)
    }

    /// A claim of `bytes` is mapped: the machine's free memory shows it from now on.
    pub fn claimed(&mut self, bytes: Bytes) {
        self.claiming = self.claiming.saturating_sub(bytes);
    }

    /// A claim of `bytes` came to nothing: the kernel refused. No more is claimed.
    pub fn refused(&mut self, bytes: Bytes) {
        self.claimed(bytes);
        self.granted = self.granted.saturating_sub(bytes);
        self.mapped = self.mapped.saturating_sub(bytes);
        self.testing -= 1;
        self.supply_ended = true;
    }

    /// A block was tested, to the end or not, and is kept.
    pub fn hold(&mut self, block: B, now: Duration) {
        self.testing -= 1;
        self.last_progress = now;
        self.held.push_back(block);
    }

    /// A block of `bytes` is given back by its tester, in the middle of its test.
    pub fn dropped(&mut self, bytes: Bytes) {
        self.testing -= 1;
        self.mapped = self.mapped.saturating_sub(bytes);
    }

    /// Blocks to give back, of at least `bytes` in all if so many are not under test: tested ones first. `size` says how
    /// large a block is.
    pub fn give_back(&mut self, bytes: Bytes, size: impl Fn(&B) -> Bytes) -> Vec<B> {
        let mut given = Vec::new();
        let mut sum = 0;
        while sum < bytes.get() {
            let Some(block) = self.held.pop_front().or_else(|| self.untested.pop_back()) else { break };
            sum += size(&block).get();
            given.push(block);
        }
        self.mapped = self.mapped.saturating_sub(Bytes::new(sum));
        given
    }

    /// No more is begun.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    fn claim(ledger: &mut Ledger<u64>, free: u64) -> Option<(u64, Bytes)> {
        match ledger.next(Advice::Claim(MIB(free)), Duration::ZERO) {
            Next::Claim { index, bytes } => {
                ledger.claimed(bytes);
                Some((index, bytes))
            }
            _ => None,
        }
    }

    #[test]
    fn free_memory_is_claimed_block_by_block_to_the_last_huge_page() {
        let mut ledger = Ledger::new(Goal::Free, MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 100), Some((0, MIB(64))));
        assert_eq!(claim(&mut ledger, 37), Some((1, MIB(36))));
        assert_eq!(ledger.next(Advice::Keep, Duration::ZERO), Next::Wait, "two blocks are still under test");
        ledger.hold(0, Duration::ZERO);
        ledger.hold(1, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Keep, Duration::ZERO), Next::Finished);
        assert_eq!(ledger.granted(), MIB(100));
    }

    #[test]
    fn two_testers_do_not_claim_the_same_free_memory() {
        let mut ledger = Ledger::<u64>::new(Goal::Free, MIB(64), Some(1));
        let first = ledger.next(Advice::Claim(MIB(80)), Duration::ZERO);
        let second = ledger.next(Advice::Claim(MIB(80)), Duration::ZERO);
        assert_eq!(first, Next::Claim { index: 0, bytes: MIB(64) });
        assert_eq!(second, Next::Claim { index: 1, bytes: MIB(16) });
    }

    #[test]
    fn an_exact_goal_waits_for_its_memory_and_then_gives_up() {
        let mut ledger = Ledger::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 500), Some((0, MIB(64))));
        ledger.hold(0, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Claim(MIB(10)), Duration::from_secs(9)), Next::Wait);
        assert_eq!(ledger.next(Advice::Keep, Duration::from_secs(11)), Next::Finished);
        assert_eq!(ledger.granted(), MIB(64));
    }

    #[test]
    fn held_blocks_are_tested_again_pass_after_pass() {
        let mut ledger = Ledger::new(Goal::Exactly(MIB(128)), MIB(64), Some(3));
        let mut tested = Vec::new();
        loop {
            let block = match ledger.next(Advice::Claim(MIB(500)), Duration::ZERO) {
                Next::Claim { index, bytes } => {
                    ledger.claimed(bytes);
                    index
                }
                Next::Again(block) => block,
                Next::Wait => unreachable!("nothing is under test"),
                Next::Finished => break,
            };
            tested.push((ledger.pass(), block));
            ledger.hold(block, Duration::ZERO);
        }
        assert_eq!(tested, [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]);
    }

    #[test]
    fn under_pressure_the_tested_blocks_go_first() {
        let mut ledger = Ledger::new(Goal::Free, MIB(64), None);
        for index in 0..4 {
            assert_eq!(claim(&mut ledger, 64), Some((index, MIB(64))));
        }
        (0..3).for_each(|block| ledger.hold(block, Duration::ZERO));
        assert_eq!(ledger.give_back(MIB(65), |_| MIB(64)), [0, 1]);
        assert_eq!(ledger.give_back(MIB(999), |_| MIB(64)), [2], "block 3 is under test");
    }

    proptest! {
        /// Whatever the memory does, a pass ends, and no block index is given out twice.
        #[test]
        fn every_test_ends(frees in proptest::collection::vec(0_u64..200, 1..50), exact in any::<bool>()) {
            let goal = if exact { Goal::Exactly(MIB(512)) } else { Goal::Free };
            let mut ledger = Ledger::new(goal, MIB(64), Some(2));
            let mut seen = Vec::new();
            let mut finished = false;
            for step in 0..10_000_u64 {
                let free = frees.get(usize::try_from(step).unwrap()).copied().unwrap_or(0);
                let advice = if free < 20 { Advice::GiveBack(MIB(20 - free)) } else { Advice::Claim(MIB(free - 20)) };
                if let Advice::GiveBack(bytes) = advice {
                    ledger.give_back(bytes, |_| MIB(64));
                }
                match ledger.next(advice, Duration::from_millis(100 * step)) {
                    Next::Claim { index, bytes } => {
                        ledger.claimed(bytes);
                        seen.push(index);
                        ledger.hold(index, Duration::from_millis(100 * step));
                    }
                    Next::Again(block) => ledger.hold(block, Duration::from_millis(100 * step)),
                    Next::Wait => {}
                    Next::Finished => { finished = true; break; }
                }
            }
            prop_assert!(finished);
            prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
