//! The kernel that gives the pool its memory: this machine's, or a fake.

use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampart_linux::{Block, Error};
use rampart_memory::{Bytes, Frame, Node};

use crate::machine::MachineUnderTest;
use crate::machine::reserve::Outlook;
use crate::sources::step::StepMemory;

/// A kernel's answer to a claim.
#[derive(Debug)]
pub enum ClaimAnswer<R> {
    /// There is no claim.
    Nothing,
    /// The claimed memory is on its way.
    Pending,
    /// The claimed memory, on this node.
    Ready(Node, R),
    /// The kernel refused the claim.
    Refused,
}

/// The interface between the pool and a kernel.
pub trait Kernel {
    /// Claimed memory.
    type Region;

    /// The nodes that have memory, each with its fraction of all memory, 0 to 1.
    fn nodes(&self) -> Vec<(Node, f64)>;

    /// The present state of the machine's memory.
    fn outlook(&self) -> Outlook;

    /// Claims memory, on this node if possible, unless an earlier claim is unanswered; returns the answer to the open
    /// claim.
    fn claim(&mut self, request: Option<(Node, Bytes)>) -> ClaimAnswer<Self::Region>;

    /// The claimed memory that is on its way.
    fn pending(&self) -> Bytes;

    /// How much of it this process has already: the kernel hands it out page by page, for seconds where programs run.
    fn pending_in_use(&self) -> Bytes;

    /// The memory of pages that stay out of use.
    fn kept(&self) -> Bytes;

    /// The size of a region.
    fn bytes(&self, region: &Self::Region) -> Bytes;

    /// Replaces the content of `frames` by the frame of each page of a region, `None` where it is not known.
    fn frames(&self, region: &Self::Region, frames: &mut Vec<Option<Frame>>);

    /// Gives a region back, except for the pages in `keep`, which stay out of use as long as this process runs.
    fn release(&mut self, region: Self::Region, keep: &[u64]);
}

/// The kernel of this machine. Another thread claims the memory ([`Claims`]): the kernel clears it first, on the
/// claiming thread, and that takes longer than programs may wait for held memory.
pub struct ThisMachine<'a> {
    machine: &'a MachineUnderTest,
    claims: Claims,
    pending: Option<(Node, Bytes)>,
    /// Pages in bad frames.
    kept: Vec<Block>,
    warn: &'a (dyn Fn(&str) + Sync),
}

/// The channels to and from the claiming thread.
#[derive(Debug)]
pub struct Claims {
    /// Claims: a node and an amount.
    pub ask: Sender<(Node, Bytes)>,
    /// One answer for each claim.
    pub answers: Receiver<Result<Block, Error>>,
    /// Where the open claim is.
    pub open: OpenClaim,
}

/// The first address and the size of the claim that the claiming thread works on, once it has addresses.
#[derive(Clone, Debug, Default)]
pub struct OpenClaim(Arc<Mutex<Option<(u64, Bytes)>>>);

impl OpenClaim {
    /// Notes that the claim has these addresses.
    pub fn set(&self, address: u64, bytes: Bytes) {
        *self.lock() = Some((address, bytes));
    }

    /// Forgets the addresses: the claim was refused, or is another's from now on.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    fn get(&self) -> Option<(u64, Bytes)> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> ThisMachine<'a> {
    /// Opens the kernel; `warn` is called for each refused claim.
    #[must_use]
    pub const fn new(machine: &'a MachineUnderTest, claims: Claims, warn: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { machine, claims, pending: None, kept: Vec::new(), warn }
    }
}

impl Kernel for ThisMachine<'_> {
    type Region = StepMemory;

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn nodes(&self) -> Vec<(Node, f64)> {
        let nodes = || self.machine.topology().nodes.iter().filter(|node| node.total > Bytes::ZERO);
        let total: u64 = nodes().map(|node| node.total.get()).sum();
        let shares: Vec<_> = nodes().map(|node| (node.node, node.total.get() as f64 / total as f64)).collect();
        if shares.is_empty() { vec![(Node(0), 1.0)] } else { shares }
    }

    /// If the kernel does not report it, no memory counts as free.
    fn outlook(&self) -> Outlook {
        self.machine.outlook().unwrap_or_default()
    }

    fn claim(&mut self, request: Option<(Node, Bytes)>) -> ClaimAnswer<StepMemory> {
        let Some((node, _)) = self.pending else {
            let Some(request) = request else { return ClaimAnswer::Nothing };
            self.claims.open.clear();
            let sent = self.claims.ask.send(request).is_ok();
            self.pending = sent.then_some(request);
            return if sent { ClaimAnswer::Pending } else { ClaimAnswer::Refused };
        };
        let answer = match self.claims.answers.try_recv() {
            Err(TryRecvError::Empty) => return ClaimAnswer::Pending,
            Err(TryRecvError::Disconnected) => ClaimAnswer::Refused,
            Ok(Ok(block)) => ClaimAnswer::Ready(node, StepMemory::Program(block)),
            Ok(Err(error)) => {
                (self.warn)(&error.to_string());
                ClaimAnswer::Refused
            }
        };
        self.pending = None;
        answer
    }

    fn pending(&self) -> Bytes {
        self.pending.map_or(Bytes::ZERO, |(_, bytes)| bytes)
    }

    fn pending_in_use(&self) -> Bytes {
        let open = self.pending.and_then(|_| self.claims.open.get());
        open.map_or(Bytes::ZERO, |(address, bytes)| self.machine.in_use(address, bytes))
    }

    fn kept(&self) -> Bytes {
        Bytes::new(self.kept.iter().map(|block| block.bytes().get()).sum())
    }

    fn bytes(&self, region: &StepMemory) -> Bytes {
        region.bytes()
    }

    fn frames(&self, region: &StepMemory, frames: &mut Vec<Option<Frame>>) {
        region.frames(self.machine, frames);
    }

    /// Pins the kept pages as well as possible, so that they stay in their frames.
    fn release(&mut self, region: StepMemory, keep: &[u64]) {
        let StepMemory::Program(mut region) = region else { panic!("the pool claims memory like any program") };
        if keep.is_empty() {
            return;
        }
        self.machine.pin(&mut region);
        match region.keep_only(keep) {
            Ok(kept) => self.kept.extend(kept),
            Err(error) => (self.warn)(&format!("bad frames cannot be held: {error}")),
        }
    }
}
