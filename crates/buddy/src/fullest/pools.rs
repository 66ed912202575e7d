//! Finds the part for a request, and moves parts between the pools.

use rampart_memory::{BlockOrder, Frame, FrameRange};

use super::cpu::{CpuState, NearSize, PageUser, Reservation};
use super::lists::CANDIDATES;
use super::part::{CHUNK_FRAMES, CHUNK_ORDER, NONE, PartFlags};
use super::sync::Ordering::SeqCst;
use super::take::admits;
use super::zone::{FullestZone, count_in, set_in};
use crate::{BankPart, BankPool, ZoneIndex};

/// A part moves to another bucket when its counts differ by so many.
const FAR: u32 = 2;

/// In which banks of a zone a search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banks {
    /// In those of the user's own pool, and in offline ones.
    Own,
    /// In those of the other user.
    Others,
}

impl FullestZone<'_> {
    /// Allocates a block if `floor` frames stay free.
    #[inline]
    pub(super) fn allocate(
        &self,
        order: BlockOrder,
        (cpu, user): (usize, PageUser),
        floor: u64,
        banks: Banks,
    ) -> Option<usize> {
        // The count is a sum that other threads change meanwhile, so it does not say that there is nothing.
        if floor > 0 && !self.has_spare(order.frames(), floor) {
            return None;
        }
        let cpu = &self.memory.cpus[cpu];
        let slot = loop {
            let slot = match banks {
                Banks::Own => self.take_reserved(order, (cpu, user)).or_else(|| self.search_own(order, (cpu, user))),
                Banks::Others => self.search_others(order, (cpu, user)),
            }?;
            if self.keep(slot, order) {
                break slot;
            }
        };
        self.count_free(cpu, -(1 << order.number()));
        cpu.count_allocated();
        Some(slot)
    }

    /// Finds a block outside of the CPU's own chunk: in the fullest bank of the user's pool, else in the emptiest,
    /// where a large block is likely, else in an offline bank [Panwar15, 4.1.2 and 4.2].
    fn search_own(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let own = cpu.1.pool();
        let found = self
            .search_near(order, cpu)
            .or_else(|| self.search_pool(own, order, cpu, true))
            .or_else(|| self.search_pool(own, order, cpu, false))
            .or_else(|| self.search_offline(order, cpu));
        self.note(found, order, cpu)
    }

    /// Finds a block in the banks of the other user [Panwar15, 4.1.2]. It fails only if there is none in the zone.
    fn search_others(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let found = match cpu.1 {
            PageUser::Program => self.search_pool(BankPool::Kernel, order, cpu, true),
            PageUser::Kernel => self.steal(order, cpu),
        };
        let found = found.or_else(|| {
            // A part may have gone offline since.
            self.until_settled(|| self.search_offline(order, cpu).or_else(|| self.search_everywhere(order, cpu)))
        });
        self.note(found, order, cpu)
    }

    /// Notes in which part a block was found.
    fn note(&self, found: Option<usize>, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        if let (Some(slot), Some(size)) = (found, NearSize::of(order)) {
            let part = self.part_of(slot / CHUNK_FRAMES);
            cpu.set_near(user, size, part, self.part(part).fullness());
        }
        found
    }

    /// Stays in the part that the CPU allocated from last, unless that has become emptier since. It breaks no whole
    /// chunk there, for a fuller part may have broken ones.
    fn search_near(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let own = cpu.1.pool();
        let (part, bucket) = cpu.0.near(cpu.1, NearSize::of(order)?)?;
        if self.part(part).fullness() > bucket {
            return None;
        }
        let may = |flags: PartFlags| flags.pool() == own && !flags.is_isolated();
        if order.number() >= CHUNK_ORDER {
            return self.take_in_part(part, order, cpu, may);
        }
        if may(self.part(part).flags()) { self.take_broken(part, order, cpu) } else { None }
    }

    fn search_pool(
        &self,
        pool: BankPool,
        order: BlockOrder,
        cpu: (&CpuState, PageUser),
        fullest: bool,
    ) -> Option<usize> {
        let (candidates, count) = self.candidates(pool, order, fullest);
        candidates[..count].iter().find_map(|&part| {
            let found = self.take_in_part(part as usize, order, cpu, |flags| admits(cpu.1, flags));
            if found.is_none() {
                self.part(part as usize).remember_lack(order);
                self.unlist_if_exhausted(part);
            }
            found
        })
    }

    /// Returns parts of a pool that may have a block of this order.
    fn candidates(&self, pool: BankPool, order: BlockOrder, fullest: bool) -> ([u32; CANDIDATES], usize) {
        self.lists.lock().candidates(self.memory.parts, pool, order, fullest)
    }

    /// Brings parts online, the kernel's from below and the programs' from above.
    fn search_offline(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        // One is enough, unless other CPUs fill it at once.
        (0..self.memory.parts.len()).find_map(|_| {
            let mut lists = self.lists.lock();
            let part = lists.offline(cpu.1 == PageUser::Program)?;
            lists.unlink(self.memory.parts, part);
            self.part(part as usize).set_flags(PartFlags::of(cpu.1.pool()));
            lists.link(self.memory.parts, part);
            drop(lists);
            self.take_in_part(part as usize, order, cpu, |flags| admits(cpu.1, flags))
        })
    }

    /// Takes the programs' bank with the most free frames for the kernel, as a whole: it cannot be emptied any more
    /// [Panwar15, 4.1.2].
    fn steal(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let (candidates, count) = self.candidates(BankPool::User, order, false);
        candidates[..count].iter().find_map(|&part| {
            if !self.has_block(part as usize, order) || !self.make_kernels(part) {
                return None;
            }
            self.take_in_part(part as usize, order, cpu, |flags| admits(cpu.1, flags))
        })
    }

    /// Moves a part of the programs to the kernel's pool; false if it is not theirs.
    fn make_kernels(&self, part: u32) -> bool {
        let mut lists = self.lists.lock();
        let state = self.part(part as usize);
        let theirs = state.flags() == PartFlags::of(BankPool::User);
        if theirs {
            lists.unlink(self.memory.parts, part);
            state.set_flags(PartFlags::of(BankPool::Kernel));
            lists.link(self.memory.parts, part);
        }
        drop(lists);
        if theirs {
            self.steals.fetch_add(1, SeqCst);
            self.end_reservations(part as usize, Some(PageUser::Program));
        }
        theirs
    }

    /// Looks into each chunk of each part. Only a search that has looked here may fail.
    #[cold]
    fn search_everywhere(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        (0..self.memory.parts.len()).find_map(|part| {
            let flags = self.part(part).flags();
            if flags.is_isolated() {
                return None;
            }
            self.end_reservations(part, None);
            let mut broken = if order.number() < CHUNK_ORDER { self.chunks_of(part) } else { 0..0 };
            let in_broken = broken.find_map(|chunk| self.take_in_chunk(chunk, order));
            let found = in_broken.or_else(|| {
                self.take_in_part(part, order, cpu, |flags| !flags.is_isolated() && flags.pool() != BankPool::Offline)
            })?;
            if self.make_usable(part, cpu.1) {
                return Some(found);
            }
            self.put_back(found, order);
            None
        })
    }

    /// Makes a part in which a block was taken one where the user's pages may lie; false if it is isolated.
    #[inline]
    pub(super) fn make_usable(&self, part: usize, user: PageUser) -> bool {
        admits(user, self.part(part).flags()) || {
            self.bring_online(part, user.pool());
            if user == PageUser::Kernel {
                self.make_kernels(u32::try_from(part).expect("few parts"));
            }
            admits(user, self.part(part).flags())
        }
    }

    /// Moves an offline part to a pool. It may seem offline only while a thread looks whether it is empty.
    pub(super) fn bring_online(&self, part: usize, pool: BankPool) {
        let state = self.part(part);
        if state.flags().pool() != BankPool::Offline {
            return;
        }
        let mut lists = self.lists.lock();
        if state.flags().pool() == BankPool::Offline {
            let number = u32::try_from(part).expect("few parts");
            lists.unlink(self.memory.parts, number);
            state.set_flags(PartFlags::of(pool));
            lists.link(self.memory.parts, number);
        }
    }

    /// Moves a part to the offline pool if all of it is free.
    pub(super) fn offline_if_empty(&self, part: usize) {
        let state = self.part(part);
        let may = |flags: PartFlags| !flags.is_partial() && flags.pool() != BankPool::Offline;
        // Whoever frees the last chunk counts last, and so finds all of them counted.
        if state.free_chunks() < state.chunks() || !may(state.flags()) {
            return;
        }
        let is_empty = || count_in(self.memory.whole, self.chunks_of(part)) == state.chunks() as usize;
        let number = u32::try_from(part).expect("few parts");
        let mut lists = self.lists.lock();
        let before = state.flags();
        if !may(before) {
            return;
        }
        // A search of the parts that are online may miss it from now on.
        self.shared.begin();
        lists.unlink(self.memory.parts, number);
        // Whoever takes a chunk looks at the pool afterwards; so either it sees this or we see that it took one.
        state.set_flags(PartFlags::of(BankPool::Offline));
        let empty = is_empty();
        if empty {
            // A CPU may have a chunk for itself whose last page another CPU freed.
            for (cpu, user) in self.reservations(None) {
                let old = cpu.reservation(user);
                if old.chunk().is_some_and(|chunk| self.part_of(chunk) == part) {
                    cpu.reserve(user, old, Reservation::NONE);
                }
            }
        } else {
            state.set_flags(before);
        }
        if empty || !before.is_isolated() {
            lists.link(self.memory.parts, number);
        }
        drop(lists);
        self.shared.end();
    }

    /// Puts a part on its list if it is on none.
    pub(super) fn list(&self, part: usize) {
        if self.part(part).is_listed() {
            return;
        }
        let mut lists = self.lists.lock();
        let state = self.part(part);
        if !state.is_listed() && !state.flags().is_isolated() {
            lists.link(self.memory.parts, u32::try_from(part).expect("few parts"));
        }
    }

    /// Takes a part without a free frame off its list.
    fn unlist_if_exhausted(&self, part: u32) {
        let chunks = self.chunks_of(part as usize);
        let is_exhausted = || {
            set_in(self.memory.some, chunks.clone()).next().is_none()
                && set_in(self.memory.whole, chunks.clone()).next().is_none()
        };
        if is_exhausted() {
            let mut lists = self.lists.lock();
            lists.unlink(self.memory.parts, part);
            // Whoever frees a frame looks at the list afterwards.
            if !is_exhausted() && !self.part(part as usize).flags().is_isolated() {
                lists.link(self.memory.parts, part);
            }
        }
    }

    /// Moves a part to the bucket that its counts say, if that is far from where it is and nobody uses the lists.
    pub(super) fn relist(&self, part: usize) {
        let state = self.part(part);
        let (old, new) = (state.bucket.load(SeqCst), state.fullness());
        if old == NONE || old.abs_diff(new) < FAR {
            return;
        }
        if let Some(mut lists) = self.lists.try_lock()
            && state.is_listed()
        {
            let number = u32::try_from(part).expect("few parts");
            lists.unlink(self.memory.parts, number);
            lists.link(self.memory.parts, number);
        }
    }

    /// Stops allocation from a part of the programs.
    pub(super) fn isolate(&self, part: usize) -> bool {
        let state = self.part(part);
        let mut lists = self.lists.lock();
        let flags = state.flags();
        if flags != PartFlags::of(BankPool::User) {
            return false;
        }
        lists.unlink(self.memory.parts, u32::try_from(part).expect("few parts"));
        state.set_flags(flags.isolated());
        drop(lists);
        self.end_reservations(part, None);
        true
    }

    /// Ends the isolation of a part.
    pub(super) fn rejoin(&self, part: usize) {
        let state = self.part(part);
        let mut lists = self.lists.lock();
        if state.flags().is_isolated() {
            state.set_flags(PartFlags::of(BankPool::User));
            lists.link(self.memory.parts, u32::try_from(part).expect("few parts"));
        }
    }

    /// Returns the state of a part, for the zone of this index.
    pub(super) fn bank_part(&self, part: usize, zone: ZoneIndex) -> BankPart {
        let state = self.part(part);
        let frames = self.part_frames(part);
        let whole = count_in(self.memory.whole, self.chunks_of(part)) as u64 * CHUNK_FRAMES as u64;
        let words = self.chunks_of(part).flat_map(|chunk| self.words_of(chunk));
        let broken: u64 = words.map(|word| u64::from(self.word(word).load(SeqCst).count_ones())).sum();
        BankPart {
            zone,
            frames: Frame::new(frames.start)
                .and_then(|first| FrameRange::new(first, frames.end - frames.start))
                .expect("a part has frames"),
            free: whole + broken,
            pool: state.flags().pool(),
            is_partial: state.flags().is_partial(),
        }
    }
}
