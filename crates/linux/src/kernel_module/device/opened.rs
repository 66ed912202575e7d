//! The device of the loaded module.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rampart_memory::{Frame, FrameRange, Node, TestLifetime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::requests::{ModuleRequests, NewClaim};
use super::{ClaimRefusal, ClaimVerdict, ClaimWay, KernelFreeList, ListPart, ListRefusal, VerdictRefusal, abi};

/// The device, opened.
#[derive(Debug)]
pub(super) struct OpenedDevice(pub(super) File);

impl ModuleRequests for OpenedDevice {
    fn claim(&self, frames: FrameRange, way: ClaimWay) -> Result<NewClaim, ClaimRefusal> {
        let mut request = abi::Claim {
            first: frames.start().number(),
            frames: u32::try_from(frames.count()).unwrap_or(u32::MAX),
            how: match way {
                ClaimWay::Free => abi::CLAIM_FREE,
                ClaimWay::Move => abi::CLAIM_MOVE,
            },
            ..abi::Claim::default()
        };
        abi::claim(&self.0, &mut request).map_err(|errno| match errno {
            Errno::BUSY => ClaimRefusal::Busy { in_use: request.in_use.into() },
            Errno::NXIO => ClaimRefusal::NotMemory,
            Errno::NOMEM => ClaimRefusal::MemoryShort,
            other => ClaimRefusal::Unexpected(other),
        })?;
        Ok(NewClaim { number: request.claim, frames, moved: request.in_use.into() })
    }

    fn claim_listed(&self, list: KernelFreeList, part: ListPart) -> Result<NewClaim, ListRefusal> {
        let mut request = list.request(part);
        abi::claim_listed(&self.0, &mut request).map_err(ListRefusal::of)?;
        Ok(new_block(request.first, request.frames, request.claim))
    }

    fn claim_new(&self, node: Node) -> Result<NewClaim, ListRefusal> {
        let mut request = abi::NodeBlock { node: node.0, ..abi::NodeBlock::default() };
        abi::claim_new(&self.0, &mut request).map_err(ListRefusal::of)?;
        Ok(new_block(request.first, request.frames, request.claim))
    }

    fn claim_demanded(&self, node: Node) -> Result<NewClaim, ListRefusal> {
        let mut request = abi::NodeBlock { node: node.0, ..abi::NodeBlock::default() };
        abi::claim_demanded(&self.0, &mut request).map_err(ListRefusal::of)?;
        Ok(new_block(request.first, request.frames, request.claim))
    }

    fn await_demand(&self, longest: Duration) {
        let wait = Timespec::try_from(longest).ok();
        // Whoever is interrupted looks again.
        let _ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], wait.as_ref());
    }

    fn give_back(&self, claim: &NewClaim, verdict: ClaimVerdict<'_>) -> Result<(), VerdictRefusal> {
        let (ClaimVerdict::NotTested(bad) | ClaimVerdict::Tested(bad)) = verdict;
        let bad: Vec<u64> = bad.iter().map(|frame| frame.number()).collect();
        let request = abi::GiveBack {
            first: claim.frames.start().number(),
            claim: claim.number,
            bad: bad.as_ptr().addr() as u64,
            bad_frames: u32::try_from(bad.len()).unwrap_or(u32::MAX),
            flags: if matches!(verdict, ClaimVerdict::Tested(_)) { abi::TESTED } else { 0 },
        };
        abi::give_back(&self.0, &request).map_err(|errno| match errno {
            Errno::STALE => VerdictRefusal::Late,
            Errno::DQUOT => VerdictRefusal::TooMany,
            other => VerdictRefusal::Unexpected(other),
        })
    }

    fn set_lifetime(&self, bound: TestLifetime) -> Result<(), Errno> {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let margin = seconds(bound.delta()) + u32::from(bound.delta().subsec_nanos() > 0);
        abi::set_lifetime(&self.0, abi::Lifetime { seconds: seconds(bound.lifetime()), margin })
    }

    fn renew(&self) {
        // It fails for no owner.
        let _renewed = abi::renew(&self.0);
    }

    fn memory(&self, _: &NewClaim) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A block that the kernel chose.
fn new_block(first: u64, frames: u32, number: u64) -> NewClaim {
    let frames = Frame::new(first).and_then(|first| FrameRange::new(first, frames.into()));
    NewClaim { number, frames: frames.expect("the kernel's frames are addressable"), moved: 0 }
}
