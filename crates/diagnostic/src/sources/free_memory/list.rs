//! The free memory of one node, as the controller sees it: demand that accrues while a sweep is under way, and what may
//! be handed out for it.

use rampart_memory::{Demand, Node, Timestamp};

/// One node's.
#[derive(Clone, Debug)]
pub struct NodeList {
    /// Whose memory it is.
    pub node: Node,
    /// Its part of the memory, 0 to 1.
    share: f64,
    /// What was asked of it so far, in frames.
    pub demand: Demand,
    /// Frames a second, while a sweep is under way.
    rate: f64,
    /// What is not a whole frame yet.
    accrued: f64,
    /// When it was last asked.
    since: Timestamp,
    /// Frames that may be handed out; less than nothing after a step that was larger than what was asked for.
    pub credit: i64,
}

impl NodeList {
    /// Nothing was asked of it yet.
    pub fn new(node: Node, share: f64, now: Timestamp) -> Self {
        Self { node, share, demand: Demand::default(), rate: 0.0, accrued: 0.0, since: now, credit: 0 }
    }

    /// A sweep begins that should test so many frames a second, over all nodes.
    pub fn begin(&mut self, rate: f64, now: Timestamp) {
        self.rate = rate * self.share;
        self.since = now;
    }

    /// Frames a second that should be tested; 0 unless a sweep is under way.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Counts what came due since it was last asked.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "frames, not negative")]
    pub fn accrue(&mut self, late: bool, now: Timestamp) {
        self.accrued += self.rate * now.since(self.since).as_secs_f64();
        self.since = now;
        let whole = self.accrued.floor();
        self.accrued -= whole;
        let counter = if late { &mut self.demand.allocated_untested } else { &mut self.demand.allocated_tested };
        *counter += whole as u64;
    }

    /// The sweep has ended: nothing more is asked for.
    pub const fn end(&mut self) {
        self.rate = 0.0;
    }
}
