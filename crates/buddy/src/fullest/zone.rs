//! One zone: its data, and what the operations on it share.

use core::ops::Range;

use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

use super::cpu::{CHUNK_WORDS, CpuState};
use super::group::{ChunkWords, GROUP_SHIFT, GroupState};
use super::lists::PartLists;
use super::part::{CHUNK_FRAMES, PartFlags, PartState};
use super::sync::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, SpinMutex};
use super::word::{FREE, Samples, WORD_FRAMES};
use crate::{BankPool, BankSize, Cpu, Footprint, Watermarks, Zone};

/// A CPU adds its count of free frames to its zone's when it differs by its share of a 64th of the zone, but by no more
/// than 64 MiB and no less than 64 frames.
const UNCOUNTED_SHARE: u64 = 64;
const MOST_UNCOUNTED: u64 = 1 << 14;
const LEAST_UNCOUNTED: u64 = 64;

/// One zone. The caller of [`FullestBank::new`](super::FullestBank::new) hands in as many as its machine has.
#[derive(Debug, Default)]
pub struct FullestZone<'a> {
    zone: Option<Zone>,
    /// The number of the frame of the first bit.
    base: u64,
    /// The number of its first frame, and of the first behind it.
    frames: Range<u64>,
    /// The logarithms of the chunks of a bank and of a group.
    part_shift: u32,
    group_shift: u32,
    /// The frames whose use is counted.
    pub(super) samples: Samples,
    marks: Marks,
    /// By how much a CPU's count of free frames differs from the zone's at most.
    pub(super) most_uncounted: i64,
    /// If the zone's count is this, a block of any size can be taken down to the low watermark.
    plenty: i64,
    pub(super) memory: ZoneSlices<'a>,
    pub(super) steals: AtomicU64,
    pub(super) retired: AtomicU64,
    pub(super) shared: FreeCount,
    pub(super) moves: Moves,
    pub(super) lists: ZoneLists,
}

/// Watermarks before there is a zone.
#[derive(Clone, Copy, Debug)]
pub struct Marks(pub Watermarks);

impl Default for Marks {
    fn default() -> Self {
        Self(Watermarks { min: 0, low: 0, high: 0 })
    }
}

/// The words of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneSlices<'a> {
    /// A bit for each frame that is free, unless its whole chunk is.
    pub words: &'a [ChunkWords],
    /// A bit for each frame that is retired.
    pub retired: &'a [ChunkWords],
    pub groups: &'a [GroupState],
    pub parts: &'a [PartState],
    pub cpus: &'a [CpuState],
}

/// The lists of a zone's units, in cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ZoneLists(pub SpinMutex<PartLists>);

/// Free frames, but for those that CPUs have not added yet, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct FreeCount(AtomicI64);

/// Operations that take several words one after the other, begun and ended: meanwhile a free frame may look used.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Moves {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Moves {
    /// Says that free frames may look used until [`Moves::end`].
    pub fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }

    pub fn end(&self) {
        self.ended.fetch_add(1, SeqCst);
    }

    /// Returns the number of such operations so far; `None` while there is one.
    pub fn settled(&self) -> Option<u64> {
        let ended = self.ended.load(SeqCst);
        (self.begun.load(SeqCst) == ended).then_some(ended)
    }
}

impl<'a> FullestZone<'a> {
    /// Returns the memory of its structures.
    pub(super) fn footprint(&self) -> Footprint {
        let ZoneSlices { words, retired, groups, parts, cpus } = self.memory;
        let banks = Footprint::of_zones::<PartState>(parts.len()) + Footprint::of_zones::<GroupState>(groups.len());
        let frames = Footprint::of_frames::<ChunkWords>(words.len() + retired.len());
        banks + Footprint::of_zones::<Self>(1) + Footprint::of_cpus::<CpuState>(cpus.len()) + frames
    }

    /// Makes all frames of a zone free, the parts that are less than a bank the kernel's, and the others offline. Each
    /// is a unit by itself, and on no list.
    pub(super) fn begin(&mut self, zone: Zone, bank: BankSize, marks: Watermarks, memory: ZoneSlices<'a>) {
        let part_chunks = usize::try_from(bank.frames()).expect("a bank is small enough") / CHUNK_FRAMES;
        assert!(part_chunks.is_power_of_two(), "a bank is a power of two of chunks");
        self.base = bank.bank_of(zone.frames.start()) * bank.frames();
        self.frames = zone.frames.start().number()..zone.frames.last().number() + 1;
        self.zone = Some(zone);
        (self.part_shift, self.marks, self.memory) = (part_chunks.trailing_zeros(), Marks(marks), memory);
        self.group_shift = self.part_shift.min(GROUP_SHIFT);
        self.samples = Samples::of_banks(bank.frames());
        let cpus = memory.cpus.len() as u64;
        let uncounted = (zone.frames.count() / UNCOUNTED_SHARE / cpus).clamp(LEAST_UNCOUNTED, MOST_UNCOUNTED);
        self.most_uncounted = uncounted.cast_signed();
        self.plenty = (marks.low + BlockOrder::MAX.frames() + cpus * uncounted).cast_signed();
        for number in 0..memory.parts.len() {
            let frames = self.part_frames(number);
            let whole = frames.end - frames.start == bank.frames();
            let flags = if whole { PartFlags::of(BankPool::Offline) } else { PartFlags::partial() };
            memory.parts[number].begin(number, flags);
        }
        memory.groups.iter().for_each(GroupState::begin);
        (0..memory.words.len()).for_each(|chunk| self.begin_chunk(chunk));
        self.shared.0.store(zone.frames.count().cast_signed(), Relaxed);
    }

    /// Links the units, once it is known which they are.
    pub(super) fn begin_lists(&self) {
        for part in 0..self.memory.parts.len() {
            let unit = self.memory.parts[part].unit();
            self.groups_of_part(part).for_each(|group| self.memory.groups[group].set_unit(unit));
        }
        for unit in self.units() {
            self.link(&mut self.lists.0.lock(), unit);
        }
    }

    fn begin_chunk(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        let first = self.base + (chunk * CHUNK_FRAMES) as u64;
        if self.frames.start <= first && first + CHUNK_FRAMES as u64 <= self.frames.end {
            group.make_whole(bit);
            return;
        }
        for offset in 0..CHUNK_FRAMES {
            let slot = chunk * CHUNK_FRAMES + offset;
            if self.frames.contains(&(first + offset as u64)) {
                let frame = 1 << (slot % WORD_FRAMES);
                self.word(slot / WORD_FRAMES).fetch_or(frame, Relaxed);
                group.offer(bit, true);
                group.count(self.samples.frames(frame));
            }
        }
    }

    /// Returns the zone as it was given.
    pub(super) const fn zone(&self) -> Option<Zone> {
        self.zone
    }

    #[inline]
    pub(super) fn node(&self) -> Option<Node> {
        self.zone.map(|zone| zone.node)
    }

    #[inline]
    pub(super) const fn watermarks(&self) -> Watermarks {
        self.marks.0
    }

    #[inline]
    pub(super) fn cpu(&self, cpu: Cpu) -> &'a CpuState {
        &self.memory.cpus[cpu.0 as usize]
    }

    pub(super) const fn parts(&self) -> usize {
        self.memory.parts.len()
    }

    /// Returns the blocks allocated and freed, and the requests refused.
    pub(super) fn cpu_counts(&self) -> (u64, u64, u64) {
        let counts = self.memory.cpus.iter().map(CpuState::counts);
        counts.fold((0, 0, 0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1, sum.2 + cpu.2))
    }

    /// Returns whether a frame lies in the zone.
    #[inline]
    pub(super) fn contains(&self, frame: Frame) -> bool {
        self.frames.contains(&frame.number())
    }

    /// Returns the bit of a frame.
    #[inline]
    pub(super) fn slot(&self, frame: Frame) -> usize {
        usize::try_from(frame.number() - self.base).expect("the frame lies in the zone")
    }

    #[inline]
    pub(super) fn block(&self, slot: usize, order: BlockOrder) -> FrameBlock {
        let first = Frame::new(self.base + slot as u64).expect("a slot stands for a frame");
        FrameBlock::new(first, order).expect("a block begins at a multiple of its size")
    }

    #[inline]
    pub(super) fn word(&self, word: usize) -> &AtomicU64 {
        &self.memory.words[word / CHUNK_WORDS].0[word % CHUNK_WORDS]
    }

    #[inline]
    pub(super) fn retired_in(&self, word: usize) -> &AtomicU64 {
        &self.memory.retired[word / CHUNK_WORDS].0[word % CHUNK_WORDS]
    }

    #[inline]
    pub(super) fn part(&self, part: usize) -> &PartState {
        &self.memory.parts[part]
    }

    #[inline]
    pub(super) const fn group_number(&self, chunk: usize) -> usize {
        chunk >> self.group_shift
    }

    /// Returns the group of a chunk, and the chunk's bit in it.
    #[inline]
    pub(super) fn group(&self, chunk: usize) -> (&GroupState, u64) {
        (&self.memory.groups[self.group_number(chunk)], 1 << (chunk - (self.group_number(chunk) << self.group_shift)))
    }

    /// Returns the first chunk of a group.
    #[inline]
    pub(super) const fn first_chunk(&self, group: usize) -> usize {
        group << self.group_shift
    }

    /// Returns the bits of all chunks of a group.
    #[inline]
    pub(super) const fn all_chunks(&self) -> u64 {
        (1 << (1_u64 << self.group_shift)) - 1
    }

    pub(super) const fn group_shift(&self) -> u32 {
        self.group_shift
    }

    pub(super) const fn part_shift(&self) -> u32 {
        self.part_shift
    }

    pub(super) fn groups_of_part(&self, part: usize) -> Range<usize> {
        let shift = self.part_shift - self.group_shift;
        let all = self.memory.groups.len();
        (part << shift).min(all)..((part + 1) << shift).min(all)
    }

    /// Returns the numbers of the frames of a part.
    pub(super) fn part_frames(&self, part: usize) -> Range<u64> {
        let part_frames = (CHUNK_FRAMES << self.part_shift) as u64;
        let first = self.base + part as u64 * part_frames;
        first.max(self.frames.start)..(first + part_frames).min(self.frames.end)
    }

    /// Whether a part is less than a bank.
    pub(super) fn is_partial(&self, part: usize) -> bool {
        let frames = self.part_frames(part);
        frames.end - frames.start < (CHUNK_FRAMES << self.part_shift) as u64
    }

    /// Returns the free frames, exactly if no other thread allocates or frees.
    pub(super) fn free_frames(&self) -> u64 {
        let uncounted: i64 = self.memory.cpus.iter().map(CpuState::uncounted).sum();
        u64::try_from(self.shared.0.load(SeqCst) + uncounted).unwrap_or(0)
    }

    /// Whether surely a block of any size can be taken down to the low watermark.
    #[inline]
    pub(super) fn has_plenty(&self) -> bool {
        self.shared.0.load(Relaxed) >= self.plenty
    }

    /// Whether so many frames can be taken and `floor` stay free.
    pub(super) fn has_spare(&self, frames: u64, floor: u64) -> bool {
        let needed = floor + frames;
        let unsure = self.memory.cpus.len() as u64 * self.most_uncounted.unsigned_abs();
        let free = u64::try_from(self.shared.0.load(Relaxed)).unwrap_or(0);
        free >= needed + unsure || self.free_frames() >= needed
    }

    /// Counts frames that a CPU freed or took.
    #[inline]
    pub(super) fn count_free(&self, cpu: &CpuState, change: i64) {
        if let Some(change) = cpu.count_free(change, self.most_uncounted) {
            self.shared.0.fetch_add(change, Relaxed);
        }
    }

    /// Counts frames that were freed or taken on no CPU.
    pub(super) fn count_free_at_once(&self, change: i64) {
        self.shared.0.fetch_add(change, SeqCst);
    }

    /// Whether every frame of a broken chunk is free.
    pub(super) fn is_all_free(&self, chunk: usize) -> bool {
        self.memory.words[chunk].0.iter().all(|word| word.load(SeqCst) == FREE)
    }

    pub(super) fn is_exhausted(&self, chunk: usize) -> bool {
        self.memory.words[chunk].0.iter().fold(0, |free, word| free | word.load(SeqCst)) == 0
    }

    pub(super) fn words_of(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_WORDS..(chunk + 1) * CHUNK_WORDS
    }
}
