//! A tester over a machine whose files are fake.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rampart_linux::SystemClock;
use rampart_march::{AddressSequence, Fidelity};
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{Clock, Timestamp};
use rampart_store::Store;

use super::*;
use crate::machine::fake::{FREE, FailingClock, FakeMachine, HardwareError, POISONED};
use crate::machine::moving_pages::MovingPages;
use crate::once::prepare::TestPreparation;
use crate::once::report::{NotTested, Report, TestVerdict};
use crate::once::schedule::Lack;
use crate::once::shared::TestSums;
use crate::once::summary::summarize;
use crate::once::{Stopped, TestRequest, TestSource, run};
use crate::testing::findings::MismatchLocation;
use crate::testing::observed::Observed;
use crate::testing::record::TestRecorder;
use crate::testing::record::tests::Disk;

/// Reads the time, as each mismatch does: then a page moves to a frame where it never was.
struct MovingClock {
    pages: Arc<MovingPages>,
    /// The address of the page; 0: none yet.
    moves: Arc<AtomicU64>,
    next: AtomicU64,
}

impl Clock for MovingClock {
    fn now(&self) -> Timestamp {
        let address = self.moves.load(Ordering::Relaxed);
        if address != 0 {
            self.pages.put(address, self.next.fetch_add(1, Ordering::Relaxed));
        }
        SystemClock.now()
    }
}

/// A short test by one tester, with injected faults.
pub fn request() -> TestRequest {
    TestRequest {
        memory: Some(Bytes::from_mib(2)),
        name: None,
        march: "{⇕(w0); ⇕(r0,w1); ⇕(r1)}".parse().unwrap(),
        fidelity: Fidelity::MIN,
        sequences: vec![AddressSequence::Sequential],
        threads: NonZero::new(1),
        duration: None,
        passes: NonZero::new(1),
        delay: Duration::ZERO,
        retention: Duration::ZERO,
        engine: None,
        method: None,
        inject: Some("stuck-at:20,seed=1".parse().unwrap()),
        seed: 1,
        source: TestSource::FreeMemory,
    }
}

#[test]
fn frames_that_a_page_leaves_or_comes_to_during_each_test_never_count_as_tested() {
    let (pages, moves) = (Arc::new(MovingPages::new()), Arc::new(AtomicU64::new(0)));
    let mut machine = pages.machine();
    let clock = MovingClock { pages: Arc::clone(&pages), moves: Arc::clone(&moves), next: AtomicU64::new(5000) };
    machine.clock = Box::new(clock);
    let (request, silent) = (request(), Observed::default());
    let prepared = TestPreparation::new(&request, &machine).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("r.db"), machine.clock.now()).unwrap().store;
    let recorder = TestRecorder::begin(store, request.start(machine.clock.now()), &*machine.clock, &silent);
    let shared = TestContext::new(&request, &machine, &prepared, BTreeSet::new(), recorder, &silent);

    let Next::Claim { index, bytes } = shared.next() else { panic!("there is memory") };
    let mut held = claim(&shared, index, bytes).expect("a block");
    let count = held.block.pages();
    pages.place(&held.block, 1000);
    moves.store(held.block.base().addr().get() as u64 + 7 * 4096, Ordering::Relaxed);
    let mut tests = 1;
    test(&shared, held);
    while let Next::Again(again) = shared.next() {
        held = again;
        tests += 1;
        test(&shared, held);
    }
    assert_eq!(tests, 1 + RETRIES, "it is tested again as long as that may help");
    let sums = lock(&shared.sums);
    let frame = |number| Frame::new(number).unwrap();
    let counted = (1000..1000 + count).filter(|&number| sums.frames.contains(frame(number))).count() as u64;
    assert_eq!((sums.frames.len(), counted, sums.moved), (count - 1, count - 1, 1));
    assert!(!sums.frames.contains(frame(1007)));
}

const MIB: fn(u64) -> Bytes = Bytes::from_mib;
const PAGES: u64 = 512;

/// A fake machine, a store, and an observer that records every call.
struct Session {
    fake: FakeMachine,
    disk: Disk,
    observer: Observed,
    request: TestRequest,
    known_bad: BTreeSet<Frame>,
}

impl Session {
    fn new(request: TestRequest) -> Self {
        let (disk, observer) = (Disk::new(), Observed::default());
        Self { fake: FakeMachine::new(), disk, observer, request, known_bad: BTreeSet::new() }
    }

    fn with<T>(&self, then: impl FnOnce(&TestContext<'_>) -> T) -> T {
        self.with_clock(SystemClock, then)
    }

    fn with_clock<T>(&self, clock: impl Clock + Sync + 'static, then: impl FnOnce(&TestContext<'_>) -> T) -> T {
        let mut machine = self.fake.machine();
        machine.clock = Box::new(clock);
        let prepared = TestPreparation::new(&self.request, &machine).unwrap();
        let (clock, start) = (&*machine.clock, self.request.start(machine.clock.now()));
        let recorder = TestRecorder::begin(self.disk.open(), start, clock, &self.observer);
        then(&TestContext::new(&self.request, &machine, &prepared, self.known_bad.clone(), recorder, &self.observer))
    }

    /// Claims the next block, and puts its pages into frames: those of block 0 begin at 1000, of block 1 at 2000.
    fn claim(&self, shared: &TestContext<'_>) -> HeldBlock {
        let Next::Claim { index, bytes } = shared.next() else { panic!("there is memory") };
        let held = claim(shared, index, bytes).expect("a block");
        self.fake.place(&held.block, 1000 * (index + 1));
        held
    }

    /// Tests to the end; returns how often a block was tested again.
    fn test_all(&self, shared: &TestContext<'_>) -> usize {
        let mut again = 0;
        loop {
            match shared.next() {
                Next::Claim { index, bytes } => {
                    let held = claim(shared, index, bytes).expect("a block");
                    self.fake.place(&held.block, 1000 * (index + 1));
                    test(shared, held);
                }
                Next::Again(held) => {
                    again += 1;
                    test(shared, held);
                }
                Next::Wait => thread::sleep(Duration::from_micros(100)),
                Next::Finished => return again,
            }
        }
    }

    fn summarize(&self, shared: &TestContext<'_>) -> Report {
        let errors = shared.machine.errors();
        summarize(shared, Timestamp::from_micros(1), shared.machine.errors_since(&errors))
    }
}

fn sums_of<T>(shared: &TestContext<'_>, of: impl Fn(&TestSums) -> T) -> T {
    of(&lock(&shared.sums))
}

/// What went back to programs before its test, and what is still claimed.
fn gone(shared: &TestContext<'_>) -> (Bytes, Bytes) {
    let schedule = shared.schedule();
    (schedule.lacks(Lack::GivenBack), schedule.mapped())
}

fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

fn not_tested(why: &str, frames: u64) -> NotTested {
    NotTested { why: why.to_owned(), frames }
}

/// Two blocks, two passes, delays in the march test and before the last reads.
fn long_request() -> TestRequest {
    TestRequest {
        memory: Some(MIB(4)),
        march: "{⇕(w0); Del; ⇕(r0,w1); ⇕(r1)}".parse().unwrap(),
        delay: Duration::from_millis(1),
        retention: Duration::from_millis(2),
        passes: NonZero::new(2),
        inject: Some("stuck-at:20,seed=1".parse().unwrap()),
        ..request()
    }
}

#[test]
fn all_blocks_are_tested_in_all_passes_and_the_report_says_so() {
    let session = Session::new(long_request());
    session.with(|shared| {
        let plan = shared.request.plan(1);
        assert_eq!(shared.progress().total_in_pass, MIB(4));
        let again = session.test_all(shared);
        assert_eq!(again, 2 * 2 * plan.rests() + 2, "each rest of each block, and the second pass");
        let progress = shared.progress();
        assert_eq!((progress.pass, progress.passes, progress.done_in_pass), (2, Some(2), MIB(4)));
        assert_eq!(progress.total_in_pass, MIB(4));
        assert!(progress.bytes_per_second > 0.0 && progress.elapsed > Duration::ZERO);
        let told = session.observer.bad.lock().unwrap().len();
        assert!(told > 0 && told == progress.bad_frames);

        let report = session.summarize(shared);
        assert_eq!((report.verdict, report.incomplete), (TestVerdict::Fail, None));
        assert_eq!((report.frames_tested, report.frames_known), (2 * PAGES, true));
        assert_eq!((report.extent.tested, report.extent.request), (MIB(4), MIB(4)));
        let beyond = FakeMachine::TOTAL.frames() - 2 * PAGES;
        assert_eq!(report.not_tested, [not_tested("beyond the --memory that was asked for", beyond)]);
        let delayed = report.delayed_read.expect("there is one");
        assert_eq!((delayed.delay_seconds, delayed.frames_skipped), (0.002, 0));
        assert_eq!((report.test.passes, report.test.threads), (2, 1));
        let pinning = lock(&shared.sums).pinning.expect("blocks were tested").to_string();
        assert_eq!(report.test.pinning, pinning);
        assert!(!report.coverage.is_empty() && report.zones.is_empty());
        let emulation = report.emulation.expect("faults were injected");
        assert_eq!((emulation.injected, emulation.guaranteed, emulation.found), (20, 20, 20));
        assert!(emulation.missed.is_empty(), "{:?}", emulation.missed);
        assert_eq!(lock(&shared.sums).bytes, 2 * MIB(4).get());
        shared.schedule().lost(0, MIB(2));
        assert_eq!(shared.progress().total_in_pass, MIB(2), "a later pass tests what is held");
        let end = session.disk.open().history(1).unwrap()[0].end.clone().unwrap();
        assert_eq!((end.frames_tested, end.bad_frames, end.emulated_frames), (2 * PAGES, 0, told as u64));
    });
}

#[test]
fn a_whole_run_ends_by_itself_and_measures_the_limit_of_each_tester() {
    let request = TestRequest { duration: Some(Duration::from_hours(1)), ..long_request() };
    let session = Session::new(request);
    session.fake.set_used(MIB(9));
    let (machine, stop) = (session.fake.machine(), AtomicBool::new(false));
    let report = run(&session.request, &machine, session.disk.open(), &stop, &session.observer).unwrap();
    assert_eq!((report.verdict, report.incomplete), (TestVerdict::Fail, None));
    assert_eq!((report.frames_tested, report.frames_known), (2 * PAGES, false), "no page has a frame here");
    let limit = report.limit.expect("it was measured");
    assert!(limit.write > 0.0 && limit.read > 0.0 && limit.of_this_test < limit.write.min(limit.read));
    assert_eq!(report.fraction_of_limit, Some(report.bytes_per_second / limit.of_this_test));
    assert!(report.own_bytes.is_some_and(|bytes| bytes >= MIB(5)), "{:?}", report.own_bytes);
    let lines = session.observer.take_lines();
    assert!(lines[0].starts_with("testing     4 MiB with {⇕(w0)") && lines[0].contains(" on 1 CPU ("), "{lines:?}");
    let progress = session.observer.progress.lock().unwrap();
    assert!(progress.iter().all(|seen| seen.deadline == session.request.duration) && !progress.is_empty());
}

#[test]
fn a_test_that_is_stopped_is_incomplete() {
    let session = Session::new(request());
    let (machine, stop) = (session.fake.machine(), AtomicBool::new(true));
    let endless = TestRequest { passes: None, duration: Some(Duration::from_hours(1)), inject: None, ..request() };
    let report = run(&endless, &machine, session.disk.open(), &stop, &session.observer).unwrap();
    assert_eq!(report.incomplete.as_deref(), Some("stopped before its end"));
    assert_eq!(report.verdict, TestVerdict::Incomplete);
    let timed = TestRequest { duration: Some(Duration::ZERO), ..endless };
    let report = run(&timed, &machine, session.disk.open(), &AtomicBool::new(false), &session.observer).unwrap();
    let why = report.incomplete.expect("there was no time");
    assert!(why.contains("no memory could be tested") || why.contains("the time was up"), "{why}");
}

#[test]
fn what_was_not_tested_has_no_rate_and_no_fraction() {
    let session = Session::new(TestRequest { inject: None, ..request() });
    session.with(|shared| {
        lock(&shared.sums).limits.push(Limit { write: 4e9, read: 2e9 });
        let report = session.summarize(shared);
        assert_eq!((report.bytes_per_second, report.fraction_of_limit), (0.0, None));
        assert!(report.emulation.is_none() && report.delayed_read.is_none() && report.own_bytes.is_none());
        assert_eq!(report.test.pinning, "nothing was claimed");
        assert_eq!(
            report.not_tested[1..],
            [not_tested("of these, taken by programs before they could be claimed", PAGES,)]
        );
    });
}

/// The data rests for an hour, so a block waits for its delayed read as long as the test of this test goes on.
fn resting_request() -> TestRequest {
    TestRequest { retention: Duration::from_hours(1), inject: None, ..long_request() }
}

#[test]
fn blocks_that_programs_need_go_back_and_what_remains_undone_is_known() {
    let session = Session::new(resting_request());
    session.with(|shared| {
        for _ in 0..2 {
            let Next::Claim { index, bytes } = shared.next() else { panic!("there is memory") };
            let held = claim(shared, index, bytes).unwrap();
            if index == 0 { test(shared, held) } else { shared.schedule().again(held) }
        }
        assert_eq!(lock(&shared.sums).unknown_held, PAGES, "no page has a frame");
        shared.give_back(MIB(2));
        assert!(!shared.interruption.takes_back(), "there was one that is not under test");
        assert_eq!(sums_of(shared, |sums| (sums.not_read_late, sums.unknown_held)), (PAGES, 0));
        assert_eq!(shared.schedule().lacks(Lack::GivenBack), Bytes::ZERO);
        shared.give_back(MIB(4));
        assert!(shared.interruption.takes_back(), "a block under test goes back too");
        assert_eq!(sums_of(shared, |sums| (sums.not_read_late, sums.unknown_held)), (PAGES, 0));
        assert_eq!(gone(shared), (MIB(2), Bytes::ZERO));
        shared.stop(Stopped::TimeUp);
        shared.stop(Stopped::Asked);
        assert_eq!((shared.stopped(), matches!(shared.next(), Next::Finished)), (Some(Stopped::TimeUp), true));
        let report = session.summarize(shared);
        assert_eq!(report.delayed_read.map(|read| read.frames_skipped), Some(PAGES));
        let why = "of these, given back to programs before they were tested";
        assert_eq!(report.not_tested[1..], [not_tested(why, PAGES)]);
        assert_eq!((report.frames_tested, report.frames_known), (PAGES, false));
    });
}

#[test]
fn a_block_that_rests_after_its_march_tests_may_go_back_and_its_delayed_read_was_skipped() {
    let session = Session::new(resting_request());
    session.with(|shared| {
        for _ in 0..2 {
            let held = session.claim(shared);
            test(shared, held);
        }
        let given: Vec<_> = shared.schedule().give_back(MIB(2), |held| held.block.bytes());
        assert_eq!(given.iter().map(|held| held.index).collect::<Vec<_>>(), [0], "both are tested: the older one");
        let report = session.summarize(shared);
        assert_eq!(report.delayed_read.map(|read| read.frames_skipped), Some(PAGES));
    });
}

#[test]
fn a_tester_stops_in_the_middle_of_a_block() {
    let session = Session::new(TestRequest { delay: Duration::from_hours(1), ..long_request() });
    session.with(|shared| {
        let held = session.claim(shared);
        shared.interruption.set_needed_back(true);
        test(shared, held);
        assert_eq!(gone(shared), (MIB(2), Bytes::ZERO));
        let held = session.claim(shared);
        shared.stop(Stopped::Asked);
        test(shared, held);
        let held = shared.schedule().take_all().pop().expect("it is held");
        shared.leave(&held);
        assert!(!held.tested && sums_of(shared, |sums| (sums.frames.len(), sums.not_read_late)) == (0, 0));
    });
}

#[test]
fn a_bad_frame_is_retired_and_one_that_stays_is_held_as_long_as_the_test() {
    for retires in [true, false] {
        let session = Session::new(TestRequest { inject: None, ..request() });
        if !retires {
            session.fake.use_frames([0; 4000]);
        }
        session.with(|shared| {
            let held = session.claim(shared);
            lock(&shared.published.findings)
                .uncorrected(MismatchLocation::Frame(frame(1003)), shared.machine.clock.now());
            test(shared, held);
            assert!(session.fake.was_asked_to_retire(frame(1003)));
            assert!(lock(&shared.sums).frames.contains(frame(1003)));
            let held = shared.schedule().give_back(MIB(2), |held| held.block.bytes()).pop().unwrap();
            assert_eq!((&held.bad[..], held.retired.len()), if retires { (&[][..], 1) } else { (&[3][..], 0) });
            shared.give_away(held);
            assert_eq!(sums_of(shared, |sums| (sums.kept.len(), sums.not_read_late)), (usize::from(!retires), 0));
            assert!(
                session.observer.take_lines().iter().any(|line| line.contains("NOT retired frame 0x3eb")) != retires
            );
            let report = session.summarize(shared);
            assert_eq!((report.verdict, report.frames_tested), (TestVerdict::Fail, PAGES));
            let end = session.disk.open().history(1).unwrap()[0].end.clone().unwrap();
            assert_eq!((end.bad_frames, end.emulated_frames), (1, 0));
        });
    }
}

#[test]
fn a_known_bad_frame_that_is_claimed_is_retired_or_held_and_does_not_count_as_tested() {
    for retires in [true, false] {
        let mut session = Session::new(TestRequest { inject: None, ..request() });
        session.known_bad.insert(frame(1003));
        if !retires {
            session.fake.use_frames([0; 4000]);
        }
        session.with(|shared| {
            let mut held = session.claim(shared);
            hold_known(shared, &mut held);
            assert!(session.fake.was_asked_to_retire(frame(1003)));
            let said = session.observer.take_lines().contains(&"known bad   frame 0x3eb is retired".to_owned());
            assert_eq!((said, &held.bad[..]), if retires { (true, &[][..]) } else { (false, &[3][..]) });
            held.note_bad(3);
            assert_eq!(held.bad, [3], "once");
            test(shared, held);
            assert_eq!(sums_of(shared, |sums| (sums.frames.len(), sums.known_bad)), (PAGES - 1, 1));
            assert!(!lock(&shared.sums).frames.contains(frame(1003)));
            let listed = session.summarize(shared).not_tested;
            let why = "of these, on the map of bad frames and not retired: held until the test ended";
            assert!(listed.contains(&not_tested(why, 1)), "{listed:?}");
        });
    }
}

#[test]
fn what_is_read_in_a_page_whose_frame_was_retired_says_nothing() {
    let session = Session::new(long_request());
    session.with(|shared| {
        let mut held = session.claim(shared);
        let plan = shared.request.plan(1);
        let mut now = Vec::new();
        shared.machine.frames(&held.block, &mut now);
        begin(shared, &mut held, &now);
        held.retired = (0..PAGES).collect();
        assert_eq!(march_parts(shared, &mut held, &now, &plan), Ended::Whole);
        assert_eq!(lock(&shared.published.findings).count(), 0);
        held.retired.clear();
        // The pages leave their frames during the test, and nothing holds them.
        session.fake.place(&held.block, 3000);
        held.block.unpin();
        assert_eq!(march_parts(shared, &mut held, &now, &plan), Ended::Whole);
        let found = lock(&shared.published.findings).bad_frames();
        assert!(!found.is_empty() && found.iter().all(|bad| bad.frame.is_none()));
    });
}

#[test]
fn the_faults_of_a_block_stay_the_same_though_its_pages_move_between_passes() {
    let session = Session::new(TestRequest { inject: Some("stuck-at@0x3eb".parse().unwrap()), ..long_request() });
    session.with(|shared| {
        let held = session.claim(shared);
        let mut now = Vec::new();
        let faults = |held: &HeldBlock| held.injected.faults().len();
        let mut held = held;
        shared.machine.frames(&held.block, &mut now);
        begin(shared, &mut held, &now);
        assert_eq!((faults(&held), held.emulator.is_some()), (1, true));
        held.tested = true;
        session.fake.place(&held.block, 3000);
        shared.machine.frames(&held.block, &mut now);
        begin(shared, &mut held, &now);
        assert_eq!(faults(&held), 1);
        (held.tested, held.retries) = (false, 1);
        begin(shared, &mut held, &now);
        assert_eq!(faults(&held), 1);
        held.retries = 0;
        begin(shared, &mut held, &now);
        assert_eq!((faults(&held), held.emulator.is_some()), (0, false));
    });
}

#[test]
fn a_claim_that_the_kernel_refuses_is_told_once() {
    let session = Session::new(long_request());
    session.with(|shared| {
        let too_large = Bytes::new(1 << 60);
        let indices = [0; 2].map(|_| match shared.next() {
            Next::Claim { index, .. } => index,
            _ => panic!("there is memory"),
        });
        assert!(claim(shared, indices[0], too_large).is_none());
        assert_eq!((session.observer.take_lines().len(), shared.schedule().lacks(Lack::Refused)), (1, too_large));
        assert!(claim(shared, indices[1], too_large).is_none());
        assert_eq!(session.observer.take_lines(), [""; 0]);
        assert!(!matches!(shared.next(), Next::Claim { .. }), "the kernel is left alone");
    });
}

#[test]
fn the_most_memory_that_the_tool_itself_used_is_reported() {
    let session = Session::new(TestRequest { inject: None, ..request() });
    session.with(|shared| {
        assert_eq!(shared.own_bytes(), None);
        let held = session.claim(shared);
        for (used, most) in [(5, 3), (9, 7), (4, 7)] {
            session.fake.set_used(MIB(used));
            shared.sample_own_memory();
            assert_eq!(shared.own_bytes(), Some(MIB(most)), "beyond the 2 MiB that are claimed");
        }
        drop(held);
    });
}

#[test]
fn bad_frames_are_told_while_the_test_goes_on() {
    let session = Session::new(TestRequest { inject: None, ..request() });
    session.with(|shared| {
        let find = |number| {
            let (location, now) = (MismatchLocation::Frame(frame(number)), shared.machine.clock.now());
            lock(&shared.published.findings).uncorrected(location, now);
        };
        let told = || session.observer.bad.lock().unwrap().len();
        find(7);
        shared.publish_if_due();
        assert_eq!(told(), 1);
        find(8);
        shared.publish();
        assert_eq!((told(), shared.progress().bad_frames), (2, 2));
    });
}

#[test]
fn frames_count_by_their_zones_where_programs_have_one() {
    let session = Session::new(TestRequest { inject: None, ..request() });
    session.fake.add_user_zone();
    (0..4).for_each(|number| session.fake.add_memory_block(number, "online", "Movable"));
    session.fake.add_memory_block(4, "offline", "Movable");
    session.with(|shared| {
        let held = session.claim(shared);
        test(shared, held);
        session.fake.add_memory_block(3, "offline", "Movable");
        let report = session.summarize(shared);
        // The block is in frames 1000 to 1511: 24 of them in memory block 3, and the others beyond the last.
        let extents: Vec<_> = report.zones.iter().map(|zone| (zone.only_programs, zone.online, zone.tested)).collect();
        assert_eq!(extents, [(true, MIB(3), Bytes::ZERO), (false, Bytes::ZERO, Bytes::ZERO)]);
        let offline = "offline: memory blocks that are offline are not tested (`rampart banks`)";
        assert!(report.not_tested.contains(&not_tested(offline, 512)), "{:?}", report.not_tested);
    });
}

#[test]
fn the_passes_of_a_test_have_other_random_backgrounds() {
    let request = TestRequest { fidelity: Fidelity::new(12).unwrap(), seed: 7, ..request() };
    let plan = |seed| Plan::new(request.march.clone(), request.fidelity, &request.sequences, seed);
    assert_ne!(plan(7), plan(8));
    assert_eq!([request.plan(1), request.plan(3)], [plan(7), plan(9)]);
    let resting = TestRequest { retention: Duration::from_nanos(1), ..request.clone() };
    assert_eq!(resting.plan(1), plan(7).with_delayed_reads());
    let passes = |passes: Option<u32>, duration| {
        TestRequest { passes: passes.and_then(NonZero::new), duration, ..request.clone() }.most_passes()
    };
    let minute = Some(Duration::from_mins(1));
    assert_eq!([passes(None, None), passes(None, minute), passes(Some(4), minute)], [Some(1), None, Some(4)]);
}

#[test]
fn a_frame_that_was_not_reached_is_counted_by_its_use() {
    use crate::machine::fake::ANONYMOUS;
    use crate::once::schedule::Goal;
    use crate::testing::seen::FrameSet;
    let fake = FakeMachine::new();
    let mut tested = FrameSet::default();
    (0..10).for_each(|number| tested.insert(frame(number)));
    let count = |goal, unknown| crate::once::unreached::count(&fake.machine(), goal, &tested, unknown, MIB(32));
    let all = FakeMachine::TOTAL.frames();
    let nobody_knows = "in use, or kept in reserve; only root can tell which";
    assert_eq!(count(Goal::Free(MIB(8)), 5), [not_tested(nobody_knows, all - 15)]);
    fake.use_frames((0..40).map(|number| if number < 20 { FREE } else { ANONYMOUS }));
    let by_use = [
        not_tested("free: 32 MiB kept in reserve for programs, and memory freed meanwhile", 10),
        not_tested("in use: memory of programs", 20),
    ];
    assert_eq!(count(Goal::Free(MIB(8)), 5), by_use);
    assert_eq!(count(Goal::Exactly(MIB(8)), 5), [not_tested("beyond the --memory that was asked for", all - 15)]);
    fake.use_frames([POISONED; 12]);
    assert_eq!(count(Goal::Free(MIB(8)), 0).len(), 1);
}

#[test]
fn the_frame_of_an_error_that_the_hardware_finds_is_bad_and_what_is_read_there_then_is_not_compared() {
    for is_placed in [true, false] {
        let (session, clock) = (Session::new(request()), FailingClock::default());
        session.with_clock(clock.clone(), |shared| {
            let Next::Claim { index, bytes } = shared.next() else { panic!("there is memory") };
            let held = claim(shared, index, bytes).expect("a block");
            if is_placed {
                session.fake.place(&held.block, 1000);
            }
            let address = held.block.base().addr().get() as u64;
            clock.fail(HardwareError::At(address + 9 * 4096));
            test(shared, held);
            let found = lock(&shared.published.findings).bad_frames();
            let real: Vec<_> = found.iter().filter(|bad| bad.origin == MapOrigin::Real).collect();
            assert_eq!(real.iter().map(|bad| bad.frame).collect::<Vec<_>>(), [is_placed.then(|| frame(1009))]);
            assert_eq!(session.fake.was_asked_to_retire(frame(1009)), is_placed);
            assert!(session.observer.take_lines().is_empty());
            let held = shared.schedule().take_all().pop().expect("the test went on to its end");
            assert!(held.tested && held.retired.contains(&9));
        });
    }
}

#[test]
fn a_block_that_is_lost_as_a_whole_is_tested_again_a_few_times_and_then_given_up() {
    for marks in [true, false] {
        let (session, clock) = (Session::new(request()), FailingClock::default());
        session.fake.use_frames((0..2000).map(|frame| if marks && frame == 1009 { POISONED } else { 0 }));
        session.with_clock(clock.clone(), |shared| {
            let mut held = session.claim(shared);
            let mut tests = 1;
            loop {
                clock.fail(HardwareError::Nowhere);
                test(shared, held);
                let Next::Again(again) = shared.next() else { break };
                (held, tests) = (again, tests + 1);
            }
            assert_eq!(
                (tests, sums_of(shared, |sums| sums.frames.len())),
                (1 + RETRIES, u64::from(marks)),
                "the bad one counts"
            );
            let found = lock(&shared.published.findings).bad_frames();
            let real: Vec<_> = found.iter().filter(|bad| bad.origin == MapOrigin::Real).map(|bad| bad.frame).collect();
            assert_eq!(real, if marks { vec![Some(frame(1009))] } else { vec![] });
            let nobody_knows = session.observer.take_lines();
            assert_eq!(nobody_knows.len(), if marks { 0 } else { 4 }, "{nobody_knows:?}");
        });
    }
}
