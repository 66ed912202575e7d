//! The guarantee timer: every δ, frames that expire before the next time are renewed [Rahman16, 4.1.2, fig. 6].

use rampart_memory::{FrameSource, Renewed, TestLifetime, Timestamp};

/// The time of the last renewal.
#[derive(Clone, Debug)]
pub struct Guarantee {
    lifetime: TestLifetime,
    due: Timestamp,
}

impl Guarantee {
    /// A timer that is due at once.
    #[must_use]
    pub const fn new(lifetime: TestLifetime, now: Timestamp) -> Self {
        Self { lifetime, due: now }
    }

    /// The next time at which it is due.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        self.due
    }

    /// If it is due, renews frames that expire before it is due again.
    ///
    /// A source itself locks frames that expire before the call: a late timer costs a program time, and never breaks
    /// the bound.
    pub fn tick(&mut self, source: &mut impl FrameSource, now: Timestamp) -> Option<Renewed> {
        if now < self.due {
            return None;
        }
        self.due = now.after(self.lifetime.delta());
        Some(source.renew(now, self.due))
    }

    /// Makes it due at once: the clock went back, and no age is known.
    pub const fn hurry(&mut self, now: Timestamp) {
        self.due = now;
    }
}
