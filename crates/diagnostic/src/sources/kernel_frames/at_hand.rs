//! When the per-CPU lists are looked through.
//!
//! **Problem.** A CPU allocates first what was freed last. So a few frames circulate on its lists, where a test of the
//! free lists does not reach them, and their tests expire. **Idea.** What the CPUs have at hand, that is, free on their
//! lists, is looked through for each zone and migratetype 64 times a window (the lifetime without delta), at most once
//! a second. Frames are taken whose test is older than three quarters of a window: that is usually 16 looks before it
//! expires. When frames of the migratetype were freed without a valid test, the next look comes at once: the module has
//! set such frames aside, and a request gets them, so that they can be tested and given back. Frames for programs
//! (Movable) are left out: they are tested with their blocks, and a block cannot be claimed while one of its frames is
//! tested by itself. **Why this way.** A frame that the kernel uses nearly all the time is at hand in few of these
//! looks. A look that finds nothing costs one call to the module, and takes no frame.

use std::time::Duration;

use rampart_linux::kernel_module::{KernelFreeList, KernelMigratetype};
use rampart_memory::{BlockOrder, Node, TestLifetime, Timestamp};

use super::block::window;
use super::kernel::TypeDemand;

/// Looks in a window.
const LOOKS: u32 = 64;

/// The shortest pause between two looks, if nothing came back without a valid test.
const PAUSE: Duration = Duration::from_secs(1);

/// What CPUs have at hand of one zone and migratetype.
#[derive(Debug)]
pub struct HandSweep {
    /// The list of single frames stands for all.
    list: KernelFreeList,
    looked: Option<Timestamp>,
    /// Frames that have come back without a valid test: so far, and until the last look.
    returned: u64,
    dealt_with: u64,
    /// Whether a tester has it.
    is_out: bool,
}

impl HandSweep {
    /// One for each zone and migratetype among these lists that is the kernel's own.
    pub fn of_lists(lists: &[KernelFreeList]) -> impl Iterator<Item = Self> {
        let of_kernel = lists.iter().filter(|list| list.migratetype != KernelMigratetype::Movable);
        let single = of_kernel.filter(|list| list.order == BlockOrder::ZERO);
        single.map(|&list| Self { list, looked: None, returned: 0, dealt_with: 0, is_out: false })
    }

    /// Learns what has come back.
    pub fn see(&mut self, demand: &[TypeDemand]) {
        self.returned = TypeDemand::returned_expired(demand, self.list);
    }

    fn is_due(&self, bound: TestLifetime, now: Timestamp) -> bool {
        let pause = PAUSE.max(window(bound) / LOOKS);
        let is_time = self.looked.is_none_or(|looked| now.since(looked) >= pause);
        !self.is_out && (is_time || self.returned > self.dealt_with)
    }
}

/// Hands out what is to be looked through now on a node, and how old the tests of what is taken there must be.
pub fn begin(
    sweeps: &mut [HandSweep],
    node: Node,
    bound: TestLifetime,
    now: Timestamp,
) -> Vec<(KernelFreeList, Duration)> {
    let due = sweeps.iter_mut().filter(|sweep| sweep.list.node == node && sweep.is_due(bound, now));
    let look = |sweep: &mut HandSweep| {
        (sweep.looked, sweep.dealt_with, sweep.is_out) = (Some(now), sweep.returned, true);
        (sweep.list, 3 * window(bound) / 4)
    };
    due.map(look).collect()
}

/// A tester is done with it.
pub fn end(sweeps: &mut [HandSweep], list: KernelFreeList) {
    let own = sweeps.iter_mut().filter(|sweep| sweep.list == list);
    own.for_each(|sweep| sweep.is_out = false);
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::FrameDemand;

    fn begin(sweeps: &mut [HandSweep], second: u64) -> Vec<(KernelFreeList, Duration)> {
        let bound = TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap();
        super::begin(sweeps, Node(1), bound, Timestamp::from_micros((1 << 50) + second * 1_000_000))
    }

    #[test]
    fn each_zone_and_migratetype_of_the_kernel_is_looked_through_64_times_a_window_for_tests_that_are_due() {
        let lists: Vec<_> = [Node(0), Node(1)].into_iter().flat_map(KernelFreeList::of_node).collect();
        let mut sweeps: Vec<_> = HandSweep::of_lists(&lists).collect();
        assert_eq!(sweeps.len(), 2 * 6);
        let looks = begin(&mut sweeps, 0);
        assert_eq!(looks.len(), 6, "those of the node");
        assert!(looks.iter().all(|&(list, older)| list.node == Node(1) && older == Duration::from_secs(750)));
        assert_eq!(begin(&mut sweeps, 99), [], "testers have them");
        looks.iter().for_each(|(list, _)| end(&mut sweeps, *list));
        assert_eq!(begin(&mut sweeps, 15), []);
        assert_eq!(begin(&mut sweeps, 16), looks);
    }

    #[test]
    fn what_comes_back_without_a_valid_test_is_looked_for_at_once() {
        let lists: Vec<_> = KernelFreeList::of_node(Node(1)).collect();
        let mut sweeps: Vec<_> = HandSweep::of_lists(&lists).collect();
        let mut look = |second, returned_expired| {
            let demand = FrameDemand { returned_expired, ..FrameDemand::default() };
            let unmovable = Some(KernelMigratetype::Unmovable);
            let row = TypeDemand { node: Node(1), migratetype: unmovable, demand };
            sweeps.iter_mut().for_each(|sweep| sweep.see(&[TypeDemand { node: Node(0), ..row }, row]));
            let looks = begin(&mut sweeps, second);
            looks.iter().for_each(|(list, _)| end(&mut sweeps, *list));
            looks.iter().map(|(list, _)| list.migratetype).collect::<Vec<_>>()
        };
        assert_eq!(look(0, 0).len(), 6);
        assert_eq!(look(1, 0), []);
        assert_eq!(look(2, 1), [KernelMigratetype::Unmovable; 3], "in each zone");
        assert_eq!(look(3, 1), [], "that was dealt with");
        assert_eq!(look(3, 2).len(), 3);
    }
}
