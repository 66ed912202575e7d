//! The daemon over a fake source of a few steps, without pool or sweep.

mod claims;
mod errors;
mod preparation;
mod steps;
mod suspicion;
mod testers;
mod turns;
mod watching;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use rampart_linux::{Block, PageKind, cpu};
use rampart_march::named;
use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, FrameDemand, FrameRange, FrameSource, FreeList, RePlacementCounts, TestLifetime,
};

use super::tester::Job;
use super::*;
use crate::control::{PolicyLimits, Work};
use crate::machine::fake::FakeMachine;
use crate::machine::reserve::SMALLEST_CLAIM;
use crate::sources::free_memory::{Ages, PoolNews};
use crate::sources::step::{Step, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::findings::MismatchLocation;
use crate::testing::observed::Observed;
use crate::testing::observer::TestProgress;
use crate::testing::publishing::lock;
use crate::testing::record::tests::Disk;

/// What a test says to a source of steps, and what became of them.
#[derive(Default)]
struct Steps {
    waiting: VecDeque<Step<StepMemory>>,
    /// The verdict on each that came back.
    verdicts: Vec<BlockVerdict>,
    /// Memory that was taken and has not come back, and the part that programs need.
    out: Bytes,
    missing: Bytes,
    /// When programs will need it all: after so many looks of the daemon while some is out. `None`: never.
    needed_after: Option<u32>,
    /// Frames allocated between two readings, and in all.
    demand: u64,
    allocated: u64,
    is_overdue: bool,
    /// What there is to tell.
    news: Vec<PoolNews>,
    /// How many frames the controller asked for, each time that it asked for some.
    asked: Vec<u64>,
    /// The lifetimes that were set later.
    rebounds: Vec<TestLifetime>,
    was_let_go: bool,
}

/// Hands these steps to the daemon.
struct FewSteps<'a> {
    steps: &'a Mutex<Steps>,
    ages: Ages,
}

impl FewSteps<'_> {
    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap()
    }
}

impl FrameSource for FewSteps<'_> {
    type Block = Step<StepMemory>;

    fn lists(&self) -> Vec<FreeList> {
        vec![FreeList { node: Node(0), order: BlockOrder::ZERO }]
    }

    fn demand(&self, _: FreeList) -> FrameDemand {
        let mut steps = self.steps();
        steps.allocated += steps.demand;
        FrameDemand { allocated_untested: steps.allocated, ..FrameDemand::default() }
    }

    fn tested_free(&self, _: Timestamp) -> u64 {
        0
    }

    fn take(&mut self, _: FreeList, max_frames: u64, _: Timestamp) -> Vec<Self::Block> {
        if max_frames == 0 {
            return Vec::new();
        }
        let mut steps = self.steps();
        steps.asked.push(max_frames);
        let step = steps.waiting.pop_front();
        steps.out = Bytes::new(steps.out.get() + step.as_ref().map_or(0, |step| step.region.bytes().get()));
        step.into_iter().collect()
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (Node(0), block.region.pages())
    }

    fn give_back(&mut self, step: Self::Block, verdict: BlockVerdict, _: Timestamp) {
        let mut steps = self.steps();
        steps.out = steps.out.saturating_sub(step.region.bytes());
        steps.missing = steps.missing.saturating_sub(step.region.bytes());
        steps.verdicts.push(verdict);
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
        0.0
    }

    fn is_overdue(&self, _: Timestamp) -> bool {
        self.steps().is_overdue
    }

    fn missing(&self) -> Bytes {
        self.steps().missing
    }

    fn is_sweeping(&self) -> bool {
        true
    }

    fn take_news(&mut self) -> Vec<PoolNews> {
        std::mem::take(&mut self.steps().news)
    }

    fn rebound(&mut self, bound: TestLifetime, _: Timestamp) {
        self.steps().rebounds.push(bound);
    }

    fn hurry(&mut self, _now: Timestamp) {}

    fn relieve(&mut self) {
        let mut steps = self.steps();
        let out = steps.out;
        match &mut steps.needed_after {
            Some(0) => steps.missing = out,
            Some(looks) if out > Bytes::ZERO => *looks -= 1,
            _ => {}
        }
    }

    fn let_go(&mut self) {
        self.steps().was_let_go = true;
    }
}

/// An observer that records every call.
#[derive(Default)]
struct Told {
    of_tests: Observed,
    events: Mutex<Vec<serde_json::Value>>,
    states: Mutex<Vec<DaemonState>>,
    settings: Mutex<Option<DaemonSettings>>,
    /// Is called in each turn of the main loop.
    each_turn: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Told {
    /// The events since the last call, as users see them.
    fn take_events(&self) -> Vec<serde_json::Value> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// The names of the events since the last call.
    fn take_names(&self) -> Vec<String> {
        self.take_events().iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }
}

impl TestObserver for Told {
    fn said(&self, text: &str) {
        self.of_tests.said(text);
    }
    fn warned(&self, text: &str) {
        self.of_tests.warned(text);
    }
    fn bad_frame(&self, bad: &BadFrame) {
        self.of_tests.bad_frame(bad);
    }
    fn progress(&self, _: &TestProgress) {}
}

impl Observer for Told {
    fn happened(&self, _: Timestamp, event: &DaemonEvent) {
        self.events.lock().unwrap().push(serde_json::to_value(event).unwrap());
    }
    fn state(&self, state: &DaemonState) {
        self.states.lock().unwrap().push(state.clone());
    }
    fn reload(&self) -> Option<DaemonSettings> {
        self.each_turn.lock().unwrap().iter_mut().for_each(|then| then());
        self.settings.lock().unwrap().take()
    }
}

/// The machine's clock: whoever looks at it next makes something happen.
#[derive(Clone, Default)]
struct EventfulClock(Arc<Mutex<Option<OneEvent>>>);

type OneEvent = Box<dyn FnOnce() + Send>;

impl Clock for EventfulClock {
    fn now(&self) -> Timestamp {
        let happens = self.0.lock().unwrap().take();
        happens.into_iter().for_each(|happens| happens());
        cpu::SystemClock.now()
    }
}

/// A daemon on a fake machine with little memory, of which a step is the smallest claim.
struct Fixture {
    fake: Arc<FakeMachine>,
    clock: EventfulClock,
    disk: Disk,
    told: Told,
    request: WatchRequest,
    steps: Arc<Mutex<Steps>>,
}

impl Fixture {
    fn new(request: WatchRequest) -> Self {
        let (fake, clock) = (Arc::new(FakeMachine::new()), EventfulClock::default());
        fake.set_free(Bytes::from_mib(48));
        let steps = Arc::new(Mutex::new(Steps { demand: 10_000, ..Steps::default() }));
        Self { fake, clock, disk: Disk::new(), told: Told::default(), request, steps }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap()
    }

    fn machine(&self) -> MachineUnderTest {
        let mut machine = self.fake.machine();
        machine.clock = Box::new(self.clock.clone());
        machine
    }

    fn prepared(&self, machine: &MachineUnderTest) -> WatchPreparation {
        WatchPreparation::new(&self.request, machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap()
    }

    fn source(&self, now: Timestamp) -> Box<dyn DaemonSource + Send + '_> {
        Box::new(FewSteps { steps: &self.steps, ages: Ages::new(now) })
    }

    fn with<T>(&self, then: impl FnOnce(&DaemonContext<'_>) -> T) -> T {
        let (machine, clock) = (self.machine(), SteadyClock::default());
        let prepared = self.prepared(&machine);
        let start = self.request.start(clock.now());
        let recorder = TestRecorder::begin(self.disk.open(), start, &*machine.clock, &self.told);
        let diagnostic = controller(&self.request, &prepared, self.source(clock.now()), clock.now());
        then(&DaemonContext::new(&self.request, &machine, &prepared, &self.told, &clock, recorder, diagnostic))
    }

    /// Runs the daemon until the steps are as a test waits for; also returns whether they were so in any turn.
    fn watch(&self, done: fn(&Steps) -> bool) -> (WatchSummary, bool) {
        let stop = Arc::new(AtomicBool::new(false));
        let (steps, stops) = (Arc::clone(&self.steps), Arc::clone(&stop));
        *self.told.each_turn.lock().unwrap() =
            Some(Box::new(move || stops.store(done(&steps.lock().unwrap()), Ordering::Relaxed)));
        let (machine, clock) = (self.machine(), SteadyClock::default());
        let prepared = self.prepared(&machine);
        let (request, observer) = (&self.request, &self.told);
        let watched = Watched { request, machine: &machine, prepared: &prepared, observer, clock: &clock };
        let summary = watched.watch(self.source(clock.now()), |_| {}, self.disk.open(), &[], &stop);
        (summary, stop.load(Ordering::Relaxed))
    }

    /// A step whose pages are in frames from `first` on.
    fn step(&self, bytes: Bytes, first: u64) -> Step<StepMemory> {
        let block = Block::claim(bytes, PageKind::Huge).unwrap();
        self.fake.place(&block, first);
        let frames = (first..first + block.pages()).map(Frame::new).collect();
        Step::new(StepMemory::Program(block), frames, Node(0))
    }

    /// Begins to test a block whose pages are in frames from 1000 on.
    fn job(&self, shared: &DaemonContext<'_>) -> Job {
        Job::begin(shared, Work { block: self.step(SMALLEST_CLAIM, 1000), fidelity: Fidelity::MIN }).unwrap()
    }
}

fn request() -> WatchRequest {
    let limits = PolicyLimits { max_fidelity: Fidelity::MIN, max_cores: 1, ..ControlSettings::rahman16().limits };
    let control = ControlSettings { monitoring: Duration::from_millis(1), limits, ..ControlSettings::rahman16() };
    let shares = Shares { maximum: share(1.0), beside_programs: share(1.0) };
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
        inject: Some("stuck-at:600,seed=1".parse().unwrap()),
        seed: 1,
        errors: None,
        node: None,
    }
}

fn plain() -> WatchRequest {
    WatchRequest { inject: None, ..request() }
}

fn share(part: f64) -> Share {
    Share::new(part).unwrap()
}

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

fn find(shared: &DaemonContext<'_>, number: u64) {
    lock(&shared.published.findings).uncorrected(MismatchLocation::Frame(frame(number)), shared.clock.now());
}

fn is_about(seen: f64, expected: f64) -> bool {
    (seen - expected).abs() <= 1e-9 * expected.abs()
}
