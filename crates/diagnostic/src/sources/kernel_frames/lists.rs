//! When a free list is tested as a whole.
//!
//! **Problem.** Free frames in a block of 2 MiB with a page that cannot be moved are reached only by the kernel's free
//! lists. These change: the kernel frees memory that it allocated before the last test of the list, and soon uses it
//! again. **Idea.** A list is tested twice per window, and again, a second later at the earliest, when enough frames of
//! its migratetype without a valid test have been freed. That is 32 at order 0, and twice as many with each order more:
//! freed frames reach lists of larger blocks only by merging. Only one list of a zone and migratetype is tested at a
//! time. If all of their blocks were held, the kernel would place its own memory in blocks meant for programs, which
//! could then no longer be emptied. **Why this way.** The demand on the lists says when they need testing [Rahman16,
//! 5.2.4.2]; a quiet kernel is left alone.

use std::time::Duration;

use rampart_linux::kernel_module::KernelFreeList;
use rampart_memory::{Node, TestLifetime, Timestamp};

use super::block::window;
use super::kernel::TypeDemand;

/// So many frames that came back without a valid test are worth a test of the list of single frames.
const WORTH: u64 = 32;

/// The pause between two tests.
const PAUSE: Duration = Duration::from_secs(1);

/// A free list.
#[derive(Debug)]
pub struct ListSweep {
    list: KernelFreeList,
    /// The last test, if there was one.
    began: Option<Timestamp>,
    /// Frames that have come back without a valid test: so far, and until the last test.
    returned: u64,
    dealt_with: u64,
    /// Whether a tester has it.
    is_out: bool,
}

impl ListSweep {
    /// A list that was never tested.
    pub const fn new(list: KernelFreeList) -> Self {
        Self { list, began: None, returned: 0, dealt_with: 0, is_out: false }
    }

    /// Learns what has come back.
    pub fn see(&mut self, demand: &[TypeDemand]) {
        self.returned = TypeDemand::returned_expired(demand, self.list);
    }

    /// Whether it is to be tested now.
    fn is_due(&self, bound: TestLifetime, now: Timestamp) -> bool {
        self.began.is_none_or(|began| {
            let many = self.returned >= self.dealt_with + (WORTH << self.list.order.number());
            now.since(began) >= if many { PAUSE } else { window(bound) / 2 }
        })
    }

    /// Whether both lists are of one zone and migratetype.
    fn is_beside(&self, other: &Self) -> bool {
        let kind = |list: KernelFreeList| (list.node, list.zone, list.migratetype);
        kind(self.list) == kind(other.list)
    }
}

/// Hands out the lists of a node that are to be tested now, of each zone and migratetype the one that has waited
/// longest.
pub fn begin(sweeps: &mut [ListSweep], node: Node, bound: TestLifetime, now: Timestamp) -> Vec<KernelFreeList> {
    let mut lists = Vec::new();
    let mut order: Vec<usize> = (0..sweeps.len()).filter(|&at| sweeps[at].list.node == node).collect();
    order.sort_by_key(|&at| sweeps[at].began);
    for at in order {
        let is_free = !sweeps.iter().any(|other| other.is_out && other.is_beside(&sweeps[at]));
        if is_free && sweeps[at].is_due(bound, now) {
            let sweep = &mut sweeps[at];
            (sweep.began, sweep.dealt_with, sweep.is_out) = (Some(now), sweep.returned, true);
            lists.push(sweep.list);
        }
    }
    lists
}

/// A tester is done with a list.
pub fn end(sweeps: &mut [ListSweep], list: KernelFreeList) {
    let own = sweeps.iter_mut().filter(|sweep| sweep.list == list);
    own.for_each(|sweep| sweep.is_out = false);
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_linux::kernel_module::KernelMigratetype;
    use rampart_memory::FrameDemand;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1 << 50) + seconds * 1_000_000)
    }

    /// The lists that are handed out.
    fn begin(sweeps: &mut [ListSweep], second: u64) -> Vec<KernelFreeList> {
        let bound = TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap();
        super::begin(sweeps, Node(1), bound, at(second))
    }

    fn sweep_of_order(order: u8) -> ListSweep {
        let mut unmovable = KernelFreeList::of_node(Node(1));
        let list =
            unmovable.find(|list| list.order.number() == order && list.migratetype == KernelMigratetype::Unmovable);
        ListSweep::new(list.expect("a list of each order and migratetype"))
    }

    fn sweeps(count: usize) -> Vec<ListSweep> {
        KernelFreeList::of_node(Node(1)).take(count).map(ListSweep::new).collect()
    }

    #[test]
    fn a_list_is_tested_twice_a_window_and_when_much_comes_back() {
        let mut sweeps = vec![sweep_of_order(0)];
        let list = sweeps[0].list;
        let is_begun = |sweeps: &mut [ListSweep], second| {
            let lists = begin(sweeps, second);
            end(sweeps, list);
            lists == [list]
        };
        let returned = |node, migratetype, returned_expired| TypeDemand {
            node: Node(node),
            migratetype: Some(migratetype),
            demand: FrameDemand { returned_expired, ..FrameDemand::default() },
        };
        assert!(is_begun(&mut sweeps, 0) && !is_begun(&mut sweeps, 499) && is_begun(&mut sweeps, 500));
        sweeps[0].see(&[returned(1, KernelMigratetype::Movable, 99), returned(0, KernelMigratetype::Unmovable, 99)]);
        assert!(!is_begun(&mut sweeps, 600), "that was elsewhere");
        sweeps[0].see(&[returned(1, KernelMigratetype::Unmovable, 31)]);
        assert!(!is_begun(&mut sweeps, 600));
        sweeps[0].see(&[returned(1, KernelMigratetype::Unmovable, 32)]);
        assert!(is_begun(&mut sweeps, 600) && !is_begun(&mut sweeps, 602), "that was dealt with");
        assert_eq!(
            super::begin(
                &mut sweeps,
                Node(0),
                TestLifetime::new(Duration::from_secs(2), Duration::ZERO).unwrap(),
                at(9999)
            ),
            []
        );
    }

    #[test]
    fn a_list_of_larger_blocks_waits_for_more() {
        let mut sweeps: Vec<_> = (0..=2).rev().map(sweep_of_order).collect();
        let orders = |sweeps: &mut [ListSweep], second| {
            let lists = begin(sweeps, second);
            lists.iter().for_each(|list| end(sweeps, *list));
            lists.iter().map(|list| list.order.number()).collect::<Vec<_>>()
        };
        let turns = [0, 1, 2].map(|second| orders(&mut sweeps, second));
        assert_eq!(turns, [[2], [1], [0]], "one after the other");
        sweeps.iter_mut().for_each(|sweep| sweep.returned = 63);
        assert_eq!([10, 11].map(|second| orders(&mut sweeps, second)), [vec![0], vec![]]);
        sweeps.iter_mut().for_each(|sweep| sweep.returned = 64);
        assert_eq!([12, 13].map(|second| orders(&mut sweeps, second)), [vec![1], vec![]]);
    }

    #[test]
    fn of_one_zone_and_migratetype_one_list_is_tested_at_a_time() {
        let mut sweeps = sweeps(27);
        let orders = |lists: &[KernelFreeList]| lists.iter().map(|list| list.order.number()).collect::<Vec<_>>();
        let first = begin(&mut sweeps, 0);
        assert_eq!(orders(&first), [8, 8, 8], "of each of three migratetypes");
        assert_eq!(begin(&mut sweeps, 1), []);
        end(&mut sweeps, first[1]);
        let next = begin(&mut sweeps, 2);
        assert_eq!((orders(&next), next[0].migratetype), (vec![7], first[1].migratetype));
    }
}
