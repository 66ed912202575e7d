//! The observer of a test.

use std::time::Duration;

use rampart_memory::Bytes;

use super::bad_frame::BadFrame;

/// The progress of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestProgress {
    /// The current pass, from 1.
    pub pass: u32,
    /// The requested number of passes, if there is one.
    pub passes: Option<u32>,
    /// Memory tested in this pass.
    pub done_in_pass: Bytes,
    /// Memory that this pass will test, as estimated now.
    pub total_in_pass: Bytes,
    /// The time since the start.
    pub elapsed: Duration,
    /// The time since the start after which the test is stopped.
    pub deadline: Option<Duration>,
    /// Memory tested per second of testing.
    pub bytes_per_second: f64,
    /// Bad frames found.
    pub bad_frames: usize,
}

impl TestProgress {
    /// The estimated time for the rest of the passes at the present rate, if it is known.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let untested = {
            let this_pass = self.total_in_pass.saturating_sub(self.done_in_pass).get() as f64;
            let later_passes = f64::from(self.passes?.saturating_sub(self.pass)) * self.total_in_pass.get() as f64;
            this_pass + later_passes
        };
        (self.bytes_per_second > 0.0).then(|| Duration::from_secs_f64(untested / self.bytes_per_second))
    }
}

/// Receives the messages of a test.
pub trait TestObserver: Sync {
    /// Receives a message.
    fn said(&self, text: &str);
    /// Receives a warning: something limits the value of this test.
    fn warned(&self, text: &str);
    /// Receives a bad frame that is already in the store.
    fn bad_frame(&self, bad: &BadFrame);
    /// Receives the progress; called often.
    fn progress(&self, seen: &TestProgress);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_the_rest_of_this_pass_and_all_later_ones() {
        let seen = TestProgress {
            pass: 2,
            passes: Some(4),
            done_in_pass: Bytes::new(30),
            total_in_pass: Bytes::new(100),
            elapsed: Duration::ZERO,
            deadline: None,
            bytes_per_second: 5.0,
            bad_frames: 0,
        };
        assert_eq!(seen.remaining(), Some(Duration::from_secs((70 + 2 * 100) / 5)));
        assert_eq!(TestProgress { passes: None, ..seen }.remaining(), None, "it goes on until it is stopped");
        assert_eq!(TestProgress { bytes_per_second: 0.0, ..seen }.remaining(), None, "the rate is not known");
    }
}
