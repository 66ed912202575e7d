//! A clock that goes forward only when a test, or a fake engine, says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rampart_memory::{Clock, Timestamp};

/// Nanoseconds since its start, and by how many each reading of the stopwatch sets it forward.
#[derive(Debug, Default)]
pub struct FakeClock {
    nanos: AtomicU64,
    tick: AtomicU64,
}

impl FakeClock {
    /// One for the whole test, which stands still.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// So much time goes by.
    pub fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// From now on so much time goes by from one reading of the stopwatch to the next.
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
