//! The pool's source of memory: this machine's kernel, or a fake one.

use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use rampart_linux::{Block, Error};
use rampart_memory::{Bytes, Frame, Node};

use crate::machine::MachineUnderTest;
use crate::machine::reserve::Outlook;

/// A kernel's answer to a claim.
#[derive(Debug)]
pub enum ClaimAnswer<R> {
    /// Nothing, and nothing was requested.
    Nothing,
    /// The requested memory is on its way.
    Pending,
    /// The requested memory, on this node.
    Ready(Node, R),
    /// The requested memory cannot be had.
    Refused,
}

/// The pool's interface to a kernel.
pub trait Kernel {
    /// Claimed memory.
    type Region;

    /// The nodes with memory, each with its share, 0 to 1.
    fn nodes(&self) -> Vec<(Node, f64)>;

    /// The machine's memory at this moment.
    fn outlook(&self) -> Outlook;

    /// Requests memory, of this node if possible, unless an earlier claim is unanswered; returns the answer so far.
    fn claim(&mut self, wanted: Option<(Node, Bytes)>) -> ClaimAnswer<Self::Region>;

    /// Requested memory that has not come.
    fn pending(&self) -> Bytes;

    /// The size of a region.
    fn bytes(&self, region: &Self::Region) -> Bytes;

    /// Sets `frames` to the frame of each page of a region, `None` for unknown ones.
    fn frames(&self, region: &Self::Region, frames: &mut Vec<Option<Frame>>);

    /// Gives a region back, except for these of its pages, which nobody gets again as long as this process runs.
    fn release(&mut self, region: Self::Region, keep: &[u64]);
}

/// The kernel of this machine. Another thread claims memory ([`Claims`]): the kernel first clears it, at the cost of
/// the claiming thread, and that takes longer than programs may wait for our memory.
pub struct ThisMachine<'a> {
    machine: &'a MachineUnderTest,
    claims: Claims,
    pending: Option<(Node, Bytes)>,
    /// Pages on bad frames.
    kept: Vec<Block>,
    complain: &'a (dyn Fn(&str) + Sync),
}

/// The pool's ends of the channels to the claiming thread.
#[derive(Debug)]
pub struct Claims {
    /// Requests.
    pub ask: Sender<(Node, Bytes)>,
    /// An answer for each of these.
    pub answers: Receiver<Result<Block, Error>>,
}

impl<'a> ThisMachine<'a> {
    /// `complain` gets the kernel's refusals.
    #[must_use]
    pub const fn new(machine: &'a MachineUnderTest, claims: Claims, complain: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { machine, claims, pending: None, kept: Vec::new(), complain }
    }
}

impl Kernel for ThisMachine<'_> {
    type Region = Block;

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn nodes(&self) -> Vec<(Node, f64)> {
        let nodes = || self.machine.topology().nodes.iter().filter(|node| node.total > Bytes::ZERO);
        let total: u64 = nodes().map(|node| node.total.get()).sum();
        let shares: Vec<_> = nodes().map(|node| (node.node, node.total.get() as f64 / total as f64)).collect();
        if shares.is_empty() { vec![(Node(0), 1.0)] } else { shares }
    }

    /// If the kernel does not show it, nothing is free.
    fn outlook(&self) -> Outlook {
        let nothing = Outlook { total: Bytes::ZERO, free: Bytes::ZERO, high_watermark: Bytes::ZERO, stalled: None };
        self.machine.outlook().unwrap_or(nothing)
    }

    fn claim(&mut self, wanted: Option<(Node, Bytes)>) -> ClaimAnswer<Block> {
        let Some((node, _)) = self.pending else {
            let Some(wanted) = wanted else { return ClaimAnswer::Nothing };
            let heard = self.claims.ask.send(wanted).is_ok();
            self.pending = heard.then_some(wanted);
            return if heard { ClaimAnswer::Pending } else { ClaimAnswer::Refused };
        };
        let answer = match self.claims.answers.try_recv() {
            Err(TryRecvError::Empty) => return ClaimAnswer::Pending,
            Err(TryRecvError::Disconnected) => ClaimAnswer::Refused,
            Ok(Ok(block)) => ClaimAnswer::Ready(node, block),
            Ok(Err(error)) => {
                (self.complain)(&error.to_string());
                ClaimAnswer::Refused
            }
        };
        self.pending = None;
        answer
    }

    fn pending(&self) -> Bytes {
        self.pending.map_or(Bytes::ZERO, |(_, bytes)| bytes)
    }

    fn bytes(&self, region: &Block) -> Bytes {
        region.bytes()
    }

    fn frames(&self, region: &Block, frames: &mut Vec<Option<Frame>>) {
        self.machine.frames(region, frames);
    }

    /// Kept pages are pinned as well as possible, so that their frames stay ours.
    fn release(&mut self, mut region: Block, keep: &[u64]) {
        if keep.is_empty() {
            return;
        }
        region.pin();
        match region.keep_only(keep) {
            Ok(kept) => self.kept.extend(kept),
            Err(error) => (self.complain)(&format!("bad frames cannot be held: {error}")),
        }
    }
}
