//! Takes frames by their number: claims, and retirement.

use rampart_memory::BlockOrder;

use super::part::{CHUNK_FRAMES, CHUNK_ORDER};
use super::sync::{Ordering::SeqCst, spin_loop};
use super::word::{WORD_FRAMES, run};
use super::zone::FullestZone;
use crate::{BankPool, FramePlace};

impl FullestZone<'_> {
    /// Takes exactly this block if all of its frames are free. An offline unit becomes the programs', for a claimed
    /// block comes back.
    pub(super) fn claim(&self, slot: usize, order: BlockOrder) -> bool {
        let taken = self.until_settled(|| self.take_exactly(slot, order).then_some(())).is_some();
        let claimed = taken && self.keep(slot, order);
        if claimed {
            self.count_free_at_once(-(1 << order.number()));
            self.bring_online(self.unit_at(slot), BankPool::User);
        }
        claimed
    }

    /// Repeats an attempt that failed while free frames may have looked used.
    pub(super) fn until_settled<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let before = self.moves.settled();
            let result = attempt();
            if result.is_some() || (before.is_some() && self.moves.settled() == before) {
                return result;
            }
            spin_loop();
        }
    }

    /// Takes exactly these frames without counting them as used.
    pub(super) fn take_exactly(&self, slot: usize, order: BlockOrder) -> bool {
        let chunk = slot / CHUNK_FRAMES;
        if order.number() >= CHUNK_ORDER {
            let two = order.number() > CHUNK_ORDER;
            (chunk..=chunk + usize::from(two)).for_each(|chunk| self.merge(chunk, None));
            return self.take_these(chunk, two);
        }
        if self.is_whole(chunk) {
            self.break_chunk(chunk);
        }
        let frames = 1 << order.number();
        if frames < WORD_FRAMES {
            return self.take_bits(slot / WORD_FRAMES, run(order) << (slot % WORD_FRAMES));
        }
        self.take_words(slot / WORD_FRAMES..(slot + frames) / WORD_FRAMES)
    }

    /// Whether all of a chunk is free, and it is not broken.
    fn is_whole(&self, chunk: usize) -> bool {
        let (group, bit) = self.group(chunk);
        group.is_whole(bit)
    }

    fn take_bits(&self, word: usize, bits: u64) -> bool {
        let take = |free: u64| (free & bits == bits).then_some(free & !bits);
        // A frame that is freed and retired at once: either this sees that it is free, or `give` that it is retired.
        let taken = self.word(word).fetch_update(SeqCst, SeqCst, take).is_ok();
        if taken {
            self.count_taken(word, bits);
        }
        taken
    }

    /// Retires a frame, and returns where it was.
    pub(super) fn retire(&self, slot: usize) -> FramePlace {
        let was = self.place(slot);
        let bit = 1 << (slot % WORD_FRAMES);
        if self.retired_in(slot / WORD_FRAMES).fetch_or(bit, SeqCst) & bit != 0 {
            return FramePlace::Retired;
        }
        self.retired.fetch_add(1, SeqCst);
        if self.until_settled(|| self.take_exactly(slot, BlockOrder::ZERO).then_some(())).is_some() {
            self.count_free_at_once(-1);
            self.bring_online(self.unit_at(slot), BankPool::User);
        }
        was
    }

    #[inline]
    pub(super) fn is_retired(&self, slot: usize) -> bool {
        self.retired_in(slot / WORD_FRAMES).load(SeqCst) & 1 << (slot % WORD_FRAMES) != 0
    }

    /// Returns where a frame is. A retired frame that is still held counts as retired.
    pub(super) fn place(&self, slot: usize) -> FramePlace {
        let free = self.until_settled(|| BlockOrder::all().rev().find(|&order| self.is_free(slot, order)));
        match free {
            Some(order) => FramePlace::Free(self.block(slot >> order.number() << order.number(), order)),
            None if self.is_retired(slot) => FramePlace::Retired,
            None => FramePlace::Held,
        }
    }

    /// Whether the whole block of this order that a frame lies in is free.
    fn is_free(&self, slot: usize, order: BlockOrder) -> bool {
        let (chunk, frames) = (slot / CHUNK_FRAMES, 1 << order.number());
        let is_free = |chunk| self.is_whole(chunk) || self.is_all_free(chunk);
        if order.number() >= CHUNK_ORDER {
            let chunks = frames / CHUNK_FRAMES;
            let first = chunk / chunks * chunks;
            return (first..first + chunks).all(is_free);
        }
        let first = slot / frames * frames;
        let words = first / WORD_FRAMES..(first + frames).div_ceil(WORD_FRAMES);
        let bits = if frames < WORD_FRAMES { run(order) << (first % WORD_FRAMES) } else { !0 };
        self.is_whole(chunk) || words.clone().all(|word| self.word(word).load(SeqCst) & bits == bits)
    }
}
