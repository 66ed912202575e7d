//! Who gives the pool its memory: this machine's kernel, or a made-up one.

use rampart_linux::{Block, PageKind, cpu};
use rampart_memory::{Bytes, Frame, Node};

use crate::Machine;
use crate::polite::Outlook;

/// What the pool asks of a kernel.
pub trait Kernel {
    /// Claimed memory.
    type Region;

    /// The nodes that have memory, each with its part of all, 0 to 1.
    fn nodes(&self) -> Vec<(Node, f64)>;

    /// The machine's memory at this moment.
    fn outlook(&self) -> Outlook;

    /// Claims memory, of this node if it can be had there; `None` if the kernel refuses.
    fn claim(&mut self, node: Node, bytes: Bytes) -> Option<Self::Region>;

    /// How much a region is.
    fn bytes(&self, region: &Self::Region) -> Bytes;

    /// Replaces what `frames` holds by the frame of each page of a region, `None` where it is not known.
    fn frames(&self, region: &Self::Region, frames: &mut Vec<Option<Frame>>);

    /// Gives a region back, but for these of its pages, which nobody is given again as long as this process runs.
    fn release(&mut self, region: Self::Region, keep: &[u64]);
}

/// The kernel of this machine.
pub struct ThisMachine<'a> {
    machine: &'a Machine,
    /// Pages in bad frames.
    kept: Vec<Block>,
    complain: &'a (dyn Fn(&str) + Sync),
}

impl<'a> ThisMachine<'a> {
    /// `complain` is told what the kernel refuses.
    #[must_use]
    pub const fn new(machine: &'a Machine, complain: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { machine, kept: Vec::new(), complain }
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

    /// A page comes from the node of the CPU that touches it first (the default policy, set_mempolicy(2)): with more than
    /// one node the calling thread is bound to a CPU of the node, and stays there.
    fn claim(&mut self, node: Node, bytes: Bytes) -> Option<Block> {
        if self.machine.topology().nodes.len() > 1
            && let Some(&near) = self.machine.topology().cpus_near(node).first()
        {
            // From another node its memory is as good, and slower to test.
            let _elsewhere = cpu::bind(near);
        }
        Block::claim(bytes, PageKind::Huge).inspect_err(|error| (self.complain)(&error.to_string())).ok()
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
