//! The block schedule: which block is tested next, by whom, and when a pass is over.
//!
//! **Problem.** Several testers share one supply of blocks; memory comes and goes while they work; each frame should be
//! tested once per pass. **Idea.** A tested block is *held*, not given back, until the test ends: the kernel hands out
//! the most recently freed memory first, so a block that is given back would return at once and be tested twice. Under
//! pressure the held blocks go first: their work is done. Memory that was lost before its test is owed again, until the
//! request is tested, or until nothing can be had for a while. Between two stages of its test a block *rests*, and its
//! tester works on others. **Why this way.** The schedule is data and pure decisions, generic over the type of a block,
//! so a test of the policy needs no memory at all.

use std::collections::VecDeque;
use std::time::Duration;

use rampart_memory::Bytes;

use crate::machine::reserve::{Advice, SMALLEST_CLAIM};

/// The requested amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The claimable memory at the start of the test. Where memory is short a block may be smaller than the others.
    Free(Bytes),
    /// The named amount, in blocks of one size.
    Exactly(Bytes),
}

impl Goal {
    /// The amount.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Free(bytes) | Self::Exactly(bytes) => bytes,
        }
    }
}

/// Why a part of the request is not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It did not come free.
    NeverFree,
    /// Programs needed it back before it was tested.
    GivenBack,
    /// The kernel refused it.
    Refused,
}

/// A part of the request that is not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    index: u64,
    bytes: Bytes,
    why: Lack,
}

/// A block between two stages of its test.
#[derive(Debug)]
struct Resting<B> {
    until: Duration,
    /// Whether its march tests are complete, so that it may be given back.
    tested: bool,
    block: B,
}

/// A tester's next action.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<B> {
    /// Claim a new block of this size, the `index`th of the test, and test it.
    Claim {
        /// From 0; each index is given out once.
        index: u64,
        /// A multiple of [`SMALLEST_CLAIM`].
        bytes: Bytes,
    },
    /// Test this block once more.
    Again(B),
    /// Nothing at the moment.
    Wait,
    /// The test is over.
    Finished,
}

/// Blocks, passes, and the remaining work.
#[derive(Debug)]
pub struct BlockSchedule<B> {
    goal: Goal,
    passes: Option<u32>,
    pass: u32,
    granted: Bytes,
    mapped: Bytes,
    owed: VecDeque<Owed>,
    /// The next index of a block that is not a part of the original request.
    next_index: u64,
    claiming: Bytes,
    testing: usize,
    untested: VecDeque<B>,
    resting: VecDeque<Resting<B>>,
    held: VecDeque<B>,
    supply_ended: bool,
    /// The earliest time for a request to the kernel after a refusal.
    not_before: Duration,
    last_progress: Duration,
    stopped: bool,
}

impl<B> BlockSchedule<B> {
    /// How long to wait for promised memory that programs have taken.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// How long the kernel is left alone after it refused a claim.
    const AFTER_REFUSAL: Duration = Duration::from_secs(1);

    /// A test of `goal` in blocks of `block`, `passes` times over (`None`: until stopped).
    #[must_use]
    pub fn new(goal: Goal, block: Bytes, passes: Option<u32>) -> Self {
        assert!(block >= SMALLEST_CLAIM, "a block is at least a huge page");
        let blocks = goal.bytes().get().div_ceil(block.get());
        let part = |index| {
            let rest = Bytes::new(goal.bytes().get() - index * block.get());
            Owed { index, bytes: rest.min(block), why: Lack::NeverFree }
        };
        Self {
            goal,
            passes,
            pass: 1,
            granted: Bytes::ZERO,
            mapped: Bytes::ZERO,
            owed: (0..blocks).map(part).collect(),
            next_index: blocks,
            claiming: Bytes::ZERO,
            testing: 0,
            untested: VecDeque::new(),
            resting: VecDeque::new(),
            held: VecDeque::new(),
            supply_ended: false,
            not_before: Duration::ZERO,
            last_progress: Duration::ZERO,
            stopped: false,
        }
    }

    /// The present pass, from 1.
    #[must_use]
    pub const fn pass(&self) -> u32 {
        self.pass
    }

    /// The number of passes, if it was requested.
    #[must_use]
    pub const fn passes(&self) -> Option<u32> {
        self.passes
    }

    /// Memory claimed so far, without memory that was lost before it was tested.
    #[must_use]
    pub const fn granted(&self) -> Bytes {
        self.granted
    }

    /// Memory that is claimed, or being claimed, and not given back yet.
    #[must_use]
    pub const fn mapped(&self) -> Bytes {
        self.mapped
    }

    /// A tester's next action, at `now` since the start, with the advice on the machine's memory.
    pub fn next(&mut self, advice: Advice, now: Duration) -> Next<B> {
        if self.stopped {
            return Next::Finished;
        }
        if let Some(place) = self.resting.iter().position(|resting| resting.until <= now) {
            let rested = self.resting.remove(place).expect("a place in the list");
            self.testing += 1;
            return Next::Again(rested.block);
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
        if self.testing > 0 || !self.resting.is_empty() {
            return Next::Wait;
        }
        self.end_pass()
    }

    fn supply(&mut self, advice: Advice, now: Duration) -> Option<Next<B>> {
        if self.owed.is_empty() {
            return None;
        }
        let allowed = match advice {
            Advice::Claim(bytes) if now >= self.not_before => bytes.saturating_sub(self.claiming),
            _ => Bytes::ZERO,
        };
        if let Some(part) = self.claim(allowed) {
            let bytes = part.bytes.get();
            self.granted = Bytes::new(self.granted.get() + bytes);
            self.mapped = Bytes::new(self.mapped.get() + bytes);
            self.claiming = Bytes::new(self.claiming.get() + bytes);
            self.testing += 1;
            return Some(Next::Claim { index: part.index, bytes: part.bytes });
        }
        // Later passes use the memory that there is.
        let patient = self.pass == 1 && now.saturating_sub(self.last_progress) < Self::PATIENCE;
        if patient || self.claiming > Bytes::ZERO || (self.pass == 1 && self.testing > 0) {
            return Some(Next::Wait);
        }
        self.supply_ended = true;
        None
    }

    /// A part of the request that can be had. Block `index` always covers the same part, so its emulated faults are the
    /// same. Where the request is not exact, a part that does not fit is cut, once no other claim is under way: until
    /// then the memory looks smaller than it is.
    fn claim(&mut self, allowed: Bytes) -> Option<Owed> {
        if let Some(place) = self.owed.iter().position(|part| part.bytes <= allowed) {
            return self.owed.remove(place);
        }
        let most = allowed.round_down(SMALLEST_CLAIM);
        let may_cut = matches!(self.goal, Goal::Free(_)) && self.claiming == Bytes::ZERO && most > Bytes::ZERO;
        let part = self.owed.front_mut().filter(|_| may_cut)?;
        let cut = Owed { bytes: most, ..*part };
        *part = Owed { index: self.next_index, bytes: part.bytes.saturating_sub(most), why: part.why };
        self.next_index += 1;
        Some(cut)
    }

    fn end_pass(&mut self) -> Next<B> {
        if self.held.is_empty() || self.passes.is_some_and(|passes| self.pass >= passes) {
            self.stopped = true;
            return Next::Finished;
        }
        self.pass += 1;
        self.supply_ended = false;
        self.untested.append(&mut self.held);
        let block = self.untested.pop_front().expect("blocks were held");
        self.testing += 1;
        Next::Again(block)
    }

    /// A claim of `bytes` is mapped: it is no longer part of the machine's free memory.
    pub fn claimed(&mut self, bytes: Bytes) {
        self.claiming = self.claiming.saturating_sub(bytes);
    }

    /// The kernel refused a claim. It is asked again after a while.
    pub fn refused(&mut self, index: u64, bytes: Bytes, now: Duration) {
        self.claimed(bytes);
        self.testing -= 1;
        self.mapped = self.mapped.saturating_sub(bytes);
        self.not_before = now + Self::AFTER_REFUSAL;
        self.owe(index, bytes, Lack::Refused);
    }

    /// A block was given back before it was tested: its part of the request remains to be tested.
    pub fn lost(&mut self, index: u64, bytes: Bytes) {
        self.owe(index, bytes, Lack::GivenBack);
    }

    fn owe(&mut self, index: u64, bytes: Bytes, why: Lack) {
        self.granted = self.granted.saturating_sub(bytes);
        self.owed.push_back(Owed { index, bytes, why });
    }

    /// A block was tested to its end, or its test was stopped; it is held.
    pub fn hold(&mut self, block: B, now: Duration) {
        self.testing -= 1;
        self.last_progress = now;
        self.held.push_back(block);
    }

    /// A block must be tested once more in this pass.
    pub fn again(&mut self, block: B) {
        self.testing -= 1;
        self.untested.push_back(block);
    }

    /// A block rests until then; `tested` says whether its march tests are complete.
    pub fn rest(&mut self, block: B, tested: bool, now: Duration, until: Duration) {
        self.testing -= 1;
        self.last_progress = now;
        self.resting.push_back(Resting { until, tested, block });
    }

    /// Its tester gives a block of `bytes` back, in the middle of its test.
    pub fn dropped(&mut self, bytes: Bytes) {
        self.testing -= 1;
        self.mapped = self.mapped.saturating_sub(bytes);
    }

    /// Blocks to give back, of at least `bytes` in all if enough are not under test: tested ones first. `size` returns
    /// the size of a block.
    pub fn give_back(&mut self, bytes: Bytes, size: impl Fn(&B) -> Bytes) -> Vec<B> {
        let mut given = Vec::new();
        let mut sum = 0;
        while sum < bytes.get() {
            let Some(block) = self.least_missed() else { break };
            sum += size(&block).get();
            given.push(block);
        }
        self.mapped = self.mapped.saturating_sub(Bytes::new(sum));
        given
    }

    /// The block with the least work to lose.
    fn least_missed(&mut self) -> Option<B> {
        let whole = |this: &Self| this.resting.iter().position(|resting| resting.tested);
        if let Some(block) = self.held.pop_front() {
            return Some(block);
        }
        if let Some(place) = whole(self) {
            return self.resting.remove(place).map(|resting| resting.block);
        }
        self.untested.pop_back().or_else(|| self.resting.pop_back().map(|resting| resting.block))
    }

    /// All blocks that nobody tests, at the end.
    pub fn take_all(&mut self) -> Vec<B> {
        let resting = self.resting.drain(..).map(|resting| resting.block);
        self.held.drain(..).chain(self.untested.drain(..)).chain(resting).collect()
    }

    /// Whether a part of the request is not claimed.
    #[must_use]
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// How much of the request is not claimed, for this reason.
    #[must_use]
    pub fn lacks(&self, why: Lack) -> Bytes {
        Bytes::new(self.owed.iter().filter(|part| part.why == why).map(|part| part.bytes.get()).sum())
    }

    /// Nothing more is begun.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;
    const SECOND: Duration = Duration::from_secs(1);

    fn claim(ledger: &mut BlockSchedule<u64>, free: u64) -> Option<(u64, Bytes)> {
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
        let mut ledger = BlockSchedule::new(Goal::Free(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 100), Some((0, MIB(64))));
        assert_eq!(claim(&mut ledger, 37), Some((1, MIB(36))));
        assert_eq!(ledger.next(Advice::Keep, Duration::ZERO), Next::Wait, "two blocks are still under test");
        ledger.hold(0, Duration::ZERO);
        ledger.hold(1, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Keep, SECOND), Next::Wait, "the rest may come free");
        assert_eq!(ledger.next(Advice::Claim(MIB(3)), SECOND), Next::Claim { index: 2, bytes: MIB(2) });
        ledger.claimed(MIB(2));
        ledger.hold(2, SECOND);
        assert_eq!(ledger.next(Advice::Keep, SECOND + BlockSchedule::<u64>::PATIENCE), Next::Finished);
        assert_eq!((ledger.granted(), ledger.lacks(Lack::NeverFree)), (MIB(102), MIB(26)));
    }

    #[test]
    fn what_is_tested_as_requested_ends_without_a_wait() {
        let mut ledger = BlockSchedule::new(Goal::Free(MIB(66)), MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 500), Some((0, MIB(64))));
        assert!(ledger.owes());
        assert_eq!(claim(&mut ledger, 500), Some((1, MIB(2))));
        assert!(!ledger.owes());
        assert_eq!(claim(&mut ledger, 500), None, "no more than was requested");
        ledger.hold(0, Duration::ZERO);
        ledger.hold(1, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Claim(MIB(500)), Duration::ZERO), Next::Finished);
    }

    #[test]
    fn what_was_given_back_or_refused_is_claimed_again_when_it_comes_free() {
        for goal in [Goal::Free(MIB(128)), Goal::Exactly(MIB(128))] {
            let mut ledger = BlockSchedule::<u64>::new(goal, MIB(64), Some(1));
            assert_eq!(claim(&mut ledger, 500), Some((0, MIB(64))));
            ledger.dropped(MIB(64));
            ledger.lost(0, MIB(64));
            assert_eq!(ledger.next(Advice::Claim(MIB(500)), SECOND), Next::Claim { index: 1, bytes: MIB(64) });
            ledger.refused(1, MIB(64), SECOND);
            assert_eq!((ledger.granted(), ledger.mapped()), (Bytes::ZERO, Bytes::ZERO));
            assert_eq!([Lack::GivenBack, Lack::Refused].map(|why| ledger.lacks(why)), [MIB(64); 2]);
            assert_eq!(ledger.next(Advice::Claim(MIB(500)), SECOND), Next::Wait, "the kernel is left alone");
            let again = [0, 1].map(|index| {
                let next = ledger.next(Advice::Claim(MIB(500)), 2 * SECOND);
                assert_eq!(next, Next::Claim { index, bytes: MIB(64) });
                ledger.claimed(MIB(64));
                ledger.hold(index, 2 * SECOND);
                index
            });
            assert_eq!(ledger.next(Advice::Claim(MIB(500)), 2 * SECOND), Next::Finished);
            assert_eq!((again, ledger.granted()), ([0, 1], MIB(128)));
        }
    }

    #[test]
    fn a_kernel_that_goes_on_to_refuse_is_not_asked_for_ever() {
        let mut ledger = BlockSchedule::<u64>::new(Goal::Free(MIB(128)), MIB(64), Some(1));
        let mut asked = 0;
        let ended = (0..1000).find(|tenths| {
            let now = SECOND / 10 * *tenths;
            match ledger.next(Advice::Claim(MIB(500)), now) {
                Next::Claim { index, bytes } => {
                    asked += 1;
                    ledger.refused(index, bytes, now);
                    false
                }
                next => next == Next::Finished,
            }
        });
        assert_eq!((ended, asked), (Some(101), 11), "once a second, as long as the test is patient");
        assert_eq!(ledger.lacks(Lack::Refused), MIB(128));
    }

    #[test]
    fn a_block_rests_while_others_are_tested_and_the_pass_waits_for_it() {
        let mut ledger = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 500), Some((0, MIB(64))));
        ledger.rest(0, false, Duration::ZERO, SECOND);
        assert_eq!(claim(&mut ledger, 500), Some((1, MIB(64))));
        ledger.hold(1, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Keep, SECOND / 2), Next::Wait);
        assert_eq!(ledger.next(Advice::Keep, SECOND), Next::Again(0));
        ledger.rest(0, true, SECOND, 2 * SECOND);
        assert_eq!(ledger.next(Advice::Keep, 2 * SECOND), Next::Again(0));
        ledger.hold(0, 2 * SECOND);
        assert_eq!(ledger.next(Advice::Keep, 2 * SECOND), Next::Finished);
    }

    #[test]
    fn of_resting_blocks_those_that_are_tested_are_given_back_first() {
        let mut ledger = BlockSchedule::new(Goal::Exactly(MIB(320)), MIB(64), Some(1));
        (0..4).for_each(|index| assert_eq!(claim(&mut ledger, 500), Some((index, MIB(64)))));
        ledger.rest(0, false, Duration::ZERO, SECOND);
        ledger.rest(1, true, Duration::ZERO, SECOND);
        ledger.hold(2, Duration::ZERO);
        ledger.again(3);
        assert_eq!(ledger.give_back(MIB(999), |_| MIB(64)), [2, 1, 3, 0]);
        assert_eq!(ledger.mapped(), Bytes::ZERO);
    }

    #[test]
    fn two_testers_do_not_claim_the_same_free_memory() {
        let mut ledger = BlockSchedule::<u64>::new(Goal::Free(MIB(80)), MIB(64), Some(1));
        let first = ledger.next(Advice::Claim(MIB(80)), Duration::ZERO);
        let second = ledger.next(Advice::Claim(MIB(80)), Duration::ZERO);
        assert_eq!(first, Next::Claim { index: 0, bytes: MIB(64) });
        assert_eq!(second, Next::Claim { index: 1, bytes: MIB(16) });
        assert_eq!(ledger.next(Advice::Claim(MIB(80)), Duration::ZERO), Next::Wait);
    }

    #[test]
    fn an_exact_goal_waits_for_its_memory_and_then_gives_up() {
        let mut ledger = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut ledger, 500), Some((0, MIB(64))));
        ledger.hold(0, Duration::ZERO);
        assert_eq!(ledger.next(Advice::Claim(MIB(10)), Duration::from_secs(9)), Next::Wait);
        assert_eq!(ledger.next(Advice::Keep, Duration::from_secs(11)), Next::Finished);
        assert_eq!(ledger.granted(), MIB(64));
    }

    #[test]
    fn held_blocks_are_tested_again_pass_after_pass() {
        let mut ledger = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(3));
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
        let mut ledger = BlockSchedule::new(Goal::Free(MIB(256)), MIB(64), None);
        for index in 0..4 {
            assert_eq!(claim(&mut ledger, 64), Some((index, MIB(64))));
        }
        (0..3).for_each(|block| ledger.hold(block, Duration::ZERO));
        assert_eq!(ledger.give_back(MIB(65), |_| MIB(64)), [0, 1]);
        assert_eq!(ledger.give_back(MIB(999), |_| MIB(64)), [2], "block 3 is under test");
    }

    proptest! {
        /// Whatever the memory does, a pass ends, no part of the request is claimed twice, and none is forgotten.
        #[test]
        fn every_test_ends(frees in proptest::collection::vec(0_u64..200, 1..50), exact in any::<bool>()) {
            let goal = if exact { Goal::Exactly(MIB(512)) } else { Goal::Free(MIB(512)) };
            let mut ledger = BlockSchedule::new(goal, MIB(64), Some(2));
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
            prop_assert!(seen.iter().all(|index| seen.iter().filter(|other| *other == index).count() == 1));
            prop_assert_eq!(ledger.granted().get() + ledger.lacks(Lack::NeverFree).get(), MIB(512).get());
        }
    }
}
