//! Times. No crate below the face reads a clock: callers pass it in.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment: microseconds since 1970-01-01 00:00 UTC. Good until the year 294,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// A moment by its microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The moment so much later, rounded down to a microsecond; the last representable one beyond that.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Time from `earlier` to this; zero if the clock was set back between the two.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A source of the time: the machine, or a simulation.
pub trait Clock {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// Time since a fixed moment: the difference of two readings is a duration. A real clock has nanoseconds, nobody
    /// sets this reading back, and it stands still while the machine is suspended.
    fn stopwatch(&self) -> Duration {
        Duration::from_micros(self.now().micros())
    }
}
