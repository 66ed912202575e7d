//! Publishes findings: to the store, then to the observer.
//!
//! **Problem.** A bad frame that was reported and then forgotten by a crash would be used again. **Idea.** Facts are
//! written first and reported afterwards; the recorder is locked before the findings, so that findings are written in
//! the order in which they are taken. **Why this way.** One owner of this order, for `rampart test` and `rampart
//! watch`.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::bad_frame::BadFrame;
use super::findings::Findings;
use super::record::TestRecorder;

/// How often the counts of frames that are known to be bad already are written.
const COUNTS_WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// A poisoned lock means that a tester panicked: a bug of ours, and the scope will panic too.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no tester panicked")
}

/// The findings, and the recorder that writes them to the store.
pub struct Publisher<'a> {
    pub findings: Mutex<Findings>,
    pub recorder: Mutex<TestRecorder<'a>>,
    /// When facts were last written.
    written: Mutex<Instant>,
}

impl<'a> Publisher<'a> {
    /// Makes a publisher without findings.
    pub fn new(recorder: TestRecorder<'a>) -> Self {
        Self { findings: Mutex::default(), recorder: Mutex::new(recorder), written: Mutex::new(Instant::now()) }
    }

    /// Writes new facts, then reports each new bad frame.
    pub fn publish(&self, report: impl FnMut(BadFrame)) {
        let mut recorder = lock(&self.recorder);
        let news = lock(&self.findings).take_news();
        if !news.facts.is_empty() {
            recorder.keep(&news.facts);
        }
        *lock(&self.written) = Instant::now();
        news.unreported.into_iter().for_each(report);
    }

    /// [`Publisher::publish`], if there are new bad frames, or if their counts have not been written for a while.
    pub fn publish_if_due(&self, report: impl FnMut(BadFrame)) {
        let due = lock(&self.written).elapsed() >= COUNTS_WRITTEN_EVERY;
        if due || lock(&self.findings).has_unreported() {
            self.publish(report);
        }
        lock(&self.recorder).retry();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::findings::MismatchLocation;
    use crate::testing::observed::Observed;
    use crate::testing::record::tests::Disk;
    use rampart_memory::{Frame, Timestamp};

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    fn find(publisher: &Publisher<'_>, number: u64) {
        let location = MismatchLocation::Frame(frame(number));
        lock(&publisher.findings).uncorrected(location, Timestamp::from_micros(1));
    }

    #[test]
    fn a_bad_frame_is_in_the_store_before_it_is_reported() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let publisher = Publisher::new(disk.recorder(&observer));
        find(&publisher, 9);
        let mut reported = Vec::new();
        publisher.publish(|bad| {
            assert_eq!(disk.failures(), [frame(9)]);
            reported.push(bad.frame);
        });
        publisher.publish(|bad| panic!("again: {bad:?}"));
        assert_eq!(reported, [Some(frame(9))]);
    }

    #[test]
    fn new_frames_are_published_at_once_and_what_changed_of_known_ones_after_a_while() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let publisher = Publisher::new(disk.recorder(&observer));
        let mut reported = 0;
        find(&publisher, 9);
        publisher.publish_if_due(|_| reported += 1);
        assert_eq!(reported, 1);
        let retirement = || {
            let map = disk.open().failures(rampart_memory::fault_map::MapOrigin::Real).unwrap();
            map.get(frame(9)).unwrap().retirement.clone()
        };
        use rampart_memory::fault_map::Retirement::{Offlined, Pending};
        lock(&publisher.findings).retired(frame(9), Offlined);
        publisher.publish_if_due(|_| reported += 1);
        assert_eq!(retirement(), Pending, "it was written a moment ago");
        *lock(&publisher.written) -= COUNTS_WRITTEN_EVERY;
        publisher.publish_if_due(|_| reported += 1);
        assert_eq!((retirement(), reported), (Offlined, 1));
        assert!(lock(&publisher.written).elapsed() < COUNTS_WRITTEN_EVERY);
    }

    #[test]
    fn facts_that_wait_for_the_store_are_not_lost_when_nothing_new_is_found() {
        let (disk, observer) = (Disk::new(), Observed::default());
        let publisher = Publisher::new(disk.recorder(&observer));
        disk.refuse();
        find(&publisher, 9);
        publisher.publish(|_| {});
        assert_eq!(observer.take_lines().len(), 1);
        publisher.publish(|_| {});
        disk.accept();
        publisher.publish(|_| {});
        assert_eq!(disk.failures(), [], "no fact is new: it waits for its next turn");
    }
}
