//! The store during a test.
//!
//! A store that cannot take a fact (its disk is full, or gone) does not end the test: the fact stays in memory, is
//! retried every second, and is counted in the report. A message says so once.

use std::time::{Duration, Instant};

use rampart_memory::Clock;
use rampart_memory::fault_map::{FailedFrame, MapOrigin};
use rampart_store::{Age, Keeper, Kept, Store, TestEnd, TestStart};

use crate::testing::observer::TestObserver;

/// The period of retries for pending facts.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps a test's facts in the store.
pub struct TestRecorder<'a> {
    keeper: Keeper,
    clock: &'a (dyn Clock + Sync),
    witness: &'a dyn TestObserver,
    in_trouble: bool,
    tried: Instant,
}

impl<'a> TestRecorder<'a> {
    /// Records that the test begins.
    pub fn begin(store: Store, start: TestStart, clock: &'a (dyn Clock + Sync), witness: &'a dyn TestObserver) -> Self {
        let (keeper, kept) = Keeper::begin(store, start);
        let mut recorder = Self { keeper, clock, witness, in_trouble: false, tried: Instant::now() };
        recorder.note(&kept);
        recorder
    }

    fn note(&mut self, kept: &Kept) {
        match kept {
            Kept::Durable if self.in_trouble => self.witness.said("store       all facts are written now"),
            Kept::Durable => {}
            Kept::Pending(why) if !self.in_trouble => {
                self.witness.warned(&format!("{why}; facts stay in memory and are tried again every second"));
            }
            Kept::Pending(_) => {}
        }
        self.in_trouble = matches!(kept, Kept::Pending(_));
    }

    /// Keeps what this test saw of some frames; durable when it returns, or pending and retried later.
    pub fn keep(&mut self, facts: &[(MapOrigin, FailedFrame)]) {
        let facts = facts.iter().map(|(origin, failed)| (*origin, failed));
        let kept = self.keeper.keep_all(facts, self.clock.now());
        self.note(&kept);
    }

    /// Keeps the times of frames' last tests. Times that cannot be written are dropped: later tests replace them.
    pub fn keep_ages(&mut self, ages: &[Age]) {
        let kept = self.keeper.keep_ages(ages, self.clock.now());
        self.note(&kept);
    }

    /// Retries pending facts, if it is time.
    pub fn retry(&mut self) {
        if self.keeper.pending() > 0 && self.tried.elapsed() >= RETRY {
            self.tried = Instant::now();
            let kept = self.keeper.retry(self.clock.now());
            self.note(&kept);
        }
    }

    /// Keeps the result of the test. Returns how many facts could not be kept.
    pub fn finish(&mut self, end: TestEnd) -> usize {
        let kept = self.keeper.finish(end);
        self.note(&kept);
        self.keeper.pending()
    }
}
