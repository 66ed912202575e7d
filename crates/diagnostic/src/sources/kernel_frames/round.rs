//! Sweeps of this source: one has ended when all memory was looked at and no frame that can be tested was found without
//! a test.

use std::time::Duration;

use rampart_memory::Timestamp;

/// The sweep that is under way.
#[derive(Debug)]
pub struct Round {
    began: Timestamp,
    /// Which stretches it has dealt with, by their place.
    done: Vec<bool>,
    open: usize,
}

impl Round {
    /// A sweep of no stretches.
    pub const fn new(now: Timestamp) -> Self {
        Self { began: now, done: Vec::new(), open: 0 }
    }

    /// Begins anew with so many stretches.
    pub fn begin(&mut self, stretches: usize, now: Timestamp) {
        *self = Self { began: now, done: vec![false; stretches], open: stretches };
    }

    /// A stretch is done; returns how long the sweep took, if it was the last.
    pub fn done(&mut self, place: usize, now: Timestamp) -> Option<Duration> {
        if std::mem::replace(&mut self.done[place], true) {
            return None;
        }
        self.open -= 1;
        (self.open == 0).then(|| now.since(self.began))
    }
}
