//! Writes a running test's facts to the store.
//!
//! A store that cannot take a fact (its disk is full, or gone) does not end the test: the fact stays in memory, is
//! written again every second, and is counted in the report. The observer is warned once, when the trouble begins.

use std::time::{Duration, Instant};

use rampart_memory::fault_map::{FailedFrame, MapOrigin};
use rampart_memory::{Clock, SuspectNode, Timestamp};
use rampart_store::{Age, Durability, FactWriter, Store, TestEnd, TestStart};

use crate::testing::observer::TestObserver;

/// How often pending facts are written again.
const RETRY: Duration = Duration::from_secs(1);

/// Writes a test's facts to the store.
pub struct TestRecorder<'a> {
    writer: FactWriter,
    clock: &'a (dyn Clock + Sync),
    observer: &'a dyn TestObserver,
    in_trouble: bool,
    tried: Instant,
}

impl<'a> TestRecorder<'a> {
    /// Writes the start of the test.
    pub fn begin(
        store: Store,
        start: TestStart,
        clock: &'a (dyn Clock + Sync),
        observer: &'a dyn TestObserver,
    ) -> Self {
        let (writer, kept) = FactWriter::begin(store, start);
        let mut recorder = Self { writer, clock, observer, in_trouble: false, tried: Instant::now() };
        recorder.note(&kept);
        recorder
    }

    fn note(&mut self, kept: &Durability) {
        match kept {
            Durability::Durable if self.in_trouble => self.observer.said("store       all facts are written now"),
            Durability::Durable => {}
            Durability::Pending(why) if !self.in_trouble => {
                self.observer.warned(&format!("{why}; facts stay in memory and are written again every second"));
            }
            Durability::Pending(_) => {}
        }
        self.in_trouble = matches!(kept, Durability::Pending(_));
    }

    /// Writes this test's findings on some frames; they are durable when it returns, or pending and written again
    /// later.
    pub fn keep(&mut self, facts: &[(MapOrigin, FailedFrame)]) {
        let facts = facts.iter().map(|(origin, failed)| (*origin, failed));
        let kept = self.writer.keep_all(facts, self.clock.now());
        self.note(&kept);
    }

    /// Writes the times of the last tests of frames. Ages that cannot be written are dropped: the frames are tested
    /// again.
    pub fn keep_ages(&mut self, ages: &[Age]) {
        let kept = self.writer.keep_ages(ages, self.clock.now());
        self.note(&kept);
    }

    /// The nodes that are suspect now; none while the store cannot be read.
    pub fn suspect_nodes(&mut self, now: Timestamp) -> Vec<SuspectNode> {
        self.writer.suspect_nodes(now).unwrap_or_default()
    }

    /// Writes that a complete test of a node's memory has ended. If that fails, the node stays suspect.
    pub fn keep_node_test(&mut self, node: &str, began: Timestamp) {
        let kept = self.writer.keep_node_test(node, began, self.clock.now());
        self.note(&kept);
    }

    /// Writes pending facts again, at most once per second.
    pub fn retry(&mut self) {
        if self.writer.pending() > 0 && self.tried.elapsed() >= RETRY {
            self.tried = Instant::now();
            let kept = self.writer.retry(self.clock.now());
            self.note(&kept);
        }
    }

    /// Writes the end of the test. Returns how many facts could not be written.
    pub fn finish(&mut self, end: TestEnd) -> usize {
        let kept = self.writer.finish(end);
        self.note(&kept);
        self.writer.pending()
    }
}
