//! A test of chosen frames over a fake module and a machine whose files are fake.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Range;
use std::time::Duration;

use rampart_linux::SystemClock;
use rampart_linux::kernel_module::{
    ClaimRefusal, ClaimWay, KernelFreeList, KernelMigratetype, KernelZone, VerdictRefusal,
};
use rampart_linux::memory_loss::MemoryLoss;
use rampart_march::Fidelity;
use rampart_march::execute::limit::Limit;
use rampart_memory::fault_map::{FailedFrame, MapOrigin, Retirement};
use rampart_memory::{BlockOrder, Bytes, Clock, FRAME_BYTES, Frame, Node, Timestamp};

use super::piece::{ClaimedPiece, StageEnd};
use super::schedule::NextPiece;
use super::*;
use crate::machine::KernelErrors;
use crate::machine::fake::{FailingClock, FakeMachine, HardwareError, POISONED, RESERVED};
use crate::machine::fake_module::{FakeModule, FakeUse, GivenBack, range};
use crate::once::report::TestVerdict;
use crate::once::tester::tests::request as request_for_free_memory;
use crate::testing::findings::MismatchLocation;
use crate::testing::interruption::{HaltAtEnd, await_that};
use crate::testing::observed::Observed;
use crate::testing::publishing::lock;
use crate::testing::record::tests::Disk;

const HOUR: Duration = Duration::from_hours(1);

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

/// The memory of so many frames.
const fn of_frames(frames: u64) -> Bytes {
    Bytes::new(frames * FRAME_BYTES)
}

fn list(migratetype: KernelMigratetype, order: u8) -> KernelFreeList {
    let order = BlockOrder::all().find(|of| of.number() == order).unwrap();
    KernelFreeList { node: Node(0), zone: KernelZone::Normal, migratetype, order }
}

fn request() -> TestRequest {
    TestRequest { memory: None, inject: None, ..request_for_free_memory() }
}

/// A machine with a module, a store, and an observer that records every call.
struct Session {
    fake: FakeMachine,
    module: FakeModule,
    disk: Disk,
    observer: Observed,
    request: TestRequest,
    choice: FrameChoice,
    known_bad: BTreeSet<Frame>,
}

impl Session {
    /// A test of these frames of a machine with 4096, which are free.
    fn new(request: TestRequest, ranges: &[FrameRange], used: bool) -> Self {
        let (fake, module) = (FakeMachine::new(), FakeModule::new(4096));
        (0..16).for_each(|number| fake.add_memory_block(number, "online", "Normal"));
        let choice = FrameChoice { ranges: ranges.to_vec(), used, ..FrameChoice::default() };
        let (disk, observer) = (Disk::new(), Observed::default());
        Self { fake, module, disk, observer, request, choice, known_bad: BTreeSet::new() }
    }

    /// Shows what frames are used for.
    fn show(&self) {
        self.fake.use_frames(self.module.flags());
    }

    fn run(&self, stop: bool) -> Result<Report, Error> {
        self.show();
        let machine = self.fake.machine();
        let device = self.module.device(machine.roots());
        let (choice, store, stop) = (&self.choice, self.disk.open(), AtomicBool::new(stop));
        run_over(device, (&self.request, choice), &machine, store, &stop, &self.observer)
    }

    fn with<T>(&self, clock: impl Clock + Sync + 'static, then: impl FnOnce(&ChosenContext<'_>) -> T) -> T {
        self.show();
        let mut machine = self.fake.machine();
        machine.clock = Box::new(clock);
        let start = self.request.start(machine.clock.now());
        let recorder = TestRecorder::begin(self.disk.open(), start, &*machine.clock, &self.observer);
        let (request, outlook) = (&self.request, machine.outlook().unwrap());
        let largest = Bytes::from_mib(2);
        let test = ChosenTest {
            request,
            choice: &self.choice,
            machine: &machine,
            observer: &self.observer,
            device: self.module.device(machine.roots()),
            cpus: choose_cpus(request.threads, machine.cpus()).unwrap(),
            march: MarchSetup::new(None, None, request.delay, request.retention, largest).unwrap(),
            asked_for: of_frames(self.choice.ranges.iter().map(|range| range.count()).sum()),
            total: outlook.total,
            reserve: MemoryReserve::new(&outlook),
            known_bad: self.known_bad.clone(),
        };
        let nodes = self.choice.nodes_of(&machine.memory_blocks().unwrap());
        then(&ChosenContext::new(test, &self.choice.ranges, nodes, Publisher::new(recorder)))
    }

    /// Claims the next piece and begins with it.
    fn claim(shared: &ChosenContext<'_>) -> ClaimedPiece {
        let NextPiece::Claim(piece) = shared.next() else { panic!("there is one") };
        let frames = shared.test.device.claim(piece.frames, ClaimWay::Free).unwrap();
        ClaimedPiece::begin(shared, piece, frames)
    }
}

fn given(frames: Range<u64>, tested: bool, bad: &[u64]) -> GivenBack {
    GivenBack { frames: (frames.start, frames.end - frames.start), tested, bad: bad.to_vec(), answer: Ok(()) }
}

fn late(frames: Range<u64>, tested: bool) -> GivenBack {
    GivenBack { answer: Err(VerdictRefusal::Late), ..given(frames, tested, &[]) }
}

/// Blocks of 2 MiB: of free frames, one of which is on the map; with frames in use; with one that cannot be moved; and
/// with frames that the kernel takes back each time.
#[test]
fn what_the_kernel_gives_is_tested_and_the_report_counts_the_rest() {
    let session = Session::new(TestRequest { duration: Some(HOUR), ..request() }, &[range(0, 2048)], true);
    let module = &session.module;
    module.set_use(600, 100, FakeUse::Movable);
    module.set_use(1100, 1, FakeUse::Fixed);
    module.set_use(1101, 10, FakeUse::Movable);
    module.end_at_once(2000, 1 + 3);
    let unmovable = list(KernelMigratetype::Unmovable, 3);
    // New, partly tested, tested, beside the chosen frames and half in them.
    [1024, 1104, 8, 3000, 2044].into_iter().for_each(|first| module.list(unmovable, first));
    module.list(list(KernelMigratetype::Movable, 0), 1060);
    module.end_at_once(1060, 1);
    module.list(list(KernelMigratetype::Reclaimable, 1), 1062);
    module.refuse_verdict(1062, VerdictRefusal::Late);
    session
        .disk
        .open()
        .keep_failure(None, MapOrigin::Real, &FailedFrame::condemned(frame(300), Timestamp::from_micros(1)))
        .unwrap();
    session.fake.set_used(Bytes::from_mib(9));

    let report = session.run(false).unwrap();
    let tested = 1024 + 10 + 8 + 1;
    assert_eq!((report.frames_tested, report.extent.tested), (tested, of_frames(tested)));
    assert_eq!((report.extent.request, report.extent.named), (of_frames(2048), true));
    assert_eq!((report.verdict, report.bad_frames.len()), (TestVerdict::Incomplete, 0));
    let missing = of_frames(2048 - tested);
    let why = format!("the kernel did not give {missing} of what was asked for: see what was not tested, and why");
    assert_eq!(report.incomplete, Some(why));
    let chosen = report.chosen.unwrap();
    let lost = 4 * 512 + 1 + 2;
    assert_eq!((chosen.moved, chosen.lost, chosen.used, chosen.ranges), (110, lost, true, vec![range(0, 2048)]));
    let not_tested: Vec<_> = report.not_tested.iter().map(|left| (&left.why[..8], left.frames)).collect();
    assert_eq!(not_tested, [("free now", 2048 - tested - 1), ("in use: ", 1), ("taken ba", lost)]);
    assert_eq!((report.test.passes, report.test.threads), (1, 1));
    assert_eq!(report.test.pinning, "claimed from the kernel, by its module");
    assert_eq!((report.own_bytes, report.delayed_read.is_none()), (Some(Bytes::from_mib(9)), true));
    let limit = report.limit.unwrap();
    assert_eq!(report.fraction_of_limit, Some(report.bytes_per_second / limit.of_this_test));
    let end = session.disk.open().history(1).unwrap()[0].end.clone().unwrap();
    assert_eq!((end.frames_tested, end.bad_frames), (tested, 0));

    let mut all = module.take_given();
    all.sort_by_key(|given| (given.frames, given.answer.is_ok(), given.tested));
    let mut expected = vec![given(0..1024, true, &[300]), given(8..16, false, &[])];
    expected.push(given(1024..1032, true, &[]));
    expected.push(late(1060..1061, false));
    expected.push(late(1062..1064, true));
    expected.extend((1101..1104).map(|frame| given(frame..frame + 1, true, &[])));
    expected.push(given(1104..1105, true, &[]));
    expected.push(given(1104..1112, true, &[]));
    expected.extend((1105..1111).map(|frame| given(frame..frame + 1, true, &[])));
    expected.extend((0..4).map(|_| late(1536..2048, false)));
    expected.push(given(2044..2052, false, &[]));
    expected.push(given(3000..3008, false, &[]));
    assert_eq!(all, expected);
    assert_eq!((module.use_of(300), module.claims().0), (FakeUse::Retired, 0));
    assert!(module.renewals() > 0 && !session.observer.progress.lock().unwrap().is_empty());
    let lines = session.observer.take_lines();
    let text = "testing     frames free or in use, 8 MiB, from the kernel with {⇕(w0); ⇕(r0,w1); ⇕(r1)}, fidelity";
    assert!(lines.iter().any(|line| line.starts_with(text) && line.contains("on 1 CPU (")), "{lines:?}");
}

#[test]
fn what_is_free_is_tested_in_all_passes_and_then_no_free_list() {
    let session =
        Session::new(TestRequest { passes: NonZero::new(2), ..request() }, &[range(0, 700), range(1024, 512)], false);
    session.module.set_use(512, 188, FakeUse::Movable);
    session.module.list(list(KernelMigratetype::Unmovable, 3), 0);
    let report = session.run(false).unwrap();
    assert_eq!((report.verdict, report.incomplete), (TestVerdict::Pass, None));
    // The free frames of 700 are too many for one claim without those in use: cut where a block begins.
    assert_eq!((report.frames_tested, report.extent.request), (1024, of_frames(1024)));
    let frames: Vec<_> = session.module.take_given().into_iter().map(|given| given.frames).collect();
    assert_eq!(frames.len(), 4, "{frames:?}");
    assert_eq!((frames.iter().map(|(_, count)| count).sum::<u64>(), report.test.passes), (2 * 1024, 2));
    assert_eq!(session.module.list_requests(), 0, "nothing that is free is left");
    let left: Vec<_> = report.not_tested.iter().map(|left| (left.why.as_str(), left.frames)).collect();
    assert_eq!(left, [("in use: memory of programs", 188)]);
}

#[test]
fn frames_that_are_no_memory_are_refused_and_only_if_all_were_named() {
    let session = Session::new(request(), &[range(0, 512)], true);
    session.fake.use_frames([RESERVED; 4096]);
    let machine = session.fake.machine();
    let run = |choice: &FrameChoice| {
        let (device, store) = (session.module.device(machine.roots()), session.disk.open());
        let request = TestRequest { duration: Some(Duration::ZERO), ..request() };
        run_over(device, (&request, choice), &machine, store, &AtomicBool::new(false), &session.observer)
    };
    assert!(matches!(run(&session.choice), Err(Error::NoSuchFrames)));
    assert!(run(&FrameChoice { used: false, ..session.choice.clone() }).is_ok(), "no frame is free now");
    let beyond = FrameChoice { ranges: vec![range(10_000, 8)], ..FrameChoice::default() };
    assert!(matches!(run(&beyond), Err(Error::NoSuchFrames)));
}

#[test]
fn a_test_that_is_stopped_or_whose_time_is_up_is_incomplete() {
    let endless = TestRequest { passes: None, duration: Some(HOUR), ..request() };
    let session = Session::new(endless.clone(), &[range(0, 4096)], false);
    assert_eq!(session.run(true).unwrap().incomplete.as_deref(), Some("stopped before its end"));
    let lists = TestRequest {
        delay: HOUR,
        duration: Some(Duration::ZERO),
        march: "{⇕(w0); Del; ⇕(r0)}".parse().unwrap(),
        ..endless
    };
    let session = Session::new(lists, &[range(0, 4096)], false);
    let report = session.run(false).unwrap();
    assert_eq!(report.incomplete.as_deref(), Some("the time was up in the first pass: give more time or fewer frames"));
    assert_eq!((report.frames_tested, report.bytes_per_second, report.fraction_of_limit), (0, 0.0, None));
    assert_eq!(session.module.claims().0, 0, "what was claimed went back");
    assert!(session.module.take_given().iter().all(|given| !given.tested && given.answer.is_ok()));
}

#[test]
fn a_tester_holds_a_few_pieces_that_rest_before_their_delayed_read() {
    let pieces: Vec<_> = (0..6).map(|piece| range(16 * piece, 8)).collect();
    let session = Session::new(TestRequest { retention: HOUR, ..request() }, &pieces, false);
    session.with(SystemClock, |shared| {
        thread::scope(|scope| {
            let _halts = HaltAtEnd(&shared.interruption);
            scope.spawn(|| tester::work(shared, shared.test.cpus[0]));
            await_that(|| session.module.claims().0 >= 4);
            thread::sleep(Duration::from_millis(30));
            shared.stop(Stopped::Asked);
        });
        assert_eq!(session.module.claims(), (0, 4));
        let sums = lock(&shared.sums);
        assert_eq!((sums.frames.len(), sums.limits.len()), (0, 1));
        assert!(session.module.take_given().into_iter().all(|given| !given.tested));
    });
    let session = Session::new(TestRequest { retention: Duration::from_millis(1), ..request() }, &pieces, false);
    let report = session.run(false).unwrap();
    assert_eq!((report.frames_tested, report.verdict, report.incomplete), (48, TestVerdict::Pass, None));
    let delayed = report.delayed_read.unwrap();
    assert_eq!((delayed.delay_seconds, delayed.frames_skipped), (0.001, 0));
}

#[test]
fn blocks_of_a_free_list_rest_together_and_their_rest_can_be_interrupted() {
    for retention in [Duration::from_millis(1), HOUR] {
        let session = Session::new(TestRequest { retention, ..request() }, &[range(0, 512)], true);
        let orders = list(KernelMigratetype::Unmovable, 2);
        [0, 4, 100].into_iter().for_each(|first| session.module.list(orders, first));
        session.with(SystemClock, |shared| {
            thread::scope(|scope| {
                let tester = scope.spawn(|| lists::test(shared, vec![orders]));
                let _halts = HaltAtEnd(&shared.interruption);
                if retention == HOUR {
                    await_that(|| lock(&shared.sums).busy > Duration::ZERO);
                    shared.stop(Stopped::Asked);
                }
                tester.join().unwrap();
            });
            let all = session.module.take_given();
            assert_eq!(all.len(), 3);
            assert!(all.iter().all(|given| given.tested == (retention != HOUR) && given.answer.is_ok()), "{all:?}");
            let sums = lock(&shared.sums);
            assert_eq!((sums.frames.len(), sums.lost), (if retention == HOUR { 0 } else { 12 }, 0));
        });
    }
}

#[test]
fn once_a_test_is_stopped_no_list_is_asked_for() {
    let session = Session::new(request(), &[range(0, 512)], true);
    session.with(SystemClock, |shared| {
        shared.stop(Stopped::TimeUp);
        shared.stop(Stopped::Asked);
        lists::test(shared, vec![list(KernelMigratetype::Movable, 0)]);
        assert_eq!((session.module.list_requests(), shared.stopped()), (0, Some(Stopped::TimeUp)));
    });
}

#[test]
fn only_memory_that_programs_can_spare_is_claimed() {
    let session = Session::new(request(), &[range(0, 512)], false);
    session.with(SystemClock, |shared| {
        // Of a reserve of 32 MiB, the test may take a quarter.
        session.fake.set_free(Bytes::from_mib(24 + 1));
        assert_eq!((shared.spare(), shared.next()), (Bytes::ZERO, NextPiece::Wait));
        session.fake.set_free(Bytes::from_mib(24 + 2));
        assert_eq!(shared.spare(), Bytes::from_mib(2));
        thread::sleep(Duration::from_millis(210));
        let NextPiece::Claim(piece) = shared.next() else { panic!("it was put off") };
        assert_eq!((piece.frames, shared.next()), (range(0, 512), NextPiece::Wait));
    });
}

#[test]
fn progress_is_that_of_the_pass() {
    let session = Session::new(
        TestRequest { passes: NonZero::new(3), duration: Some(HOUR), ..request() },
        &[range(0, 512)],
        false,
    );
    session.with(SystemClock, |shared| {
        let mut piece = Session::claim(shared);
        assert_eq!((piece.march(shared), piece.pass), (StageEnd::Whole, 1));
        assert_eq!(piece.give_back(shared), Ok(()));
        lock(&shared.sums).add_tested(piece.pass, piece.piece.frames);
        let seen = shared.progress();
        assert_eq!((seen.pass, seen.passes, seen.bad_frames), (1, Some(3), 0));
        assert_eq!((seen.done_in_pass, seen.total_in_pass), (of_frames(512), of_frames(512)));
        assert!(seen.bytes_per_second > 0.0 && seen.elapsed > Duration::ZERO && seen.deadline == Some(HOUR));
        shared.schedule().tested(shared.elapsed());
        let _wait = shared.next();
        assert_eq!((shared.progress().pass, shared.progress().done_in_pass), (2, Bytes::ZERO));
        let text = shared.describe();
        assert!(text.starts_with("testing     free frames, 2 MiB, from the kernel with {⇕(w0)"), "{text}");
    });
    let named = TestRequest { name: Some("March X".to_owned()), ..request() };
    Session::new(named, &[range(0, 8)], false).with(SystemClock, |shared| {
        assert!(shared.describe().contains("from the kernel with March X {⇕(w0)"), "{}", shared.describe());
    });
}

#[test]
fn a_frame_that_forgets_is_bad_and_goes_back_as_such() {
    let session = Session::new(TestRequest { retention: HOUR, ..request() }, &[range(0, 512)], false);
    session.with(SystemClock, |shared| {
        let mut piece = Session::claim(shared);
        assert_eq!((piece.plan.rests(), piece.march(shared)), (1, StageEnd::Whole));
        session.module.damage(7);
        let busy = lock(&shared.sums).busy;
        piece.stage = 1;
        assert_eq!(piece.march(shared), StageEnd::Whole);
        assert!(busy > Duration::ZERO && lock(&shared.sums).busy > busy);
        assert_eq!(piece.give_back(shared), Ok(()));
        assert_eq!(session.module.take_given(), [given(0..512, true, &[7])]);
        assert_eq!((session.module.use_of(7), session.module.use_of(8)), (FakeUse::Retired, FakeUse::Free));
        let told = session.observer.bad.lock().unwrap();
        assert_eq!((told.len(), told[0].frame), (1, Some(frame(7))));
        let kept = session.disk.open().failures(MapOrigin::Real).unwrap();
        assert_eq!(kept.get(frame(7)).unwrap().retirement, Retirement::Offlined);
        assert_eq!((session.observer.take_lines(), shared.progress().bad_frames), (vec![], 1));
    });
}

#[test]
fn a_verdict_that_is_too_late_or_refused_does_not_lose_the_bad_frame() {
    for refusal in [VerdictRefusal::Late, VerdictRefusal::TooMany] {
        let mut session = Session::new(request(), &[range(0, 8)], false);
        session.known_bad = BTreeSet::from([frame(3), frame(9)]);
        session.with(SystemClock, |shared| {
            let mut piece = Session::claim(shared);
            lock(&shared.published.findings).uncorrected(MismatchLocation::Frame(frame(3)), Timestamp::from_micros(1));
            session.module.refuse_verdict(0, refusal.clone());
            assert_eq!(piece.give_back(shared), Err(refusal.clone()));
            let kept = session.disk.open().failures(MapOrigin::Real).unwrap();
            let lines = session.observer.take_lines();
            assert!(lines.iter().any(|line| line.starts_with("warning: NOT retired frame 0x3: ")), "{lines:?}");
            assert!(matches!(kept.get(frame(3)).unwrap().retirement, Retirement::Refused(_)));
            assert_eq!(session.fake.was_asked_to_retire(frame(3)), refusal == VerdictRefusal::Late);
        });
        let last = session.module.take_given().pop().unwrap();
        assert_eq!(last.answer.is_ok(), refusal == VerdictRefusal::TooMany, "what was still claimed is given back");
    }
}

#[test]
fn an_error_of_the_hardware_ends_a_test_and_its_frame_is_retired() {
    for marks in [true, false] {
        let clock = FailingClock::default();
        let session = Session::new(TestRequest { retention: HOUR, ..request() }, &[range(0, 512)], false);
        session.with(clock.clone(), |shared| {
            let mut piece = Session::claim(shared);
            assert_eq!(piece.march(shared), StageEnd::Whole);
            [7, 9].into_iter().for_each(|frame| session.module.damage(frame));
            let mut flags = session.module.flags();
            flags[20] = if marks { POISONED } else { 0 };
            flags[600] = POISONED;
            session.fake.use_frames(flags);
            clock.fail(HardwareError::At(piece.frames.base().addr().get() as u64 + 20 * FRAME_BYTES));
            piece.stage = 1;
            assert_eq!(piece.march(shared), StageEnd::Lost);
            assert_eq!(piece.frames.loss(), Some(MemoryLoss::HardwareError));
            assert_eq!(piece.abandon(shared).frames, range(0, 512));
            let bad: &[u64] = if marks { &[7, 20] } else { &[7] };
            assert_eq!(
                session.module.take_given(),
                [given(0..512, false, bad)],
                "not 9: other memory was in its place"
            );
            assert_eq!(session.observer.bad.lock().unwrap().len(), bad.len());
            assert_eq!(session.observer.take_lines().len(), usize::from(!marks), "nobody knows the frame");
        });
    }
}

#[test]
fn a_piece_that_is_taken_back_is_lost_without_findings() {
    let session = Session::new(
        TestRequest { retention: HOUR, fidelity: Fidelity::new(2).unwrap(), ..request() },
        &[range(0, 512)],
        false,
    );
    session.module.can_be_taken_back(0);
    session.with(SystemClock, |shared| {
        let mut piece = Session::claim(shared);
        assert_eq!(piece.march(shared), StageEnd::Whole);
        session.module.take_back();
        let busy = lock(&shared.sums).busy;
        piece.stage = 1;
        assert_eq!((piece.march(shared), lock(&shared.sums).busy), (StageEnd::Lost, busy));
        assert_eq!(piece.abandon(shared).frames, range(0, 512));
        assert_eq!(session.module.take_given(), [late(0..512, false)]);
        assert_eq!(shared.progress().bad_frames, 0);
    });
}

#[test]
fn a_piece_is_tried_again_when_memory_is_short_and_when_its_verdict_comes_too_late() {
    let march = "{⇕(w0); Del; ⇕(r0)}".parse().unwrap();
    let delayed = TestRequest { march, delay: Duration::from_millis(1), ..request() };
    let session = Session::new(delayed, &[range(0, 8)], false);
    session.module.refuse(0, ClaimRefusal::MemoryShort);
    session.module.refuse_verdict(0, VerdictRefusal::Late);
    let report = session.run(false).unwrap();
    assert_eq!((report.frames_tested, report.chosen.unwrap().lost, report.incomplete), (8, 8, None));
    let answers: Vec<_> = session.module.take_given().into_iter().map(|given| given.answer.is_ok()).collect();
    assert_eq!(answers, [false, true]);
}

#[test]
fn a_piece_stops_in_the_middle() {
    let session = Session::new(
        TestRequest { march: "{⇕(w0); Del; ⇕(r0)}".parse().unwrap(), delay: HOUR, ..request() },
        &[range(0, 8)],
        false,
    );
    session.with(SystemClock, |shared| {
        let mut piece = Session::claim(shared);
        shared.stop(Stopped::Asked);
        assert_eq!((piece.march(shared), lock(&shared.sums).busy), (StageEnd::Stopped, Duration::ZERO));
    });
}

#[test]
fn findings_are_told_while_the_test_goes_on_and_what_was_not_tested_has_no_rate() {
    let session = Session::new(request(), &[range(0, 8)], false);
    session.with(SystemClock, |shared| {
        lock(&shared.published.findings).uncorrected(MismatchLocation::Frame(frame(3)), Timestamp::from_micros(1));
        tick(shared, &AtomicBool::new(false));
        assert_eq!((session.observer.bad.lock().unwrap().len(), session.module.renewals()), (1, 1));
        assert_eq!((session.observer.progress.lock().unwrap()[0].bad_frames, shared.stopped()), (1, None));
        lock(&shared.sums).limits.push(Limit { write: 4e9, read: 2e9 });
        let errors = KernelErrors::Absent(String::new());
        let report = summary::summarize(shared, &shared.ranges, Timestamp::from_micros(1), errors);
        assert_eq!(
            (report.verdict, report.bytes_per_second.abs(), report.fraction_of_limit),
            (TestVerdict::Fail, 0.0, None)
        );
        assert!(report.limit.is_some());
    });
}
