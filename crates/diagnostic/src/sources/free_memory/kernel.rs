//! Who gives the pool its memory: this machine's kernel, or a made-up one.

use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use rampart_linux::{Block, Error};
use rampart_memory::{Bytes, Frame, Node};

use crate::machine::Machine;
use crate::machine::reserve::Outlook;

/// What a kernel has for whoever claims.
#[derive(Debug)]
pub enum Claim<R> {
    /// Nothing, and nothing was asked for.
    Nothing,
    /// What was asked for is on its way.
    Pending,
    /// Memory that was asked for, on this node.
    Ready(Node, R),
    /// What was asked for is not to be had.
    Refused,
}

/// What the pool asks of a kernel.
pub trait Kernel {
    /// Claimed memory.
    type Region;

    /// The nodes that have memory, each with its part of all, 0 to 1.
    fn nodes(&self) -> Vec<(Node, f64)>;

    /// The machine's memory at this moment.
    fn outlook(&self) -> Outlook;

    /// Asks for memory, of this node if it can be had there, unless an earlier claim is unanswered; returns what there
    /// is.
    fn claim(&mut self, wanted: Option<(Node, Bytes)>) -> Claim<Self::Region>;

    /// What was asked for and has not come.
    fn pending(&self) -> Bytes;

    /// How much a region is.
    fn bytes(&self, region: &Self::Region) -> Bytes;

    /// Replaces what `frames` holds by the frame of each page of a region, `None` where it is not known.
    fn frames(&self, region: &Self::Region, frames: &mut Vec<Option<Frame>>);

    /// Gives a region back, but for these of its pages, which nobody is given again as long as this process runs.
    fn release(&mut self, region: Self::Region, keep: &[u64]);
}

/// The kernel of this machine. Memory is claimed by another thread ([`Claims`]): the kernel clears it first, at the
/// cost of whoever asks, and that takes longer than programs may wait for what we hold.
pub struct ThisMachine<'a> {
    machine: &'a Machine,
    claims: Claims,
    pending: Option<(Node, Bytes)>,
    /// Pages in bad frames.
    kept: Vec<Block>,
    complain: &'a (dyn Fn(&str) + Sync),
}

/// The two ends of the talk with whoever claims.
#[derive(Debug)]
pub struct Claims {
    /// What is wanted.
    pub ask: Sender<(Node, Bytes)>,
    /// For each of these an answer.
    pub answers: Receiver<Result<Block, Error>>,
}

impl<'a> ThisMachine<'a> {
    /// `complain` is told what the kernel refuses.
    #[must_use]
    pub const fn new(machine: &'a Machine, claims: Claims, complain: &'a (dyn Fn(&str) + Sync)) -> Self {
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

    /// Where the kernel does not tell, nothing is free.
    fn outlook(&self) -> Outlook {
        let nothing = Outlook { total: Bytes::ZERO, free: Bytes::ZERO, high_watermark: Bytes::ZERO, stalled: None };
        self.machine.outlook().unwrap_or(nothing)
    }

    fn claim(&mut self, wanted: Option<(Node, Bytes)>) -> Claim<Block> {
        let Some((node, _)) = self.pending else {
            let Some(wanted) = wanted else { return Claim::Nothing };
            let heard = self.claims.ask.send(wanted).is_ok();
            self.pending = heard.then_some(wanted);
            return if heard { Claim::Pending } else { Claim::Refused };
        };
        let answer = match self.claims.answers.try_recv() {
            Err(TryRecvError::Empty) => return Claim::Pending,
            Err(TryRecvError::Disconnected) => Claim::Refused,
            Ok(Ok(block)) => Claim::Ready(node, block),
            Ok(Err(error)) => {
                (self.complain)(&error.to_string());
                Claim::Refused
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

    /// What is kept is pinned as well as can be, so that its frames stay ours.
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
