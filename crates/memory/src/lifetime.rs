//! The lifetime of a frame's test, and the states of a frame [Rahman16, 3.2, fig. 2].
//!
//! **Problem.** A test says nothing about next week. **Idea.** A test has a lifetime; a frame in use satisfies age + δ
//! < lifetime, where δ is the time to act before the lifetime ends. **Why this way.** One type answers every question
//! about expiry, so the bound is written once; [`FrameState`] is the diagram, and uses it.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, FRAME_BYTES, Timestamp};

/// The time of a frame's last test, if any. Older ones compare as smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tested(u64);

impl Tested {
    /// Never, or so long ago that it does not matter: expires a returned frame.
    pub const NEVER: Self = Self(0);

    /// A test at this moment after the epoch.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        // The epoch itself stands for never: such a test counts as a microsecond younger.
        if moment.micros() == 0 { Self(1) } else { Self(moment.micros()) }
    }

    /// The moment, if there was one.
    #[must_use]
    pub const fn moment(self) -> Option<Timestamp> {
        if self.0 == 0 { None } else { Some(Timestamp::from_micros(self.0)) }
    }
}

/// The test lifetime and δ: the bound on the vulnerability window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestLifetime {
    lifetime: Duration,
    delta: Duration,
}

impl TestLifetime {
    /// A lifetime and its δ, or `None` if δ leaves nothing of the lifetime.
    #[must_use]
    pub const fn new(lifetime: Duration, delta: Duration) -> Option<Self> {
        if delta.as_nanos() < lifetime.as_nanos() { Some(Self { lifetime, delta }) } else { None }
    }

    /// The lifetime that the resources allow [Rahman16, 3.2.2]: α · (capacity / frame size) · utilisation · latency /
    /// resources, with α ≥ 1, the utilisation of memory from 0 to 1, the latency of one frame's test, and the CPUs that
    /// test.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn affordable(alpha: f64, capacity: Bytes, utilisation: f64, latency: Duration, resources: f64) -> Duration {
        let frames = (capacity.get() / FRAME_BYTES) as f64;
        latency.mul_f64(alpha * frames * utilisation / resources)
    }

    /// How long a test stays good.
    #[must_use]
    pub const fn lifetime(self) -> Duration {
        self.lifetime
    }

    /// The time reserved for expiring a test.
    #[must_use]
    pub const fn delta(self) -> Duration {
        self.delta
    }

    /// Whether a test of that moment is still good: age + δ < lifetime.
    ///
    /// The age of a test from the future is unknown, so it is not good.
    #[must_use]
    pub fn is_fresh(self, tested: Tested, now: Timestamp) -> bool {
        tested.moment().is_some_and(|at| at <= now && now.since(at) + self.delta < self.lifetime)
    }

    /// The first moment at which a test is no longer good; the epoch without a test.
    #[must_use]
    pub fn expiry(self, tested: Tested) -> Timestamp {
        let good_for = u64::try_from((self.lifetime - self.delta).as_micros()).unwrap_or(u64::MAX);
        tested
            .moment()
            .map_or(Timestamp::from_micros(0), |at| Timestamp::from_micros(at.micros().saturating_add(good_for)))
    }
}

/// The states of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameState {
    /// Free, and its test, if any, has expired.
    UntestedFree,
    /// Free, with a good test.
    TestedFree,
    /// A program has it, with a good test.
    TestedUsed,
    /// A program has it but cannot access it: no mapping leads there until it is tested again. [Rahman16, 4.1.2] has no
    /// such state, and lets a late migration break the bound.
    Locked,
    /// A test failed. Final.
    Failed,
}

impl FrameState {
    /// Whether the diagram has an arrow from this state to `next`. `UntestedFree` to `TestedUsed` is the demand
    /// transition.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use FrameState::{Failed, Locked, TestedFree, TestedUsed, UntestedFree};
        match (self, next) {
            (Failed, Failed) => true,
            (Failed, _) | (Locked, TestedFree) => false,
            (_, Failed) => true,
            (UntestedFree, Locked) | (TestedFree, Locked) => false,
            (UntestedFree | TestedFree | TestedUsed | Locked, UntestedFree | TestedFree | TestedUsed | Locked) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn table_1() -> TestLifetime {
        TestLifetime::new(Duration::from_secs(180), Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn a_test_is_good_until_delta_before_its_lifetime_ends() {
        let tested = Tested::at(seconds(1000));
        assert!(table_1().is_fresh(tested, seconds(1000)));
        assert!(table_1().is_fresh(tested, seconds(1169)));
        assert!(!table_1().is_fresh(tested, seconds(1170)), "age + δ < lifetime, not ≤");
        assert_eq!(table_1().expiry(tested), seconds(1170));
    }

    #[test]
    fn what_was_never_tested_or_is_tested_in_the_future_is_not_good() {
        assert!(!table_1().is_fresh(Tested::NEVER, seconds(5)));
        assert!(!table_1().is_fresh(Tested::at(seconds(6)), seconds(5)));
    }

    /// 1 GB at 0.4 ms per frame takes "about 3 minutes" ([Rahman16, 4.2.1]; the product is 105 s, so those 3 minutes
    /// include other costs).
    #[test]
    fn the_affordable_lifetime_of_table_1_is_the_time_to_test_all_memory_once() {
        let lifetime = TestLifetime::affordable(1.0, Bytes::from_mib(1024), 1.0, Duration::from_micros(400), 1.0);
        assert_eq!(lifetime, Duration::from_micros(400 * 262_144));
    }

    #[test]
    fn failed_is_for_ever() {
        use FrameState::{Failed, Locked, TestedFree, TestedUsed, UntestedFree};
        for next in [UntestedFree, TestedFree, TestedUsed, Locked] {
            assert!(!Failed.may_become(next));
            assert!(next.may_become(Failed));
        }
        assert!(UntestedFree.may_become(TestedUsed), "the demand transition is allowed, and counted");
    }

    proptest! {
        #[test]
        fn a_test_is_good_exactly_before_its_expiry(
            lifetime in 2_u64..1_000_000, delta in 1_u64..1_000_000, at in 1_u64..1_000_000, later in 0_u64..3_000_000,
        ) {
            prop_assume!(delta < lifetime);
            let bound = TestLifetime::new(Duration::from_micros(lifetime), Duration::from_micros(delta)).unwrap();
            let (tested, now) = (Tested::at(Timestamp::from_micros(at)), Timestamp::from_micros(at + later));
            prop_assert_eq!(bound.is_fresh(tested, now), now < bound.expiry(tested));
        }
    }
}
