//! The usual case: a CPU takes a block where it took the last one.
//!
//! A frame comes from the word that the CPU has for itself, by one operation on it; a chunk from the group where it
//! freed or took its last one, by one operation on the state of that group. Whatever does not go this way is left to a
//! search.

use rampart_memory::BlockOrder;

use super::cpu::{CpuState, NearSize, PageUser, Reservation};
use super::part::{CHUNK_FRAMES, CHUNK_ORDER, NONE};
use super::pools::FAR;
use super::sync::Ordering::{Relaxed, SeqCst};
use super::take::{WORD_ORDER, admits};
use super::word::{WORD_FRAMES, run, starts};
use super::zone::FullestZone;

/// A bank counts as full as another if it is at most this many buckets emptier. Buckets lag behind by as much.
const AS_FULL: u32 = FAR - 1;

impl FullestZone<'_> {
    /// Allocates a block where the CPU took the last one, if the zone has plenty.
    #[inline]
    pub(super) fn allocate_at_hand(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        self.allocate_of_plenty(order, cpu.0, || self.take_at_hand(order, cpu))
    }

    /// Allocates a frame in the usual case: the zone has plenty, and the word that the CPU has for itself has a free
    /// frame. This takes fewer instructions than all that [`FullestZone::allocate_at_hand`] tries.
    #[inline]
    pub(super) fn allocate_frame(&self, cpu: (&CpuState, PageUser)) -> Option<usize> {
        self.allocate_of_plenty(BlockOrder::ZERO, cpu.0, || self.take_own_frame(cpu))
    }

    #[inline]
    fn allocate_of_plenty(
        &self,
        order: BlockOrder,
        cpu: &CpuState,
        take: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        if !self.has_plenty() {
            return None;
        }
        let slot = take()?;
        if !self.keep(slot, order) {
            return None;
        }
        self.count_allocated(cpu, order);
        Some(slot)
    }

    /// Counts a block that was allocated on a CPU.
    #[inline]
    pub(super) fn count_allocated(&self, cpu: &CpuState, order: BlockOrder) {
        self.count_free(cpu, -(1 << order.number()));
        cpu.count_allocated();
    }

    /// Takes a block where the CPU took the last one.
    #[inline]
    pub(super) fn take_at_hand(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        match order.number() {
            0 => self.take_own_frame(cpu).or_else(|| self.take_beside(order, cpu)),
            1..WORD_ORDER => self.take_in_own_word(order, cpu).or_else(|| self.take_beside(order, cpu)),
            CHUNK_ORDER.. => self.take_chunk_nearby(order, cpu),
            _ => None,
        }
    }

    /// Takes the first free frame of the word that a CPU has for itself, unless another CPU changes the word meanwhile.
    #[inline]
    fn take_own_frame(&self, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let reservation = cpu.reservation(user);
        let word = reservation.word()?;
        let bits = self.word(word);
        let free = bits.load(Relaxed);
        let first = free & free.wrapping_neg();
        if free == 0 || bits.compare_exchange(free, free ^ first, SeqCst, Relaxed).is_err() {
            return None;
        }
        let slot = word * WORD_FRAMES + first.trailing_zeros() as usize;
        if !self.samples.has_any(first) && cpu.reservation(user) == reservation {
            return Some(slot);
        }
        self.finish_own_frame(slot, reservation, (cpu, user))
    }

    /// Counts a frame that was taken if it is sampled, and puts it back if the bank is for this user no longer.
    #[inline(never)]
    fn finish_own_frame(
        &self,
        slot: usize,
        reservation: Reservation,
        (cpu, user): (&CpuState, PageUser),
    ) -> Option<usize> {
        self.count_taken(slot / WORD_FRAMES, 1 << (slot % WORD_FRAMES));
        self.keep_own(slot, BlockOrder::ZERO, reservation, (cpu, user))
    }

    /// Takes a block out of the word that a CPU has for itself.
    #[inline]
    fn take_in_own_word(&self, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let reservation = cpu.reservation(user);
        let slot = self.take_in_word(reservation.word()?, order)?;
        self.keep_own(slot, order, reservation, (cpu, user))
    }

    /// Keeps a block that was taken in the chunk that a CPU had for itself.
    #[inline]
    fn keep_own(
        &self,
        slot: usize,
        order: BlockOrder,
        reservation: Reservation,
        (cpu, user): (&CpuState, PageUser),
    ) -> Option<usize> {
        let now = cpu.reservation(user);
        if now == reservation || now.chunk() == reservation.chunk() {
            return Some(slot);
        }
        // Another thread has ended the reservation, so the bank may be no longer for this user.
        self.keep_in_unit(slot, order, user)
    }

    /// Takes one chunk, or two that are buddies, from the group where the CPU freed one last, if that bank is about as
    /// full as the one where the CPU took its last chunk. Otherwise it takes them from the group of that last chunk,
    /// unless that bank has become emptier since. Banks in use have few free chunks, so without the first rule almost
    /// every allocation after a free would search.
    #[inline]
    fn take_chunk_nearby(&self, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        let (group, bucket) = cpu.near(user, NearSize::Chunk)?;
        if let Some(freed) = cpu.freed_group() {
            let found = self.take_in_group(freed, order, user, bucket + AS_FULL);
            if found.is_some() {
                return found;
            }
            cpu.forget_freed_group();
        }
        let slot = self.take_in_group(group, order, user, bucket)?;
        let now = self.part(self.memory.groups[group].unit()).bucket.load(Relaxed);
        if now < bucket {
            cpu.set_near(user, NearSize::Chunk, group, now);
        }
        Some(slot)
    }

    /// Takes a chunk, or two, out of a group, if its bank lies on the list of this bucket or a fuller one.
    #[inline]
    fn take_in_group(&self, group: usize, order: BlockOrder, user: PageUser, most: u32) -> Option<usize> {
        let state = &self.memory.groups[group];
        let number = state.unit();
        let unit = self.part(number);
        let flags = unit.flags();
        if unit.bucket.load(Relaxed) > most || flags.pool() != user.pool() || flags.is_isolated() {
            return None;
        }
        let chunk = self.first_chunk(group) + state.take_first(order.number() > CHUNK_ORDER)?;
        self.count_chunk(chunk, number);
        if admits(user, unit.flags()) {
            return Some(chunk * CHUNK_FRAMES);
        }
        self.keep_in_unit(chunk * CHUNK_FRAMES, order, user)
    }

    /// Takes a block of an order below 6 out of a word.
    #[inline]
    pub(super) fn take_in_word(&self, word: usize, order: BlockOrder) -> Option<usize> {
        let bits = self.word(word);
        let mut free = bits.load(Relaxed);
        loop {
            let starts = if order == BlockOrder::ZERO { free } else { starts(free, order) };
            if starts == 0 {
                return None;
            }
            let first = starts & starts.wrapping_neg();
            let taken = if order == BlockOrder::ZERO { first } else { run(order) * first };
            match bits.compare_exchange_weak(free, free & !taken, SeqCst, Relaxed) {
                Ok(_) => {
                    self.count_taken(word, taken);
                    return Some(word * WORD_FRAMES + first.trailing_zeros() as usize);
                }
                Err(now) => free = now,
            }
        }
    }

    /// Counts frames of a word that were taken.
    #[inline]
    pub(super) fn count_taken(&self, word: usize, taken: u64) {
        if self.samples.has_any(taken) {
            self.count(word * WORD_FRAMES / CHUNK_FRAMES, -self.samples.frames(taken));
        }
    }
}

const _: () = assert!(NONE > u8::MAX as u32, "a unit on no list is emptier than any");
