//! Steps: what a source hands to a tester at a time.
//!
//! **Problem.** One source claims memory like any program, whose pages the kernel may move; another names frames, which
//! its module takes away from others. Testers and their verdicts should not depend on which. **Idea.** A [`Step`] is
//! memory and its frames; [`StepMemory`] holds it for a test, and lets it be accessed. **Why this way.** One
//! source allocates ordinary memory, and learns its frames only afterwards. The other names frames; a tester claims
//! them only when it begins, so that none is withheld while it waits for a tester.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rampart_linux::kernel_module::{
    ClaimRefusal, ClaimWay, ClaimedFrames, FrameAccess, KernelFreeList, ListPart, ListRefusal, ModuleDevice,
};
use rampart_linux::memory_loss::{SurvivingAccess, is_all_lost};
use rampart_linux::{Block, Pinning};
use rampart_march::execute::Region;
use rampart_memory::{Bytes, FRAME_BYTES, Frame, FrameRange, Node};

use crate::machine::MachineUnderTest;

/// A step under test.
#[derive(Debug)]
pub struct Step<R> {
    /// The memory.
    pub region: R,
    /// The frame of each page, if it is known. The tester leaves only frames that were tested completely; frames that
    /// the kernel retired become `None`.
    pub frames: Vec<Option<Frame>>,
    pub(in crate::sources) node: Node,
    /// Pages in bad frames: the pool never gives them back.
    pub(in crate::sources) bad: Vec<u64>,
}

/// The memory of a step on this machine.
#[derive(Debug)]
pub enum StepMemory {
    /// Memory that this process claimed like any program.
    Program(Block),
    /// Frames that the kernel module hands over.
    Chosen(ChosenMemory),
}

/// What the kernel module is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChosenRequest {
    /// These frames.
    Frames(FrameRange, ClaimWay),
    /// These pages in use, one by one, as far as they can be had.
    Pages(Vec<Frame>),
    /// All blocks of a free list, up to 64 MiB. They are held together: the kernel would hand out the same ones again.
    List(KernelFreeList),
    /// What CPUs have at hand of the zone and migratetype of this list, with tests that are older than that.
    AtHand(KernelFreeList, Duration),
    /// A block of memory that came online on this node and was not used yet.
    New(Node),
    /// A block of this node for which a task waits that allocates.
    Demanded(Node),
}

/// Frames that the kernel module hands over for the time of their test.
#[derive(Debug)]
pub struct ChosenMemory {
    device: Arc<ModuleDevice>,
    request: ChosenRequest,
    state: ChosenState,
    claims: Vec<ClaimedFrames>,
    count: u64,
    moved: u64,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenState {
    /// No tester has it yet.
    Waits,
    /// A tester has or had its frames.
    Claimed,
    /// The kernel does not give the frames, or there are none.
    Refused,
    /// The kernel gives nothing now: memory is short.
    MemoryShort,
}

/// The most frames of a free list that are held together: 64 MiB.
const MOST_LISTED: u64 = 1 << 14;

/// And the most blocks: each has a mapping, of which a process may have 65530 (vm.max_map_count).
const MOST_BLOCKS: usize = 8192;

/// How the memory of a step is held in place, the weakest way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, displaydoc::Display)]
pub enum StepHold {
    /// {0}
    Pinned(Pinning),
    /// claimed from the kernel, by its module
    Claimed,
}

/// A thread's access to the memory of a step.
pub enum StepAccess<'a> {
    /// To memory of the process.
    Program(&'a mut Block, SurvivingAccess),
    /// To claimed frames.
    Chosen(FrameAccess<'a>),
}

impl<R> Step<R> {
    /// Makes a step of a node, without known bad frames.
    pub const fn new(region: R, frames: Vec<Option<Frame>>, node: Node) -> Self {
        Self { region, frames, node, bad: Vec::new() }
    }

    /// Keeps a page out of use for good: its frame is bad, and unknown.
    pub fn keep(&mut self, page: u64) {
        if !self.bad.contains(&page) {
            self.bad.push(page);
        }
    }
}

impl StepHold {
    /// Whether pages keep their frames while the kernel compacts memory.
    pub fn holds_frames(self) -> bool {
        match self {
            Self::Pinned(pinning) => pinning.holds_frames(),
            Self::Claimed => true,
        }
    }
}

impl StepMemory {
    /// The size; of a free list, once it is claimed.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Program(block) => block.bytes(),
            Self::Chosen(chosen) => Bytes::new(chosen.count() * FRAME_BYTES),
        }
    }

    /// The pages.
    pub fn pages(&self) -> u64 {
        self.bytes().frames()
    }

    /// Whether a task waits for its test.
    pub const fn is_waited_for(&self) -> bool {
        matches!(self, Self::Chosen(ChosenMemory { request: ChosenRequest::Demanded(_), .. }))
    }

    /// Holds the memory in place for a test; `None` if the kernel does not give it.
    pub fn hold(&mut self, machine: &MachineUnderTest) -> Option<StepHold> {
        match self {
            Self::Program(block) => Some(StepHold::Pinned(machine.pin(block))),
            Self::Chosen(chosen) => chosen.claim(),
        }
    }

    /// Lets the kernel move the pages while they are not tested, where it can.
    pub fn let_move(&mut self) {
        if let Self::Program(block) = self {
            block.unpin();
        }
    }

    /// The frames of the pages now, `None` for those that are unknown or no longer there.
    pub fn frames(&self, machine: &MachineUnderTest, frames: &mut Vec<Option<Frame>>) {
        match self {
            Self::Program(block) => machine.frames(block, frames),
            Self::Chosen(chosen) => {
                frames.clear();
                for claim in &chosen.claims {
                    frames.extend(claim.frames().frames().map(|frame| Some(frame).filter(|_| claim.loss().is_none())));
                }
            }
        }
    }

    /// The pages of each part that is contiguous memory.
    pub fn parts(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let mut part = |pages: u64| {
            let start = end;
            end += usize::try_from(pages).expect("pages of a step");
            start..end
        };
        match self {
            Self::Program(block) => vec![part(block.pages())],
            Self::Chosen(chosen) => chosen.claims.iter().map(|claim| part(claim.frames().count())).collect(),
        }
    }

    /// Begins to access a part from this thread; `None` if the kernel has taken it back.
    pub fn access(&mut self, part: usize) -> Option<StepAccess<'_>> {
        match self {
            Self::Program(block) => {
                let access = block.access();
                Some(StepAccess::Program(block, access))
            }
            Self::Chosen(chosen) => {
                let claim = &mut chosen.claims[part];
                if claim.loss().is_some() { None } else { Some(StepAccess::Chosen(claim.access())) }
            }
        }
    }
}

impl ChosenMemory {
    /// What a tester is to claim.
    pub fn new(device: Arc<ModuleDevice>, request: ChosenRequest) -> Self {
        let count = match &request {
            ChosenRequest::Frames(frames, _) => frames.count(),
            ChosenRequest::Pages(pages) => pages.len() as u64,
            ChosenRequest::List(_) | ChosenRequest::AtHand(..) | ChosenRequest::New(_) | ChosenRequest::Demanded(_) => {
                0
            }
        };
        Self { device, request, state: ChosenState::Waits, claims: Vec::new(), count, moved: 0 }
    }

    /// What this thread has claimed already.
    pub fn claimed(device: Arc<ModuleDevice>, request: ChosenRequest, claimed: ClaimedFrames) -> Self {
        let mut memory = Self::new(device, request);
        memory.state = memory.hold(claimed);
        memory
    }

    /// What the module is asked for.
    pub const fn request(&self) -> &ChosenRequest {
        &self.request
    }

    /// How many of the frames were in use, and were emptied first.
    pub const fn moved(&self) -> u64 {
        self.moved
    }

    /// How far the request has come.
    pub const fn state(&self) -> ChosenState {
        self.state
    }

    /// The frames that are or were claimed, or are asked for by their numbers.
    pub const fn count(&self) -> u64 {
        self.count
    }

    fn claim(&mut self) -> Option<StepHold> {
        if self.state == ChosenState::Waits {
            self.state = match &self.request {
                ChosenRequest::Frames(frames, way) => match self.device.claim(*frames, *way) {
                    Ok(claimed) => {
                        self.moved = claimed.moved();
                        self.claims.push(claimed);
                        ChosenState::Claimed
                    }
                    Err(ClaimRefusal::MemoryShort) => ChosenState::MemoryShort,
                    Err(_) => ChosenState::Refused,
                },
                ChosenRequest::Pages(pages) => {
                    let state = claim_pages(&self.device, pages, &mut self.claims);
                    self.moved = self.claims.iter().map(ClaimedFrames::moved).sum();
                    self.count = self.claims.len() as u64;
                    state
                }
                ChosenRequest::List(list) => self.claim_lists([*list], ListPart::Whole),
                ChosenRequest::AtHand(list, older) => {
                    self.claim_lists(list.kept_at_hand(), ListPart::AtHand { older: *older })
                }
                ChosenRequest::New(node) => self.claim_block(self.device.claim_new(*node)),
                ChosenRequest::Demanded(node) => self.claim_block(self.device.claim_demanded(*node)),
            };
        }
        (self.state == ChosenState::Claimed).then_some(StepHold::Claimed)
    }

    fn claim_lists(&mut self, lists: impl IntoIterator<Item = KernelFreeList>, part: ListPart) -> ChosenState {
        let mut state = ChosenState::Refused;
        for list in lists {
            state = claim_list(&self.device, list, part, MOST_LISTED, &mut self.claims);
        }
        self.count = self.claims.iter().map(|claim| claim.frames().count()).sum();
        state
    }

    fn claim_block(&mut self, block: Result<ClaimedFrames, ListRefusal>) -> ChosenState {
        match block {
            Ok(claimed) => self.hold(claimed),
            Err(ListRefusal::MemoryShort) => ChosenState::MemoryShort,
            Err(_) => ChosenState::Refused,
        }
    }

    fn hold(&mut self, claimed: ClaimedFrames) -> ChosenState {
        self.count = claimed.frames().count();
        self.claims.push(claimed);
        ChosenState::Claimed
    }

    /// Takes the claims, to give them back.
    pub fn end(&mut self) -> Vec<ClaimedFrames> {
        std::mem::take(&mut self.claims)
    }
}

/// Claims single pages in use, those that can be had, until memory is short.
fn claim_pages(device: &Arc<ModuleDevice>, pages: &[Frame], claims: &mut Vec<ClaimedFrames>) -> ChosenState {
    let mut is_short = false;
    for &page in pages {
        match device.claim(FrameRange::new(page, 1).expect("it is a frame"), ClaimWay::Move) {
            Ok(claimed) => claims.push(claimed),
            Err(why) => is_short = why == ClaimRefusal::MemoryShort,
        }
        if is_short {
            break;
        }
    }
    state_of(claims, is_short)
}

/// How far a request has come that was for several claims.
const fn state_of(claims: &[ClaimedFrames], is_short: bool) -> ChosenState {
    match (claims, is_short) {
        ([_, ..], _) => ChosenState::Claimed,
        ([], true) => ChosenState::MemoryShort,
        ([], false) => ChosenState::Refused,
    }
}

/// Claims all blocks of a free list, as far as memory and the limits go: about `most` frames, and 64 MiB.
pub fn claim_list(
    device: &Arc<ModuleDevice>,
    list: KernelFreeList,
    part: ListPart,
    most: u64,
    claims: &mut Vec<ClaimedFrames>,
) -> ChosenState {
    let mut frames = 0;
    let mut refusal = ListRefusal::Empty;
    while frames < most.min(MOST_LISTED) && claims.len() < MOST_BLOCKS {
        match device.claim_listed(list, part) {
            Ok(claimed) => {
                frames += claimed.frames().count();
                claims.push(claimed);
            }
            Err(why) => {
                refusal = why;
                break;
            }
        }
    }
    state_of(claims, refusal == ListRefusal::MemoryShort)
}

impl StepAccess<'_> {
    /// The address of the first page in this process.
    pub fn address(&self) -> u64 {
        let base = match self {
            Self::Program(block, _) => block.base(),
            Self::Chosen(access) => access.base(),
        };
        base.addr().get() as u64
    }

    /// The memory, for a march test.
    pub fn region(&mut self) -> Region<'_> {
        match self {
            Self::Program(block, _) => Region::from(&mut **block),
            Self::Chosen(access) => Region::from(access),
        }
    }

    /// Whether the kernel has taken the memory back: what is read now says nothing about it.
    pub fn is_lost() -> bool {
        is_all_lost()
    }
}
