//! Takes free blocks: out of a word, several words, a chunk, a unit.

use core::ops::Range;

use rampart_memory::BlockOrder;

use super::cpu::{CHUNK_WORDS, CpuState, NearSize, PageUser, Reservation};
use super::part::{CHUNK_FRAMES, CHUNK_ORDER, PartFlags};
use super::sync::Ordering::{Relaxed, SeqCst};
use super::word::{FREE, WORD_FRAMES, run, starts};
use super::zone::FullestZone;
use crate::BankPool;

/// The smallest order of a whole word.
pub const WORD_ORDER: u8 = 6;

const _: () = assert!(1 << CHUNK_ORDER == CHUNK_FRAMES && 1 << WORD_ORDER == WORD_FRAMES, "orders are of these sizes");

/// The most broken chunks of a unit that are searched before a whole chunk is broken.
const MOST_BROKEN: usize = 128;

impl FullestZone<'_> {
    /// Takes all frames of these words, or none.
    pub(super) fn take_words(&self, words: Range<usize>) -> bool {
        if words.clone().any(|word| self.word(word).load(SeqCst) != FREE) {
            return false;
        }
        self.moves.begin();
        let is_taken = |word: &usize| self.word(*word).compare_exchange(FREE, 0, SeqCst, Relaxed).is_ok();
        let taken = words.clone().take_while(is_taken).count();
        let all = taken == words.len();
        if all {
            self.count(words.start / CHUNK_WORDS, -of_chunk(taken * WORD_FRAMES));
        } else {
            for word in words.clone().take(taken) {
                let old = self.word(word).swap(FREE, SeqCst);
                assert!(old == 0, "frames that are being taken are freed");
            }
            // Meanwhile another thread may have found the chunk exhausted.
            if taken > 0 {
                self.offer(words.start / CHUNK_WORDS);
            }
        }
        self.moves.end();
        all
    }

    /// Takes a block of an order below 9 out of a broken chunk.
    pub(super) fn take_in_chunk(&self, chunk: usize, order: BlockOrder) -> Option<usize> {
        let words = self.words_of(chunk);
        let Some(more) = order.number().checked_sub(WORD_ORDER) else {
            let mut words = words.filter(|&word| starts(self.word(word).load(Relaxed), order) != 0);
            return words.find_map(|word| self.take_in_word(word, order));
        };
        let length = 1 << more;
        let first = words.step_by(length).find(|&first| self.take_words(first..first + length))?;
        Some(first * WORD_FRAMES)
    }

    /// Takes the first frame of a broken chunk if it is free, without a look at it before. Its cache line often is
    /// another CPU's; like this, it passes to this CPU once, where a look and then a change would let it pass twice.
    fn take_first_frame(&self, chunk: usize) -> Option<usize> {
        let word = self.words_of(chunk).start;
        let is_taken = self.word(word).fetch_and(!1, SeqCst) & 1 != 0;
        is_taken.then(|| {
            self.count_taken(word, 1);
            chunk * CHUNK_FRAMES
        })
    }

    /// Takes a block of an order below 9 from the beginning of a whole chunk, which is broken by that.
    fn take_from_whole(&self, chunk: usize, order: BlockOrder, user: PageUser) -> Option<usize> {
        let (group, bit) = self.group(chunk);
        self.moves.begin();
        let mine = group.break_whole(bit);
        let may = mine && self.make_usable(group.unit(), user);
        if may {
            let frames = usize::try_from(order.frames()).expect("at most 256");
            for (place, word) in self.words_of(chunk).enumerate() {
                let taken = frames.saturating_sub(place * WORD_FRAMES).min(WORD_FRAMES);
                self.word(word).store(FREE.checked_shl(u32::try_from(taken).expect("at most 64")).unwrap_or(0), SeqCst);
            }
            let taken = if frames < WORD_FRAMES { self.samples.frames(run(order)) } else { of_chunk(frames) };
            self.count(chunk, of_chunk(CHUNK_FRAMES) - taken);
            self.offer(chunk);
        } else if mine {
            group.make_whole(bit);
        }
        self.moves.end();
        if mine && !may {
            self.list(group.unit());
            self.offline_if_empty(group.unit());
        }
        may.then_some(chunk * CHUNK_FRAMES)
    }

    /// Breaks a whole chunk without taking anything out of it.
    pub(super) fn break_chunk(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        self.moves.begin();
        if group.break_whole(bit) {
            self.words_of(chunk).for_each(|word| self.word(word).store(FREE, SeqCst));
            self.count(chunk, of_chunk(CHUNK_FRAMES));
            self.offer(chunk);
        }
        self.moves.end();
    }

    /// Takes one whole chunk, or two that are buddies, if possible where no other CPU allocates.
    fn take_whole(&self, unit: usize, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let two = order.number() > CHUNK_ORDER;
        let take = |of_other: bool| {
            self.find_in_groups(unit, |number, group| {
                let place = if group.is_of_other(cpu.number()) == of_other { group.take_first(two) } else { None };
                Some((number, place?))
            })
        };
        let (group, place) = take(false).or_else(|| take(true))?;
        let chunk = self.first_chunk(group) + place;
        self.count_chunk(chunk, unit);
        let slot = self.keep_in_unit(chunk * CHUNK_FRAMES, order, user)?;
        if let Some((before, _)) = cpu.near(user, NearSize::Chunk).filter(|&(before, _)| before != group) {
            self.memory.groups[before].disown(cpu.number());
        }
        self.memory.groups[group].own(cpu.number());
        Some(slot)
    }

    /// Returns a block that was taken in a unit, unless that is isolated since: then the block is put back. Only then,
    /// for meanwhile the block is missing to others. A unit that went offline is brought back.
    pub(super) fn keep_in_unit(&self, slot: usize, order: BlockOrder, user: PageUser) -> Option<usize> {
        if self.make_usable(self.unit_at(slot), user) {
            return Some(slot);
        }
        self.put_back(slot, order);
        None
    }

    /// Takes exactly this whole chunk, or the two from it on, or nothing.
    pub(super) fn take_these(&self, chunk: usize, two: bool) -> bool {
        let (group, bit) = self.group(chunk);
        let taken = group.take(if two { bit * 3 } else { bit });
        if taken {
            self.count_chunk(chunk, group.unit());
        }
        taken
    }

    /// Takes a block out of a unit if the unit's flags allow that; a unit that is isolated meanwhile gets it back.
    pub(super) fn take_in_unit(
        &self,
        unit: usize,
        order: BlockOrder,
        cpu: (&CpuState, PageUser),
        may: impl Fn(PartFlags) -> bool,
    ) -> Option<usize> {
        if !may(self.part(unit).flags()) {
            return None;
        }
        if order.number() >= CHUNK_ORDER {
            return self.take_whole(unit, order, cpu);
        }
        self.take_broken(unit, order, cpu).or_else(|| {
            let whole = |group: usize| self.chunks_in(group, self.memory.groups[group].whole());
            let mut chunks = self.groups_for(cpu.0.number(), unit).flat_map(whole);
            let slot = chunks.find_map(|chunk| self.take_from_whole(chunk, order, cpu.1))?;
            self.reserve(slot, order, cpu);
            Some(slot)
        })
    }

    /// Takes a block of an order below 9 out of the broken chunks of a unit, if possible where no other CPU allocates.
    pub(super) fn take_broken(&self, unit: usize, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let broken = |group: usize| self.chunks_in(group, self.memory.groups[group].some());
        for chunk in self.groups_for(cpu.0.number(), unit).flat_map(broken).take(MOST_BROKEN) {
            let first = if order == BlockOrder::ZERO { self.take_first_frame(chunk) } else { None };
            if let Some(slot) = first.or_else(|| self.take_in_chunk(chunk, order)) {
                let slot = self.keep_in_unit(slot, order, cpu.1)?;
                self.reserve(slot, order, cpu);
                return Some(slot);
            }
            self.forget_if_exhausted(chunk);
        }
        None
    }

    /// Takes a block out of another word of the chunk that a CPU has for itself.
    #[inline(never)]
    pub(super) fn take_beside(&self, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let old = cpu.reservation(user);
        let chunk = old.chunk().filter(|_| order.number() < WORD_ORDER)?;
        let slot = self.take_in_chunk(chunk, order)?;
        if order == BlockOrder::ZERO {
            cpu.reserve(user, old, Reservation::of(slot / WORD_FRAMES));
        }
        if cpu.reservation(user).chunk() == Some(chunk) {
            return Some(slot);
        }
        self.keep_in_unit(slot, order, user)
    }

    /// Gives a CPU the chunk of a frame for itself; larger blocks come one at a time.
    fn reserve(&self, slot: usize, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) {
        if order > BlockOrder::ZERO {
            return;
        }
        let new = Reservation::of(slot / WORD_FRAMES);
        let chunk = slot / CHUNK_FRAMES;
        let (group, bit) = self.group(chunk);
        group.offer(bit, false);
        group.own(cpu.number());
        loop {
            let old = cpu.reservation(user);
            if cpu.reserve(user, old, new) {
                if let Some(left) = old.chunk().filter(|&left| left != chunk) {
                    self.leave(left);
                    if self.group_number(left) != self.group_number(chunk) {
                        self.group(left).0.disown(cpu.number());
                    }
                }
                break;
            }
        }
        // Whoever isolates the unit ends its reservations afterwards; so either it sees this one or we see that.
        if !admits(user, self.part(group.unit()).flags()) && cpu.reserve(user, new, Reservation::NONE) {
            self.leave(chunk);
        }
    }

    /// Offers a chunk to all that a CPU had for itself.
    fn leave(&self, chunk: usize) {
        self.merge(chunk, None);
        if !self.is_exhausted(chunk) {
            self.offer(chunk);
        }
    }

    /// Returns each CPU with each user, or with one.
    pub(super) fn reservations(&self, only: Option<PageUser>) -> impl Iterator<Item = (&CpuState, PageUser)> {
        let users =
            [PageUser::Kernel, PageUser::Program].into_iter().filter(move |user| only.is_none_or(|o| o == *user));
        users.flat_map(|user| self.memory.cpus.iter().map(move |cpu| (cpu, user)))
    }

    /// Ends the reservations of a user, or of all, in a unit.
    pub(super) fn end_reservations(&self, unit: usize, only: Option<PageUser>) {
        for (cpu, user) in self.reservations(only) {
            let old = cpu.reservation(user);
            if let Some(chunk) = old.chunk().filter(|&chunk| self.unit_of(chunk) == unit)
                && cpu.reserve(user, old, Reservation::NONE)
            {
                self.leave(chunk);
            }
        }
    }

    /// Says that a chunk, which is broken, has free frames.
    pub(super) fn offer(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        if !group.offer(bit, true) {
            self.list(group.unit());
        }
    }

    /// Takes back that a chunk has free frames, if it has none.
    fn forget_if_exhausted(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        if self.is_exhausted(chunk) && group.offer(bit, false) && !self.is_exhausted(chunk) {
            // Frames were freed meanwhile.
            self.offer(chunk);
        }
    }

    /// Whether a unit seems to have a free block of this order.
    pub(super) fn has_block(&self, unit: usize, order: BlockOrder) -> bool {
        let two = order.number() > CHUNK_ORDER;
        self.has_whole(unit, two) || (order.number() < CHUNK_ORDER && self.has_broken_block(unit, order))
    }

    fn has_broken_block(&self, unit: usize, order: BlockOrder) -> bool {
        let length = 1 << order.number().saturating_sub(WORD_ORDER);
        let in_word = if order.number() < WORD_ORDER { order } else { BlockOrder::new(WORD_ORDER).expect("small") };
        let is_free = |word: usize| starts(self.word(word).load(Relaxed), in_word) != 0;
        let mut chunks = self.broken_of(unit).take(MOST_BROKEN);
        chunks.any(|chunk| self.words_of(chunk).step_by(length).any(|first| (first..first + length).all(is_free)))
    }
}

/// Returns a number of frames of a chunk as a change of a count.
fn of_chunk(frames: usize) -> i32 {
    i32::try_from(frames).expect("at most a chunk")
}

/// Whether a page of this user may lie in a unit.
#[inline]
pub fn admits(user: PageUser, flags: PartFlags) -> bool {
    let pool = flags.pool();
    !flags.is_isolated() && (pool == user.pool() || (user == PageUser::Program && pool == BankPool::Kernel))
}
