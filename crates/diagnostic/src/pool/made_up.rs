//! A kernel that is made up: frames by number, last freed first out, and programs that come and go.

use std::collections::BTreeSet;

use rampart_memory::{Bytes, FRAME_BYTES, Frame, Node};

use super::Kernel;
use crate::polite::Outlook;

/// Frames that a program, the pool or nobody has.
#[derive(Debug)]
pub struct MadeUp {
    total: u64,
    /// The last is handed out first.
    free: Vec<Frame>,
    program: Vec<Frame>,
    /// Pages that the pool said it keeps.
    pub kept: BTreeSet<Frame>,
    /// Refuses every claim.
    pub refuses: bool,
}

impl MadeUp {
    pub fn new(total: Bytes) -> Self {
        let frames = (0..total.frames()).rev().map(|number| Frame::new(number).unwrap());
        Self {
            total: total.frames(),
            free: frames.collect(),
            program: Vec::new(),
            kept: BTreeSet::new(),
            refuses: false,
        }
    }

    pub fn free(&self) -> Bytes {
        Bytes::new(self.free.len() as u64 * FRAME_BYTES)
    }

    /// The program allocates as much as there is, at most so much.
    pub fn allocate(&mut self, bytes: Bytes) {
        let count = usize::try_from(bytes.frames()).unwrap().min(self.free.len());
        let taken = self.free.split_off(self.free.len() - count);
        assert!(taken.iter().all(|frame| !self.kept.contains(frame)), "a bad frame is handed out");
        self.program.extend(taken);
    }

    /// The program frees so much, what it took first first.
    pub fn deallocate(&mut self, bytes: Bytes) {
        let count = usize::try_from(bytes.frames()).unwrap().min(self.program.len());
        self.free.extend(self.program.drain(..count));
    }

    /// Frames that the program has.
    pub fn used(&self) -> &[Frame] {
        &self.program
    }
}

impl Kernel for MadeUp {
    type Region = Vec<Frame>;

    fn nodes(&self) -> Vec<(Node, f64)> {
        vec![(Node(0), 1.0)]
    }

    fn outlook(&self) -> Outlook {
        Outlook {
            total: Bytes::new(self.total * FRAME_BYTES),
            free: self.free(),
            high_watermark: Bytes::ZERO,
            stalled: None,
        }
    }

    fn claim(&mut self, _node: Node, bytes: Bytes) -> Option<Vec<Frame>> {
        let count = usize::try_from(bytes.frames()).unwrap();
        if self.refuses || count > self.free.len() {
            return None;
        }
        Some(self.free.split_off(self.free.len() - count))
    }

    fn bytes(&self, region: &Vec<Frame>) -> Bytes {
        Bytes::new(region.len() as u64 * FRAME_BYTES)
    }

    fn frames(&self, region: &Vec<Frame>, frames: &mut Vec<Option<Frame>>) {
        frames.clear();
        frames.extend(region.iter().copied().map(Some));
    }

    fn release(&mut self, region: Vec<Frame>, keep: &[u64]) {
        for (page, frame) in (0..).zip(region) {
            if keep.contains(&page) {
                self.kept.insert(frame);
            } else {
                self.free.push(frame);
            }
        }
    }
}
