//! The guarantee timer: every δ, it re-places pages whose tests expire before its next tick [Rahman16, 4.1.2, fig. 6].

use rampart_memory::{FrameSource, RePlacementCounts, TestLifetime, Timestamp};

/// The state of the guarantee timer.
#[derive(Clone, Debug)]
pub struct Guarantee {
    lifetime: TestLifetime,
    due: Timestamp,
}

impl Guarantee {
    /// A timer that is due immediately.
    #[must_use]
    pub const fn new(lifetime: TestLifetime, now: Timestamp) -> Self {
        Self { lifetime, due: now }
    }

    /// When it is due next.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        self.due
    }

    /// If the timer is due, re-places the pages whose tests expire before it is due again.
    ///
    /// A source itself locks frames that expire before this call: a late timer costs programs time, but never violates
    /// the bound.
    pub fn tick(&mut self, source: &mut impl FrameSource, now: Timestamp) -> Option<RePlacementCounts> {
        if now < self.due {
            return None;
        }
        self.due = now.after(self.lifetime.delta());
        Some(source.re_place_expiring(now, self.due))
    }

    /// Makes the timer due immediately: the clock went back, so no age is known.
    pub const fn hurry(&mut self, now: Timestamp) {
        self.due = now;
    }
}
