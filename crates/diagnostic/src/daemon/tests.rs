//! The daemon over a fake source of a few steps, without pool or sweep.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rampart_linux::{Block, PageKind};
use rampart_march::named;
use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, FrameDemand, FrameRange, FrameSource, FreeList, RePlacementCounts, TestLifetime,
};

use super::*;
use crate::control::PolicyLimits;
use crate::sources::free_memory::{Ages, PoolNews};
use crate::sources::step::{Step, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::observer::TestProgress;

/// Steps that wait for their test, and the verdict on each.
struct FewSteps<'a> {
    waiting: VecDeque<Step<StepMemory>>,
    verdicts: &'a Mutex<Vec<BlockVerdict>>,
    let_go: &'a AtomicBool,
    asked: AtomicU64,
    ages: Ages,
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
        if max_frames == 0 { Vec::new() } else { self.waiting.pop_front().into_iter().collect() }
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (Node(0), block.region.pages())
    }

    fn give_back(&mut self, _: Self::Block, verdict: BlockVerdict, _: Timestamp) {
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
        Bytes::ZERO
    }

    fn is_sweeping(&self) -> bool {
        true
    }

    fn take_news(&mut self) -> Vec<PoolNews> {
        Vec::new()
    }

    fn rebound(&mut self, _: TestLifetime, _: Timestamp) {}

    fn hurry(&mut self, _now: Timestamp) {}

    fn relieve(&mut self) {}

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
        duration: Some(Duration::from_secs(60)),
        // Some faults in each step of the usual size.
        inject: Some("stuck-at:20000,seed=1".parse().unwrap()),
        seed: 1,
        errors: None,
        node: None,
    }
}

#[test]
fn the_daemon_runs_over_any_source_and_says_of_each_step_whether_it_is_good() {
    let (machine, request) = (MachineUnderTest::this(), request());
    let prepared = WatchPreparation::new(&request, &machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap();
    let odd = Bytes::from_mib(4);
    assert_ne!(prepared.step, odd, "faults at random places lie in steps of the usual size only");
    let step = |bytes| {
        let block = Block::claim(bytes, PageKind::Huge).unwrap();
        let mut frames = Vec::new();
        machine.frames(&block, &mut frames);
        Step::new(StepMemory::Program(block), frames, Node(0))
    };
    let waiting: VecDeque<_> = [prepared.step, odd, prepared.step].map(step).into();
    let (verdicts, let_go, stop) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
    let observer = UntilAllCameBack { verdicts: &verdicts, steps: waiting.len(), stop: &stop };
    let (folder, clock) = (tempfile::tempdir().unwrap(), SteadyClock::default());
    let store = Store::open(&folder.path().join("r.db"), clock.now()).unwrap().store;
    let source = FewSteps {
        waiting,
        verdicts: &verdicts,
        let_go: &let_go,
        asked: AtomicU64::new(0),
        ages: Ages::new(clock.now()),
    };
    let watched =
        Watched { request: &request, machine: &machine, prepared: &prepared, observer: &observer, clock: &clock };
    let summary = watched.watch(Box::new(source), |_| {}, store, &[], &stop);
    let verdicts = verdicts.into_inner().unwrap();
    let failed = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Failed(_))).count();
    let good = verdicts.iter().filter(|verdict| matches!(verdict, BlockVerdict::Good)).count();
    assert_eq!((failed, good), (2, 1), "{verdicts:?}");
    assert!(let_go.into_inner() && !summary.bad_frames.is_empty());
}
