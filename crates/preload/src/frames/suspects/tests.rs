//! Suspect frames of a fake kernel, and memory that a test changes while it rests.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use super::*;
use crate::frames::fake_frames::FakeFrames;

/// A tester, the kernel that shows it frames, and its events.
struct World {
    tester: SuspectTester,
    kernel: FakeFrames,
    events: tempfile::NamedTempFile,
}

impl World {
    fn new() -> Self {
        let (kernel, events) = (FakeFrames::new(), tempfile::NamedTempFile::new().unwrap());
        let file = File::options().append(true).open(events.path()).unwrap();
        let shared: &'static Published = Box::leak(Box::new(Published::to_file(file)));
        let known: &'static KnownBadPages =
            Box::leak(Box::new(KnownBadPages::begin_hidden(shared.counts).expect("an empty list")));
        let tester = SuspectTester {
            test: FrameTest::new(&"test=mats+".parse().unwrap()),
            shared,
            known,
            pagemap: Some(kernel.pagemap()),
            erred: Some(Mutex::default()),
            probation: Mutex::default(),
            clock: SteadyClock::default(),
            held: Mutex::default(),
        };
        Self { tester, kernel, events }
    }

    /// A page on this frame.
    fn page(&self, frame: u64) -> Block {
        let block = Block::claim(Bytes::new(FRAME_BYTES), PageKind::Base).unwrap();
        self.kernel.put(block.base(), 0, frame);
        block
    }

    /// A page on this frame that had an error. Returns its address.
    fn judge(&self, frame: u64) -> NonNull<u8> {
        let block = self.page(frame);
        let base = block.base();
        self.tester.judge(block);
        base
    }

    /// Takes out the next frame, which has rested, with the tests that it has passed.
    fn rested(&self) -> (Suspect, usize) {
        let later = self.tester.clock.now().after(Duration::from_secs(2));
        self.tester.probation().due(later).expect("a frame waits")
    }

    fn waits(&self) -> bool {
        let later = self.tester.clock.now().after(Duration::from_secs(2));
        let due = self.tester.probation().due(later);
        let waits = due.is_some();
        if let Some((suspect, passed)) = due {
            assert!(self.tester.probation().passed(suspect, passed, self.tester.clock.now()).is_none());
        }
        waits
    }

    /// Names of the events, and their frames.
    fn events(&self) -> Vec<(String, Option<u64>)> {
        let text = fs::read_to_string(self.events.path()).unwrap();
        let event = |line: &str| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            (event["event"].as_str().unwrap().to_owned(), event["frame"].as_u64())
        };
        text.lines().map(event).collect()
    }

    fn held(&self) -> usize {
        self.tester.held.lock().unwrap().len()
    }

    fn count(&self, counter: Counter) -> u64 {
        self.tester.shared.counts.get(counter)
    }
}

fn of(frame: u64, names: &[&str]) -> Vec<(String, Option<u64>)> {
    names.iter().map(|&name| (name.to_owned(), Some(frame))).collect()
}

/// The first word of a page.
fn word(page: NonNull<u8>) -> *mut u64 {
    page.cast().as_ptr()
}

#[test]
fn a_page_that_changed_is_told_by_its_first_wrong_line() {
    let content = PageData::from_seed(3);
    let mut found: [u8; PAGE_BYTES] = content.to_bytes().try_into().unwrap();
    assert_eq!(difference(&content, &found, Timestamp::default()), None);
    found[5 * 64 + 9] ^= 4;
    found[900] ^= 1;
    let seen = difference(&content, &found, Timestamp::default()).unwrap();
    assert_eq!((seen.line, seen.expected), (5, content.lines[5]));
    assert_eq!(seen.found.0[1] ^ seen.expected.0[1], 4 << 8);
}

#[test]
fn a_fresh_frame_was_tested_and_holds_zeros() {
    let world = World::new();
    let block = world.tester.fresh().unwrap();
    // SAFETY: the block is ours alone.
    assert_eq!((block.pages(), unsafe { word(block.base()).read() }), (1, 0));
    assert_eq!((world.count(Counter::Tested), world.held()), (1, 0));
    assert!(world.tester.pagemap().is_some());
}

#[test]
fn a_frame_that_passes_all_its_tests_is_cleared_and_goes_back() {
    let world = World::new();
    let page = world.judge(500);
    for test in 0..4 {
        // SAFETY: the page is the tester's, which does not touch it now.
        let holds = unsafe { word(page).read_volatile() };
        assert_eq!(holds, if rests_at_one(test) { u64::MAX } else { 0 }, "in rest {test}");
        assert_eq!(world.events(), of(500, &["suspect"]));
        let (suspect, passed) = world.rested();
        assert_eq!((passed, world.count(Counter::Tested)), (test, 1 + test as u64));
        world.tester.test_again(suspect, passed);
    }
    assert_eq!(world.events(), of(500, &["suspect", "cleared"]));
    assert!(!world.waits() && world.held() == 0 && world.count(Counter::Retired) == 0);
}

#[test]
fn a_frame_that_does_not_hold_its_content_through_a_rest_is_reported_and_held() {
    let world = World::new();
    let page = world.judge(500);
    // SAFETY: the page is the tester's, which does not touch it now.
    unsafe { word(page).write_volatile(u64::MAX ^ 4) };
    let (suspect, passed) = world.rested();
    world.tester.test_again(suspect, passed);
    assert_eq!(world.events(), of(500, &["suspect", "failed"]));
    assert!(!world.waits());
    assert_eq!((world.held(), world.count(Counter::Retired)), (1, 1));
}

#[test]
fn a_frame_whose_page_the_kernel_moved_cannot_be_tested_and_is_not_trusted() {
    let world = World::new();
    let page = world.judge(500);
    world.kernel.put(page, 0, 501);
    let (suspect, passed) = world.rested();
    world.tester.test_again(suspect, passed);
    assert_eq!(world.events(), of(500, &["suspect", "erring"]));
    assert!(!world.waits());
    assert_eq!((world.held(), world.count(Counter::Retired)), (1, 1));
}

#[test]
fn a_frame_that_the_kernel_does_not_show_is_tested_as_well() {
    let mut world = World::new();
    world.tester.pagemap = None;
    world.judge(500);
    for test in 0..4 {
        let (suspect, passed) = world.rested();
        assert_eq!((passed, suspect.frame), (test, None));
        world.tester.test_again(suspect, passed);
    }
    assert_eq!((world.events(), world.held(), world.waits()), (vec![], 0, false));
}

#[test]
fn the_second_error_in_a_frame_condemns_it_though_it_passes_its_test() {
    let world = World::new();
    world.judge(500);
    world.judge(501);
    assert_eq!((world.held(), world.count(Counter::Retired)), (0, 0));
    world.judge(500);
    let last = world.events().pop();
    assert_eq!(last, of(500, &["erring"]).pop());
    assert_eq!((world.held(), world.count(Counter::Retired)), (1, 1));
}

#[test]
fn injected_errors_say_nothing_about_frames() {
    let mut world = World::new();
    world.tester.erred = None;
    for _ in 0..3 {
        world.judge(500);
    }
    assert_eq!((world.events(), world.held(), world.waits()), (vec![], 0, false));
}

#[test]
fn where_too_many_frames_wait_the_one_that_waited_longest_is_not_trusted() {
    let world = World::new();
    for frame in 0..=rampart_guard::probation::MOST as u64 {
        world.judge(500 + frame);
    }
    let erring: Vec<_> = world.events().into_iter().filter(|(name, _)| name == "erring").collect();
    assert_eq!((erring, world.held()), (of(500, &["erring"]), 1));
}

#[test]
fn the_maintenance_thread_tests_what_has_rested_and_leaves_the_others() {
    let world = World::new();
    world.judge(500);
    thread::sleep(rampart_guard::probation::RESTS[0]);
    world.judge(501);
    world.tester.look();
    // 501 may have rested by now too, on a slow machine.
    let tested = world.count(Counter::Tested);
    assert!((3..=4).contains(&tested), "{tested}");
    let (suspect, _) = world.rested();
    let next = world.rested();
    assert!([suspect.frame, next.0.frame].contains(&Frame::new(500)));
}

#[test]
fn a_frame_without_a_page_is_tested_by_reading_it() {
    let world = World::new();
    let Some((good, bad)) = world.kernel.held(500).zip(world.kernel.held(501)) else { return };
    world.tester.watch_pipe(good, &PageData::ZERO);
    for test in 0..4 {
        let (suspect, passed) = world.rested();
        assert_eq!(passed, test);
        world.tester.test_again(suspect, passed);
    }
    assert_eq!((world.events(), world.waits()), (of(500, &["suspect", "cleared"]), false));
    // It was written with another content than it holds.
    world.tester.watch_pipe(bad, &PageData::from_seed(1));
    let (suspect, passed) = world.rested();
    world.tester.test_again(suspect, passed);
    assert_eq!((&world.events()[2..], world.waits()), (&of(501, &["suspect", "failed"])[..], false));
    assert_eq!((world.held(), world.count(Counter::Retired), world.count(Counter::Tested)), (1, 1, 0));
}

#[test]
fn the_frame_below_a_locked_page_is_retired_if_it_is_known_and_the_kernel_marks_it() {
    let world = World::new();
    let known: &'static KnownBadPages = Box::leak(Box::new(KnownBadPages::of(&world.kernel, &[])));
    let tester = SuspectTester { known, ..world.tester };
    let range = SharedRange::prepare(Bytes::from_mib(2), PageKind::Base).unwrap();
    // The page has left them, so this kernel is not asked.
    world.kernel.put(range.behind(3), 0, 20);
    world.kernel.mark(Frame::new(21).unwrap());
    let retired = [None, Frame::new(21), Frame::new(22)].map(|frame| tester.retire_below(frame, &range, 3));
    assert_eq!(retired, [false, true, false]);
}
