//! One zone: its data, and what the operations on it share.

use core::ops::Range;

use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

use super::cpu::{CHUNK_WORDS, CpuState, FOLD};
use super::lists::PartLists;
use super::part::{CHUNK_FRAMES, PartFlags, PartState};
use super::sync::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, SpinMutex};
use super::word::{FREE, SAMPLED, WORD_FRAMES};
use crate::{BankPool, BankSize, Cpu, Footprint, Watermarks, Zone};

/// Sampled frames of a chunk.
pub const CHUNK_SAMPLES: i32 = 32;

const _: () = assert!(CHUNK_SAMPLES as usize * SAMPLED == CHUNK_FRAMES, "each sample stands for sixteen frames");

/// Chunks of which one word of a map has a bit each.
pub const MAP_CHUNKS: usize = 64;

/// One zone. The caller of [`FullestBank::new`](super::FullestBank::new) hands in as many as its machine has.
#[derive(Debug, Default)]
pub struct FullestZone<'a> {
    zone: Option<Zone>,
    /// The number of the frame of the first bit.
    base: u64,
    /// The number of its first frame, and of the first behind it.
    frames: Range<u64>,
    /// The logarithm of a bank's chunks.
    part_shift: u32,
    marks: Marks,
    pub(super) memory: ZoneSlices<'a>,
    pub(super) shared: Shared,
    pub(super) lists: SpinMutex<PartLists>,
    pub(super) steals: AtomicU64,
    pub(super) retired: AtomicU64,
}

/// Watermarks before there is a zone.
#[derive(Clone, Copy, Debug)]
pub struct Marks(pub Watermarks);

impl Default for Marks {
    fn default() -> Self {
        Self(Watermarks { min: 0, low: 0, high: 0 })
    }
}

impl Default for PartLists {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The words of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneSlices<'a> {
    /// A bit for each frame that is free, unless its whole chunk is.
    pub words: &'a [AtomicU64],
    /// A bit for each frame that is retired.
    pub retired: &'a [AtomicU64],
    /// A bit for each chunk all of whose frames are free. Its words are zero then.
    pub whole: &'a [AtomicU64],
    /// A bit for each chunk with a free frame, unless it is whole or a CPU has it for itself.
    pub some: &'a [AtomicU64],
    pub parts: &'a [PartState],
    pub cpus: &'a [CpuState],
}

/// What all CPUs change. It has a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Shared {
    /// Free frames, but for those that CPUs have not added yet.
    free: AtomicI64,
    /// Operations that take several words one after the other, begun and ended: meanwhile a free frame may look used.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Shared {
    /// Says that free frames may look used until [`Shared::end`].
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
        let ZoneSlices { words, retired, whole, some, parts, cpus } = self.memory;
        let words = words.len() + retired.len() + whole.len() + some.len();
        let banks = Footprint::of_zones::<PartState>(parts.len()) + Footprint::of_zones::<Self>(1);
        banks + Footprint::of_cpus::<CpuState>(cpus.len()) + Footprint::of_frames::<AtomicU64>(words)
    }

    /// Makes all frames of a zone free, the parts that are less than a bank the kernel's, and the others offline.
    pub(super) fn begin(&mut self, zone: Zone, bank: BankSize, marks: Watermarks, memory: ZoneSlices<'a>) {
        let part_frames = bank.frames();
        let part_chunks = usize::try_from(part_frames).expect("a bank is small enough") / CHUNK_FRAMES;
        self.base = zone.frames.start().number() / part_frames * part_frames;
        self.frames = zone.frames.start().number()..zone.frames.last().number() + 1;
        self.zone = Some(zone);
        assert!(part_chunks.is_power_of_two(), "a bank is a power of two of chunks");
        (self.part_shift, self.marks, self.memory) = (part_chunks.trailing_zeros(), Marks(marks), memory);
        for number in 0..memory.parts.len() {
            let frames = self.part_frames(number);
            let whole = frames.end - frames.start == part_frames;
            let flags = if whole { PartFlags::of(BankPool::Offline) } else { PartFlags::partial() };
            memory.parts[number].begin(u32::try_from(part_chunks).expect("a bank has few chunks"), flags);
        }
        for chunk in 0..memory.words.len() / CHUNK_WORDS {
            self.begin_chunk(chunk);
        }
        for number in 0..memory.parts.len() {
            self.lists.get_mut().link(memory.parts, u32::try_from(number).expect("few parts"));
        }
        self.shared.free.store(i64::try_from(zone.frames.count()).expect("a zone is small enough"), Relaxed);
    }

    fn begin_chunk(&self, chunk: usize) {
        let part = self.part(self.part_of(chunk));
        let first = self.base + (chunk * CHUNK_FRAMES) as u64;
        if self.frames.start <= first && first + CHUNK_FRAMES as u64 <= self.frames.end {
            set(self.memory.whole, chunk);
            part.add(1, 0);
            return;
        }
        for offset in 0..CHUNK_FRAMES {
            let slot = chunk * CHUNK_FRAMES + offset;
            if self.frames.contains(&(first + offset as u64)) {
                self.word(slot / WORD_FRAMES).fetch_or(1 << (slot % WORD_FRAMES), Relaxed);
                set(self.memory.some, chunk);
                part.add(0, i32::from(super::word::samples(1 << (slot % WORD_FRAMES)) == 1));
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
    pub(super) fn cpu(&self, cpu: Cpu) -> &CpuState {
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
        &self.memory.words[word]
    }

    pub(super) fn part(&self, part: usize) -> &PartState {
        &self.memory.parts[part]
    }

    #[inline]
    pub(super) const fn part_of(&self, chunk: usize) -> usize {
        chunk >> self.part_shift
    }

    pub(super) fn chunks_of(&self, part: usize) -> Range<usize> {
        let all = self.memory.words.len() / CHUNK_WORDS;
        (part << self.part_shift).min(all)..((part + 1) << self.part_shift).min(all)
    }

    /// Returns the numbers of the frames of a part.
    pub(super) fn part_frames(&self, part: usize) -> Range<u64> {
        let part_frames = (CHUNK_FRAMES << self.part_shift) as u64;
        let first = self.base + part as u64 * part_frames;
        first.max(self.frames.start)..(first + part_frames).min(self.frames.end)
    }

    /// Returns the free frames, exactly if no other thread allocates or frees.
    pub(super) fn free_frames(&self) -> u64 {
        let unfolded: i64 = self.memory.cpus.iter().map(CpuState::unfolded).sum();
        u64::try_from(self.shared.free.load(SeqCst) + unfolded).unwrap_or(0)
    }

    /// Whether so many frames can be taken and `floor` stay free.
    #[inline]
    pub(super) fn has_spare(&self, frames: u64, floor: u64) -> bool {
        let needed = floor + frames;
        let unsure = self.memory.cpus.len() as u64 * FOLD.unsigned_abs();
        let free = u64::try_from(self.shared.free.load(Relaxed)).unwrap_or(0);
        free >= needed + unsure || self.free_frames() >= needed
    }

    /// Counts frames that a CPU freed or took.
    #[inline]
    pub(super) fn count_free(&self, cpu: &CpuState, change: i64) {
        if let Some(change) = cpu.count_free(change) {
            self.shared.free.fetch_add(change, Relaxed);
        }
    }

    /// Counts frames that were freed or taken on no CPU.
    pub(super) fn count_free_at_once(&self, change: i64) {
        self.shared.free.fetch_add(change, SeqCst);
    }

    /// Whether every frame of a broken chunk is free.
    pub(super) fn is_all_free(&self, chunk: usize) -> bool {
        self.memory.words[self.words_of(chunk)].iter().all(|word| word.load(SeqCst) == FREE)
    }

    pub(super) fn is_exhausted(&self, chunk: usize) -> bool {
        self.memory.words[self.words_of(chunk)].iter().fold(0, |free, word| free | word.load(SeqCst)) == 0
    }

    pub(super) fn words_of(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_WORDS..(chunk + 1) * CHUNK_WORDS
    }
}

/// Sets the bit of a chunk, and returns whether it was set.
pub fn set(map: &[AtomicU64], chunk: usize) -> bool {
    let bit = 1 << (chunk % MAP_CHUNKS);
    let word = &map[chunk / MAP_CHUNKS];
    word.load(SeqCst) & bit != 0 || word.fetch_or(bit, SeqCst) & bit != 0
}

/// Clears the bit of a chunk, and returns whether it was set.
pub fn clear(map: &[AtomicU64], chunk: usize) -> bool {
    let bit = 1 << (chunk % MAP_CHUNKS);
    map[chunk / MAP_CHUNKS].fetch_and(!bit, SeqCst) & bit != 0
}

pub fn is_set(map: &[AtomicU64], chunk: usize) -> bool {
    map[chunk / MAP_CHUNKS].load(SeqCst) & 1 << (chunk % MAP_CHUNKS) != 0
}

/// Returns the chunks of a range whose bit is set now, word by word.
pub fn set_in(map: &[AtomicU64], chunks: Range<usize>) -> impl Iterator<Item = usize> {
    words_in(map, chunks).flat_map(|(first, word)| bits(word).map(move |bit| first + bit))
}

/// Returns how many chunks of a range have their bit set now.
pub fn count_in(map: &[AtomicU64], chunks: Range<usize>) -> usize {
    words_in(map, chunks).map(|(_, word)| word.count_ones() as usize).sum()
}

/// Returns the words of a map with the bits of a range, and the chunk of each word's first bit.
fn words_in(map: &[AtomicU64], chunks: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = chunks.start / MAP_CHUNKS..chunks.end.div_ceil(MAP_CHUNKS);
    words.map(move |word| {
        let first = word * MAP_CHUNKS;
        let below = chunks.start.saturating_sub(first);
        let beyond = (first + MAP_CHUNKS).saturating_sub(chunks.end);
        (first, map[word].load(SeqCst) & FREE << below & FREE >> beyond)
    })
}

/// Returns the bits that are set, the lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}
