//! A fake kernel: frames by number, the last freed is handed out first, and programs that allocate and free.

use std::collections::BTreeSet;

use rampart_memory::{Bytes, FRAME_BYTES, Frame, Node};

use super::{ClaimAnswer, Kernel};
use crate::machine::reserve::Outlook;

/// Frames that are free, or belong to a program or the pool.
#[derive(Debug)]
pub struct FakeKernel {
    total: u64,
    /// The last is handed out first.
    free: Vec<Frame>,
    program: Vec<Frame>,
    /// Frames that the pool keeps.
    pub kept: BTreeSet<Frame>,
    /// Whether it refuses every claim.
    pub refuses: bool,
    /// Whether it answers each claim only at the second call.
    slow: bool,
    delays: bool,
    pending: Option<(Node, Bytes)>,
}

impl FakeKernel {
    pub fn new(total: Bytes) -> Self {
        let frames = (0..total.frames()).rev().map(|number| Frame::new(number).unwrap());
        Self {
            total: total.frames(),
            free: frames.collect(),
            program: Vec::new(),
            kept: BTreeSet::new(),
            refuses: false,
            slow: false,
            delays: false,
            pending: None,
        }
    }

    /// Like a real kernel, which needs time to clear claimed memory.
    pub fn slow(total: Bytes) -> Self {
        Self { slow: true, delays: true, ..Self::new(total) }
    }

    pub fn free(&self) -> Bytes {
        Bytes::new(self.free.len() as u64 * FRAME_BYTES)
    }

    /// Allocates as much as there is for the program, at most `bytes`.
    pub fn allocate(&mut self, bytes: Bytes) {
        let count = usize::try_from(bytes.frames()).unwrap().min(self.free.len());
        let taken = self.free.split_off(self.free.len() - count);
        assert!(taken.iter().all(|frame| !self.kept.contains(frame)), "a bad frame is handed out");
        self.program.extend(taken);
    }

    /// Frees `bytes` of the program, the oldest allocation first.
    pub fn deallocate(&mut self, bytes: Bytes) {
        let count = usize::try_from(bytes.frames()).unwrap().min(self.program.len());
        self.free.extend(self.program.drain(..count));
    }

    /// The program's frames.
    pub fn used(&self) -> &[Frame] {
        &self.program
    }
}

impl Kernel for FakeKernel {
    type Region = Vec<Frame>;

    fn nodes(&self) -> Vec<(Node, f64)> {
        vec![(Node(0), 1.0)]
    }

    fn outlook(&self) -> Outlook {
        Outlook { total: Bytes::new(self.total * FRAME_BYTES), free: self.free(), ..Outlook::default() }
    }

    fn claim(&mut self, request: Option<(Node, Bytes)>) -> ClaimAnswer<Vec<Frame>> {
        let Some((node, bytes)) = self.pending.take().or(request) else { return ClaimAnswer::Nothing };
        if self.delays {
            self.delays = false;
            self.pending = Some((node, bytes));
            return ClaimAnswer::Pending;
        }
        self.delays = self.slow;
        let count = usize::try_from(bytes.frames()).unwrap();
        if self.refuses || count > self.free.len() {
            return ClaimAnswer::Refused;
        }
        ClaimAnswer::Ready(node, self.free.split_off(self.free.len() - count))
    }

    fn pending(&self) -> Bytes {
        self.pending.map_or(Bytes::ZERO, |(_, bytes)| bytes)
    }

    /// Half of it.
    fn pending_in_use(&self) -> Bytes {
        Bytes::new(self.pending().get() / 2)
    }

    fn kept(&self) -> Bytes {
        Bytes::new(self.kept.len() as u64 * FRAME_BYTES)
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
