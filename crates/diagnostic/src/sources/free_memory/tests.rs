//! The pool over a fake kernel, in simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rampart_memory::{
    BlockVerdict, Bytes, Fidelity, Frame, FrameRange, FrameSource, TestBench, TestLifetime, Timestamp,
};

use super::fake_kernel::FakeKernel;
use super::{Ages, FreeMemoryPool, PoolNews, Step};
use crate::control::PolicyName;
use crate::control::suite::{self, SimulatedSource};
use crate::machine::reserve::MemoryReserve;

use super::Kernel;

const MIB: fn(u64) -> Bytes = Bytes::from_mib;

fn start() -> Timestamp {
    Timestamp::from_micros(1 << 50)
}

fn at(seconds: u64) -> Timestamp {
    start().after(Duration::from_secs(seconds))
}

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

/// Lifetime 1000 s, δ 40 s.
fn bound() -> TestLifetime {
    TestLifetime::new(Duration::from_secs(1000), Duration::from_secs(40)).unwrap()
}

fn pool(kernel: FakeKernel) -> FreeMemoryPool<FakeKernel> {
    FreeMemoryPool::new(kernel, MIB(4), bound(), Ages::new(start()), [], start())
}

/// Tests every step that the pool hands out at `now`, until it hands out no more. Returns the frames in the order of
/// their tests.
fn sweep(pool: &mut FreeMemoryPool<FakeKernel>, bad: &BTreeSet<Frame>, now: Timestamp) -> Vec<Frame> {
    let mut tested = Vec::new();
    for _ in 0..200 {
        let list = pool.lists()[0];
        for mut step in pool.take(list, 1 << 20, now) {
            tested.extend(&step.region);
            let verdict = Bench(bad.clone()).test(&mut step, Fidelity::MIN);
            pool.give_back(step, verdict, now);
        }
    }
    tested
}

/// A test bench that finds these frames bad.
struct Bench(BTreeSet<Frame>);

impl TestBench<Step<Vec<Frame>>> for Bench {
    fn test(&mut self, block: &mut Step<Vec<Frame>>, _fidelity: Fidelity) -> BlockVerdict {
        block.frames = block.region.iter().copied().map(Some).collect();
        let bad: Vec<_> = block.region.iter().copied().filter(|frame| self.0.contains(frame)).collect();
        if bad.is_empty() { BlockVerdict::Good } else { BlockVerdict::Failed(bad) }
    }
}

impl SimulatedSource for FreeMemoryPool<FakeKernel> {
    /// A program that allocates and frees a quarter of the memory, every 30 seconds.
    fn advance_to(&mut self, now: Timestamp) {
        self.relieve();
        let phase = now.micros() / 1_000_000 % 30;
        if phase < 15 {
            self.kernel.allocate(MIB(1));
        } else {
            self.kernel.deallocate(MIB(1));
        }
    }

    fn frames_of(&self, block: &Self::Block) -> Vec<Frame> {
        block.region.clone()
    }
}

#[test]
fn every_policy_keeps_the_promises_of_a_source_over_the_pool() {
    for name in PolicyName::ALL {
        let mut bench = Bench([77, 9_000].map(frame).into());
        let pool = FreeMemoryPool::new(
            FakeKernel::new(MIB(128)),
            MIB(4),
            suite::settings().lifetime,
            Ages::new(start()),
            [],
            start(),
        );
        let mut diagnostic = suite::check_invariants(pool, &mut bench, name);
        diagnostic.source_mut().let_go();
        assert_eq!(diagnostic.source().claimed(), Bytes::ZERO, "{name:?}");
    }
}

#[test]
fn a_sweep_reaches_each_free_frame_but_the_reserve_once_and_gives_all_back() {
    for kernel in [FakeKernel::new(MIB(256)), FakeKernel::slow(MIB(256))] {
        let reserve = MemoryReserve::new(&kernel.outlook()).bytes(&kernel.outlook());
        let mut pool = pool(kernel);
        let tested = sweep(&mut pool, &BTreeSet::new(), at(0));
        let different: BTreeSet<_> = tested.iter().collect();
        assert_eq!(different.len(), tested.len(), "none twice");
        assert_eq!(tested.len() as u64, (MIB(256).frames() - reserve.frames()) / 512 * 512);
        assert_eq!((pool.claimed(), pool.kernel.free()), (Bytes::ZERO, MIB(256)));
        assert_eq!(pool.take_news(), [PoolNews::SweepBegan, PoolNews::SweepEnded(Duration::ZERO)]);
    }
}

#[test]
fn memory_on_its_way_is_claimed_and_a_sweep_does_not_end_without_it() {
    let mut pool = pool(FakeKernel::slow(MIB(64)));
    let list = pool.lists()[0];
    assert!(pool.take(list, 1024, at(0)).is_empty());
    assert!(pool.is_sweeping() && pool.claimed() == MIB(4));
    pool.kernel.allocate(MIB(60));
    let steps = pool.take(list, 1024, at(0));
    assert_eq!(steps.len(), 1, "what was asked for in time");
    assert!(pool.take(list, 1024, at(0)).is_empty() && pool.is_sweeping());
}

/// The fake kernel has half of what is on its way.
#[test]
fn memory_is_in_use_for_claims_only_as_far_as_it_has_come_and_kept_frames_are() {
    let mut pool = pool(FakeKernel::slow(MIB(64)));
    let list = pool.lists()[0];
    assert!(pool.take(list, 1024, at(0)).is_empty());
    assert_eq!((pool.claimed(), pool.in_use()), (MIB(4), MIB(2)));
    let mut step = pool.take(list, 1024, at(0)).pop().expect("it has come");
    assert_eq!((pool.claimed(), pool.in_use()), (MIB(4), MIB(4)));
    let bad = step.region[7];
    let verdict = Bench(BTreeSet::from([bad])).test(&mut step, Fidelity::MIN);
    pool.give_back(step, verdict, at(0));
    assert_eq!((pool.claimed(), pool.in_use()), (Bytes::ZERO, Bytes::new(4096)), "{bad:?} stays out of use");
}

#[test]
fn what_comes_when_all_is_let_go_is_given_back_too() {
    let mut pool = pool(FakeKernel::slow(MIB(64)));
    let list = pool.lists()[0];
    assert!(pool.take(list, 1024, at(0)).is_empty() && pool.claimed() == MIB(4));
    pool.let_go();
    assert_eq!((pool.claimed(), pool.kernel.free()), (Bytes::ZERO, MIB(64)));
}

#[test]
fn every_frame_in_reach_is_tested_again_before_its_lifetime_is_over_and_not_much_sooner() {
    let mut pool = pool(FakeKernel::new(MIB(64)));
    let mut last = BTreeMap::new();
    let mut gaps = Vec::new();
    for second in 0..5_000 {
        for frame in sweep_one_call(&mut pool, at(second)) {
            gaps.extend(last.insert(frame, second).map(|before| second - before));
        }
    }
    assert!(gaps.iter().all(|gap| *gap < 960), "age + δ < lifetime: {:?}", gaps.iter().max());
    let average = gaps.iter().sum::<u64>() / gaps.len() as u64;
    assert!(average > 720, "three quarters of the window at least: {average} s");
}

/// Tests the steps that one call of the monitoring timer takes: at most one step.
fn sweep_one_call(pool: &mut FreeMemoryPool<FakeKernel>, now: Timestamp) -> Vec<Frame> {
    let mut tested = Vec::new();
    let list = pool.lists()[0];
    for mut step in pool.take(list, 1024, now) {
        tested.extend(&step.region);
        step.frames = step.region.iter().copied().map(Some).collect();
        pool.give_back(step, BlockVerdict::Good, now);
    }
    tested
}

#[test]
fn what_was_tested_longest_ago_or_is_preferred_comes_first() {
    let mut ages = Ages::new(start());
    for number in 0..MIB(64).frames() {
        // The higher the frame number, the older the test; all frames are due.
        let ago = Duration::from_secs(500 + number / 64);
        let tested = Timestamp::from_micros(start().micros() - u64::try_from(ago.as_micros()).unwrap());
        ages.set(frame(number), rampart_memory::Tested::at(tested));
    }
    let mut pool = FreeMemoryPool::new(FakeKernel::new(MIB(64)), MIB(2), bound(), ages, [], start());
    pool.prefer(&[FrameRange::new(frame(2048), 1).unwrap()]);
    let list = pool.lists()[0];
    (0..100).for_each(|_| assert!(pool.take(list, 0, at(0)).is_empty(), "nothing was asked for"));
    let steps = pool.take(list, 3 * 512, at(0));
    assert_eq!(steps[0].region.iter().filter(|found| **found == frame(2048)).count(), 1, "the preferred one");
    let ages: Vec<_> = steps[1..].iter().map(|step| step.region.iter().max().unwrap().number()).collect();
    assert!(ages.is_sorted_by(|a, b| a > b), "{ages:?}");
}

#[test]
fn a_frame_found_bad_is_kept_from_everybody() {
    let bad = BTreeSet::from([frame(123), frame(5_000)]);
    let mut pool = pool(FakeKernel::new(MIB(64)));
    for round in 0..5 {
        let tested = sweep(&mut pool, &bad, at(1000 * round));
        assert_eq!(tested.iter().filter(|frame| bad.contains(frame)).count(), if round == 0 { 2 } else { 0 });
        pool.kernel.allocate(MIB(64));
        assert!(pool.kernel.used().iter().all(|frame| !bad.contains(frame)));
        pool.kernel.deallocate(MIB(64));
    }
    assert_eq!(pool.kernel.kept, bad);
}

#[test]
fn a_frame_known_to_be_bad_is_kept_when_it_comes_up() {
    let ages = Ages::new(start());
    let mut pool = FreeMemoryPool::new(FakeKernel::new(MIB(64)), MIB(4), bound(), ages, [frame(500)], start());
    sweep(&mut pool, &BTreeSet::new(), at(0));
    assert_eq!(pool.kernel.kept, BTreeSet::from([frame(500)]));
    assert_eq!(pool.ages().get(frame(500)), None, "it is no frame to be tested");
}

#[test]
fn under_pressure_what_is_held_goes_at_once_and_testers_are_asked_for_the_rest() {
    let mut pool = pool(FakeKernel::new(MIB(256)));
    let list = pool.lists()[0];
    let mut under_test = pool.take(list, 512, at(0));
    (0..200).for_each(|_| assert!(pool.take(list, 0, at(0)).is_empty()));
    let step = under_test.pop().unwrap();
    assert!(pool.claimed() > MIB(200));
    // A program allocates the whole reserve again and again, until it has all memory.
    while pool.claimed() > MIB(4) {
        pool.kernel.allocate(MIB(32));
        pool.relieve();
        let all_given = pool.claimed() == MIB(4);
        assert!(all_given || pool.missing() == Bytes::ZERO, "held and waiting steps are enough");
        assert!(all_given || pool.kernel.free() >= MIB(16), "half of the reserve is free again");
    }
    pool.kernel.allocate(MIB(256));
    pool.relieve();
    assert_eq!(pool.missing(), MIB(4), "only the tester has any");
    pool.give_back(step, BlockVerdict::NotTested, at(0));
    assert_eq!((pool.missing(), pool.claimed(), pool.kernel.free()), (Bytes::ZERO, Bytes::ZERO, MIB(4)));
    assert!(pool.take(list, 512, at(0)).is_empty(), "and nothing is claimed while nothing is free");
}

#[test]
fn a_kernel_that_refuses_is_asked_again_in_the_next_sweep_only() {
    let mut pool = pool(FakeKernel::new(MIB(64)));
    pool.kernel.refuses = true;
    assert!(sweep(&mut pool, &BTreeSet::new(), at(0)).is_empty());
    pool.kernel.refuses = false;
    assert!(sweep(&mut pool, &BTreeSet::new(), at(1)).is_empty());
    assert!(!sweep(&mut pool, &BTreeSet::new(), at(100)).is_empty());
}

#[test]
fn what_was_learnt_before_is_not_learnt_again() {
    let mut first = pool(FakeKernel::new(MIB(64)));
    let tested = sweep(&mut first, &BTreeSet::new(), at(0));
    let mut ages = Ages::new(at(100));
    for (range, at) in first.ages().runs(Duration::from_secs(1)) {
        let frames = (0..range.count()).filter_map(|offset| range.start().checked_add(offset));
        frames.for_each(|frame| ages.set(frame, rampart_memory::Tested::at(at)));
    }
    let mut second = FreeMemoryPool::new(FakeKernel::new(MIB(64)), MIB(4), bound(), ages, [], at(100));
    assert_eq!(second.ages().fresh(bound(), at(100)), tested.len() as u64);
    assert!(sweep(&mut second, &BTreeSet::new(), at(100)).is_empty(), "all frames are younger than a quarter");
    assert_eq!(sweep(&mut second, &BTreeSet::new(), at(960)).len(), tested.len());
}

#[test]
fn eight_hours_of_watching_leave_its_tables_as_they_were() {
    let mut pool = pool(FakeKernel::new(MIB(64)));
    let size = |pool: &FreeMemoryPool<FakeKernel>| {
        (pool.ages.seen(), pool.bad.len(), pool.news.len(), pool.held.bytes(), pool.kernel.free())
    };
    let mut sizes = BTreeSet::new();
    for second in 0..8 * 3600 {
        pool.kernel.deallocate(MIB(2));
        pool.kernel.allocate(MIB(second % 3));
        pool.relieve();
        sweep_one_call(&mut pool, at(second));
        pool.take_news();
        if second >= 4 * 3600 && !pool.is_sweeping() {
            sizes.insert(size(&pool).0);
            assert_eq!((size(&pool).1, size(&pool).2, size(&pool).3), (0, 0, Bytes::ZERO));
        }
    }
    let (least, most) = (sizes.first().unwrap(), sizes.last().unwrap());
    assert!(most - least <= 1024, "{least} to {most} frames seen");
}

#[test]
fn once_enough_is_tested_a_sweep_ends_and_nothing_is_held() {
    let mut pool = pool(FakeKernel::new(MIB(64)));
    let step = pool.take(pool.lists()[0], 1, start()).pop().expect("a step");
    pool.rest(at(1));
    assert!(pool.is_sweeping(), "a step is under test");
    pool.give_back(step, BlockVerdict::NotTested, at(1));
    pool.rest(at(2));
    assert!(!pool.is_sweeping());
    assert_eq!(pool.claimed(), Bytes::ZERO);
    sweep(&mut pool, &BTreeSet::new(), at(200));
    assert!(pool.tested_free(at(200)) > 0, "and another begins when it is asked to test again");
}
