//! The observer of a test.

use std::time::Duration;

use rampart_memory::Bytes;

use super::bad_frame::BadFrame;

/// The progress of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestProgress {
    /// The present pass, from 1.
    pub pass: u32,
    /// The number of passes, if it was requested.
    pub passes: Option<u32>,
    /// Memory tested in this pass.
    pub done_in_pass: Bytes,
    /// Memory that this pass will test, as far as known.
    pub total_in_pass: Bytes,
    /// The time since the start.
    pub elapsed: Duration,
    /// The planned end of the test, since the start.
    pub deadline: Option<Duration>,
    /// Memory tested per second of testing.
    pub bytes_per_second: f64,
    /// Bad frames found.
    pub bad_frames: usize,
}

impl TestProgress {
    /// The estimated remaining time of all passes at the present rate, if it is known.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let left = {
            let this = self.total_in_pass.saturating_sub(self.done_in_pass).get() as f64;
            let more = f64::from(self.passes?.saturating_sub(self.pass)) * self.total_in_pass.get() as f64;
            this + more
        };
        (self.bytes_per_second > 0.0).then(|| Duration::from_secs_f64(left / self.bytes_per_second))
    }
}

/// The observer of a test.
pub trait TestObserver: Sync {
    /// A message.
    fn said(&self, text: &str);
    /// A warning: it limits the value of this test.
    fn warned(&self, text: &str);
    /// A bad frame was found; it is in the store.
    fn bad_frame(&self, bad: &BadFrame);
    /// The progress of the test; called often.
    fn progress(&self, seen: &TestProgress);
}
