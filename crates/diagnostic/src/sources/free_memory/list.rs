//! The free memory of one node, as the controller sees it: demand accrues during a sweep, and limits the frames that
//! may be handed out.

use rampart_memory::{FrameDemand, Node, Timestamp};

/// The free list of one node.
#[derive(Clone, Debug)]
pub struct NodeList {
    /// The node.
    pub node: Node,
    /// The node's fraction of the memory, 0 to 1.
    share: f64,
    /// The demand so far, in frames.
    pub demand: FrameDemand,
    /// Frames per second, during a sweep.
    rate: f64,
    /// The accrued fraction of a frame.
    accrued: f64,
    /// The time of the last call of [`NodeList::accrue`].
    since: Timestamp,
    /// Frames that may be handed out; negative after a step that was larger than the requested number.
    pub credit: i64,
}

impl NodeList {
    /// A list without demand.
    pub fn new(node: Node, share: f64, now: Timestamp) -> Self {
        Self { node, share, demand: FrameDemand::default(), rate: 0.0, accrued: 0.0, since: now, credit: 0 }
    }

    /// Begins a sweep that should test `rate` frames per second, over all nodes.
    pub fn begin(&mut self, rate: f64, now: Timestamp) {
        self.rate = rate * self.share;
        self.since = now;
    }

    /// Frames per second that should be tested; 0 between two sweeps.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Counts the frames that came due since the last call.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "frames, not negative")]
    pub fn accrue(&mut self, late: bool, now: Timestamp) {
        self.accrued += self.rate * now.since(self.since).as_secs_f64();
        self.since = now;
        let whole = self.accrued.floor();
        self.accrued -= whole;
        let counter = if late { &mut self.demand.allocated_untested } else { &mut self.demand.allocated_tested };
        *counter += whole as u64;
    }

    /// Ends the sweep: no more demand accrues.
    pub const fn end(&mut self) {
        self.rate = 0.0;
    }
}
