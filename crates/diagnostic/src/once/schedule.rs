//! The block schedule: decides which block each tester tests next, and when a pass is over.
//!
//! **Problem.** Several testers share one supply of blocks; memory comes and goes while they work; each frame should be
//! tested once a pass. **Idea.** A tested block is *held* until the test ends: the kernel hands out recently freed
//! memory first, so a block given back would come straight back and be tested twice. Under memory pressure the held
//! blocks are given back first, because their test is done. A block that was lost before its test is claimed again,
//! until the whole request is tested or no memory comes free for a while. Between two stages of its test a block
//! *rests*, and its tester tests others meanwhile. **Why this way.** The schedule is data and pure decisions, generic
//! over the block type, so its tests need no memory at all.

use std::collections::VecDeque;
use std::time::Duration;

use rampart_memory::Bytes;

use crate::machine::reserve::{Advice, SMALLEST_CLAIM};

/// The amount of memory to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// All memory that could be claimed when the test started. Where memory is short, a block may be smaller than the
    /// others.
    Free(Bytes),
    /// The amount that the user asked for, in blocks of one size.
    Exactly(Bytes),
}

impl Goal {
    /// The number of bytes.
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
struct Unclaimed {
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

/// The next step of a tester.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<B> {
    /// Claim a new block of this size, the `index`th of the test, and test it.
    Claim {
        /// Starts at 0; each index is used once.
        index: u64,
        /// A multiple of [`SMALLEST_CLAIM`].
        bytes: Bytes,
    },
    /// Test this block again.
    Again(B),
    /// Nothing to do at the moment.
    Wait,
    /// The test is over.
    Finished,
}

/// The blocks, the pass, and the work that remains.
#[derive(Debug)]
pub struct BlockSchedule<B> {
    goal: Goal,
    passes: Option<u32>,
    pass: u32,
    granted: Bytes,
    mapped: Bytes,
    unclaimed: VecDeque<Unclaimed>,
    /// The index of the next block that is cut from a part of the request.
    next_index: u64,
    claiming: Bytes,
    testing: usize,
    untested: VecDeque<B>,
    resting: VecDeque<Resting<B>>,
    held: VecDeque<B>,
    supply_ended: bool,
    /// The earliest time of the next claim after a refusal.
    not_before: Duration,
    last_progress: Duration,
    stopped: bool,
}

impl<B> BlockSchedule<B> {
    /// How long to wait for memory that was claimable at the start and that programs took since.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// The pause after the kernel refused a claim.
    const AFTER_REFUSAL: Duration = Duration::from_secs(1);

    /// Schedules a test of `goal` in blocks of `block`, repeated `passes` times (`None`: until stopped).
    #[must_use]
    pub fn new(goal: Goal, block: Bytes, passes: Option<u32>) -> Self {
        assert!(block >= SMALLEST_CLAIM, "a block is at least a huge page");
        let blocks = goal.bytes().get().div_ceil(block.get());
        let part = |index| {
            let rest = Bytes::new(goal.bytes().get() - index * block.get());
            Unclaimed { index, bytes: rest.min(block), why: Lack::NeverFree }
        };
        Self {
            goal,
            passes,
            pass: 1,
            granted: Bytes::ZERO,
            mapped: Bytes::ZERO,
            unclaimed: (0..blocks).map(part).collect(),
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

    /// The current pass, from 1.
    #[must_use]
    pub const fn pass(&self) -> u32 {
        self.pass
    }

    /// The requested number of passes, if there is one.
    #[must_use]
    pub const fn passes(&self) -> Option<u32> {
        self.passes
    }

    /// Memory claimed so far, without blocks that were lost before their test.
    #[must_use]
    pub const fn granted(&self) -> Bytes {
        self.granted
    }

    /// Memory that is claimed, or being claimed, and not given back yet.
    #[must_use]
    pub const fn mapped(&self) -> Bytes {
        self.mapped
    }

    /// Returns a tester's next step at `now` (since the start), given how much memory may be claimed.
    pub fn next(&mut self, advice: Advice, now: Duration) -> Next<B> {
        if self.stopped {
            return Next::Finished;
        }
        if let Some(index) = self.resting.iter().position(|resting| resting.until <= now) {
            let rested = self.resting.remove(index).expect("a place in the list");
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
        if self.unclaimed.is_empty() {
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
        // Later passes test only the blocks that are held.
        let patient = self.pass == 1 && now.saturating_sub(self.last_progress) < Self::PATIENCE;
        if patient || self.claiming > Bytes::ZERO || (self.pass == 1 && self.testing > 0) {
            return Some(Next::Wait);
        }
        self.supply_ended = true;
        None
    }

    /// Takes a part of the request that fits into `allowed`. Block `index` always covers the same part, so that its
    /// injected faults stay the same. If the request is not exact, a part that does not fit is cut, once no other claim
    /// is on its way: until then the memory looks shorter than it is.
    fn claim(&mut self, allowed: Bytes) -> Option<Unclaimed> {
        if let Some(index) = self.unclaimed.iter().position(|part| part.bytes <= allowed) {
            return self.unclaimed.remove(index);
        }
        let available = allowed.round_down(SMALLEST_CLAIM);
        let may_cut = matches!(self.goal, Goal::Free(_)) && self.claiming == Bytes::ZERO && available > Bytes::ZERO;
        let part = self.unclaimed.front_mut().filter(|_| may_cut)?;
        let cut = Unclaimed { bytes: available, ..*part };
        *part = Unclaimed { index: self.next_index, bytes: part.bytes.saturating_sub(available), why: part.why };
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

    /// Records that a claim of `bytes` is mapped: the machine's free memory reflects it from now on.
    pub fn claimed(&mut self, bytes: Bytes) {
        self.claiming = self.claiming.saturating_sub(bytes);
    }

    /// Records that the kernel refused a claim. The claim is repeated after a while.
    pub fn refused(&mut self, index: u64, bytes: Bytes, now: Duration) {
        self.claimed(bytes);
        self.testing -= 1;
        self.mapped = self.mapped.saturating_sub(bytes);
        self.not_before = now + Self::AFTER_REFUSAL;
        self.add_unclaimed(index, bytes, Lack::Refused);
    }

    /// Records that a block was given back before its test: its part of the request must be claimed again.
    pub fn lost(&mut self, index: u64, bytes: Bytes) {
        self.add_unclaimed(index, bytes, Lack::GivenBack);
    }

    fn add_unclaimed(&mut self, index: u64, bytes: Bytes, why: Lack) {
        self.granted = self.granted.saturating_sub(bytes);
        self.unclaimed.push_back(Unclaimed { index, bytes, why });
    }

    /// Holds a block whose test is complete or was stopped.
    pub fn hold(&mut self, block: B, now: Duration) {
        self.testing -= 1;
        self.last_progress = now;
        self.held.push_back(block);
    }

    /// Queues a block that must be tested again in this pass.
    pub fn again(&mut self, block: B) {
        self.testing -= 1;
        self.untested.push_back(block);
    }

    /// Lets a block rest until `until`; `tested` says whether its march tests are complete.
    pub fn rest(&mut self, block: B, tested: bool, now: Duration, until: Duration) {
        self.testing -= 1;
        self.last_progress = now;
        self.resting.push_back(Resting { until, tested, block });
    }

    /// Records that a tester gave back a block of `bytes` during its test.
    pub fn dropped(&mut self, bytes: Bytes) {
        self.testing -= 1;
        self.mapped = self.mapped.saturating_sub(bytes);
    }

    /// Takes blocks to give back, tested ones first: at least `bytes` in all, or every block that is not under test.
    /// `size` returns the size of a block.
    pub fn give_back(&mut self, bytes: Bytes, size: impl Fn(&B) -> Bytes) -> Vec<B> {
        let mut given = Vec::new();
        let mut sum = 0;
        while sum < bytes.get() {
            let Some(block) = self.cheapest_to_lose() else { break };
            sum += size(&block).get();
            given.push(block);
        }
        self.mapped = self.mapped.saturating_sub(Bytes::new(sum));
        given
    }

    /// Takes the block that loses the least work.
    fn cheapest_to_lose(&mut self) -> Option<B> {
        let tested = |this: &Self| this.resting.iter().position(|resting| resting.tested);
        if let Some(block) = self.held.pop_front() {
            return Some(block);
        }
        if let Some(index) = tested(self) {
            return self.resting.remove(index).map(|resting| resting.block);
        }
        self.untested.pop_back().or_else(|| self.resting.pop_back().map(|resting| resting.block))
    }

    /// Takes all blocks that are not under test, at the end.
    pub fn take_all(&mut self) -> Vec<B> {
        let resting = self.resting.drain(..).map(|resting| resting.block);
        self.held.drain(..).chain(self.untested.drain(..)).chain(resting).collect()
    }

    /// Whether a part of the request is not claimed.
    #[must_use]
    pub fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    /// The part of the request that is not claimed for this reason, in bytes.
    #[must_use]
    pub fn lacks(&self, why: Lack) -> Bytes {
        Bytes::new(self.unclaimed.iter().filter(|part| part.why == why).map(|part| part.bytes.get()).sum())
    }

    /// Ends the test: no tester gets another block.
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

    fn claim(schedule: &mut BlockSchedule<u64>, free: u64) -> Option<(u64, Bytes)> {
        match schedule.next(Advice::Claim(MIB(free)), Duration::ZERO) {
            Next::Claim { index, bytes } => {
                schedule.claimed(bytes);
                Some((index, bytes))
            }
            _ => None,
        }
    }

    #[test]
    fn free_memory_is_claimed_block_by_block_to_the_last_huge_page() {
        let mut schedule = BlockSchedule::new(Goal::Free(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 100), Some((0, MIB(64))));
        assert_eq!(claim(&mut schedule, 37), Some((1, MIB(36))));
        assert_eq!(schedule.next(Advice::Keep, Duration::ZERO), Next::Wait, "two blocks are still under test");
        schedule.hold(0, Duration::ZERO);
        schedule.hold(1, Duration::ZERO);
        assert_eq!(schedule.next(Advice::Keep, SECOND), Next::Wait, "the rest may come free");
        assert_eq!(schedule.next(Advice::Claim(MIB(3)), SECOND), Next::Claim { index: 2, bytes: MIB(2) });
        schedule.claimed(MIB(2));
        schedule.hold(2, SECOND);
        assert_eq!(schedule.next(Advice::Keep, SECOND + BlockSchedule::<u64>::PATIENCE), Next::Finished);
        assert_eq!((schedule.granted(), schedule.lacks(Lack::NeverFree)), (MIB(102), MIB(26)));
    }

    #[test]
    fn what_is_tested_as_requested_ends_without_a_wait() {
        let mut schedule = BlockSchedule::new(Goal::Free(MIB(66)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 500), Some((0, MIB(64))));
        assert!(schedule.has_unclaimed());
        assert_eq!(claim(&mut schedule, 500), Some((1, MIB(2))));
        assert!(!schedule.has_unclaimed());
        assert_eq!(claim(&mut schedule, 500), None, "no more than was requested");
        schedule.hold(0, Duration::ZERO);
        schedule.hold(1, Duration::ZERO);
        assert_eq!(schedule.next(Advice::Claim(MIB(500)), Duration::ZERO), Next::Finished);
    }

    #[test]
    fn what_was_given_back_or_refused_is_claimed_again_when_it_comes_free() {
        for goal in [Goal::Free(MIB(128)), Goal::Exactly(MIB(128))] {
            let mut schedule = BlockSchedule::<u64>::new(goal, MIB(64), Some(1));
            assert_eq!(claim(&mut schedule, 500), Some((0, MIB(64))));
            schedule.dropped(MIB(64));
            schedule.lost(0, MIB(64));
            assert_eq!(schedule.next(Advice::Claim(MIB(500)), SECOND), Next::Claim { index: 1, bytes: MIB(64) });
            schedule.refused(1, MIB(64), SECOND);
            assert_eq!((schedule.granted(), schedule.mapped()), (Bytes::ZERO, Bytes::ZERO));
            assert_eq!([Lack::GivenBack, Lack::Refused].map(|why| schedule.lacks(why)), [MIB(64); 2]);
            assert_eq!(schedule.next(Advice::Claim(MIB(500)), SECOND), Next::Wait, "the kernel is left alone");
            let again = [0, 1].map(|index| {
                let next = schedule.next(Advice::Claim(MIB(500)), 2 * SECOND);
                assert_eq!(next, Next::Claim { index, bytes: MIB(64) });
                schedule.claimed(MIB(64));
                schedule.hold(index, 2 * SECOND);
                index
            });
            assert_eq!(schedule.next(Advice::Claim(MIB(500)), 2 * SECOND), Next::Finished);
            assert_eq!((again, schedule.granted()), ([0, 1], MIB(128)));
        }
    }

    #[test]
    fn a_kernel_that_goes_on_to_refuse_is_not_asked_for_ever() {
        let mut schedule = BlockSchedule::<u64>::new(Goal::Free(MIB(128)), MIB(64), Some(1));
        let mut asked = 0;
        let ended = (0..1000).find(|tenths| {
            let now = SECOND / 10 * *tenths;
            match schedule.next(Advice::Claim(MIB(500)), now) {
                Next::Claim { index, bytes } => {
                    asked += 1;
                    schedule.refused(index, bytes, now);
                    false
                }
                next => next == Next::Finished,
            }
        });
        assert_eq!((ended, asked), (Some(101), 11), "once a second, as long as the test is patient");
        assert_eq!(schedule.lacks(Lack::Refused), MIB(128));
    }

    #[test]
    fn a_block_rests_while_others_are_tested_and_the_pass_waits_for_it() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 500), Some((0, MIB(64))));
        schedule.rest(0, false, Duration::ZERO, SECOND);
        assert_eq!(claim(&mut schedule, 500), Some((1, MIB(64))));
        schedule.hold(1, Duration::ZERO);
        assert_eq!(schedule.next(Advice::Keep, SECOND / 2), Next::Wait);
        assert_eq!(schedule.next(Advice::Keep, SECOND), Next::Again(0));
        schedule.rest(0, true, SECOND, 2 * SECOND);
        assert_eq!(schedule.next(Advice::Keep, 2 * SECOND), Next::Again(0));
        schedule.hold(0, 2 * SECOND);
        assert_eq!(schedule.next(Advice::Keep, 2 * SECOND), Next::Finished);
    }

    #[test]
    fn of_resting_blocks_those_that_are_tested_are_given_back_first() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(320)), MIB(64), Some(1));
        (0..4).for_each(|index| assert_eq!(claim(&mut schedule, 500), Some((index, MIB(64)))));
        schedule.rest(0, false, Duration::ZERO, SECOND);
        schedule.rest(1, true, Duration::ZERO, SECOND);
        schedule.hold(2, Duration::ZERO);
        schedule.again(3);
        assert_eq!(schedule.give_back(MIB(999), |_| MIB(64)), [2, 1, 3, 0]);
        assert_eq!(schedule.mapped(), Bytes::ZERO);
    }

    #[test]
    fn two_testers_do_not_claim_the_same_free_memory() {
        let mut schedule = BlockSchedule::<u64>::new(Goal::Free(MIB(80)), MIB(64), Some(1));
        let first = schedule.next(Advice::Claim(MIB(80)), Duration::ZERO);
        let second = schedule.next(Advice::Claim(MIB(80)), Duration::ZERO);
        assert_eq!(first, Next::Claim { index: 0, bytes: MIB(64) });
        assert_eq!(second, Next::Claim { index: 1, bytes: MIB(16) });
        assert_eq!(schedule.next(Advice::Claim(MIB(80)), Duration::ZERO), Next::Wait);
    }

    #[test]
    fn an_exact_goal_waits_for_its_memory_and_then_gives_up() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 500), Some((0, MIB(64))));
        schedule.hold(0, Duration::ZERO);
        assert_eq!(schedule.next(Advice::Claim(MIB(10)), Duration::from_secs(9)), Next::Wait);
        assert_eq!(schedule.next(Advice::Keep, Duration::from_secs(11)), Next::Finished);
        assert_eq!(schedule.granted(), MIB(64));
    }

    #[test]
    fn held_blocks_are_tested_again_pass_after_pass() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(3));
        let mut tested = Vec::new();
        loop {
            let block = match schedule.next(Advice::Claim(MIB(500)), Duration::ZERO) {
                Next::Claim { index, bytes } => {
                    schedule.claimed(bytes);
                    index
                }
                Next::Again(block) => block,
                Next::Wait => unreachable!("nothing is under test"),
                Next::Finished => break,
            };
            tested.push((schedule.pass(), block));
            schedule.hold(block, Duration::ZERO);
        }
        assert_eq!(tested, [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]);
    }

    #[test]
    fn under_pressure_the_tested_blocks_go_first() {
        let mut schedule = BlockSchedule::new(Goal::Free(MIB(256)), MIB(64), None);
        for index in 0..4 {
            assert_eq!(claim(&mut schedule, 64), Some((index, MIB(64))));
        }
        (0..3).for_each(|block| schedule.hold(block, Duration::ZERO));
        assert_eq!(schedule.give_back(MIB(65), |_| MIB(64)), [0, 1]);
        assert_eq!(schedule.give_back(MIB(999), |_| MIB(64)), [2], "block 3 is under test");
    }

    #[test]
    fn memory_that_a_claim_is_about_to_take_is_not_promised_twice() {
        let mut schedule = BlockSchedule::<u64>::new(Goal::Exactly(MIB(192)), MIB(64), Some(2));
        assert_eq!(schedule.passes(), Some(2));
        let next = |schedule: &mut BlockSchedule<u64>, free| schedule.next(Advice::Claim(MIB(free)), Duration::ZERO);
        assert_eq!(next(&mut schedule, 127), Next::Claim { index: 0, bytes: MIB(64) });
        assert_eq!(next(&mut schedule, 127), Next::Wait);
        assert_eq!(next(&mut schedule, 128), Next::Claim { index: 1, bytes: MIB(64) });
        assert_eq!((schedule.mapped(), schedule.granted()), (MIB(128), MIB(128)));
        assert_eq!(next(&mut schedule, 191), Next::Wait, "both are still on their way");
    }

    #[test]
    fn while_a_block_is_under_test_the_first_pass_waits_for_memory() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(128)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 64), Some((0, MIB(64))));
        assert_eq!(schedule.next(Advice::Keep, 20 * SECOND), Next::Wait, "its test takes long");
        assert_eq!(schedule.next(Advice::Claim(MIB(64)), 21 * SECOND), Next::Claim { index: 1, bytes: MIB(64) });
    }

    #[test]
    fn a_claim_of_a_later_pass_that_is_refused_is_tried_again_in_it() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(192)), MIB(64), Some(2));
        assert_eq!(claim(&mut schedule, 64), Some((0, MIB(64))));
        schedule.hold(0, Duration::ZERO);
        let late = 20 * SECOND;
        assert_eq!(schedule.next(Advice::Keep, late), Next::Again(0), "the second pass begins");
        assert_eq!(schedule.next(Advice::Claim(MIB(64)), late), Next::Claim { index: 1, bytes: MIB(64) });
        assert_eq!(schedule.next(Advice::Keep, late), Next::Wait, "another claim is on its way");
        schedule.refused(1, MIB(64), late);
        assert_eq!(schedule.next(Advice::Claim(MIB(64)), 2 * late), Next::Claim { index: 2, bytes: MIB(64) });
    }

    #[test]
    fn a_block_to_test_again_is_tested_in_the_same_pass() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(64)), MIB(64), Some(1));
        assert_eq!(claim(&mut schedule, 64), Some((0, MIB(64))));
        schedule.again(0);
        assert_eq!(schedule.next(Advice::Keep, Duration::ZERO), Next::Again(0));
        schedule.hold(0, Duration::ZERO);
        assert_eq!(schedule.next(Advice::Keep, Duration::ZERO), Next::Finished);
    }

    #[test]
    fn no_more_is_given_back_than_is_needed_and_the_rest_is_there_at_the_end() {
        let mut schedule = BlockSchedule::new(Goal::Exactly(MIB(320)), MIB(64), None);
        (0..5).for_each(|index| assert_eq!(claim(&mut schedule, 500), Some((index, MIB(64)))));
        (0..3).for_each(|index| schedule.hold(index, Duration::ZERO));
        schedule.again(3);
        schedule.rest(4, false, Duration::ZERO, SECOND);
        assert_eq!(schedule.give_back(MIB(128), |_| MIB(64)), [0, 1]);
        schedule.stop();
        assert_eq!(schedule.next(Advice::Keep, SECOND), Next::Finished);
        assert_eq!(schedule.take_all(), [2, 3, 4]);
    }

    proptest! {
        /// However free memory changes, each pass ends, no part of the request is claimed twice, and none is forgotten.
        #[test]
        fn every_test_ends(frees in proptest::collection::vec(0_u64..200, 1..50), exact in any::<bool>()) {
            let goal = if exact { Goal::Exactly(MIB(512)) } else { Goal::Free(MIB(512)) };
            let mut schedule = BlockSchedule::new(goal, MIB(64), Some(2));
            let mut seen = Vec::new();
            let mut finished = false;
            for step in 0..10_000_u64 {
                let free = frees.get(usize::try_from(step).unwrap()).copied().unwrap_or(0);
                let advice = if free < 20 { Advice::GiveBack(MIB(20 - free)) } else { Advice::Claim(MIB(free - 20)) };
                if let Advice::GiveBack(bytes) = advice {
                    schedule.give_back(bytes, |_| MIB(64));
                }
                match schedule.next(advice, Duration::from_millis(100 * step)) {
                    Next::Claim { index, bytes } => {
                        schedule.claimed(bytes);
                        seen.push(index);
                        schedule.hold(index, Duration::from_millis(100 * step));
                    }
                    Next::Again(block) => schedule.hold(block, Duration::from_millis(100 * step)),
                    Next::Wait => {}
                    Next::Finished => { finished = true; break; }
                }
            }
            prop_assert!(finished);
            prop_assert!(seen.iter().all(|index| seen.iter().filter(|other| *other == index).count() == 1));
            prop_assert_eq!(schedule.granted().get() + schedule.lacks(Lack::NeverFree).get(), MIB(512).get());
        }
    }
}
