//! Who is informed while memory is tested.

use std::time::Duration;

use rampart_memory::Bytes;

use super::bad_frame::BadFrame;

/// How far a test is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestProgress {
    /// The pass under way, 1 first.
    pub pass: u32,
    /// Passes asked for, if their number was.
    pub passes: Option<u32>,
    /// Memory tested in this pass.
    pub done_in_pass: Bytes,
    /// Memory that this pass will test, as far as is known.
    pub total_in_pass: Bytes,
    /// Since the start.
    pub elapsed: Duration,
    /// When the test will be stopped, since the start.
    pub deadline: Option<Duration>,
    /// Memory tested per second of testing.
    pub bytes_per_second: f64,
    /// Bad frames found.
    pub bad_frames: usize,
}

impl TestProgress {
    /// How long the rest of the passes will take at the present rate, if that can be told.
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

/// Someone who watches a test.
pub trait TestObserver: Sync {
    /// Something worth a line.
    fn said(&self, text: &str);
    /// Something that a person must hear of: it limits what this test is worth.
    fn warned(&self, text: &str);
    /// A frame was found bad; it is kept already.
    fn bad_frame(&self, bad: &BadFrame);
    /// How far the test is; called often.
    fn progress(&self, seen: &TestProgress);
}
