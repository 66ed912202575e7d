//! The daemon's tests of frames that a fake kernel module hands over, and of memory in which the hardware finds errors.

use std::collections::BTreeSet;
use std::sync::Mutex;

use rampart_linux::kernel_module::{ClaimWay, KernelFreeList, VerdictRefusal};
use rampart_linux::{Block, PageKind};
use rampart_march::named;
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{BlockVerdict, Bytes};

use super::tester::{Job, Stage};
use super::*;
use crate::control::{PolicyLimits, Work};
use crate::machine::fake::{FailingClock, FakeMachine, HardwareError, POISONED};
use crate::machine::fake_module::{FakeModule, FakeUse, GivenBack, range};
use crate::machine::reserve::SMALLEST_CLAIM;
use crate::sources::step::{ChosenMemory, ChosenRequest, Step, StepMemory};
use crate::testing::bad_frame::BadFrame;
use crate::testing::interruption::{HaltAtEnd, await_that};
use crate::testing::observed::Observed;
use crate::testing::observer::TestProgress;
use crate::testing::publishing::lock;
use crate::testing::record::tests::Disk;

/// Records messages and the names of events, as users see them.
#[derive(Default)]
struct Told {
    of_tests: Observed,
    events: Mutex<Vec<String>>,
}

impl TestObserver for Told {
    fn said(&self, text: &str) {
        self.of_tests.said(text);
    }
    fn warned(&self, text: &str) {
        self.of_tests.warned(text);
    }
    fn bad_frame(&self, _: &BadFrame) {}
    fn progress(&self, _: &TestProgress) {}
}

impl Observer for Told {
    fn happened(&self, _: Timestamp, event: &DaemonEvent) {
        let event = serde_json::to_value(event).unwrap();
        self.events.lock().unwrap().push(event["event"].as_str().unwrap().to_owned());
    }
    fn state(&self, _: &DaemonState) {}
    fn reload(&self) -> Option<DaemonSettings> {
        None
    }
}

/// The data rests for an hour before the delayed read, which a test may do at once.
fn request() -> WatchRequest {
    let limits = PolicyLimits { max_fidelity: Fidelity::MIN, max_cores: 1, ..ControlSettings::rahman16().limits };
    let share = Share::new(1.0).unwrap();
    WatchRequest {
        source: WatchSource::KernelModule,
        march: named::find("March C-").unwrap().test(),
        sequences: vec![AddressSequence::Sequential],
        delay: Duration::ZERO,
        retention: Duration::from_hours(1),
        engine: None,
        method: None,
        settings: DaemonSettings {
            control: ControlSettings { limits, ..ControlSettings::rahman16() },
            policy: PolicyName::Adaptive,
            shares: Shares { maximum: share, beside_programs: share },
            error_threshold: 10,
            error_window: Duration::from_secs(60),
        },
        duration: None,
        inject: None,
        seed: 1,
        errors: None,
        node: None,
    }
}

/// A daemon on a fake machine of 4096 free frames with a fake module.
struct Fixture {
    fake: FakeMachine,
    module: FakeModule,
    disk: Disk,
    told: Told,
    clock: FailingClock,
    request: WatchRequest,
    known_bad: BTreeSet<Frame>,
}

impl Fixture {
    fn new() -> Self {
        let (fake, module) = (FakeMachine::new(), FakeModule::new(4096));
        fake.set_free(Bytes::from_mib(48));
        fake.use_frames(module.flags());
        fake.add_ages(4096);
        (0..16).for_each(|number| fake.add_memory_block(number, "online", "Normal"));
        let (disk, told, clock) = (Disk::new(), Told::default(), FailingClock::default());
        Self { fake, module, disk, told, clock, request: request(), known_bad: BTreeSet::new() }
    }

    fn with<T>(&self, then: impl FnOnce(&DaemonContext<'_>, &Arc<ModuleDevice>) -> T) -> T {
        let (mut machine, clock) = (self.fake.machine(), SteadyClock::default());
        machine.clock = Box::new(self.clock.clone());
        let device = self.module.device(machine.roots());
        let known_bad = self.known_bad.clone();
        let prepared = WatchPreparation::new(&self.request, &machine, WatchReach::AllFrames, known_bad).unwrap();
        let start = self.request.start(clock.now());
        let recorder = TestRecorder::begin(self.disk.open(), start, &*machine.clock, &self.told);
        let warn = |text: &str| self.told.warned(text);
        let kernel = KernelWithModule::open(&machine, Arc::clone(&device), clock.now(), &warn).unwrap();
        let source = KernelFrames::new(kernel, self.request.settings.control.lifetime, [], clock.now());
        let diagnostic = controller(&self.request, &prepared, Box::new(source), clock.now());
        let shared = DaemonContext::new(&self.request, &machine, &prepared, &self.told, &clock, recorder, diagnostic);
        then(&shared, &device)
    }

    fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut self.told.events.lock().unwrap())
    }
}

/// Begins to test what the module is asked for.
fn begin(shared: &DaemonContext<'_>, device: &Arc<ModuleDevice>, request: ChosenRequest) -> Job {
    let memory = ChosenMemory::new(Arc::clone(device), request);
    let block = Step::new(StepMemory::Chosen(memory), Vec::new(), Node(0));
    Job::begin(shared, Work { block, fidelity: Fidelity::MIN }).expect("the module gives it")
}

/// Two claims of 8 frames: blocks of a free list.
fn list_of_two(module: &FakeModule) -> ChosenRequest {
    let list = KernelFreeList::of_node(Node(0)).find(|list| list.order.number() == 3).unwrap();
    [64, 128].into_iter().for_each(|first| module.list(list, first));
    ChosenRequest::List(list)
}

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

fn given(first: u64, count: u64, tested: bool, bad: &[u64]) -> GivenBack {
    GivenBack { frames: (first, count), tested, bad: bad.to_vec(), answer: Ok(()) }
}

/// The frames that a tester leaves as tested.
fn tested(step: &Step<StepMemory>) -> Vec<u64> {
    step.frames.iter().flatten().map(|frame| frame.number()).collect()
}

#[test]
fn claimed_frames_without_errors_are_good_and_go_back_so() {
    let fixture = Fixture::new();
    fixture.module.set_use(40, 1, FakeUse::Movable);
    fixture.module.bring(Node(0), 512, 16);
    let ways = [
        (ChosenRequest::Frames(range(8, 16), ClaimWay::Free), vec![(8, 16)]),
        (ChosenRequest::Pages(vec![frame(40), frame(5000), frame(41)]), vec![(40, 1), (41, 1)]),
        (ChosenRequest::New(Node(0)), vec![(512, 16)]),
    ];
    fixture.with(|shared, device| {
        for (request, claims) in ways {
            let before = lock(&shared.sums).frames;
            let mut job = begin(shared, device, request);
            assert!(job.test(shared) == Stage::Rests && job.test(shared) == Stage::Ends);
            let (step, verdict) = job.judge(shared);
            let frames: Vec<u64> = claims.iter().flat_map(|(first, count)| *first..first + count).collect();
            assert_eq!((verdict, lock(&shared.sums).frames - before), (BlockVerdict::Good, frames.len() as u64));
            assert_eq!(tested(&step), frames);
            let all: Vec<_> = claims.into_iter().map(|(first, count)| given(first, count, true, &[])).collect();
            assert_eq!(fixture.module.take_given(), all);
        }
        assert_eq!(lock(&shared.published.findings).count(), 0);
    });
}

#[test]
fn what_is_bad_in_claimed_frames_is_retired_once_it_is_in_the_store() {
    let mut fixture = Fixture::new();
    fixture.known_bad = BTreeSet::from([frame(70), frame(200)]);
    fixture.with(|shared, device| {
        let mut job = begin(shared, device, list_of_two(&fixture.module));
        assert!(job.test(shared).goes_on());
        fixture.module.damage(130);
        assert!(!job.test(shared).goes_on());
        let (_, verdict) = job.judge(shared);
        assert_eq!(verdict, BlockVerdict::Failed(vec![frame(70), frame(130)]));
        assert_eq!(fixture.module.take_given(), [given(64, 8, true, &[70]), given(128, 8, true, &[130])]);
        assert_eq!(
            [70, 130, 131].map(|number| fixture.module.use_of(number)),
            [FakeUse::Retired, FakeUse::Retired, FakeUse::Free]
        );
        assert_eq!(fixture.take_events(), ["bad_frame", "retired", "retired"]);
        shared.publish();
        let kept = fixture.disk.open().failures(MapOrigin::Real).unwrap();
        assert_eq!(kept.iter().map(|failed| &failed.retirement).collect::<Vec<_>>(), [&Retirement::Offlined]);
    });
}

#[test]
fn a_frame_with_an_injected_fault_fails_and_is_not_retired() {
    let mut fixture = Fixture::new();
    fixture.request.inject = Some("stuck-at@0x9".parse().unwrap());
    fixture.with(|shared, device| {
        let mut job = begin(shared, device, ChosenRequest::Frames(range(8, 16), ClaimWay::Free));
        while job.test(shared).goes_on() {}
        assert_eq!(job.judge(shared).1, BlockVerdict::Failed(vec![frame(9)]));
        assert_eq!(fixture.module.take_given(), [given(8, 16, true, &[])]);
    });
}

#[test]
fn of_several_claims_one_that_is_lost_or_whose_verdict_is_refused_is_not_tested() {
    for is_late in [false, true] {
        let fixture = Fixture::new();
        fixture.module.can_be_taken_back(64);
        fixture.with(|shared, device| {
            let mut job = begin(shared, device, list_of_two(&fixture.module));
            assert!(job.test(shared).goes_on());
            if !is_late {
                fixture.module.take_back();
            }
            assert!(!job.test(shared).goes_on());
            if is_late {
                fixture.module.refuse_verdict(64, VerdictRefusal::Late);
            }
            let (step, verdict) = job.judge(shared);
            assert_eq!((verdict, tested(&step)), (BlockVerdict::Good, (128..136).collect()));
            let late = GivenBack { answer: Err(VerdictRefusal::Late), ..given(64, 8, is_late, &[]) };
            assert_eq!(fixture.module.take_given(), [late, given(128, 8, true, &[])]);
            assert_eq!(lock(&shared.published.findings).count(), 0, "other memory was in its place");
        });
    }
}

#[test]
fn a_step_that_is_lost_or_stopped_or_refused_is_not_tested() {
    let fixture = Fixture::new();
    fixture.module.can_be_taken_back(8);
    fixture.with(|shared, device| {
        let frames = ChosenRequest::Frames(range(8, 16), ClaimWay::Free);
        let mut lost = begin(shared, device, frames.clone());
        fixture.module.take_back();
        assert!(!lost.test(shared).goes_on());
        let (step, verdict) = lost.judge(shared);
        assert_eq!((verdict, tested(&step)), (BlockVerdict::NotTested, vec![]));
        assert_eq!(fixture.module.take_given().pop().unwrap().answer, Err(VerdictRefusal::Late));
        fixture.module.set_use(8, 16, FakeUse::Free);

        let mut refused = begin(shared, device, frames.clone());
        while refused.test(shared).goes_on() {}
        fixture.module.refuse_verdict(8, VerdictRefusal::TooMany);
        let (step, verdict) = refused.judge(shared);
        assert_eq!((verdict, tested(&step)), (BlockVerdict::NotTested, vec![]));
        let given_back = fixture.module.take_given();
        assert_eq!(given_back.len(), 2, "what was still claimed goes back");

        let mut stopped = begin(shared, device, frames);
        shared.interruption.halt();
        assert!(!stopped.test(shared).goes_on());
        let (step, verdict) = stopped.judge(shared);
        assert_eq!((verdict, tested(&step)), (BlockVerdict::NotTested, vec![]));
        assert_eq!((fixture.module.take_given(), lock(&shared.sums).frames), (vec![given(8, 16, false, &[])], 0));
    });
}

#[test]
fn an_error_of_the_hardware_in_claimed_frames_is_written_before_its_frame_is_retired() {
    for marks in [true, false] {
        let mut fixture = Fixture::new();
        fixture.request.inject = Some("stuck-at@0x9".parse().unwrap());
        let mut flags = fixture.module.flags();
        flags[12] = if marks { POISONED } else { 0 };
        fixture.fake.use_frames(flags);
        fixture.with(|shared, device| {
            let mut job = begin(shared, device, ChosenRequest::Frames(range(8, 16), ClaimWay::Free));
            fixture.clock.fail(HardwareError::Nowhere);
            assert!(!job.test(shared).goes_on());
            let (step, verdict) = job.judge(shared);
            let bad = if marks { vec![frame(9), frame(12)] } else { vec![frame(9)] };
            assert_eq!((verdict, tested(&step)), (BlockVerdict::Failed(bad), vec![]));
            let retired: &[u64] = if marks { &[12] } else { &[] };
            assert_eq!(fixture.module.take_given(), [given(8, 16, false, retired)]);
            let events: &[&str] = if marks { &["bad_frame", "bad_frame", "retired"] } else { &["bad_frame"] };
            assert_eq!(fixture.take_events(), events);
            assert_eq!(fixture.told.of_tests.take_lines().len(), usize::from(!marks));
        });
    }
}

/// Memory of the program in frames from 1000 on, in which the hardware finds an error.
#[test]
fn of_a_program_s_memory_the_page_with_the_error_is_bad_and_nothing_counts_as_tested() {
    for error in [Some(9), None] {
        let mut fixture = Fixture::new();
        fixture.request.inject = Some("stuck-at@0x3eb".parse().unwrap());
        fixture.fake.use_frames((0..1512).map(|frame| if frame == 1020 { POISONED } else { 0 }));
        fixture.with(|shared, _| {
            let block = Block::claim(SMALLEST_CLAIM, PageKind::Huge).unwrap();
            fixture.fake.place(&block, 1000);
            let base = block.base().addr().get() as u64;
            let block = Step::new(StepMemory::Program(block), Vec::new(), Node(0));
            let mut job = Job::begin(shared, Work { block, fidelity: Fidelity::MIN }).unwrap();
            fixture.clock.fail(error.map_or(HardwareError::Nowhere, |page| HardwareError::At(base + page * 4096)));
            assert!(!job.test(shared).goes_on() && !job.is_tested());
            let (step, verdict) = job.judge(shared);
            // Without an address, the kernel's mark says which frame it is.
            let bad = frame(if error.is_some() { 1009 } else { 1020 });
            assert_eq!(verdict, BlockVerdict::Failed(vec![frame(1003), bad]));
            let left = if error.is_some() { vec![1003, 1009] } else { vec![1003] };
            assert_eq!(tested(&step), left, "what the pool keeps");
            assert_eq!(lock(&shared.sums).frames, 0);
        });
    }
}

#[test]
fn a_block_for_which_a_task_waits_is_tested_at_once_and_without_its_delayed_read() {
    let mut fixture = Fixture::new();
    fixture.known_bad = BTreeSet::from([frame(600)]);
    fixture.module.offer_tests_on_demand();
    fixture.with(|shared, device| {
        let needed = || shared.share_needed(1000.0, Fidelity::MIN, 1);
        let before = needed();
        let mut all = Vec::new();
        thread::scope(|scope| {
            let _halts = HaltAtEnd(&shared.interruption);
            scope.spawn(|| on_demand::work(shared, device));
            await_that(|| fixture.module.waits() > 0);
            fixture.module.demand(Node(0), 512, 8);
            fixture.module.demand(Node(0), 600, 8);
            await_that(|| {
                all.extend(fixture.module.take_given());
                all.len() == 2
            });
        });
        assert_eq!(all, [given(512, 8, true, &[]), given(600, 8, true, &[600])]);
        assert_eq!(lock(&shared.sums).frames, 16);
        assert!((needed() - before).abs() < 1e-12, "such a test does not say how fast testers are");
        assert_eq!(fixture.take_events(), ["retired"]);
    });
}

#[test]
fn without_tests_on_demand_nobody_serves_them() {
    Fixture::new().with(on_demand::work);
}

#[test]
fn how_fast_a_tester_is_shows_in_steps_that_nobody_waits_for() {
    let fixture = Fixture::new();
    fixture.with(|shared, device| {
        let needed = || shared.share_needed(1000.0, Fidelity::MIN, 1);
        let before = needed();
        let mut job = begin(shared, device, ChosenRequest::Frames(range(8, 16), ClaimWay::Free));
        assert!(job.test(shared).goes_on());
        let after = needed();
        assert!((after - before).abs() > 0.0, "{before}");
        job.test(shared);
        assert!((needed() - after).abs() < 1e-12, "only once a step");
    });
}

#[test]
fn without_a_module_one_that_was_asked_for_is_an_error_and_the_best_source_is_free_memory() {
    let (fake, told) = (FakeMachine::new(), Told::default());
    let of = |source| module_device(source, &fake.machine(), &told);
    assert!(matches!(of(WatchSource::KernelModule), Err(Error::NoModule(_))));
    assert!(matches!(of(WatchSource::Best), Ok(None)) && matches!(of(WatchSource::FreeMemory), Ok(None)));
    assert_eq!(told.of_tests.take_lines(), [""; 0]);
    std::fs::write(fake.machine().roots().proc("modules"), "rampart 32768 0 - Live 0x0\n").unwrap();
    assert!(matches!(of(WatchSource::FreeMemory), Ok(None)));
    assert_eq!(told.of_tests.take_lines(), [""; 0]);
    assert!(matches!(of(WatchSource::Best), Ok(None)));
    assert_eq!(told.of_tests.take_lines().len(), 1, "it is loaded, and of another version");
}
