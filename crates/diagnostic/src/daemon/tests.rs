//! The daemon over a fake source of a few steps, without pool or sweep.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rampart_linux::{Block, PageKind};
use rampart_march::named;
use rampart_memory::{
    BlockOrder, BlockVerdict, Bytes, FrameDemand, FrameRange, FrameSource, FreeList, RePlacementCounts, ReplicaError,
    TestLifetime,
};

use super::suspicion::SuspicionWatch;
use super::tester::Job;
use super::*;
use crate::control::{PolicyLimits, Work};
use crate::machine::fake::FakeMachine;
use crate::machine::moving_pages::MovingPages;
use crate::machine::reserve::SMALLEST_CLAIM;
use crate::sources::free_memory::{Ages, PoolNews};
use crate::sources::step::{Step, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::findings::MismatchLocation;
use crate::testing::observed::Observed;
use crate::testing::observer::TestProgress;
use crate::testing::publishing::lock;
use crate::testing::record::tests::Disk;

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
    /// What there is to tell.
    news: Vec<PoolNews>,
}

impl<'a> FewSteps<'a> {
    fn new(
        waiting: VecDeque<Step<StepMemory>>,
        verdicts: &'a Mutex<Vec<BlockVerdict>>,
        let_go: &'a AtomicBool,
        now: Timestamp,
    ) -> Self {
        let (asked, ages) = (AtomicU64::new(0), Ages::new(now));
        let (out, missing) = (Bytes::ZERO, Bytes::ZERO);
        Self { waiting, verdicts, let_go, asked, ages, out, missing, needed_after: None, news: Vec::new() }
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
        std::mem::take(&mut self.news)
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

/// An observer that records every call.
#[derive(Default)]
struct Told {
    of_tests: Observed,
    events: Mutex<Vec<String>>,
    states: Mutex<Vec<DaemonState>>,
    settings: Mutex<Option<DaemonSettings>>,
}

impl Told {
    /// The names of the events since the last call, as users see them.
    fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
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
        let event = serde_json::to_value(event).unwrap();
        self.events.lock().unwrap().push(event["event"].as_str().unwrap().to_owned());
    }
    fn state(&self, state: &DaemonState) {
        self.states.lock().unwrap().push(state.clone());
    }
    fn reload(&self) -> Option<DaemonSettings> {
        self.settings.lock().unwrap().take()
    }
}

/// A daemon on a fake machine with little memory, whose source has only news.
struct Fixture {
    fake: FakeMachine,
    disk: Disk,
    told: Told,
    request: WatchRequest,
    news: Vec<PoolNews>,
}

impl Fixture {
    fn new(request: WatchRequest) -> Self {
        let fake = FakeMachine::new();
        fake.set_free(Bytes::from_mib(48));
        Self { fake, disk: Disk::new(), told: Told::default(), request, news: Vec::new() }
    }

    fn with<T>(&self, then: impl FnOnce(&DaemonContext<'_>) -> T) -> T {
        let (machine, clock) = (self.fake.machine(), SteadyClock::default());
        let prepared = WatchPreparation::new(&self.request, &machine, WatchReach::FreeMemory, BTreeSet::new()).unwrap();
        let (verdicts, let_go) = (Mutex::default(), AtomicBool::new(false));
        let start = self.request.start(clock.now());
        let recorder = TestRecorder::begin(self.disk.open(), start, &*machine.clock, &self.told);
        let mut source = FewSteps::new(VecDeque::new(), &verdicts, &let_go, clock.now());
        source.news.clone_from(&self.news);
        let diagnostic = controller(&self.request, &prepared, Box::new(source), clock.now());
        then(&DaemonContext::new(&self.request, &machine, &prepared, &self.told, &clock, recorder, diagnostic))
    }

    /// Begins to test a block whose pages are in frames from 1000 on.
    fn job(&self, shared: &DaemonContext<'_>) -> Job {
        let block = Block::claim(SMALLEST_CLAIM, PageKind::Huge).unwrap();
        self.fake.place(&block, 1000);
        Job::begin(shared, Work { block: step(shared.machine, block), fidelity: Fidelity::MIN }).unwrap()
    }
}

fn plain() -> WatchRequest {
    WatchRequest { inject: None, ..request() }
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

#[test]
fn testers_rest_for_the_rest_of_their_share_and_their_speed_is_an_average() {
    let mut request = plain();
    request.settings.shares.beside_programs = Share::new(0.25).unwrap();
    Fixture::new(request).with(|shared| {
        assert!(is_about(shared.share(), 0.25));
        assert_eq!(shared.rest_after(Duration::from_secs(3)), Duration::from_secs(9));
        shared.set_share(Share::new(0.5).unwrap());
        assert!(is_about(shared.share(), 0.5));
        let (one, two) = (Fidelity::MIN, Fidelity::new(2).unwrap());
        let speed = shared.prepared.bandwidth(shared.request).at_fidelity_1;
        let plan = shared.request.plan(one);
        assert!(is_about(speed, shared.prepared.limit.of(plan.reads(), plan.writes()) / 4096.0));
        assert!(is_about(shared.share_needed(3.0 * speed, two, 4), 1.5));
        shared.took(Bytes::from_mib(2), two, Duration::from_secs(4));
        let speed = speed + 0.2 * (256.0 - speed);
        assert!(is_about(shared.share_needed(7.0, one, 1), 7.0 / speed));
        assert_eq!([shared.next_region(), shared.next_region(), shared.next_region()], [0, 1, 2]);
    });
}

#[test]
fn a_bad_frame_is_told_as_an_event_too_and_emulated_ones_are_counted_apart() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        find(shared, 7);
        shared.publish_if_due();
        assert_eq!((shared.bad_frames(), fixture.told.take_events()), ((1, 0), vec!["bad_frame".to_owned()]));
        find(shared, 8);
        shared.publish();
        assert_eq!((shared.bad_frames(), fixture.told.take_events().len()), ((2, 0), 1));
        assert_eq!(fixture.told.of_tests.bad.lock().unwrap().len(), 2);
    });
    let injected = Fixture::new(WatchRequest { inject: Some("stuck-at@0x3eb".parse().unwrap()), ..request() });
    injected.with(|shared| {
        let mut job = injected.job(shared);
        assert!(!job.test(shared).goes_on());
        let (_, verdict) = job.judge(shared);
        assert_eq!((verdict, shared.bad_frames()), (BlockVerdict::Failed(vec![frame(1003)]), (0, 1)));
        assert!(lock(&shared.sums).missed.is_empty());
    });
}

#[test]
fn a_step_rests_before_its_delayed_read_and_what_is_left_out_is_counted() {
    let fixture = Fixture::new(WatchRequest { retention: Duration::from_hours(1), ..plain() });
    fixture.with(|shared| {
        for skips in [true, false] {
            let mut job = fixture.job(shared);
            assert!(!job.is_tested() && job.test(shared).goes_on() && job.is_tested());
            if !skips {
                assert!(!job.test(shared).goes_on());
            }
            assert_eq!(job.judge(shared).1, BlockVerdict::Good);
            assert_eq!(lock(&shared.sums).not_read_late, 512, "of the first only");
        }
        let sums = lock(&shared.sums);
        let plan = shared.request.plan(Fidelity::MIN);
        assert_eq!((sums.frames, sums.moved), (1024, 0));
        let once = (plan.reads() + plan.writes()) as u64 * SMALLEST_CLAIM.get();
        assert!(sums.traffic > once && sums.traffic <= 2 * once, "{} {once}", sums.traffic);
        assert!(sums.busy > Duration::ZERO && sums.hold.is_some());
    });
}

#[test]
fn a_step_whose_test_is_stopped_counts_for_nothing() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let mut job = fixture.job(shared);
        shared.interruption.set_needed_back(true);
        assert!(!job.test(shared).goes_on() && !job.is_tested());
        assert_eq!(job.judge(shared).1, BlockVerdict::NotTested);
        shared.interruption.halt();
        let mut job = fixture.job(shared);
        assert!(!job.test(shared).goes_on());
        find(shared, 1003);
        let (step, verdict) = job.judge(shared);
        assert_eq!((verdict, step.frames[3]), (BlockVerdict::NotTested, Some(frame(1003))));
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames, sums.not_read_late), (0, 0));
    });
}

#[test]
fn a_turn_of_the_loop_hands_on_news_settings_and_the_needs_of_programs() {
    let mut fixture = Fixture::new(WatchRequest { duration: Some(Duration::from_hours(1)), ..plain() });
    let took = Duration::from_secs(5);
    fixture.news = vec![PoolNews::SweepBegan, PoolNews::SweepEnded(took), PoolNews::Pressure(SMALLEST_CLAIM)];
    fixture.fake.set_used(Bytes::from_mib(7));
    let mut changed = fixture.request.settings;
    changed.control.limits.max_cores = 3;
    *fixture.told.settings.lock().unwrap() = Some(changed);
    fixture.with(|shared| {
        let mut watcher = DaemonLoop::new(shared, shared.clock.now());
        assert_eq!((watcher.time_is_up(), watcher.max_cores()), (false, 1));
        {
            let mut sums = lock(&shared.sums);
            (sums.frames, sums.traffic, sums.busy) = (600, 3000, Duration::from_secs(12));
        }
        watcher.tick();
        assert_eq!((watcher.time_is_up(), watcher.max_cores()), (false, 3));
        let events = fixture.told.take_events();
        assert_eq!(events, ["reloaded", "sweep_began", "sweep_ended", "config_changed", "pressure"]);
        let state = fixture.told.states.lock().unwrap()[0].clone();
        assert_eq!((state.sweeps, state.pressure, state.tested, state.overdue), (1, 1, 600, true));
        assert_eq!((state.frames.total, state.own), (FakeMachine::TOTAL.frames(), Some(Bytes::from_mib(7))));
        assert!(state.last_test.is_some() && !shared.interruption.takes_back());
        // Over the same time: 600 frames, 3000 bytes and 12 s.
        let (rate, cost) = (state.test_rate, state.cost);
        assert!(rate > 0.0 && is_about(cost.memory_traffic, 5.0 * rate));
        #[expect(clippy::cast_precision_loss, reason = "a few CPUs")]
        let cpus = shared.machine.cpus().len() as f64;
        assert!(is_about(cost.cpu * cpus, rate / 50.0));
        assert!(is_about(cost.slowdown, 1.0 + cost.memory_traffic / shared.prepared.limit.read));

        fixture.fake.set_used(Bytes::from_mib(3));
        watcher.tick();
        assert_eq!(fixture.told.take_events(), [""; 0], "nothing is new");
        assert_eq!(fixture.told.states.lock().unwrap().len(), 1, "one a second");
        let summary = watcher.end();
        assert_eq!((summary.state.test_rate, summary.state.last_test), (0.0, state.last_test));
        assert_eq!(summary.state.own, Some(Bytes::from_mib(7)), "the most");
        assert_eq!(fixture.told.take_events(), ["stopped"]);
    });
    let over = Fixture::new(WatchRequest { duration: Some(Duration::ZERO), ..plain() });
    over.with(|shared| assert!(DaemonLoop::new(shared, shared.clock.now()).time_is_up()));
    let endless = Fixture::new(WatchRequest { duration: None, ..plain() });
    endless.with(|shared| assert!(!DaemonLoop::new(shared, shared.clock.now()).time_is_up()));
}

#[test]
fn a_run_is_incomplete_until_a_sweep_has_ended() {
    let fixture = Fixture::new(plain());
    fixture.with(|shared| {
        let state = DaemonLoop::new(shared, shared.clock.now()).end().state;
        let ended = |tested, sweeps| {
            let at = state.started.after(Duration::from_secs(4));
            keep::summarize(shared, DaemonState { tested, sweeps, at, ..state.clone() })
        };
        assert_eq!(ended(0, 3).incomplete.as_deref(), Some("no memory was tested"));
        let first = ended(512, 0);
        assert_eq!(first.incomplete.as_deref(), Some("stopped in the first sweep, with 2 MiB tested"));
        let whole = ended(512, 1);
        assert_eq!((whole.incomplete, whole.verdict), (None, crate::testing::verdict::TestVerdict::Pass));
        let end = fixture.disk.open().history(1).unwrap()[0].end.clone().unwrap();
        assert_eq!((end.frames_tested, end.bytes_per_second), (512, 512 * 1024));
        find(shared, 7);
        shared.publish();
        assert_eq!(known_bad(&fixture.disk.open(), &fixture.told), [frame(7)]);
    });
}

#[test]
fn a_suspect_node_is_tested_anew_and_is_none_after_a_sweep() {
    let fixture = Fixture::new(WatchRequest { node: Some("n7".to_owned()), ..plain() });
    fixture.with(|shared| {
        let (now, mut watch) = (shared.clock.now(), SuspicionWatch::new());
        let error =
            |node: &str| ReplicaError { node: Some(node.to_owned()), ..ReplicaError::unplaced(now, now, "message") };
        fixture.disk.open().keep_replica_errors(&[error("n8"), error("n8")]).unwrap();
        let later = |seconds| now.after(Duration::from_secs(seconds));
        watch.poll(shared, later(1));
        assert!(!watch.is_urgent(), "it is another one");
        fixture.disk.open().keep_replica_errors(&[error("n7"), error("n7")]).unwrap();
        watch.poll(shared, later(1));
        assert!(!watch.is_urgent(), "the store was read a moment ago");
        watch.poll(shared, later(3600));
        assert!(watch.is_urgent());
        watch.sweep_began(later(3601));
        watch.sweep_ended(shared);
        assert!(!watch.is_urgent());
        assert_eq!(fixture.told.take_events(), ["node_suspected", "node_tested"]);
        watch.poll(shared, later(7200));
        assert!(!watch.is_urgent());
    });
}

#[test]
fn each_cpu_has_a_tester_and_too_short_a_lifetime_is_said() {
    let fixture = Fixture::new(WatchRequest { retention: Duration::from_nanos(1), ..plain() });
    fixture.with(|shared| {
        let (request, prepared) = (shared.request, shared.prepared);
        assert_eq!(prepared.testers.len(), shared.machine.cpus().len());
        assert!(prepared.testers.iter().all(|(_, cpus)| !cpus.is_empty()));
        assert_eq!(request.plan(Fidelity::MIN).rests(), 1);
        assert_eq!(plain().plan(Fidelity::MIN).rests(), 0);
        let text = prepared.describe(request);
        assert!(text.starts_with("watching    each frame in reach once in"), "{text}");
        assert!(text.contains("on at most 1 CPU, 100 % of each"), "{text}");
        assert_eq!(prepared.shortage(request), None);
        let mut short = request.clone();
        short.settings.control.lifetime =
            TestLifetime::new(Duration::from_millis(2), Duration::from_millis(1)).unwrap();
        let warning = prepared.shortage(&short).expect("memory takes longer");
        assert!(warning.starts_with("a lifetime of 2ms is too short to test 24 MiB: set at least"), "{warning}");
    });
}
