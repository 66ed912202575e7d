//! The guarantee timer: every δ, what expires before the next time is renewed [Rahman16, 4.1.2, fig. 6].

use rampart_memory::{FrameSource, Renewed, TestLifetime, Timestamp};

/// When frames in use were last looked after.
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

    /// When it is due next.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        self.due
    }

    /// Renews what expires before the timer is due again, if it is due now.
    ///
    /// A source locks by itself what expires before it is called: a timer that comes late costs a program time, and
    /// never the bound.
    pub fn tick(&mut self, source: &mut impl FrameSource, now: Timestamp) -> Option<Renewed> {
        if now < self.due {
            return None;
        }
        self.due = now.after(self.lifetime.delta());
        Some(source.renew(now, self.due))
    }

    /// Is due at once: the clock went back, and nothing is known of any age.
    pub const fn hurry(&mut self, now: Timestamp) {
        self.due = now;
    }
}
