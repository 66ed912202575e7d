//! A kernel module whose frames a test makes up. Claimed frames are real memory: a file that is mapped where the real
//! module's device is. A claim that ends early, too: its file becomes empty, and the next touch is a SIGBUS.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rampart_linux::Roots;
use rampart_linux::kernel_module::{
    ClaimRefusal, ClaimVerdict, ClaimWay, KernelFreeList, ListPart, ListRefusal, ModuleDevice, ModuleRequests,
    NewClaim, VerdictRefusal,
};
use rampart_memory::{FRAME_BYTES, Frame, FrameRange, Node, TestLifetime};
use rustix::io::Errno;

use super::PAGEBLOCK;
use super::fake::{ANONYMOUS, FREE, POISONED, SLAB};

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeUse {
    Free,
    /// In use; its content can be moved.
    Movable,
    /// In use; its content stays where it is.
    Fixed,
    Claimed,
    Retired,
}

/// What was given back, and the module's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The first frame, and how many there are.
    pub frames: (u64, u64),
    /// Whether the verdict was that of a test that ran to its end.
    pub tested: bool,
    /// The frames that were said to be bad.
    pub bad: Vec<u64>,
    pub answer: Result<(), VerdictRefusal>,
}

/// Where claimed frames go when they come back.
#[derive(Clone, Debug)]
enum Origin {
    Chosen,
    List(KernelFreeList),
    New(Node),
    Demanded,
}

#[derive(Debug, Default)]
struct State {
    uses: Vec<FakeUse>,
    lists: HashMap<KernelFreeList, VecDeque<FrameRange>>,
    new: VecDeque<(Node, FrameRange)>,
    /// `None`: the kernel has no tests on demand.
    demanded: Option<VecDeque<(Node, FrameRange)>>,
    claims: BTreeMap<u64, (NewClaim, Origin)>,
    last: u64,
    /// Refusals of the next claims that begin at these frames.
    refusals: Vec<(u64, ClaimRefusal)>,
    /// Refusals of the next verdicts on claims that contain these frames.
    verdict_refusals: Vec<(u64, VerdictRefusal)>,
    /// Claims with these frames are mapped from the file that can become empty.
    unsteady: Vec<u64>,
    /// The next claims with these frames end as soon as they are made.
    ends_at_once: Vec<u64>,
    given: Vec<GivenBack>,
    most_claims: usize,
    list_requests: usize,
    renewals: usize,
    waits: usize,
}

#[derive(Debug)]
struct Shared {
    steady: File,
    unsteady: File,
    state: Mutex<State>,
    demand: Condvar,
}

/// The module; clones are the same one.
#[derive(Clone, Debug)]
pub struct FakeModule(Arc<Shared>);

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

pub fn range(first: u64, count: u64) -> FrameRange {
    FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
}

impl FakeModule {
    /// A module on a machine with so many frames from 0 on, all free.
    pub fn new(frames: u64) -> Self {
        let file = || tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap();
        let state = State { uses: vec![FakeUse::Free; index(frames)], ..State::default() };
        let shared = Shared { steady: file(), unsteady: file(), state: Mutex::new(state), demand: Condvar::new() };
        shared.steady.set_len(frames * FRAME_BYTES).unwrap();
        Self(Arc::new(shared))
    }

    pub fn device(&self, roots: &Roots) -> Arc<ModuleDevice> {
        Arc::new(ModuleDevice::over(self.clone(), roots))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub fn set_use(&self, first: u64, count: u64, to: FakeUse) {
        self.state().uses[index(first)..index(first + count)].fill(to);
    }

    /// What `/proc/kpageflags` has of each frame.
    pub fn flags(&self) -> Vec<u64> {
        let flags = |of: &FakeUse| match of {
            FakeUse::Free => FREE,
            FakeUse::Movable => ANONYMOUS,
            FakeUse::Fixed | FakeUse::Claimed => SLAB,
            FakeUse::Retired => POISONED,
        };
        self.state().uses.iter().map(flags).collect()
    }

    /// Puts a block on a free list, behind the others.
    pub fn list(&self, list: KernelFreeList, first: u64) {
        let block = range(first, list.order.frames());
        self.state().lists.entry(list).or_default().push_back(block);
    }

    /// Memory that came online.
    pub fn bring(&self, node: Node, first: u64, count: u64) {
        self.state().new.push_back((node, range(first, count)));
    }

    /// A task waits for a block.
    pub fn demand(&self, node: Node, first: u64, count: u64) {
        self.state().demanded.get_or_insert_default().push_back((node, range(first, count)));
        self.0.demand.notify_all();
    }

    /// From now on, tasks can wait for blocks, though none does.
    pub fn offer_tests_on_demand(&self) {
        self.state().demanded.get_or_insert_default();
    }

    /// Refuses the next claim that begins at a frame.
    pub fn refuse(&self, first: u64, refusal: ClaimRefusal) {
        self.state().refusals.push((first, refusal));
    }

    /// Refuses the next verdict on a claim with this frame.
    pub fn refuse_verdict(&self, frame: u64, refusal: VerdictRefusal) {
        self.state().verdict_refusals.push((frame, refusal));
    }

    /// The next claims with this frame end as soon as they are made.
    pub fn end_at_once(&self, frame: u64, times: usize) {
        self.state().ends_at_once.extend(std::iter::repeat_n(frame, times));
    }

    /// Claims with this frame can be taken back.
    pub fn can_be_taken_back(&self, frame: u64) {
        self.state().unsteady.push(frame);
    }

    /// Takes back all that [`FakeModule::can_be_taken_back`].
    pub fn take_back(&self) {
        self.0.unsteady.set_len(0).unwrap();
        let mut state = self.state();
        let unsteady = state.unsteady.clone();
        state.claims.retain(|_, (claim, _)| !contains_any(claim.frames, &unsteady));
    }

    /// Inverts a byte of a frame.
    pub fn damage(&self, frame: u64) {
        let (mut byte, at) = ([0], frame * FRAME_BYTES + 77);
        self.0.steady.read_exact_at(&mut byte, at).unwrap();
        self.0.steady.write_all_at(&[!byte[0]], at).unwrap();
    }

    pub fn use_of(&self, frame: u64) -> FakeUse {
        self.state().uses[index(frame)]
    }

    /// Takes all that was given back until now.
    pub fn take_given(&self) -> Vec<GivenBack> {
        std::mem::take(&mut self.state().given)
    }

    /// The claims that have not been given back, and the most at a time.
    pub fn claims(&self) -> (usize, usize) {
        let state = self.state();
        (state.claims.len(), state.most_claims)
    }

    /// How often blocks of free lists were asked for.
    pub fn list_requests(&self) -> usize {
        self.state().list_requests
    }

    pub fn renewals(&self) -> usize {
        self.state().renewals
    }

    /// How often somebody began to wait for a demand.
    pub fn waits(&self) -> usize {
        self.state().waits
    }
}

fn contains_any(frames: FrameRange, numbers: &[u64]) -> bool {
    numbers.iter().any(|&number| frames.contains(Frame::new(number).unwrap()))
}

/// Takes the first of a list for which something is true.
fn take_first<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool) -> Option<T> {
    let place = list.iter().position(is)?;
    Some(list.remove(place))
}

impl State {
    /// The uses of these frames; `None` if there are no such frames.
    fn of(&self, frames: FrameRange) -> Option<&[FakeUse]> {
        self.uses.get(index(frames.start().number())..=index(frames.last().number()))
    }

    /// What the kernel says to a claim; otherwise how many frames are in use.
    fn judge(&self, frames: FrameRange, way: ClaimWay) -> Result<u64, ClaimRefusal> {
        let uses = self.of(frames).filter(|uses| !uses.contains(&FakeUse::Retired)).ok_or(ClaimRefusal::NotMemory)?;
        let moved = uses.iter().filter(|of| **of == FakeUse::Movable).count() as u64;
        let (first, end) = (frames.start().number() / PAGEBLOCK, frames.last().number() / PAGEBLOCK + 1);
        let blocks = index(first * PAGEBLOCK)..index(end * PAGEBLOCK).min(self.uses.len());
        let is_alone = way == ClaimWay::Move && frames.count() == 1 && moved == 1;
        let is_blocked = !is_alone && self.uses[blocks].contains(&FakeUse::Fixed);
        let is_taken = uses.iter().any(|of| matches!(of, FakeUse::Fixed | FakeUse::Claimed));
        if is_blocked || is_taken || (way == ClaimWay::Free && moved > 0) {
            return Err(ClaimRefusal::Busy { in_use: moved });
        }
        Ok(moved)
    }

    fn fill(&mut self, frames: FrameRange, with: FakeUse) {
        self.uses[index(frames.start().number())..=index(frames.last().number())].fill(with);
    }
}

impl Shared {
    fn begin(&self, state: &mut State, (frames, moved): (FrameRange, u64), origin: Origin) -> NewClaim {
        state.last += 1;
        let claim = NewClaim { number: state.last, frames, moved };
        let ended = take_first(&mut state.ends_at_once, |&frame| contains_any(frames, &[frame]));
        if let Some(frame) = ended {
            state.unsteady.push(frame);
            self.unsteady.set_len(0).unwrap();
            return claim;
        }
        if contains_any(frames, &state.unsteady) {
            self.unsteady.set_len(state.uses.len() as u64 * FRAME_BYTES).unwrap();
        }
        state.fill(frames, FakeUse::Claimed);
        state.claims.insert(claim.number, (claim, origin));
        state.most_claims = state.most_claims.max(state.claims.len());
        claim
    }
}

impl ModuleRequests for FakeModule {
    fn claim(&self, frames: FrameRange, way: ClaimWay) -> Result<NewClaim, ClaimRefusal> {
        let mut state = self.state();
        let first = frames.start().number();
        if let Some((_, refusal)) = take_first(&mut state.refusals, |(at, _)| *at == first) {
            return Err(refusal);
        }
        let moved = state.judge(frames, way)?;
        Ok(self.0.begin(&mut state, (frames, moved), Origin::Chosen))
    }

    fn claim_listed(&self, list: KernelFreeList, _: ListPart) -> Result<NewClaim, ListRefusal> {
        let mut state = self.state();
        state.list_requests += 1;
        let block = state.lists.get_mut(&list).and_then(VecDeque::pop_front);
        Ok(self.0.begin(&mut state, (block.ok_or(ListRefusal::Empty)?, 0), Origin::List(list)))
    }

    fn claim_new(&self, node: Node) -> Result<NewClaim, ListRefusal> {
        let mut state = self.state();
        let place = state.new.iter().position(|(of, _)| *of == node).ok_or(ListRefusal::Empty)?;
        let (_, block) = state.new.remove(place).expect("it is there");
        Ok(self.0.begin(&mut state, (block, 0), Origin::New(node)))
    }

    fn claim_demanded(&self, node: Node) -> Result<NewClaim, ListRefusal> {
        let mut state = self.state();
        let waiting = state.demanded.as_mut().ok_or(ListRefusal::NotOffered)?;
        let place = waiting.iter().position(|(of, _)| *of == node).ok_or(ListRefusal::Empty)?;
        let (_, block) = waiting.remove(place).expect("it is there");
        Ok(self.0.begin(&mut state, (block, 0), Origin::Demanded))
    }

    fn await_demand(&self, longest: Duration) {
        let mut state = self.state();
        state.waits += 1;
        let is_none = |state: &mut State| state.demanded.as_ref().is_none_or(VecDeque::is_empty);
        drop(self.0.demand.wait_timeout_while(state, longest, is_none).unwrap());
    }

    fn give_back(&self, claim: &NewClaim, verdict: ClaimVerdict<'_>) -> Result<(), VerdictRefusal> {
        let mut state = self.state();
        let (ClaimVerdict::NotTested(bad) | ClaimVerdict::Tested(bad)) = verdict;
        let refusal = take_first(&mut state.verdict_refusals, |(frame, _)| contains_any(claim.frames, &[*frame]));
        let answer = match (refusal, state.claims.contains_key(&claim.number)) {
            (_, false) => Err(VerdictRefusal::Late),
            (Some((_, refusal)), true) => Err(refusal),
            (None, true) => Ok(()),
        };
        let tested = matches!(verdict, ClaimVerdict::Tested(_));
        if answer != Err(VerdictRefusal::TooMany)
            && let Some((_, origin)) = state.claims.remove(&claim.number)
        {
            state.fill(claim.frames, FakeUse::Free);
            if answer.is_ok() {
                bad.iter().for_each(|&frame| state.uses[index(frame.number())] = FakeUse::Retired);
            }
            match origin {
                Origin::List(list) if bad.is_empty() => {
                    state.lists.entry(list).or_default().push_front(claim.frames);
                }
                Origin::New(node) if !tested => state.new.push_front((node, claim.frames)),
                _ => {}
            }
        }
        let frames = (claim.frames.start().number(), claim.frames.count());
        let bad = bad.iter().map(|frame| frame.number()).collect();
        state.given.push(GivenBack { frames, tested, bad, answer: answer.clone() });
        answer
    }

    fn set_lifetime(&self, _: TestLifetime) -> Result<(), Errno> {
        Ok(())
    }

    fn renew(&self) {
        self.state().renewals += 1;
    }

    fn memory(&self, claim: &NewClaim) -> BorrowedFd<'_> {
        let unsteady = contains_any(claim.frames, &self.state().unsteady);
        if unsteady { self.0.unsteady.as_fd() } else { self.0.steady.as_fd() }
    }
}
