//! When a free list is tested as a whole.
//!
//! **Problem.** Free memory beside pages that cannot be moved is reached only by the kernel's free lists, and these
//! change: the kernel frees memory that it had since before its last test, and soon uses it again. **Idea.** A list is
//! tested twice a window, and as soon as many frames of its migratetype have come back whose test had ended. **Why this
//! way.** It is the demand on the lists that says when they need testing [Rahman16, 5.2.4.2]; a quiet kernel is left
//! alone.

use std::time::Duration;

use rampart_linux::kernel_module::KernelFreeList;
use rampart_memory::{TestLifetime, Timestamp};

use super::block::window;
use super::kernel::TypeDemand;

/// So many frames that came back without a valid test are worth a test of the list.
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
}

impl ListSweep {
    /// A list that was never tested.
    pub const fn new(list: KernelFreeList) -> Self {
        Self { list, began: None, returned: 0, dealt_with: 0 }
    }

    /// The list.
    pub const fn list(&self) -> KernelFreeList {
        self.list
    }

    /// Learns what has come back.
    pub fn see(&mut self, demand: &[TypeDemand]) {
        let own = |row: &&TypeDemand| row.node == self.list.node && row.migratetype == Some(self.list.migratetype);
        self.returned = demand.iter().filter(own).map(|row| row.demand.returned_expired).sum();
    }

    /// The list, if it is to be tested now.
    pub fn begin(&mut self, bound: TestLifetime, now: Timestamp) -> Option<KernelFreeList> {
        let is_due = self.began.is_none_or(|began| {
            let many = self.returned >= self.dealt_with + WORTH;
            now.since(began) >= if many { PAUSE } else { window(bound) / 2 }
        });
        if !is_due {
            return None;
        }
        (self.began, self.dealt_with) = (Some(now), self.returned);
        Some(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_linux::kernel_module::KernelMigratetype;
    use rampart_memory::{FrameDemand, Node};

    #[test]
    fn a_list_is_tested_twice_a_window_and_when_much_comes_back() {
        let at = |seconds: u64| Timestamp::from_micros((1 << 50) + seconds * 1_000_000);
        let bound = TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap();
        let list = KernelFreeList::of_node(Node(1)).next().unwrap();
        let mut sweep = ListSweep::new(list);
        let returned = |node, migratetype, returned_expired| TypeDemand {
            node: Node(node),
            migratetype: Some(migratetype),
            demand: FrameDemand { returned_expired, ..FrameDemand::default() },
        };
        assert_eq!(sweep.begin(bound, at(0)), Some(list));
        assert_eq!(sweep.begin(bound, at(499)), None);
        assert!(sweep.begin(bound, at(500)).is_some());
        sweep.see(&[returned(1, KernelMigratetype::Movable, 99), returned(0, KernelMigratetype::Unmovable, 99)]);
        assert_eq!(sweep.begin(bound, at(600)), None);
        sweep.see(&[returned(1, KernelMigratetype::Unmovable, 31)]);
        assert_eq!(sweep.begin(bound, at(600)), None);
        sweep.see(&[returned(1, KernelMigratetype::Unmovable, 32)]);
        assert!(sweep.begin(bound, at(600)).is_some());
        assert_eq!(sweep.begin(bound, at(602)), None, "that was dealt with");
    }
}
