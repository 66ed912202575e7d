//! The daemon over a fake source of a few steps, without pool or sweep.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rampart_linux::{Block, PageKind};
use rampart_march::named;
use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, FrameDemand, FrameRange, FrameSource, FreeList, RePlacementCounts, TestLifetime,
};

use super::tester::Job;
use super::*;
use crate::control::{PolicyLimits, Work};
use crate::machine::moving_pages::MovingPages;
use crate::machine::reserve::SMALLEST_CLAIM;
use crate::sources::free_memory::{Ages, PoolNews};
use crate::sources::step::{Step, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::observer::TestProgress;
use crate::testing::publishing::lock;

/// Steps that wait for their test, and the verdict on each.
struct FewSteps<'a> {
    waiting: VecDeque<Step<StepMemory>>,
    verdicts: &'a Mutex<Vec<BlockVerdict>>,
    let_go: &'a AtomicBool,
    asked: AtomicU64,
    ages: Ages,
    /// Memory that was taken and has not come back, and the part that programs need.
    out: Bytes,
    missing: Bytes,
    /// When programs will need it all: after so many looks of the daemon while some is out. `None`: never.
    needed_after: Option<u32>,
}

impl<'a> FewSteps<'a> {
    fn new(
        waiting: VecDeque<Step<StepMemory>>,
        verdicts: &'a Mutex<Vec<BlockVerdict>>,
        let_go: &'a AtomicBool,
        now: Timestamp,
    ) -> Self {
        let (asked, ages) = (AtomicU64::new(0), Ages::new(now));
        Self { waiting, verdicts, let_go, asked, ages, out: Bytes::ZERO, missing: Bytes::ZERO, needed_after: None }
    }
}

impl FrameSource for FewSteps<'_> {
    type Block = Step<StepMemory>;

    fn lists(&self) -> Vec<FreeList> {
        vec![FreeList { node: Node(0), order: BlockOrder::ZERO }]
    }

    /// Demand grows at each call.
    fn demand(&self, _: FreeList) -> FrameDemand {
        FrameDemand { allocated_untested: self.asked.fetch_add(10_000, Ordering::Relaxed), ..FrameDemand::default() }
    }

    fn tested_free(&self, _: Timestamp) -> u64 {
        0
    }

    fn take(&mut self, _: FreeList, max_frames: u64, _: Timestamp) -> Vec<Self::Block> {
        let step = if max_frames == 0 { None } else { self.waiting.pop_front() };
        self.out = Bytes::new(self.out.get() + step.as_ref().map_or(0, |step| step.region.bytes().get()));
        step.into_iter().collect()
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (Node(0), block.region.pages())
    }

    fn give_back(&mut self, step: Self::Block, verdict: BlockVerdict, _: Timestamp) {
        self.out = self.out.saturating_sub(step.region.bytes());
        self.missing = self.missing.saturating_sub(step.region.bytes());
        self.verdicts.lock().unwrap().push(verdict);
    }

    fn re_place_expiring(&mut self, _: Timestamp, _: Timestamp) -> RePlacementCounts {
        RePlacementCounts::default()
    }

    fn prefer(&mut self, _: &[FrameRange]) {}

    fn forget(&mut self) {}
}

impl DaemonSource for FewSteps<'_> {
    fn ages(&self) -> &Ages {
        &self.ages
    }

    fn claimed(&self) -> Bytes {
        Bytes::ZERO
    }

    fn in_use(&self) -> Bytes {
        Bytes::ZERO
    }

    fn rate(&self) -> f64 {
        1e6
    }

    fn is_overdue(&self, _: Timestamp) -> bool {
        true
    }

    fn missing(&self) -> Bytes {
        self.missing
    }

    fn is_sweeping(&self) -> bool {
        true
    }

    fn take_news(&mut self) -> Vec<PoolNews> {
        Vec::new()
    }

    fn rebound(&mut self, _: TestLifetime, _: Timestamp) {}

    fn hurry(&mut self, _now: Timestamp) {}

    fn relieve(&mut self) {
        match &mut self.needed_after {
            Some(0) => self.missing = self.out,
            Some(looks) if self.out > Bytes::ZERO => *looks -= 1,
            _ => {}
        }
    }

    fn let_go(&mut self) {
        self.let_go.store(true, Ordering::Relaxed);
    }
}

/// Stops watching once all steps came back.
struct UntilAllCameBack<'a> {
    verdicts: &'a Mutex<Vec<BlockVerdict>>,
    steps: usize,
    stop: &'a AtomicBool,
}

impl TestObserver for UntilAllCameBack<'_> {
    fn said(&self, _: &str) {}

    fn warned(&self, _: &str) {}

    fn bad_frame(&self, _: &BadFrame) {}

    fn progress(&self, _: &TestProgress) {}
}

impl Observer for UntilAllCameBack<'_> {
    fn happened(&self, _: Timestamp, _: &DaemonEvent) {}

    fn state(&self, _: &DaemonState) {}

    fn reload(&self) -> Option<DaemonSettings> {
        if self.verdicts.lock().unwrap().len() == self.steps {
            self.stop.store(true, Ordering::Relaxed);
        }
        None
    }
}

fn request() -> WatchRequest {
    let limits = PolicyLimits { max_fidelity: Fidelity::MIN, max_cores: 1, ..ControlSettings::rahman16().limits };
    let control = ControlSettings { monitoring: Duration::from_millis(1), limits, ..ControlSettings::rahman16() };
    let share = Share::new(1.0).unwrap();
    let shares = Shares { maximum: share, beside_programs: share };
    let settings = DaemonSettings {
        control,
        policy: PolicyName::Adaptive,
        shares,
        error_threshold: 10,
        error_window: Duration::from_secs(60),
    };
    WatchRequest {
        source: WatchSource::FreeMemory,
        march: named::find("March C-").unwrap().test(),
        sequences: vec![AddressSequence::Sequential],
        delay: Duration::ZERO,
        retention: Duration::ZERO,
        engine: None,
        method: None,
        settings,
        // Testers run only when nobody else needs their CPU: on a busy machine, that may take a while.
        duration: Some(Duration::from_mins(10)),
        // Some faults in each step of the usual size.
        inject: Some("stuck-at:20000,seed=1".parse().unwrap()),
        seed: 1,
        errors: None,
        node: None,
    }
}

fn step(machine: &MachineUnderTest, block: Block) -> Step<StepMemory> {
    let mut frames = Vec::new();
    machine.frames(&block, &mut frames);
    Step::new(StepMemory::Program(block), frames, Node(0))
}

#[test]
fn the_daemon_runs_over_any_source_and_says_of_each_step_whether_it_is_good() {
    let (machine, request) = (MachineUnderTest::this(), request());
    let prepared = WatchPreparation::new(&request, &machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap();
    let odd = Bytes::from_mib(4);
    assert_ne!(prepared.step, odd, "faults at random places lie in steps of the usual size only");
    let step = |bytes| step(&machine, Block::claim(bytes, PageKind::Huge).unwrap());
    let waiting: VecDeque<_> = [prepared.step, odd, prepared.step].map(step).into();
    let (verdicts, let_go, stop) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
    let observer = UntilAllCameBack { verdicts: &verdicts, steps: waiting.len(), stop: &stop };
    let (folder, clock) = (tempfile::tempdir().unwrap(), SteadyClock::default());
    let store = Store::open(&folder.path().join("r.db"), clock.now()).unwrap().store;
    let source = FewSteps::new(waiting, &verdicts, &let_go, clock.now());
    let watched =
        Watched { request: &request, machine: &machine, prepared: &prepared, observer: &observer, clock: &clock };
    let summary = watched.watch(Box::new(source), |_| {}, store, &[], &stop);
    let verdicts = verdicts.into_inner().unwrap();
    let failed = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Failed(_))).count();
    let good = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Good)).count();
    assert_eq!((failed, good), (2, 1), "{verdicts:?}");
    assert!(let_go.into_inner() && !summary.bad_frames.is_empty());
}

/// The test would last an hour: only who gives its memory back in the middle of it ends in time.
#[test]
fn memory_that_programs_need_comes_back_though_its_test_has_not_ended() {
    let delayed = WatchRequest {
        march: "{⇕(w0); Del; ⇕(r0)}".parse().unwrap(),
        delay: Duration::from_hours(1),
        duration: Some(Duration::from_mins(3)),
        inject: None,
        ..request()
    };
    let machine = MachineUnderTest::this();
    let prepared = WatchPreparation::new(&delayed, &machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap();
    let claim = || Block::claim(SMALLEST_CLAIM, PageKind::Huge).unwrap();
    let waiting: VecDeque<_> = [claim(), claim()].map(|block| step(&machine, block)).into();
    let (verdicts, let_go, stop) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
    let observer = UntilAllCameBack { verdicts: &verdicts, steps: waiting.len(), stop: &stop };
    let (folder, clock) = (tempfile::tempdir().unwrap(), SteadyClock::default());
    let store = Store::open(&folder.path().join("r.db"), clock.now()).unwrap().store;
    let source = FewSteps { needed_after: Some(50), ..FewSteps::new(waiting, &verdicts, &let_go, clock.now()) };
    let watched =
        Watched { request: &delayed, machine: &machine, prepared: &prepared, observer: &observer, clock: &clock };
    let summary = watched.watch(Box::new(source), |_| {}, store, &[], &stop);
    assert!(stop.into_inner(), "all came back before the daemon's time was up");
    assert_eq!(verdicts.into_inner().unwrap(), [BlockVerdict::NotTested, BlockVerdict::NotTested]);
    assert_eq!(summary.state.tested, 0);
}

#[test]
fn a_frame_that_its_page_left_during_the_test_does_not_count_as_tested_and_neither_does_the_next() {
    let pages = MovingPages::new();
    let (machine, plain) = (pages.machine(), WatchRequest { inject: None, ..request() });
    let prepared = WatchPreparation::new(&plain, &machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap();
    let (verdicts, let_go, stop) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
    let observer = UntilAllCameBack { verdicts: &verdicts, steps: 1, stop: &stop };
    let (folder, clock) = (tempfile::tempdir().unwrap(), SteadyClock::default());
    let store = Store::open(&folder.path().join("r.db"), clock.now()).unwrap().store;
    let recorder = TestRecorder::begin(store, plain.start(clock.now()), &*machine.clock, &observer);
    let source = FewSteps::new(VecDeque::new(), &verdicts, &let_go, clock.now());
    let diagnostic = controller(&plain, &prepared, Box::new(source), clock.now());
    let shared = DaemonContext::new(&plain, &machine, &prepared, &observer, &clock, recorder, diagnostic);

    let block = Block::claim(SMALLEST_CLAIM, PageKind::Huge).unwrap();
    pages.place(&block, 1000);
    let (count, seventh) = (block.pages(), block.base().addr().get() as u64 + 7 * 4096);
    let mut job = Job::begin(&shared, Work { block: step(&machine, block), fidelity: Fidelity::MIN }).unwrap();
    while job.test(&shared).goes_on() {}
    pages.put(seventh, 5000);
    let (step, verdict) = job.judge(&shared);
    assert_eq!(verdict, BlockVerdict::Good, "the others were tested");
    let tested: Vec<_> = step.frames.iter().flatten().map(|frame| frame.number()).collect();
    let stayed: Vec<_> = (1000..1000 + count).filter(|&frame| frame != 1007).collect();
    assert_eq!(tested, stayed);
    let sums = lock(&shared.sums);
    assert_eq!((sums.frames, sums.moved), (count - 1, 1));
}
