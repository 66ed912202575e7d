//! The controller over a source, a rule and a policy that do as the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rampart_memory::{BlockOrder, Frame, FrameDemand, FreeList, TestLifetime};

use super::*;

/// Lists of two nodes, with some blocks each; a block is the place of its list.
struct Source {
    lists: Vec<FreeList>,
    left: Vec<u64>,
    allocated: u64,
    tested_free: u64,
    asked: Vec<usize>,
    re_placed: Vec<(Timestamp, Timestamp)>,
    forgotten: u32,
    preferred: Vec<Vec<FrameRange>>,
}

impl Source {
    fn new(left: &[u64]) -> Self {
        let list = |node, order| FreeList { node: Node(node), order: BlockOrder::new(order).unwrap() };
        let lists = vec![list(0, 0), list(0, 1), list(1, 0)];
        let (left, asked, re_placed) = (left.to_vec(), Vec::new(), Vec::new());
        Self { lists, left, allocated: 0, tested_free: 0, asked, re_placed, forgotten: 0, preferred: Vec::new() }
    }
}

impl FrameSource for Source {
    type Block = usize;

    fn lists(&self) -> Vec<FreeList> {
        self.lists.clone()
    }

    /// All demand is on the first list.
    fn demand(&self, list: FreeList) -> FrameDemand {
        let allocated_untested = if list == self.lists[0] { self.allocated } else { 0 };
        FrameDemand { allocated_untested, ..FrameDemand::default() }
    }

    fn tested_free(&self, _: Timestamp) -> u64 {
        self.tested_free
    }

    fn take(&mut self, list: FreeList, most: u64, _: Timestamp) -> Vec<usize> {
        let at = self.lists.iter().position(|other| *other == list).unwrap();
        self.asked.push(at);
        let count = most.min(self.left[at]);
        self.left[at] -= count;
        (0..count).map(|_| at).collect()
    }

    fn shape(&self, block: &usize) -> (Node, u64) {
        (self.lists[*block].node, self.lists[*block].order.frames())
    }

    fn give_back(&mut self, _: usize, _: BlockVerdict, _: Timestamp) {}

    fn re_place_expiring(&mut self, now: Timestamp, until: Timestamp) -> RePlacementCounts {
        self.re_placed.push((now, until));
        RePlacementCounts { migrated: 3, ..RePlacementCounts::default() }
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        self.preferred.push(frames.to_vec());
    }

    fn forget(&mut self) {
        self.forgotten += 1;
    }
}

/// Requests so many blocks, once.
struct Once(u64);

impl Replenish for Once {
    fn blocks(&mut self, _: FrameDemand) -> u64 {
        std::mem::take(&mut self.0)
    }
}

/// The requests that a policy saw, in frames per second, and the speeds.
type Asked = Arc<Mutex<Vec<(f64, f64)>>>;

/// Decides for so many threads, and keeps what it was asked.
struct Threads(u32, Asked);

impl Policy for Threads {
    fn decide(&mut self, seen: &PolicyInput<'_>) -> TestConfig {
        self.1.lock().unwrap().push((seen.request, seen.bandwidth.at_fidelity_1));
        TestConfig { fidelity: Fidelity::MIN, threads: self.0 }
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((1000 + seconds) * 1_000_000)
}

fn settings() -> ControlSettings {
    ControlSettings {
        lifetime: TestLifetime::new(Duration::from_secs(100), Duration::from_secs(4)).unwrap(),
        monitoring: Duration::from_secs(1),
        epoch: Duration::from_secs(10),
        alpha: 2.0,
        emergency: Some(TestConfig { fidelity: Fidelity::MIN, threads: 2 }),
        enough: Some(500),
        skip_middle: false,
        ..ControlSettings::rahman16()
    }
}

/// A controller with one tester on each node that tests 7 frames a second; the first list requests `first` blocks, the
/// others none.
fn controller(source: Source, threads: u32, first: u64) -> (Diagnostic<Source>, Asked) {
    let asked = Arc::new(Mutex::default());
    let policy = Box::new(Threads(threads, Arc::clone(&asked)));
    let mut requests = [first, 0, 0].into_iter();
    let rule = |_| Box::new(Once(requests.next().unwrap())) as Box<dyn Replenish + Send>;
    let bandwidth = Bandwidth { at_fidelity_1: 7.0 };
    (Diagnostic::new(source, settings(), policy, rule, &[Node(0), Node(1)], bandwidth, at(0)), asked)
}

#[test]
fn each_timer_runs_when_it_is_due_and_a_clock_that_goes_back_makes_all_due() {
    let (mut diagnostic, _) = controller(Source::new(&[0; 3]), 1, 0);
    assert_eq!(diagnostic.due(), at(0), "the guarantee, at once");
    diagnostic.tick(at(0));
    assert_eq!((diagnostic.due(), diagnostic.counts().readings), (at(1), 0));
    (1..=4).for_each(|second| diagnostic.tick(at(second)));
    diagnostic.tick(at(4));
    assert_eq!((diagnostic.counts().readings, diagnostic.source().forgotten), (4, 0));
    assert_eq!(diagnostic.source().re_placed, [(at(0), at(4)), (at(4), at(8))]);
    assert_eq!(diagnostic.counts().re_placed.migrated, 6);
    diagnostic.tick(at(2));
    assert_eq!((diagnostic.counts().clock_went_back, diagnostic.source().forgotten), (1, 1));
    assert_eq!(diagnostic.source().re_placed[2..], [(at(2), at(6))]);
    assert_eq!(diagnostic.counts().readings, 5);
}

#[test]
fn demand_is_that_of_the_last_epoch_or_a_part_of_what_was_before() {
    let (mut diagnostic, asked) = controller(Source::new(&[0; 3]), 1, 0);
    for second in 1..=10 {
        diagnostic.source_mut().allocated += 6;
        diagnostic.tick(at(second));
    }
    assert!((diagnostic.demand() - 6.0).abs() < 1e-9);
    diagnostic.measured(Bandwidth { at_fidelity_1: 9.0 });
    (11..=20).for_each(|second| diagnostic.tick(at(second)));
    assert!((diagnostic.demand() - 4.5).abs() < 1e-9);
    assert_eq!(*asked.lock().unwrap(), [(0.0, 7.0), (12.0, 7.0), (9.0, 9.0)], "twice the demand");
    assert_eq!((diagnostic.counts().epochs, diagnostic.counts().alarms), (3, 0));
    diagnostic.reconfigure(ControlSettings { alpha: 3.0, ..settings() }, Box::new(Threads(2, Arc::clone(&asked))));
    assert_eq!(asked.lock().unwrap()[3..], [(13.5, 9.0)]);
    assert_eq!((diagnostic.config().threads, diagnostic.due()), (2, at(20)), "the guarantee begins anew");
}

#[test]
fn a_sudden_demand_puts_the_emergency_s_configuration_in_force_once() {
    for (threads, alarms) in [(1, 1), (0, 0), (2, 0)] {
        let (mut diagnostic, _) = controller(Source::new(&[0; 3]), threads, 0);
        for second in 1..=2 {
            diagnostic.source_mut().allocated = 100 * second * second * second;
            diagnostic.tick(at(second));
        }
        assert_eq!(diagnostic.counts().alarms, alarms, "with {threads} threads");
        assert_eq!(diagnostic.config().threads, if alarms == 1 { 2 } else { threads });
    }
}

#[test]
fn what_is_requested_is_taken_as_far_as_it_can_be_tested_in_an_epoch() {
    let (mut diagnostic, _) = controller(Source::new(&[90, 0, 0]), 1, 100);
    diagnostic.tick(at(1));
    assert_eq!((diagnostic.waiting(), diagnostic.counts().taken), (70, 70));
    for _ in 0..70 {
        let block = diagnostic.next(Tester(0)).expect("it waits").block;
        diagnostic.finish(block, BlockVerdict::Good, at(1));
    }
    assert!(diagnostic.next(Tester(0)).is_none());
    diagnostic.tick(at(2));
    assert_eq!((diagnostic.waiting(), diagnostic.counts().taken), (20, 90), "30 were still requested");
    let bad = BlockVerdict::Failed(vec![Frame::new(1).unwrap(), Frame::new(2).unwrap()]);
    let block = diagnostic.next(Tester(0)).unwrap().block;
    diagnostic.finish(block, bad, at(2));
    diagnostic.source_mut().left[0] = 50;
    diagnostic.tick(at(3));
    assert_eq!(diagnostic.counts().taken, 90, "an empty list has no request any longer");
    diagnostic.stop(at(3));
    let counts = diagnostic.counts();
    assert_eq!((diagnostic.waiting(), counts.tested, counts.failed, counts.not_tested), (0, 71, 2, 19));
}

#[test]
fn what_is_requested_and_was_not_taken_stays_requested_until_the_list_is_empty() {
    for (left, taken) in [(40, 40), (200, 100)] {
        let (mut diagnostic, _) = controller(Source::new(&[left, 0, 0]), 1, 100);
        diagnostic.tick(at(1));
        while let Some(work) = diagnostic.next(Tester(0)) {
            diagnostic.finish(work.block, BlockVerdict::Good, at(1));
        }
        diagnostic.source_mut().left[0] = 200;
        (2..5).for_each(|second| diagnostic.tick(at(second)));
        assert_eq!(diagnostic.counts().taken, taken);
    }
}

#[test]
fn frames_with_errors_are_tested_first_and_the_policy_decides_anew_whenever_these_are_others() {
    let (mut diagnostic, _) = controller(Source::new(&[0; 3]), 1, 0);
    let erring = vec![FrameRange::new(Frame::new(512).unwrap(), 512).unwrap()];
    [&erring, &erring, &Vec::new()].into_iter().for_each(|frames| diagnostic.erring(frames.clone()));
    assert_eq!(diagnostic.source().preferred, [erring, Vec::new()]);
    assert_eq!(diagnostic.counts().epochs, 1 + 2);
}

#[test]
fn the_lists_of_each_node_come_first_in_turn() {
    let (mut diagnostic, _) = controller(Source::new(&[0; 3]), 1, 0);
    diagnostic.tick(at(1));
    diagnostic.tick(at(2));
    assert_eq!(diagnostic.source().asked, [2, 0, 1, 0, 1, 2]);
    diagnostic.source_mut().tested_free = 500;
    (3..=10).for_each(|second| diagnostic.tick(at(second)));
    let before = diagnostic.source().asked.len();
    diagnostic.tick(at(11));
    assert_eq!(diagnostic.source().asked.len(), before, "enough free memory is tested");
    diagnostic.source_mut().tested_free = 499;
    (12..=21).for_each(|second| diagnostic.tick(at(second)));
    assert_eq!(diagnostic.source().asked.len(), before + 3);
}
