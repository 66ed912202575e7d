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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::observed::Observed;
    use rampart_memory::{Frame, FrameRange, ReplicaError};
    use rampart_store::TestEnding;
    use std::fs;
    use std::path::PathBuf;

    const NOW: Timestamp = Timestamp::from_micros(1);

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            NOW
        }
    }

    /// A store in a folder that can be made to take no facts.
    pub struct Disk {
        folder: tempfile::TempDir,
    }

    impl Disk {
        pub fn new() -> Self {
            Self { folder: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap() }
        }

        pub fn open(&self) -> Store {
            Store::open(&self.folder.path().join("r.db"), NOW).unwrap().store
        }

        pub fn recorder<'a>(&self, observer: &'a Observed) -> TestRecorder<'a> {
            let start = TestStart {
                at: NOW,
                notation: "{⇕(w0)}".to_owned(),
                fidelity: 1,
                sequences: Vec::new(),
                requested: None,
                injected: None,
            };
            TestRecorder::begin(self.open(), start, &Still, observer)
        }

        /// SQLite needs a file where this folder is.
        fn obstacle(&self) -> PathBuf {
            self.folder.path().join("r.db-journal")
        }

        pub fn refuse(&self) {
            fs::create_dir(self.obstacle()).unwrap();
        }

        pub fn accept(&self) {
            fs::remove_dir(self.obstacle()).unwrap();
        }

        pub fn failures(&self) -> Vec<Frame> {
            self.open().failures(MapOrigin::Real).unwrap().iter().map(|failed| failed.frame).collect()
        }
    }

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    fn fact(number: u64) -> (MapOrigin, FailedFrame) {
        (MapOrigin::Real, FailedFrame::condemned(frame(number), NOW))
    }

    fn end() -> TestEnd {
        TestEnd {
            at: NOW,
            outcome: TestEnding::Fail,
            shortfall: None,
            frames_tested: 0,
            bad_frames: 0,
            emulated_frames: 0,
            bytes_per_second: 0,
        }
    }

    #[test]
    fn trouble_with_the_store_is_told_when_it_begins_and_when_it_ends_and_costs_no_fact() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let mut recorder = disk.recorder(&observer);
        recorder.keep(&[fact(1)]);
        assert_eq!((observer.take_lines(), disk.failures()), (vec![], vec![frame(1)]));

        disk.refuse();
        recorder.keep(&[fact(2)]);
        recorder.keep(&[fact(3)]);
        let lines = observer.take_lines();
        assert!(
            lines.len() == 1 && lines[0].starts_with("warning: ") && lines[0].contains("stay in memory"),
            "{lines:?}"
        );
        recorder.tried -= RETRY;
        recorder.retry();
        assert_eq!(observer.take_lines(), [""; 0], "it is known");

        disk.accept();
        recorder.retry();
        assert_eq!(disk.failures(), [frame(1)], "it was tried less than a second ago");
        recorder.tried -= RETRY;
        recorder.retry();
        assert_eq!(observer.take_lines(), ["store       all facts are written now"]);
        assert_eq!(disk.failures(), [frame(1), frame(2), frame(3)]);
        let tried = recorder.tried - RETRY;
        recorder.tried = tried;
        recorder.retry();
        assert_eq!(recorder.tried, tried, "nothing waits");
        assert_eq!((recorder.finish(end()), observer.take_lines()), (0, vec![]));
        assert_eq!(disk.open().history(1).unwrap()[0].end, Some(end()));
    }

    #[test]
    fn what_is_not_written_at_the_end_is_counted() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let mut recorder = disk.recorder(&observer);
        disk.refuse();
        recorder.keep(&[fact(2)]);
        assert_eq!(recorder.finish(end()), 2, "the frame, and the end");
    }

    #[test]
    fn ages_and_tests_of_suspect_nodes_are_written() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let error = ReplicaError { node: Some("n7".to_owned()), ..ReplicaError::unplaced(NOW, NOW, "message") };
        let mut recorder = disk.recorder(&observer);
        disk.open().keep_replica_errors(&[error.clone(), error]).unwrap();
        let moment = Timestamp::from_micros;
        let suspects = |recorder: &mut TestRecorder<'_>| -> Vec<String> {
            recorder.suspect_nodes(moment(6)).into_iter().map(|suspect| suspect.node).collect()
        };
        assert_eq!(suspects(&mut recorder), ["n7"]);
        recorder.keep_node_test("n7", moment(7));
        assert_eq!(suspects(&mut recorder), [""; 0]);
        let age = Age { frames: FrameRange::new(frame(8), 4).unwrap(), tested: moment(5) };
        recorder.keep_ages(&[age]);
        assert_eq!(disk.open().ages().unwrap(), [age]);
        assert_eq!(observer.take_lines(), [""; 0]);
    }
}
