//! Tests all memory at once when this node is suspect, because replicas of MPI ranks here had something wrong.
//!
//! **Problem.** A job names a node, and no frame. Tests from before the errors prove nothing. **Idea.** All earlier
//! tests are forgotten, so that a sweep begins at once and tests every frame; until one has ended, testers may use the
//! largest share that the administrator allows. Then the store says that this node was tested.

use std::time::Duration;

use rampart_memory::{FrameSource as _, SuspectNode, Timestamp};

use super::DaemonEvent;
use super::shared::DaemonContext;
use crate::testing::publishing::lock;

/// How often the store is asked.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// What is to be done about the errors of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TestDuty {
    #[default]
    Nothing,
    /// A sweep has to begin; the one that is under way does not count.
    Wait { last_error: Timestamp },
    /// The sweep that began then tests the node.
    Sweep { last_error: Timestamp, began: Timestamp },
}

impl TestDuty {
    /// Hears that the node is suspect; returns whether that is new.
    fn suspect(&mut self, last: Timestamp) -> bool {
        let is_known = match *self {
            Self::Nothing => false,
            Self::Wait { last_error } | Self::Sweep { last_error, .. } => last_error >= last,
        };
        if !is_known {
            *self = Self::Wait { last_error: last };
        }
        !is_known
    }

    fn sweep_began(&mut self, now: Timestamp) {
        if let Self::Wait { last_error } = *self {
            *self = Self::Sweep { last_error, began: now };
        }
    }

    /// Returns when the sweep that tested the node began, if this was it.
    fn sweep_ended(&mut self) -> Option<Timestamp> {
        let Self::Sweep { began, .. } = *self else { return None };
        *self = Self::Nothing;
        Some(began)
    }
}

/// Looks in the store whether this node is suspect.
pub struct SuspicionWatch {
    polled: Timestamp,
    duty: TestDuty,
}

impl SuspicionWatch {
    pub const fn new() -> Self {
        Self { polled: Timestamp::from_micros(0), duty: TestDuty::Nothing }
    }

    /// Whether tests are urgent.
    pub fn is_urgent(&self) -> bool {
        self.duty != TestDuty::Nothing
    }

    /// Asks the store, if that is due.
    pub fn poll(&mut self, shared: &DaemonContext<'_>, now: Timestamp) {
        let Some(node) = &shared.request.node else { return };
        if now.since(self.polled) < POLL_EVERY {
            return;
        }
        self.polled = now;
        let suspects = lock(&shared.published.recorder).suspect_nodes(now);
        let Some(suspect) = suspects.into_iter().find(|one| one.node == *node) else { return };
        let SuspectNode { errors, jobs, last, .. } = suspect;
        if self.duty.suspect(last) {
            lock(&shared.diagnostic).source_mut().forget();
            shared.happened(&DaemonEvent::NodeSuspected { errors, jobs, last });
        }
    }

    pub fn sweep_began(&mut self, now: Timestamp) {
        self.duty.sweep_began(now);
    }

    pub fn sweep_ended(&mut self, shared: &DaemonContext<'_>) {
        if let (Some(began), Some(node)) = (self.duty.sweep_ended(), &shared.request.node) {
            lock(&shared.published.recorder).keep_node_test(node, began);
            shared.happened(&DaemonEvent::NodeTested { began });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn only_a_sweep_that_began_after_the_suspicion_ends_it_and_a_later_error_renews_it() {
        let mut duty = TestDuty::default();
        duty.sweep_began(at(1));
        assert!(duty.suspect(at(2)) && !duty.suspect(at(2)) && !duty.suspect(at(1)));
        assert_eq!(duty.sweep_ended(), None, "it began before");
        duty.sweep_began(at(3));
        assert!(!duty.suspect(at(2)), "it is being tested");
        assert_eq!(duty.sweep_ended(), Some(at(3)));
        assert_eq!((duty, duty.sweep_ended()), (TestDuty::Nothing, None));
        assert!(duty.suspect(at(4)));
        duty.sweep_began(at(5));
        assert!(duty.suspect(at(6)), "one more error during the sweep");
        assert_eq!(duty.sweep_ended(), None);
    }
}
