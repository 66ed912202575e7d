//! The frames of one node, as the controller sees them.
//!
//! **Problem.** The controller reads demand every few milliseconds; the module's counters are text, and too expensive
//! to read that often. **Idea.** They are read a few times a second, and shown to the controller bit by bit until the
//! next time. **Why this way.** A jump would look like a burst of allocations and raise its alarm.

use std::ops::Add;

use rampart_memory::{FrameDemand, Node, Timestamp};

use super::first_use::NewMemory;
use super::kernel::TypeDemand;
use super::queue::StretchQueue;
use super::{READ_EVERY, STRETCH};

/// The frames of one node.
#[derive(Debug)]
pub struct NodeFrames {
    /// The node.
    pub node: Node,
    /// Its memory.
    pub queue: StretchQueue,
    /// Its memory that nobody used yet.
    pub new_memory: NewMemory,
    /// The module's counters at their last reading.
    read: FrameDemand,
    /// Frames per second that must be tested.
    pub rate: f64,
    /// Frames that may be handed out; negative after more than the requested number.
    pub credit: i64,
    shown: FrameDemand,
    shown_at: Timestamp,
    /// Frames that came due so far, with the fraction of one.
    came_due: f64,
}

impl NodeFrames {
    /// The most frames that are handed out at once: 64 MiB.
    pub const MOST_CREDIT: i64 = 4 * STRETCH as i64;

    /// A node without memory.
    pub fn new(node: Node, now: Timestamp) -> Self {
        Self {
            node,
            queue: StretchQueue::default(),
            new_memory: NewMemory::default(),
            read: FrameDemand::default(),
            rate: 0.0,
            credit: 0,
            shown: FrameDemand::default(),
            shown_at: now,
            came_due: 0.0,
        }
    }

    /// What was allocated before is no demand.
    pub fn begin(&mut self, demand: &[TypeDemand]) {
        self.see(demand);
        self.shown = self.read;
    }

    /// Learns what was allocated and freed.
    pub fn see(&mut self, demand: &[TypeDemand]) {
        let own = demand.iter().filter(|row| row.node == self.node).map(|row| row.demand);
        self.read = own.fold(FrameDemand::default(), FrameDemand::add);
    }

    /// Lets the controller see what happened until `now`, as far as it is known.
    pub fn show(&mut self, now: Timestamp) {
        let time = now.since(self.shown_at);
        self.shown_at = now;
        self.came_due += self.rate * time.as_secs_f64();
        let part = time.div_duration_f64(READ_EVERY).min(1.0);
        let (to, shown) = (self.read, self.shown);
        self.shown = FrameDemand {
            allocated_tested: between(shown.allocated_tested, to.allocated_tested, part),
            allocated_untested: between(shown.allocated_untested, to.allocated_untested, part),
            returned_fresh: between(shown.returned_fresh, to.returned_fresh, part),
            returned_expired: between(shown.returned_expired, to.returned_expired, part),
        };
    }

    /// What the controller sees.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "frames, not negative")]
    pub fn demand(&self) -> FrameDemand {
        let came_due = FrameDemand { allocated_untested: self.came_due as u64, ..FrameDemand::default() };
        self.shown + came_due
    }
}

/// A number that is a part of the way from one to another, which is not below it; never short of it for ever.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts of frames, not negative"
)]
fn between(from: u64, to: u64, part: f64) -> u64 {
    from + (to.saturating_sub(from) as f64 * part).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    #[test]
    fn what_was_read_is_shown_bit_by_bit_and_what_comes_due_is_demand() {
        let at = |millis: u64| Timestamp::from_micros((1 << 50) + 1000 * millis);
        let mut node = NodeFrames::new(Node(0), at(0));
        let counters = |allocated_tested| FrameDemand { allocated_tested, ..FrameDemand::default() };
        let row = |allocated| TypeDemand { node: Node(0), migratetype: None, demand: counters(allocated) };
        node.begin(&[row(2000), row(3000), TypeDemand { node: Node(1), ..row(77) }]);
        node.see(&[row(6000)]);
        node.rate = 100.0;
        node.show(at(25));
        assert_eq!(node.demand(), FrameDemand { allocated_untested: 2, ..counters(5100) });
        (2..=80).for_each(|step| node.show(at(25 * step)));
        assert_eq!(node.demand(), FrameDemand { allocated_untested: 200, ..counters(6000) }, "and it arrives");
        assert_eq!(Duration::from_secs(2), at(2000).since(at(0)));
    }
}
