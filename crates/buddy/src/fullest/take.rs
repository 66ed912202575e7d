//! Takes free blocks: out of a word, several words, a chunk, a part.

use core::ops::Range;

use rampart_memory::BlockOrder;

use super::cpu::{CHUNK_WORDS, CpuState, PageUser, Reservation};
use super::part::{CHUNK_FRAMES, CHUNK_ORDER, PartFlags};
use super::sync::Ordering::{Relaxed, SeqCst};
use super::word::{FREE, WORD_FRAMES, run, samples, starts};
use super::zone::{CHUNK_SAMPLES, FullestZone, clear, is_set, set, set_in};
use crate::BankPool;

/// The smallest order of several words.
const WORD_ORDER: u8 = 6;

const _: () = assert!(1 << CHUNK_ORDER == CHUNK_FRAMES && 1 << WORD_ORDER == WORD_FRAMES, "orders are of these sizes");

/// The most broken chunks of a part that are searched before a whole chunk is broken.
const MOST_BROKEN: usize = 128;

impl FullestZone<'_> {
    /// Takes a block of an order below 6 out of a word.
    #[inline]
    pub(super) fn take_in_word(&self, word: usize, order: BlockOrder) -> Option<usize> {
        let mut free = self.word(word).load(Relaxed);
        loop {
            let starts = starts(free, order);
            if starts == 0 {
                return None;
            }
            let bit = starts.trailing_zeros();
            let taken = run(order) << bit;
            match self.word(word).compare_exchange_weak(free, free & !taken, SeqCst, Relaxed) {
                Ok(_) => {
                    self.count_taken(word, taken);
                    return Some(word * WORD_FRAMES + bit as usize);
                }
                Err(now) => free = now,
            }
        }
    }

    /// Counts frames of a word that were taken.
    #[inline]
    pub(super) fn count_taken(&self, word: usize, taken: u64) {
        let sampled = samples(taken);
        if sampled > 0 {
            self.count(word / CHUNK_WORDS, 0, -sampled.cast_signed());
        }
    }

    /// Takes all frames of these words, or none.
    pub(super) fn take_words(&self, words: Range<usize>) -> bool {
        if words.clone().any(|word| self.word(word).load(SeqCst) != FREE) {
            return false;
        }
        self.shared.begin();
        let is_taken = |word: &usize| self.word(*word).compare_exchange(FREE, 0, SeqCst, Relaxed).is_ok();
        let taken = words.clone().take_while(is_taken).count();
        let all = taken == words.len();
        if all {
            let samples = CHUNK_SAMPLES / 8 * i32::try_from(taken).expect("at most eight");
            self.count(words.start / CHUNK_WORDS, 0, -samples);
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
        self.shared.end();
        all
    }

    /// Takes a block of an order below 9 out of a broken chunk.
    pub(super) fn take_in_chunk(&self, chunk: usize, order: BlockOrder) -> Option<usize> {
        let words = self.words_of(chunk);
        let Some(more) = order.number().checked_sub(WORD_ORDER) else {
            return words.clone().find_map(|word| self.take_in_word(word, order));
        };
        let length = 1 << more;
        let first = words.step_by(length).find(|&first| self.take_words(first..first + length))?;
        Some(first * WORD_FRAMES)
    }

    /// Takes a block of an order below 9 from the beginning of a whole chunk, which is broken by that.
    fn take_from_whole(&self, chunk: usize, order: BlockOrder, user: PageUser) -> Option<usize> {
        let number = self.part_of(chunk);
        self.shared.begin();
        let mine = clear(self.memory.whole, chunk);
        let may = mine && self.make_usable(number, user);
        if may {
            let frames = usize::try_from(order.frames()).expect("at most 256");
            for (place, word) in self.words_of(chunk).enumerate() {
                let taken = frames.saturating_sub(place * WORD_FRAMES).min(WORD_FRAMES);
                self.word(word).store(FREE.checked_shl(u32::try_from(taken).expect("at most 64")).unwrap_or(0), SeqCst);
            }
            let first = samples(if frames < WORD_FRAMES { run(order) } else { 0 }).cast_signed();
            let taken = if frames < WORD_FRAMES { first } else { i32::try_from(frames).expect("at most 256") / 16 };
            self.count(chunk, -1, CHUNK_SAMPLES - taken);
            self.offer(chunk);
        } else if mine {
            set(self.memory.whole, chunk);
        }
        self.shared.end();
        if mine && !may {
            self.list(number);
            self.offline_if_empty(number);
        }
        may.then_some(chunk * CHUNK_FRAMES)
    }

    /// Breaks a whole chunk without taking anything out of it.
    pub(super) fn break_chunk(&self, chunk: usize) -> bool {
        self.shared.begin();
        let mine = clear(self.memory.whole, chunk);
        if mine {
            self.words_of(chunk).for_each(|word| self.word(word).store(FREE, SeqCst));
            self.count(chunk, -1, CHUNK_SAMPLES);
            self.offer(chunk);
        }
        self.shared.end();
        mine
    }

    /// Takes one whole chunk, or two that are buddies.
    fn take_whole(&self, part: usize, order: BlockOrder, user: PageUser) -> Option<usize> {
        let two = order.number() > CHUNK_ORDER;
        let candidates = set_in(self.memory.whole, self.chunks_of(part)).filter(|chunk| !two || chunk % 2 == 0);
        for chunk in candidates {
            if self.take_these(chunk, two) {
                return self.keep_in_part(chunk * CHUNK_FRAMES, order, user);
            }
        }
        None
    }

    /// Returns a block that was taken in a part, unless that is isolated since: then the block is put back. Only then,
    /// for meanwhile the block is missing to others. A part that went offline is brought back.
    fn keep_in_part(&self, slot: usize, order: BlockOrder, user: PageUser) -> Option<usize> {
        if self.make_usable(self.part_of(slot / CHUNK_FRAMES), user) {
            return Some(slot);
        }
        self.put_back(slot, order);
        None
    }

    /// Takes exactly this whole chunk, or the two from it on, or nothing.
    pub(super) fn take_these(&self, chunk: usize, two: bool) -> bool {
        let word = &self.memory.whole[chunk / 64];
        let bits = if two { 3 } else { 1 } << (chunk % 64);
        let take = |free: u64| (free & bits == bits).then_some(free & !bits);
        let taken = word.fetch_update(SeqCst, SeqCst, take).is_ok();
        if taken {
            self.count(chunk, if two { -2 } else { -1 }, 0);
        }
        taken
    }

    /// Takes a block out of a part if the part's flags allow that; a part that is isolated meanwhile gets it back.
    pub(super) fn take_in_part(
        &self,
        part: usize,
        order: BlockOrder,
        cpu: (&CpuState, PageUser),
        may: impl Fn(PartFlags) -> bool,
    ) -> Option<usize> {
        if !may(self.part(part).flags()) {
            return None;
        }
        if order.number() >= CHUNK_ORDER {
            return self.take_whole(part, order, cpu.1);
        }
        self.take_broken(part, order, cpu).or_else(|| {
            let mut whole = set_in(self.memory.whole, self.chunks_of(part));
            let slot = whole.find_map(|chunk| self.take_from_whole(chunk, order, cpu.1))?;
            self.reserve(slot, order, cpu);
            Some(slot)
        })
    }

    /// Takes a block of an order below 9 out of the broken chunks of a part.
    pub(super) fn take_broken(&self, part: usize, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        for chunk in set_in(self.memory.some, self.chunks_of(part)).take(MOST_BROKEN) {
            if let Some(slot) = self.take_in_chunk(chunk, order) {
                let slot = self.keep_in_part(slot, order, cpu.1)?;
                self.reserve(slot, order, cpu);
                return Some(slot);
            }
            self.forget_if_exhausted(chunk);
        }
        None
    }

    /// Takes a block out of the chunk that a CPU has for itself.
    #[inline]
    pub(super) fn take_reserved(&self, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let reservation = cpu.reservation(user);
        let word = reservation.word()?;
        if order.number() >= WORD_ORDER {
            return None;
        }
        let slot = self.take_in_word(word, order).or_else(|| self.take_beside(reservation, order, (cpu, user)))?;
        if cpu.reservation(user).chunk() == reservation.chunk() {
            return Some(slot);
        }
        // Another thread has ended the reservation, so the bank may be no longer for this user.
        self.keep_in_part(slot, order, user)
    }

    /// Takes a block out of another word of a reserved chunk.
    fn take_beside(&self, old: Reservation, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let slot = self.take_in_chunk(old.chunk()?, order)?;
        if order == BlockOrder::ZERO {
            cpu.reserve(user, old, Reservation::of(slot / WORD_FRAMES));
        }
        Some(slot)
    }

    /// Gives a CPU the chunk of a frame for itself; larger blocks come one at a time.
    fn reserve(&self, slot: usize, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) {
        if order > BlockOrder::ZERO {
            return;
        }
        let new = Reservation::of(slot / WORD_FRAMES);
        clear(self.memory.some, slot / CHUNK_FRAMES);
        loop {
            let old = cpu.reservation(user);
            if cpu.reserve(user, old, new) {
                if let Some(left) = old.chunk().filter(|&chunk| chunk != slot / CHUNK_FRAMES) {
                    self.leave(left);
                }
                break;
            }
        }
        // Whoever isolates the part ends its reservations afterwards; so either it sees this one or we see that.
        let part = self.part_of(slot / CHUNK_FRAMES);
        if !admits(user, self.part(part).flags()) && cpu.reserve(user, new, Reservation::NONE) {
            self.leave(slot / CHUNK_FRAMES);
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

    /// Ends the reservations of a user, or of all, in a part.
    pub(super) fn end_reservations(&self, part: usize, only: Option<PageUser>) {
        for (cpu, user) in self.reservations(only) {
            let old = cpu.reservation(user);
            if let Some(chunk) = old.chunk().filter(|&chunk| self.part_of(chunk) == part)
                && cpu.reserve(user, old, Reservation::NONE)
            {
                self.leave(chunk);
            }
        }
    }

    /// Says that a chunk, which is not whole, has free frames.
    pub(super) fn offer(&self, chunk: usize) {
        if !set(self.memory.some, chunk) {
            self.list(self.part_of(chunk));
        }
    }

    /// Takes back that a chunk has free frames, if it has none.
    fn forget_if_exhausted(&self, chunk: usize) {
        if self.is_exhausted(chunk) && clear(self.memory.some, chunk) && !self.is_exhausted(chunk) {
            // Frames were freed meanwhile.
            self.offer(chunk);
        }
    }

    /// Changes the counts of a chunk's part, and the part's place on the lists if it is far from right.
    pub(super) fn count(&self, chunk: usize, chunks: i32, samples: i32) {
        let part = self.part_of(chunk);
        self.part(part).add(chunks, samples);
        self.relist(part);
    }

    /// Whether a part seems to have a free block of this order.
    pub(super) fn has_block(&self, part: usize, order: BlockOrder) -> bool {
        let mut whole = set_in(self.memory.whole, self.chunks_of(part));
        if order.number() > CHUNK_ORDER {
            return whole.any(|chunk| chunk % 2 == 0 && is_set(self.memory.whole, chunk + 1));
        }
        whole.next().is_some() || (order.number() < CHUNK_ORDER && self.has_broken_block(part, order))
    }

    fn has_broken_block(&self, part: usize, order: BlockOrder) -> bool {
        let length = 1 << order.number().saturating_sub(WORD_ORDER);
        let in_word = if order.number() < WORD_ORDER { order } else { BlockOrder::new(WORD_ORDER).expect("small") };
        let is_free = |word: usize| starts(self.word(word).load(Relaxed), in_word) != 0;
        let mut chunks = set_in(self.memory.some, self.chunks_of(part)).take(MOST_BROKEN);
        chunks.any(|chunk| self.words_of(chunk).step_by(length).any(|first| (first..first + length).all(is_free)))
    }
}

/// Whether a page of this user may lie in a part.
pub fn admits(user: PageUser, flags: PartFlags) -> bool {
    let pool = flags.pool();
    !flags.is_isolated() && (pool == user.pool() || (user == PageUser::Program && pool == BankPool::Kernel))
}
