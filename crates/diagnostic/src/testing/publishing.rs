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
