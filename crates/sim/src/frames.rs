//! The table of frames.

use rampart_memory::{Frame, FrameBlock, FrameRange, FrameState, TestLifetime, Tested, Timestamp};

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// The time of its last test.
    pub tested: Tested,
    /// Its holder.
    pub holder: Holder,
}

/// The holder of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The allocator.
    Nobody,
    /// A tester or its queue.
    Tester,
    /// A program, in this slot of its list.
    Program {
        /// The program's number.
        program: u16,
        /// The index in its list.
        slot: u32,
        /// Whether the frame is inaccessible to it.
        locked: bool,
    },
    /// Nobody: the frame is bad and retired.
    Failed,
}

const _: () = assert!(size_of::<FrameEntry>() == 16, "64 GiB of simulated memory have 16.8 million entries");

/// All frames, by number.
#[derive(Clone, Debug)]
pub struct Frames {
    entries: Vec<FrameEntry>,
}

impl Frames {
    pub fn new(count: u64) -> Self {
        let count = usize::try_from(count).expect("a machine that can be simulated");
        Self { entries: vec![FrameEntry { tested: Tested::NEVER, holder: Holder::Nobody }; count] }
    }

    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, frame: Frame) -> FrameEntry {
        self.entries[index(frame)]
    }

    pub fn get_mut(&mut self, frame: Frame) -> &mut FrameEntry {
        &mut self.entries[index(frame)]
    }

    pub fn count(&self, is: impl Fn(&FrameEntry) -> bool) -> usize {
        self.entries.iter().filter(|entry| is(entry)).count()
    }

    pub fn of_range(&self, range: FrameRange) -> &[FrameEntry] {
        &self.entries[index(range.start())..=index(range.last())]
    }

    pub fn forget(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.tested = Tested::NEVER);
    }

    /// Forgets the tests of some frames.
    pub fn forget_range(&mut self, range: FrameRange) {
        let entries = &mut self.entries[index(range.start())..=index(range.last())];
        entries.iter_mut().for_each(|entry| entry.tested = Tested::NEVER);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Frame, FrameEntry)> {
        let number = |at: usize| Frame::new(at as u64).expect("below the last frame");
        self.entries.iter().enumerate().map(move |(at, &entry)| (number(at), entry))
    }
}

impl FrameEntry {
    /// Returns the state in the diagram of [Rahman16, fig. 2]; a frame that a tester holds counts as free and untested.
    pub fn state(self, lifetime: TestLifetime, now: Timestamp) -> FrameState {
        let fresh = lifetime.is_fresh(self.tested, now);
        match self.holder {
            Holder::Failed => FrameState::Failed,
            Holder::Program { locked: true, .. } => FrameState::Locked,
            Holder::Program { .. } => FrameState::TestedUsed,
            Holder::Nobody if fresh => FrameState::TestedFree,
            Holder::Nobody | Holder::Tester => FrameState::UntestedFree,
        }
    }
}

/// The tests of all frames at one moment, for an allocator that looks for frames to test.
#[derive(Clone, Copy, Debug)]
pub struct FrameTests<'a> {
    frames: &'a Frames,
    lifetime: Option<TestLifetime>,
    now: Timestamp,
}

impl<'a> FrameTests<'a> {
    /// Returns the tests at `now`; none is good without a lifetime.
    pub const fn new(frames: &'a Frames, lifetime: Option<TestLifetime>, now: Timestamp) -> Self {
        Self { frames, lifetime, now }
    }

    /// Returns the time of a frame's last test.
    #[must_use]
    pub fn of(&self, frame: Frame) -> Tested {
        self.frames.get(frame).tested
    }

    /// Whether every frame of a free block has a good test. The mark is that of the oldest frame, or older: a block
    /// that was split off a larger one keeps its mark.
    #[must_use]
    pub fn is_fresh(&self, block: FrameBlock, mark: Tested) -> bool {
        let Some(lifetime) = self.lifetime else { return false };
        let fresh = |tested| lifetime.is_fresh(tested, self.now);
        fresh(mark) || block.frames().all(|frame| fresh(self.of(frame)))
    }

    /// Whether nobody holds a frame, and its test is not good.
    #[must_use]
    pub fn is_stale(&self, frame: Frame) -> bool {
        let FrameEntry { tested, holder } = self.frames.get(frame);
        holder == Holder::Nobody && !self.lifetime.is_some_and(|lifetime| lifetime.is_fresh(tested, self.now))
    }
}

/// Returns a frame's number as an index.
pub fn index(frame: Frame) -> usize {
    usize::try_from(frame.number()).expect("a machine that can be simulated")
}

/// Returns a frame's number in the 32 bits that the timing wheel and the programs store.
pub fn short(frame: Frame) -> u32 {
    u32::try_from(frame.number()).expect("a machine of less than 16 TiB")
}

/// Returns the frame of a stored number.
pub fn long(number: u32) -> Frame {
    Frame::new(u64::from(number)).expect("32 bits are less than 40")
}
