//! A fake clock that advances only when a test, or a fake engine, advances it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rampart_memory::{Clock, Timestamp};

/// Nanoseconds since its start, and the advance per reading of the stopwatch.
#[derive(Debug, Default)]
pub struct FakeClock {
    nanos: AtomicU64,
    tick: AtomicU64,
}

impl FakeClock {
    /// One clock for the whole test, standing still.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Advances the clock.
    pub fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// From now on, each reading of the stopwatch advances the clock by so much.
    pub fn tick_by(&self, tick: Duration) {
        self.tick.store(u64::try_from(tick.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.nanos.load(Ordering::Relaxed) / 1000)
    }

    fn stopwatch(&self) -> Duration {
        let tick = self.tick.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanos.fetch_add(tick, Ordering::Relaxed))
    }
}
