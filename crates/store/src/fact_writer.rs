//! Writes the facts of a running test, and holds them in memory while the disk is full or fails.
//!
//! **Problem.** A test must not stop, nor lose findings, because a disk is full. **Idea.** Facts that cannot be written
//! wait in memory, the newest value for each frame, and are written again with every later fact. **Why the newest fact
//! first and alone.** While the disk is full, each call costs one small failed transaction, however many facts wait;
//! the first that succeeds shows that the rest can be written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rampart_memory::fault_map::{FailedFrame, MapOrigin};
use rampart_memory::{Frame, SuspectNode, Timestamp};

use crate::history::{TestEnd, TestId, TestStart};
use crate::{Age, Error, SetAside, Store};

/// Whether facts are on the disk.
#[derive(Debug)]
#[must_use]
pub enum Durability {
    /// All facts are on the disk.
    Durable,
    /// At least one fact waits in memory, for this reason.
    Pending(Error),
}

/// Writes the facts of one test.
#[derive(Debug)]
pub struct FactWriter {
    path: PathBuf,
    /// `None` after a store was found damaged or gone, until its successor is open.
    store: Option<Store>,
    start: TestStart,
    /// The test's number, from the first store that took its start.
    test: Option<TestId>,
    /// Whether the present store has the test's start.
    begun: bool,
    failures: BTreeMap<(MapOrigin, Frame), FailedFrame>,
    end: Option<TestEnd>,
    set_aside: Vec<SetAside>,
}

impl FactWriter {
    /// How long a call waits for another process that uses the store. The running test is delayed for as long.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// Writes the start of a test, and makes the writer of its facts.
    pub fn begin(store: Store, start: TestStart) -> (Self, Durability) {
        let now = start.at;
        let mut writer = Self {
            path: store.path().to_owned(),
            store: Some(store),
            start,
            test: None,
            begun: false,
            failures: BTreeMap::new(),
            end: None,
            set_aside: Vec::new(),
        };
        let durability = writer.retry(now);
        (writer, durability)
    }

    /// Writes all findings of this test on a frame since its beginning, and no others. `now` names a damaged store that
    /// must be set aside.
    pub fn keep(&mut self, origin: MapOrigin, failed: &FailedFrame, now: Timestamp) -> Durability {
        self.keep_all([(origin, failed)], now)
    }

    /// Writes this test's findings on some frames together: it costs hardly more than one frame.
    pub fn keep_all<'a>(
        &mut self,
        failed: impl IntoIterator<Item = (MapOrigin, &'a FailedFrame)>,
        now: Timestamp,
    ) -> Durability {
        let failed = failed.into_iter().map(|(origin, failed)| ((origin, failed.frame), failed.clone()));
        let new: BTreeMap<_, _> = failed.collect();
        // A waiting fact may be an older value of the same frame; it must not be written after this one.
        self.failures.retain(|key, _| !new.contains_key(key));
        if let Err(why) = self.write(&new, now) {
            self.failures.extend(new);
            return Durability::Pending(why);
        }
        self.retry(now)
    }

    /// Replaces the stored times of the last tests of frames. Ages that cannot be written do not wait: the next call
    /// brings newer ones.
    pub fn keep_ages(&mut self, ages: &[Age], now: Timestamp) -> Durability {
        match self.with_store(now, |store, _| store.keep_ages(ages)) {
            Ok(()) => Durability::Durable,
            Err(why) => Durability::Pending(why),
        }
    }

    /// Writes that a complete test of a node's memory has ended. It does not wait if it cannot be written: the caller
    /// tests the node again.
    pub fn keep_node_test(&mut self, node: &str, began: Timestamp, now: Timestamp) -> Durability {
        match self.with_store(now, |store, _| store.keep_node_test(node, began)) {
            Ok(()) => Durability::Durable,
            Err(why) => Durability::Pending(why),
        }
    }

    /// The nodes that are suspect now.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn suspect_nodes(&mut self, now: Timestamp) -> Result<Vec<SuspectNode>, Error> {
        self.with_store(now, |store, _| store.suspect_nodes(now))
    }

    /// Writes the end of the test.
    pub fn finish(&mut self, end: TestEnd) -> Durability {
        let now = end.at;
        self.end = Some(end);
        self.retry(now)
    }

    /// Writes all waiting facts again.
    pub fn retry(&mut self, now: Timestamp) -> Durability {
        let waiting = std::mem::take(&mut self.failures);
        let written = self.write(&waiting, now);
        if written.is_err() {
            self.failures = waiting;
        }
        match written.and_then(|()| self.write_end(now)) {
            Ok(()) => Durability::Durable,
            Err(why) => Durability::Pending(why),
        }
    }

    /// The number of facts that wait in memory: frames, the test's start, its end.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.failures.len() + usize::from(!self.begun) + usize::from(self.end.is_some())
    }

    /// The stores that were found damaged while the test ran.
    #[must_use]
    pub fn set_aside(&self) -> &[SetAside] {
        &self.set_aside
    }

    fn write(&mut self, failures: &BTreeMap<(MapOrigin, Frame), FailedFrame>, now: Timestamp) -> Result<(), Error> {
        let facts = failures.iter().map(|(&(origin, _), failed)| (origin, failed));
        self.with_store(
            now,
            |store, test| {
                if failures.is_empty() { Ok(()) } else { store.keep_failures(Some(test), facts) }
            },
        )
    }

    fn write_end(&mut self, now: Timestamp) -> Result<(), Error> {
        let Some(end) = self.end.clone() else { return Ok(()) };
        self.with_store(now, |store, test| store.finish_test(test, &end))?;
        self.end = None;
        Ok(())
    }

    /// Runs `action` on the store after the test's start is in it. A store that turns out to be damaged or gone is
    /// closed; the next call opens its successor.
    fn with_store<T>(
        &mut self,
        now: Timestamp,
        action: impl FnOnce(&mut Store, TestId) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut store = self.store.take().map_or_else(|| self.reopen(now), Ok)?;
        let outcome = self.begin_in(&mut store).and_then(|test| action(&mut store, test));
        if !outcome.as_ref().is_err_and(Error::needs_reopening) {
            self.store = Some(store);
        }
        outcome
    }

    fn reopen(&mut self, now: Timestamp) -> Result<Store, Error> {
        self.begun = false;
        let opened = Store::open_within(&self.path, now, Self::PATIENCE)?;
        self.set_aside.extend(opened.set_aside);
        Ok(opened.store)
    }

    fn begin_in(&mut self, store: &mut Store) -> Result<TestId, Error> {
        if let (true, Some(test)) = (self.begun, self.test) {
            return Ok(test);
        }
        store.wait_at_most(Self::PATIENCE)?;
        let test = match self.test {
            Some(test) => store.resume_test(test, &self.start).map(|()| test),
            None => store.begin_test(&self.start),
        }?;
        self.test = Some(test);
        self.begun = true;
        Ok(test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestEnding;
    use rampart_memory::ReplicaError;
    use rampart_memory::fault_map::Retirement;

    const NOW: Timestamp = Timestamp::from_micros(1);

    /// A folder in memory if possible: syncing a real disk takes time.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn writer(folder: &tempfile::TempDir) -> (FactWriter, Durability) {
        let store = Store::open(&folder.path().join("r.db"), NOW).unwrap().store;
        // SQLite raises the limit to the present size of the database.
        store.limit_pages(1);
        let start = TestStart {
            at: NOW,
            notation: "{⇕(w0)}".to_owned(),
            fidelity: 1,
            sequences: Vec::new(),
            requested: None,
            injected: None,
        };
        FactWriter::begin(store, start)
    }

    fn condemned(number: u64) -> FailedFrame {
        FailedFrame::condemned(Frame::new(number).unwrap(), NOW)
    }

    /// Writes frames until one finds no space. Returns how many were written.
    fn fill(writer: &mut FactWriter) -> u64 {
        for number in 0..1000 {
            match writer.keep(MapOrigin::Real, &condemned(number), NOW) {
                Durability::Durable => {}
                Durability::Pending(Error::Full(_)) => return number,
                Durability::Pending(other) => panic!("{other}"),
            }
        }
        panic!("the store never fills");
    }

    fn end() -> TestEnd {
        TestEnd {
            at: NOW,
            outcome: TestEnding::Incomplete,
            shortfall: None,
            frames_tested: 0,
            bad_frames: 0,
            emulated_frames: 0,
            bytes_per_second: 0,
        }
    }

    #[test]
    fn what_finds_no_space_waits_in_memory_and_is_kept_later() {
        let folder = folder();
        let (mut writer, begun) = writer(&folder);
        assert!(matches!(begun, Durability::Durable));
        let first = fill(&mut writer);
        assert_eq!(writer.pending(), 1);

        // The newest value of each frame; real and emulated ones separately.
        let refused = FailedFrame { retirement: Retirement::Refused("why ".repeat(2000)), ..condemned(first) };
        assert!(matches!(writer.keep(MapOrigin::Real, &refused, NOW), Durability::Pending(Error::Full(_))));
        let many: Vec<_> = (first..first + 100).map(condemned).collect();
        let many = many.iter().map(|failed| (MapOrigin::Emulated, failed));
        assert!(matches!(writer.keep_all(many, NOW), Durability::Pending(Error::Full(_))));
        assert!(matches!(writer.finish(end()), Durability::Pending(Error::Full(_))));
        assert_eq!(writer.pending(), 1 + 100 + 1);
        assert!(matches!(writer.retry(NOW), Durability::Pending(Error::Full(_))));

        writer.store.as_ref().unwrap().limit_pages(u32::MAX);
        assert!(matches!(writer.keep(MapOrigin::Real, &condemned(first + 1), NOW), Durability::Durable));
        assert_eq!(writer.pending(), 0);
        drop(writer);

        let store = Store::open(&folder.path().join("r.db"), NOW).unwrap().store;
        let real = store.failures(MapOrigin::Real).unwrap();
        assert_eq!(real.get(refused.frame), Some(&refused));
        assert_eq!(real.len() as u64, first + 2);
        assert_eq!(store.failures(MapOrigin::Emulated).unwrap().len(), 100);
        assert_eq!(store.history(1).unwrap()[0].end, Some(end()));
    }

    #[test]
    fn a_suspect_node_is_one_until_its_test_is_kept() {
        let folder = folder();
        let (mut writer, _) = writer(&folder);
        writer.store.as_ref().unwrap().limit_pages(u32::MAX);
        let moment = Timestamp::from_micros;
        let error =
            ReplicaError { node: Some("n7".to_owned()), ..ReplicaError::unplaced(moment(5), moment(4), "message") };
        Store::open(&folder.path().join("r.db"), NOW)
            .unwrap()
            .store
            .keep_replica_errors(&[error.clone(), error])
            .unwrap();
        let suspects = |writer: &mut FactWriter| -> Vec<String> {
            writer.suspect_nodes(moment(6)).unwrap().into_iter().map(|suspect| suspect.node).collect()
        };
        assert_eq!(suspects(&mut writer), ["n7"]);
        assert!(matches!(writer.keep_node_test("n7", moment(7), moment(8)), Durability::Durable));
        assert_eq!(suspects(&mut writer), [""; 0]);
    }

    #[test]
    fn an_older_value_that_waits_never_follows_a_newer_one() {
        let folder = folder();
        let (mut writer, _) = writer(&folder);
        let number = fill(&mut writer);
        writer.store.as_ref().unwrap().limit_pages(u32::MAX);
        let newer = FailedFrame { retirement: Retirement::Offlined, ..condemned(number) };
        assert!(matches!(writer.keep(MapOrigin::Real, &newer, NOW), Durability::Durable));
        let store = Store::open(&folder.path().join("r.db"), NOW).unwrap().store;
        assert_eq!(store.failures(MapOrigin::Real).unwrap().get(newer.frame), Some(&newer));
    }

    #[test]
    fn a_test_that_cannot_be_begun_waits_with_its_facts() {
        let folder = folder();
        let path = folder.path().join("r.db");
        let (mut first, _) = writer(&folder);
        let full = fill(&mut first);
        drop(first);
        let store = Store::open(&path, NOW).unwrap().store;
        store.limit_pages(1);
        let long = TestStart { notation: "r0,".repeat(3000), ..writer(&folder).0.start };
        let (mut second, begun) = FactWriter::begin(store, long.clone());
        assert!(matches!(begun, Durability::Pending(Error::Full(_))));
        assert!(matches!(second.keep(MapOrigin::Real, &condemned(full), NOW), Durability::Pending(Error::Full(_))));
        assert_eq!(second.pending(), 2);
        second.store.as_ref().unwrap().limit_pages(u32::MAX);
        assert!(matches!(second.retry(NOW), Durability::Durable));
        let store = Store::open(&path, NOW).unwrap().store;
        assert!(store.history(9).unwrap().iter().any(|record| record.start == long && record.end.is_none()));
        assert!(store.failures(MapOrigin::Real).unwrap().get(condemned(full).frame).is_some());
    }
}
