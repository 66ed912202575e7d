//! Gives blocks back, and merges a chunk all of whose frames are free.

use rampart_memory::BlockOrder;

use super::cpu::CpuState;
use super::part::{CHUNK_FRAMES, CHUNK_ORDER};
use super::sync::Ordering::SeqCst;
use super::word::{FREE, WORD_FRAMES, run, samples};
use super::zone::{FullestZone, clear, is_set, set};
use crate::BankPool;

impl FullestZone<'_> {
    /// Gives a held block back, but for its retired frames, and returns how many frames became free. `cpu` is the CPU
    /// on which it is freed, if any: its reserved chunk stays its own.
    #[inline]
    pub(super) fn give(&self, slot: usize, order: BlockOrder, cpu: Option<&CpuState>) -> i64 {
        let retired = self.retired.load(SeqCst);
        let given = self.give_good(slot, order, retired > 0, cpu);
        if self.retired.load(SeqCst) == retired {
            return given;
        }
        // A frame was retired meanwhile. It saw the frame held or free, so take it unless that was already done. If
        // another thread has it already, that one does the same (`FullestZone::keep`).
        let frames = slot..slot + (1 << order.number());
        let take = |slot| self.until_settled(|| self.take_exactly(slot, BlockOrder::ZERO).then_some(())).is_some();
        let late = frames.filter(|&slot| self.is_retired(slot) && take(slot)).count();
        if late > 0 {
            self.bring_online(self.part_of(slot / CHUNK_FRAMES), BankPool::User);
        }
        given - i64::try_from(late).expect("at most a block")
    }

    /// Gives a block back that was taken but not counted as used.
    pub(super) fn put_back(&self, slot: usize, order: BlockOrder) {
        let lost = (1 << order.number()) - self.give(slot, order, None);
        if lost > 0 {
            self.count_free_at_once(-lost);
            self.bring_online(self.part_of(slot / CHUNK_FRAMES), BankPool::User);
        }
    }

    /// Keeps a block that was taken, unless a frame of it is retired: then the good ones are given back. A frame that
    /// is retired while it is freed is free for a moment.
    #[inline]
    pub(super) fn keep(&self, slot: usize, order: BlockOrder) -> bool {
        if self.retired.load(SeqCst) == 0 || !(slot..slot + (1 << order.number())).any(|slot| self.is_retired(slot)) {
            return true;
        }
        self.put_back(slot, order);
        false
    }

    #[inline]
    fn give_good(&self, slot: usize, order: BlockOrder, any_retired: bool, cpu: Option<&CpuState>) -> i64 {
        let frames = 1 << order.number();
        if order.number() >= CHUNK_ORDER {
            let chunks = slot / CHUNK_FRAMES..(slot + frames) / CHUNK_FRAMES;
            return chunks.map(|chunk| self.give_chunk(chunk, any_retired, cpu)).sum();
        }
        if frames <= WORD_FRAMES {
            return self.give_bits(slot / WORD_FRAMES, run(order) << (slot % WORD_FRAMES), any_retired, cpu);
        }
        let words = slot / WORD_FRAMES..(slot + frames) / WORD_FRAMES;
        words.map(|word| self.give_bits(word, FREE, any_retired, cpu)).sum()
    }

    fn give_chunk(&self, chunk: usize, any_retired: bool, cpu: Option<&CpuState>) -> i64 {
        let is_retired = |word: usize| self.memory.retired[word].load(SeqCst) != 0;
        if any_retired && self.words_of(chunk).any(is_retired) {
            return self.words_of(chunk).map(|word| self.give_bits(word, FREE, true, cpu)).sum();
        }
        let held = self.is_exhausted(chunk) && !set(self.memory.whole, chunk);
        assert!(held, "a block is given back but not held");
        self.count(chunk, 1, 0);
        self.list(self.part_of(chunk));
        self.offline_if_empty(self.part_of(chunk));
        CHUNK_FRAMES as i64
    }

    #[inline]
    fn give_bits(&self, word: usize, bits: u64, any_retired: bool, cpu: Option<&CpuState>) -> i64 {
        let bits = if any_retired { bits & !self.memory.retired[word].load(SeqCst) } else { bits };
        let chunk = word * WORD_FRAMES / CHUNK_FRAMES;
        // Afterwards another thread may have made it whole.
        let is_whole = self.word(word).load(SeqCst) == 0 && is_set(self.memory.whole, chunk);
        assert!(!is_whole, "a block is given back but not held");
        let old = self.word(word).fetch_or(bits, SeqCst);
        assert!(old & bits == 0, "a block is given back but not held");
        let sampled = samples(bits);
        if sampled > 0 {
            self.count(chunk, 0, sampled.cast_signed());
        }
        if old == 0 {
            self.first_of_word(chunk, cpu);
        }
        if old | bits == FREE {
            self.merge(chunk, cpu);
        }
        i64::from(bits.count_ones())
    }

    /// A word got its first free frame.
    fn first_of_word(&self, chunk: usize, cpu: Option<&CpuState>) {
        if !cpu.is_some_and(|cpu| cpu.has_reserved(chunk)) {
            self.offer(chunk);
        }
    }

    /// Makes a chunk whole if all of its frames are free and the CPU has it not for itself.
    pub(super) fn merge(&self, chunk: usize, cpu: Option<&CpuState>) {
        if !self.is_all_free(chunk) || cpu.is_some_and(|cpu| cpu.has_reserved(chunk)) {
            return;
        }
        self.shared.begin();
        let merged = self.take_words(self.words_of(chunk));
        if merged {
            clear(self.memory.some, chunk);
            self.count(chunk, 1, 0);
            set(self.memory.whole, chunk);
            self.list(self.part_of(chunk));
        }
        self.shared.end();
        if merged {
            self.offline_if_empty(self.part_of(chunk));
        }
    }
}
