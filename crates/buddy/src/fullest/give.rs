//! Gives blocks back, and merges a chunk all of whose frames are free.

use rampart_memory::BlockOrder;

use super::cpu::{CHUNK_WORDS, CpuState};
use super::part::{CHUNK_FRAMES, CHUNK_ORDER};
use super::sync::Ordering::SeqCst;
use super::word::{FREE, WORD_FRAMES, run};
use super::zone::FullestZone;
use crate::BankPool;

impl FullestZone<'_> {
    /// Frees a held frame if its word has other free frames. If it has none, or the frame is already free, this does
    /// nothing and returns false. It calls other functions only as its last step, so it need not save registers.
    ///
    /// On x86-64, a load does not start until earlier atomic instructions have ended. So the time of a free is that of
    /// its atomic instruction and of the chain of loads before the next one. That is why the bit is added: unlike a
    /// compare-and-exchange, this needs no value of the word.
    #[inline]
    pub(super) fn free_frame(&self, slot: usize, cpu: &CpuState) -> bool {
        let (word, bit) = (self.word(slot / WORD_FRAMES), 1 << (slot % WORD_FRAMES));
        let seen = word.load(SeqCst);
        if seen == 0 || seen & bit != 0 {
            return false;
        }
        // Only who holds a frame gives it back. So this sets exactly this bit.
        let old = word.fetch_add(bit, SeqCst);
        let folds = cpu.count_freed_frame(self.most_uncounted);
        let is_usual = old != 0 && old | bit != FREE && old & bit == 0 && !self.samples.has_any(bit);
        // Whoever retires a frame marks it first, and then takes it if it is free. So either that thread or this one
        // takes it.
        if !is_usual || folds {
            self.finish_free(slot, old, cpu);
        } else if self.retired.load(SeqCst) > 0 {
            self.finish_if_retired(slot, old, cpu);
        }
        true
    }

    /// Does the rest of a free if the frame is retired. It is a function of its own because it needs more registers,
    /// which otherwise every free would save.
    #[inline(never)]
    fn finish_if_retired(&self, slot: usize, old: u64, cpu: &CpuState) {
        if self.is_retired(slot) {
            self.finish_free(slot, old, cpu);
        }
    }

    /// Does what a free rarely needs, after the bit of its frame was set in a word that was `old`. A retired frame is
    /// taken again, so that nobody gets it.
    #[inline(never)]
    fn finish_free(&self, slot: usize, old: u64, cpu: &CpuState) {
        let bit = 1 << (slot % WORD_FRAMES);
        assert!(old & bit == 0, "a block is given back but not held");
        let late = if self.is_retired(slot) { self.take_late(slot, BlockOrder::ZERO) } else { 0 };
        self.gave_bits(slot / WORD_FRAMES, old, bit, Some(cpu));
        self.count_free(cpu, -late);
    }

    /// Frees a held block.
    #[inline(never)]
    pub(super) fn free(&self, slot: usize, order: BlockOrder, cpu: &CpuState) {
        let frames = self.give(slot, order, Some(cpu));
        self.count_freed(cpu, frames);
    }

    /// Counts a block that was freed on a CPU, of which so many frames became free.
    #[inline]
    fn count_freed(&self, cpu: &CpuState, frames: i64) {
        self.count_free(cpu, frames);
        cpu.count_freed();
    }

    /// Gives a held block back, but for its retired frames, and returns how many frames became free. `cpu` is the CPU
    /// on which it is freed, if any: its reserved chunk stays its own.
    #[inline]
    pub(super) fn give(&self, slot: usize, order: BlockOrder, cpu: Option<&CpuState>) -> i64 {
        let retired = self.retired.load(SeqCst);
        let given = if retired > 0 && self.has_retired(slot, order) {
            self.give_good(slot, order, cpu)
        } else {
            self.give_all(slot, order, cpu);
            1 << order.number()
        };
        if self.retired.load(SeqCst) == retired { given } else { given - self.take_late(slot, order) }
    }

    /// Takes the retired frames of a freed block again, but for those that whoever retired them, and saw them free, has
    /// taken. If another thread has got one meanwhile, that one does the same (`FullestZone::keep`).
    #[cold]
    fn take_late(&self, slot: usize, order: BlockOrder) -> i64 {
        let frames = slot..slot + (1 << order.number());
        let take = |slot| self.until_settled(|| self.take_exactly(slot, BlockOrder::ZERO).then_some(())).is_some();
        let late = frames.filter(|&slot| self.is_retired(slot) && take(slot)).count();
        if late > 0 {
            self.bring_online(self.unit_at(slot), BankPool::User);
        }
        i64::try_from(late).expect("at most a block")
    }

    /// Gives a block back that was taken but not counted as used.
    pub(super) fn put_back(&self, slot: usize, order: BlockOrder) {
        let lost = (1 << order.number()) - self.give(slot, order, None);
        if lost > 0 {
            self.count_free_at_once(-lost);
            self.bring_online(self.unit_at(slot), BankPool::User);
        }
    }

    /// Keeps a block that was taken, unless a frame of it is retired: then the good ones are given back. A retired
    /// frame that is freed is free for a moment, so an allocation may get it.
    #[inline]
    pub(super) fn keep(&self, slot: usize, order: BlockOrder) -> bool {
        let has_retired =
            || if order == BlockOrder::ZERO { self.is_retired(slot) } else { self.has_retired(slot, order) };
        if self.retired.load(SeqCst) == 0 || !has_retired() {
            return true;
        }
        self.put_back(slot, order);
        false
    }

    /// Whether a frame of a block is retired. For a single frame, [`FullestZone::is_retired`] takes less time.
    fn has_retired(&self, slot: usize, order: BlockOrder) -> bool {
        let frames = 1 << order.number();
        let bits = if frames < WORD_FRAMES { run(order) << (slot % WORD_FRAMES) } else { FREE };
        let mut words = slot / WORD_FRAMES..(slot + frames).div_ceil(WORD_FRAMES);
        words.any(|word| self.retired_in(word).load(SeqCst) & bits != 0)
    }

    /// Gives all frames of a block back.
    #[inline]
    fn give_all(&self, slot: usize, order: BlockOrder, cpu: Option<&CpuState>) {
        let frames = 1 << order.number();
        if frames <= WORD_FRAMES {
            self.give_bits(slot / WORD_FRAMES, run(order) << (slot % WORD_FRAMES), cpu);
        } else if order.number() >= CHUNK_ORDER {
            self.give_chunks(slot / CHUNK_FRAMES, frames / CHUNK_FRAMES, cpu);
        } else {
            (slot / WORD_FRAMES..(slot + frames) / WORD_FRAMES).for_each(|word| self.give_bits(word, FREE, cpu));
        }
    }

    /// Gives the frames of a block back that are not retired, and returns their number.
    #[cold]
    fn give_good(&self, slot: usize, order: BlockOrder, cpu: Option<&CpuState>) -> i64 {
        let frames = 1 << order.number();
        let bits = if frames < WORD_FRAMES { run(order) << (slot % WORD_FRAMES) } else { FREE };
        let words = slot / WORD_FRAMES..(slot + frames).div_ceil(WORD_FRAMES);
        let give = |word: usize| {
            let good = bits & !self.retired_in(word).load(SeqCst);
            self.give_bits(word, good, cpu);
            i64::from(good.count_ones())
        };
        words.map(give).sum()
    }

    /// Gives one or two chunks back as a whole. A CPU that frees them finds them again when it needs some.
    #[inline]
    fn give_chunks(&self, chunk: usize, count: usize, cpu: Option<&CpuState>) {
        let (group, bit) = self.group(chunk);
        let bits = if count == 2 { bit * 3 } else { bit };
        if let Some(cpu) = cpu {
            cpu.set_freed_group(self.group_number(chunk));
        }
        match group.give(bits) {
            Some(whole) => self.chunk_came_back(chunk, group.unit(), whole == self.all_chunks()),
            None => (chunk..chunk + count).for_each(|chunk| self.give_broken(chunk)),
        }
    }

    /// A chunk became whole; perhaps it was the last of its group.
    #[inline]
    fn chunk_came_back(&self, chunk: usize, unit: usize, was_last: bool) {
        self.part(unit).forget_lack();
        self.count_chunk(chunk, unit);
        self.list(unit);
        if was_last {
            self.offline_if_empty(unit);
        }
    }

    /// Gives a chunk back of which a part came back before, or that was not given out as a whole.
    #[cold]
    fn give_broken(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        let held = group.give(bit).is_some() || (self.is_exhausted(chunk) && group.make_whole(bit));
        assert!(held, "a block is given back but not held");
        self.chunk_came_back(chunk, group.unit(), true);
    }

    #[inline]
    fn give_bits(&self, word: usize, bits: u64, cpu: Option<&CpuState>) {
        let state = self.word(word);
        let mut old = state.load(SeqCst);
        if old == 0 {
            self.break_if_held(word / CHUNK_WORDS);
        }
        loop {
            assert!(old & bits == 0, "a block is given back but not held");
            match state.compare_exchange_weak(old, old | bits, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        self.gave_bits(word, old, bits, cpu);
    }

    /// Counts frames that were given back, if they are sampled. If all frames of the word were in use before, its chunk
    /// is offered to all CPUs; if all are free now, the chunk is merged if the others of it are free too.
    #[inline]
    fn gave_bits(&self, word: usize, old: u64, bits: u64, cpu: Option<&CpuState>) {
        if self.samples.has_any(bits) {
            self.count(word / CHUNK_WORDS, self.samples.frames(bits));
        }
        if old == 0 {
            self.first_of_word(word / CHUNK_WORDS, cpu);
        }
        if old | bits == FREE {
            self.merge(word / CHUNK_WORDS, cpu);
        }
    }

    /// A word gets its first free frame: its chunk is not held as a whole any more.
    #[cold]
    fn break_if_held(&self, chunk: usize) {
        let (group, bit) = self.group(chunk);
        // Afterwards another thread may make it whole.
        assert!(group.break_held(bit), "a block is given back but not held");
    }

    /// A word got its first free frame.
    #[cold]
    fn first_of_word(&self, chunk: usize, cpu: Option<&CpuState>) {
        if !cpu.is_some_and(|cpu| cpu.has_reserved(chunk)) {
            self.offer(chunk);
        }
    }

    /// Makes a chunk whole if all of its frames are free and the CPU has it not for itself.
    #[cold]
    pub(super) fn merge(&self, chunk: usize, cpu: Option<&CpuState>) {
        if !self.is_all_free(chunk) || cpu.is_some_and(|cpu| cpu.has_reserved(chunk)) {
            return;
        }
        let (group, bit) = self.group(chunk);
        self.moves.begin();
        let merged = self.take_words(self.words_of(chunk));
        if merged {
            group.offer(bit, false);
            group.make_whole(bit);
            self.part(group.unit()).forget_lack();
            self.list(group.unit());
        }
        self.moves.end();
        if merged {
            self.offline_if_empty(group.unit());
        }
    }
}
