//! What can be asked of the module, and the memory that it hands out: its own device, or one that a test made.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rampart_memory::{FrameRange, Node, TestLifetime};
use rustix::io::Errno;

use super::{ClaimRefusal, ClaimVerdict, ClaimWay, KernelFreeList, ListPart, ListRefusal, VerdictRefusal};

/// The requests that the module takes. They are the steps of [`ModuleDevice`](super::ModuleDevice), which adds what
/// holds for any of them: windows, and what is refused before the module is asked.
pub trait ModuleRequests: Debug + Send + Sync {
    /// Claims frames.
    ///
    /// # Errors
    /// If the kernel does not give all of them.
    fn claim(&self, frames: FrameRange, way: ClaimWay) -> Result<NewClaim, ClaimRefusal>;

    /// Claims the first block of a free list.
    ///
    /// # Errors
    /// If there is none, or the kernel does not give it.
    fn claim_listed(&self, list: KernelFreeList, part: ListPart) -> Result<NewClaim, ListRefusal>;

    /// Claims a block of memory that came online on a node and was not used yet.
    ///
    /// # Errors
    /// If there is none, or the kernel does not give it.
    fn claim_new(&self, node: Node) -> Result<NewClaim, ListRefusal>;

    /// Claims a block of a node for which a task waits.
    ///
    /// # Errors
    /// If there is none, or the kernel does not give it.
    fn claim_demanded(&self, node: Node) -> Result<NewClaim, ListRefusal>;

    /// Waits until a task waits for a block of any node, for at most this time.
    fn await_demand(&self, longest: Duration);

    /// Gives the frames of a claim back.
    ///
    /// # Errors
    /// If the verdict is not accepted. After [`VerdictRefusal::TooMany`], the frames are still claimed.
    fn give_back(&self, claim: &NewClaim, verdict: ClaimVerdict<'_>) -> Result<(), VerdictRefusal>;

    /// Sets how long a test is good.
    ///
    /// # Errors
    /// If nothing of the lifetime is left.
    fn set_lifetime(&self, bound: TestLifetime) -> Result<(), Errno>;

    /// Has the time of all claims begin anew.
    fn renew(&self);

    /// The file from which the frames of a claim are mapped: each is at its own physical address.
    fn memory(&self, claim: &NewClaim) -> BorrowedFd<'_>;
}

/// A claim as the module made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its number, which no other claim has.
    pub number: u64,
    /// The frames.
    pub frames: FrameRange,
    /// How many of them were in use; what was in them was moved.
    pub moved: u64,
}
