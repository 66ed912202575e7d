//! Finds the unit for a request, and moves units between the pools.

use rampart_memory::{BlockOrder, Frame, FrameRange};

use super::cpu::{CpuState, NearSize, PageUser, Reservation};
use super::lists::PartLists;
use super::part::{CHUNK_FRAMES, CHUNK_ORDER, NONE, PartFlags};
use super::sync::Ordering::SeqCst;
use super::take::admits;
use super::zone::FullestZone;
use crate::{BankPart, BankPool, ZoneIndex};

/// A unit moves to another bucket when its counts differ by so many.
pub const FAR: u32 = 2;

/// The lowest bucket from which the kernel takes units of programs while another node has room. Bucket 0 is full, and
/// each is a sixteenth of the unit, so at least a sixteenth is free.
const ROOMY: u32 = 1;

/// The most units that a search of a pool tries.
const TRIES: usize = 16;

/// In which banks of a zone a search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banks {
    /// In those of the user's own pool.
    Own,
    /// In offline ones.
    Offline,
    /// In those of programs of which a sixteenth or more is free, for the kernel.
    Roomy,
    /// In all those of the other user.
    Others,
}

impl FullestZone<'_> {
    /// Allocates a block if `floor` frames stay free.
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
                Banks::Own => self.take_at_hand(order, (cpu, user)).or_else(|| self.search_own(order, (cpu, user))),
                Banks::Offline => self.note(self.search_offline(order, (cpu, user)), order, (cpu, user)),
                Banks::Roomy => self.note(self.steal(order, (cpu, user), ROOMY), order, (cpu, user)),
                Banks::Others => self.search_others(order, (cpu, user)),
            }?;
            if self.keep(slot, order) {
                break slot;
            }
        };
        self.count_allocated(cpu, order);
        Some(slot)
    }

    /// Finds a block away from the CPU's own chunk: in the fullest unit of the user's pool, else in the emptiest,
    /// where a large block is likely, else in an offline one [Panwar15, 4.1.2 and 4.2].
    fn search_own(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let own = cpu.1.pool();
        let found = self
            .search_near(order, cpu)
            .or_else(|| self.search_pool(own, order, cpu, true))
            .or_else(|| self.search_pool(own, order, cpu, false));
        self.note(found, order, cpu)
    }

    /// Finds a block in the units of the other user [Panwar15, 4.1.2]. It fails only if there is none in the zone.
    fn search_others(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let found = match cpu.1 {
            PageUser::Program => self.search_pool(BankPool::Kernel, order, cpu, true),
            PageUser::Kernel => self.steal(order, cpu, 0),
        };
        let found = found.or_else(|| {
            // A unit may have gone offline since.
            self.until_settled(|| self.search_offline(order, cpu).or_else(|| self.search_everywhere(order, cpu)))
        });
        self.note(found, order, cpu)
    }

    /// Notes where a block was found.
    fn note(&self, found: Option<usize>, order: BlockOrder, (cpu, user): (&CpuState, PageUser)) -> Option<usize> {
        if let (Some(slot), Some(size)) = (found, NearSize::of(order)) {
            let (chunk, unit) = (slot / CHUNK_FRAMES, self.unit_at(slot));
            let place = if size == NearSize::Chunk { self.group_number(chunk) } else { unit };
            cpu.set_near(user, size, place, self.part(unit).bucket.load(SeqCst));
        }
        found
    }

    /// Stays in the unit that the CPU allocated from last, unless that has become emptier since. It breaks no whole
    /// chunk there, for a fuller unit may have broken ones.
    fn search_near(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        let (own, size) = (cpu.1.pool(), NearSize::of(order)?);
        let (place, before) = cpu.0.near(cpu.1, size)?;
        let unit = if size == NearSize::Chunk { self.memory.groups[place].unit() } else { place };
        let may = |flags: PartFlags| flags.pool() == own && !flags.is_isolated();
        if self.part(unit).bucket.load(SeqCst) > before || !may(self.part(unit).flags()) {
            return None;
        }
        match size {
            NearSize::Chunk if self.part(unit).seems_to_lack(order) => None,
            NearSize::Chunk => {
                let found = self.take_in_unit(unit, order, cpu, may);
                if found.is_none() {
                    self.part(unit).remember_lack(order);
                }
                found
            }
            NearSize::Frame => {
                let found = self.take_broken(unit, order, cpu);
                if found.is_none() {
                    // On its list it would be the first that the search looks at next, in vain.
                    self.unlist_if_exhausted(unit);
                }
                found
            }
        }
    }

    /// Finds a block in the fullest or the emptiest units of a pool.
    fn search_pool(
        &self,
        pool: BankPool,
        order: BlockOrder,
        cpu: (&CpuState, PageUser),
        fullest: bool,
    ) -> Option<usize> {
        for _ in 0..TRIES {
            let unit = self.candidate(pool, order, fullest)?;
            let found = self.take_in_unit(unit, order, cpu, |flags| admits(cpu.1, flags));
            if found.is_some() {
                return found;
            }
            self.part(unit).remember_lack(order);
            if order.number() < CHUNK_ORDER {
                self.unlist_if_exhausted(unit);
            }
        }
        None
    }

    /// Returns the fullest or emptiest unit of a pool that may have a block of this order.
    fn candidate(&self, pool: BankPool, order: BlockOrder, fullest: bool) -> Option<usize> {
        let lists = self.lists.0.lock();
        let unit = lists.candidate(self.memory.parts, (pool, fullest), |part| !part.seems_to_lack(order))?;
        Some(unit as usize)
    }

    /// Brings units online, the kernel's from below and the programs' from above.
    fn search_offline(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        // One is enough, unless other CPUs fill it at once.
        (0..self.memory.parts.len()).find_map(|_| {
            let mut lists = self.lists.0.lock();
            let unit = lists.offline(cpu.1 == PageUser::Program)? as usize;
            self.move_to(&mut lists, unit, PartFlags::of(cpu.1.pool()));
            drop(lists);
            self.take_in_unit(unit, order, cpu, |flags| admits(cpu.1, flags))
        })
    }

    /// Changes the flags of a unit, and thus the list that it is on.
    fn move_to(&self, lists: &mut PartLists, unit: usize, flags: PartFlags) {
        self.unlink(lists, unit);
        self.part(unit).set_flags(flags);
        self.link(lists, unit);
    }

    /// Takes a unit from programs for the kernel, that with the most free frames first, but none below bucket `least`.
    /// The whole unit changes its pool, because memory of the kernel cannot move out of it again [Panwar15, 4.1.2]. If
    /// programs had only reserved it, it goes offline, and is taken from there.
    fn steal(&self, order: BlockOrder, cpu: (&CpuState, PageUser), least: u32) -> Option<usize> {
        let free = |unit: usize| self.may_have(unit, order).then(|| self.sampled_free(unit));
        let emptiest = self.lists.0.lock().emptiest(self.memory.parts, BankPool::User, free);
        let units = emptiest.into_iter().take_while(|unit| *unit != NONE).map(|unit| unit as usize);
        units.take_while(|&unit| self.fullness(unit) >= least).find_map(|unit| {
            if !self.has_block(unit, order) || !self.make_kernels(unit) {
                return None;
            }
            let found = self.take_in_unit(unit, order, cpu, |flags| admits(cpu.1, flags));
            found.or_else(|| self.search_offline(order, cpu))
        })
    }

    /// Moves a unit of the programs to the kernel's pool; false if it is not theirs. If they had no more of it than a
    /// reservation, it goes offline.
    fn make_kernels(&self, unit: usize) -> bool {
        let mut lists = self.lists.0.lock();
        let theirs = self.part(unit).flags() == PartFlags::of(BankPool::User);
        if theirs {
            self.move_to(&mut lists, unit, PartFlags::of(BankPool::Kernel));
        }
        drop(lists);
        if theirs {
            self.end_reservations(unit, Some(PageUser::Program));
            if self.part(unit).flags().pool() == BankPool::Kernel {
                self.steals.fetch_add(self.parts_of(unit).count() as u64, SeqCst);
            }
        }
        theirs
    }

    /// Looks into each chunk of each unit. Only a search that has looked here may fail.
    #[cold]
    fn search_everywhere(&self, order: BlockOrder, cpu: (&CpuState, PageUser)) -> Option<usize> {
        self.units().find_map(|unit| {
            if self.part(unit).flags().is_isolated() {
                return None;
            }
            self.end_reservations(unit, None);
            let in_broken = || {
                let mut groups = self.groups_of(unit).filter(|_| order.number() < CHUNK_ORDER);
                groups.find_map(|group| self.chunks_of(group).find_map(|chunk| self.take_in_chunk(chunk, order)))
            };
            let found = in_broken().or_else(|| {
                self.take_in_unit(unit, order, cpu, |flags| !flags.is_isolated() && flags.pool() != BankPool::Offline)
            })?;
            if self.make_usable(unit, cpu.1) {
                return Some(found);
            }
            self.put_back(found, order);
            None
        })
    }

    /// Makes a unit in which a block was taken one where the user's pages may lie; false if it is isolated.
    #[inline]
    pub(super) fn make_usable(&self, unit: usize, user: PageUser) -> bool {
        admits(user, self.part(unit).flags()) || {
            self.bring_online(unit, user.pool());
            if user == PageUser::Kernel {
                self.make_kernels(unit);
            }
            admits(user, self.part(unit).flags())
        }
    }

    /// Moves an offline unit to a pool. It may seem offline only while a thread looks whether it is empty.
    pub(super) fn bring_online(&self, unit: usize, pool: BankPool) {
        if self.part(unit).flags().pool() != BankPool::Offline {
            return;
        }
        let mut lists = self.lists.0.lock();
        if self.part(unit).flags().pool() == BankPool::Offline {
            self.move_to(&mut lists, unit, PartFlags::of(pool));
        }
    }

    /// Moves a unit to the offline pool if all of it is free.
    pub(super) fn offline_if_empty(&self, unit: usize) {
        let state = self.part(unit);
        let may = |flags: PartFlags| !flags.is_partial() && flags.pool() != BankPool::Offline;
        // Whoever frees the last chunk finds all of them whole.
        if !may(state.flags()) || !self.is_empty(unit) {
            return;
        }
        let mut lists = self.lists.0.lock();
        let before = state.flags();
        if !may(before) {
            return;
        }
        // A search of the units that are online may miss it from now on.
        self.moves.begin();
        self.unlink(&mut lists, unit);
        // Whoever takes a chunk looks at the pool afterwards; so either it sees this or we see that it took one.
        state.set_flags(PartFlags::of(BankPool::Offline));
        let empty = self.is_empty(unit);
        if empty {
            self.forget_users(unit);
        } else {
            state.set_flags(before);
        }
        if empty || !before.is_isolated() {
            self.link(&mut lists, unit);
        }
        drop(lists);
        self.moves.end();
    }

    /// Ends what was noted of a unit that is offline now.
    fn forget_users(&self, unit: usize) {
        self.parts_of(unit).for_each(|part| self.part(part).isolate_itself(false));
        // A CPU may have a chunk for itself whose last page another CPU freed.
        for (cpu, user) in self.reservations(None) {
            let old = cpu.reservation(user);
            if old.chunk().is_some_and(|chunk| self.unit_of(chunk) == unit) {
                cpu.reserve(user, old, Reservation::NONE);
            }
        }
    }

    /// Puts a unit on its list if it is on none.
    #[inline]
    pub(super) fn list(&self, unit: usize) {
        if !self.part(unit).is_listed() {
            self.list_anew(unit);
        }
    }

    #[cold]
    fn list_anew(&self, unit: usize) {
        let mut lists = self.lists.0.lock();
        if !self.part(unit).is_listed() && !self.part(unit).flags().is_isolated() {
            self.link(&mut lists, unit);
        }
    }

    /// Takes a unit without a free frame off its list, and remembers that it has none: else it would be searched again
    /// for each single frame that is freed there.
    #[inline(never)]
    fn unlist_if_exhausted(&self, unit: usize) {
        let is_exhausted = || !self.any_group(unit, |group| group.some() != 0 || group.whole() != 0);
        if is_exhausted() {
            self.part(unit).remember_lack(BlockOrder::ZERO);
            let mut lists = self.lists.0.lock();
            self.unlink(&mut lists, unit);
            // Whoever frees a frame looks at the list afterwards.
            if !is_exhausted() && !self.part(unit).flags().is_isolated() {
                self.link(&mut lists, unit);
            }
        }
    }

    /// Moves a unit to the bucket that its counts say, if that is far from where it is and nobody uses the lists.
    pub(super) fn relist(&self, unit: usize) {
        let state = self.part(unit);
        let old = state.bucket.load(SeqCst);
        if old == NONE {
            return;
        }
        let new = self.fullness(unit);
        if old.abs_diff(new) < FAR {
            return;
        }
        if let Some(mut lists) = self.lists.0.try_lock()
            && state.is_listed()
        {
            self.unlink(&mut lists, unit);
            self.link_as(&mut lists, unit, new);
        }
    }

    /// Stops allocation from a part of the programs, and so from its whole unit.
    pub(super) fn isolate(&self, part: usize) -> bool {
        let unit = self.part(part).unit();
        let state = self.part(unit);
        let mut lists = self.lists.0.lock();
        let flags = state.flags();
        if flags.pool() != BankPool::User || self.part(part).is_isolated_itself() {
            return false;
        }
        self.part(part).isolate_itself(true);
        self.unlink(&mut lists, unit);
        state.set_flags(PartFlags::of(BankPool::User).isolated());
        drop(lists);
        self.end_reservations(unit, None);
        true
    }

    /// Ends the isolation of a part, and that of its unit if no other part of it is isolated.
    pub(super) fn rejoin(&self, part: usize) {
        let unit = self.part(part).unit();
        let state = self.part(unit);
        let mut lists = self.lists.0.lock();
        self.part(part).isolate_itself(false);
        let others = self.parts_of(unit).any(|part| self.part(part).is_isolated_itself());
        if state.flags().is_isolated() && !others {
            state.set_flags(PartFlags::of(BankPool::User));
            self.link(&mut lists, unit);
        }
    }

    /// Returns the state of a part, for the zone of this index.
    pub(super) fn bank_part(&self, part: usize, zone: ZoneIndex) -> BankPart {
        let frames = self.part_frames(part);
        let groups = || self.groups_of_part(part);
        let whole: u32 = groups().map(|group| self.memory.groups[group].whole().count_ones()).sum();
        let words = groups().flat_map(|group| self.chunks_of(group)).flat_map(|chunk| self.words_of(chunk));
        let broken: u64 = words.map(|word| u64::from(self.word(word).load(SeqCst).count_ones())).sum();
        BankPart {
            zone,
            frames: Frame::new(frames.start)
                .and_then(|first| FrameRange::new(first, frames.end - frames.start))
                .expect("a part has frames"),
            free: u64::from(whole) * CHUNK_FRAMES as u64 + broken,
            pool: self.part(self.part(part).unit()).flags().pool(),
            is_partial: self.is_partial(part),
        }
    }
}
