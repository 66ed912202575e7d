//! The lists of a zone and the states of their blocks, without a policy.

use rampart_memory::{BlockOrder, Bytes};

use super::links::{Head, Link, Links};
use super::state::{Begins, State};
use crate::steps::{StepKind, step};
use crate::{Cpu, End, Error, Footprint, Mark, Migratetype, Storage};

/// The global lists of a zone, one per order and migratetype, followed by the lists of the CPUs, one per CPU and
/// migratetype.
pub struct Lists<'a, M: Mark, S: Storage<'a>> {
    links: Links<'a, S>,
    states: S::Array<State>,
    marks: S::Array<M>,
    counts: [[Counts; Migratetype::COUNT]; BlockOrder::COUNT],
    free: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    length: u64,
    allocated: u64,
}

#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const TYPES: u32 = Migratetype::COUNT as u32;
const GLOBAL_LISTS: u32 = (BlockOrder::MAX.number() as u32 + 1) * TYPES;

impl<'a, M: Mark, S: Storage<'a>> Lists<'a, M, S> {
    /// Returns lists for `slots` slots, none of which is a frame yet, before [`Lists::begin`].
    pub fn new(storage: &S, slots: u32, cpus: u32, mark: M) -> Result<Self, Error> {
        Ok(Self {
            links: Links::new(storage, slots, GLOBAL_LISTS + cpus * TYPES)?,
            states: storage.filled(slots as usize, State::GONE)?,
            marks: storage.filled(slots as usize, mark)?,
            counts: [[Counts::default(); Migratetype::COUNT]; BlockOrder::COUNT],
            free: 0,
        })
    }

    /// Makes all lists empty.
    pub fn begin(&mut self) {
        self.links.begin();
    }

    /// Returns the memory of the lists and states, but for what is in `Self`.
    pub fn footprint(&self) -> Footprint {
        let (links, heads) = (self.links.footprint(), Footprint::of_heads::<Link>(GLOBAL_LISTS as usize));
        let cpus = Bytes::new(links.heads.get() - heads.heads.get());
        let states = Footprint::of_frames::<State>(self.states.len()) + Footprint::of_frames::<M>(self.marks.len());
        Footprint { cpus, frames: links.frames, ..heads } + states
    }

    pub fn state(&self, slot: u32) -> State {
        step(StepKind::Frame);
        self.states[slot as usize]
    }

    /// Returns the states of all slots.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    pub fn set(&mut self, slot: u32, state: State) {
        step(StepKind::Frame);
        self.states[slot as usize] = state;
    }

    /// Returns the mark of the block that begins here, while it is on a list.
    pub fn mark(&self, slot: u32) -> M {
        self.marks[slot as usize]
    }

    pub fn marks_mut(&mut self) -> &mut [M] {
        &mut self.marks
    }

    /// Whether a frame of the block at `slot` is retired.
    pub fn any_retired(&self, slot: u32, order: BlockOrder) -> bool {
        let first = slot as usize;
        self.states[first..first + (1 << order.number())].iter().any(|state| {
            step(StepKind::Frame);
            state.is_retired()
        })
    }

    /// Returns the number of frames on the global lists.
    pub const fn free_frames(&self) -> u64 {
        self.free
    }

    /// Returns the number of blocks on a global list.
    pub const fn length(&self, order: BlockOrder, migratetype: Migratetype) -> u64 {
        self.counts[order.index()][migratetype.index()].length
    }

    /// Returns the number of blocks that allocation took off a global list.
    pub const fn allocated(&self, order: BlockOrder, migratetype: Migratetype) -> u64 {
        self.counts[order.index()][migratetype.index()].allocated
    }

    /// Counts a block of this list that allocation took.
    pub const fn count_allocated(&mut self, order: BlockOrder, migratetype: Migratetype) {
        self.counts[order.index()][migratetype.index()].allocated += 1;
    }

    /// Returns the block at an end of a global list.
    pub fn at(&self, order: BlockOrder, migratetype: Migratetype, end: End) -> Option<u32> {
        self.links.at(self.global(order, migratetype), end)
    }

    /// Returns the blocks of a global list, from an end on.
    pub fn from(&self, order: BlockOrder, migratetype: Migratetype, end: End) -> impl Iterator<Item = u32> {
        self.links.from(self.global(order, migratetype), end)
    }

    /// Puts a block that is on no list on a global one.
    #[inline]
    pub fn insert(&mut self, slot: u32, order: BlockOrder, migratetype: Migratetype, mark: M, end: End) {
        self.set(slot, State::free(migratetype, order));
        self.marks[slot as usize] = mark;
        self.links.push(self.global(order, migratetype), slot, end);
        self.counts[order.index()][migratetype.index()].length += 1;
        self.free += order.frames();
    }

    /// Takes a block off its global list, and returns its order, migratetype and mark.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> (BlockOrder, Migratetype, M) {
        let Begins::Free(migratetype, order) = self.state(slot).begins() else { panic!("no free block begins here") };
        self.links.remove(slot);
        self.set(slot, State::INSIDE);
        self.counts[order.index()][migratetype.index()].length -= 1;
        self.free -= order.frames();
        (order, migratetype, self.marks[slot as usize])
    }

    /// Puts a frame that is on no list on the list of a CPU; `later` is the end of the global list that it goes to
    /// later.
    #[inline]
    pub fn insert_local(&mut self, slot: u32, list: Head, mark: M, end: End, later: End) {
        self.set(slot, State::local(later));
        self.marks[slot as usize] = mark;
        self.links.push(list, slot, end);
    }

    /// Takes the frame at an end of a CPU's list, and returns also the end of the global list that it was to go to.
    #[inline]
    pub fn take_local(&mut self, list: Head, end: End) -> Option<(u32, M, End)> {
        let slot = self.links.at(list, end)?;
        let Begins::Local(later) = self.state(slot).begins() else { panic!("a frame of a CPU's list says so") };
        self.links.remove(slot);
        self.set(slot, State::INSIDE);
        Some((slot, self.marks[slot as usize], later))
    }

    #[inline]
    pub fn local(&self, cpu: Cpu, migratetype: Migratetype) -> Head {
        self.links.head(GLOBAL_LISTS + cpu.0 * TYPES + migratetype as u32)
    }

    pub fn is_empty(&self, list: Head) -> bool {
        self.links.is_empty(list)
    }

    #[inline]
    fn global(&self, order: BlockOrder, migratetype: Migratetype) -> Head {
        self.links.head(u32::from(order.number()) * TYPES + migratetype as u32)
    }
}
