//! What a test told its observer.

use std::sync::Mutex;

use super::bad_frame::BadFrame;
use super::observer::{TestObserver, TestProgress};

/// An observer that records every call.
#[derive(Default)]
pub struct Observed {
    /// Messages, and warnings after the word `warning: `.
    pub lines: Mutex<Vec<String>>,
    pub bad: Mutex<Vec<BadFrame>>,
    pub progress: Mutex<Vec<TestProgress>>,
}

impl Observed {
    /// Takes the messages so far.
    pub fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

impl TestObserver for Observed {
    fn said(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }

    fn warned(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("warning: {text}"));
    }

    fn bad_frame(&self, bad: &BadFrame) {
        self.bad.lock().unwrap().push(bad.clone());
    }

    fn progress(&self, seen: &TestProgress) {
        self.progress.lock().unwrap().push(*seen);
    }
}
