//! Units: banks that go offline by themselves, or sets of interleaved banks that go together [Panwar15, 4.4].
//!
//! A unit is named by the first of its parts, whose [`PartState`] has its pool and its place on a
//! list.

use core::ops::Range;

use rampart_memory::BlockOrder;

use super::group::{GroupState, bits};
use super::lists::PartLists;
use super::part::{BUCKETS, CHUNK_FRAMES, CHUNK_ORDER, PartState};
use super::pools::FAR;
use super::zone::FullestZone;
use crate::BankPool;

/// A chunk that is given out or comes back is a reason to look at the fullness of its bank if its number is a multiple
/// of an eighth of a bank: a bank moves to another list if it is that much fuller or emptier. A look reads the state of
/// all groups of the bank, which other CPUs may have changed.
const LOOKS_SHIFT: u32 = 3;

/// The fullness of a bank is also looked at when the sampled count of a group has changed by a sixty-fourth of the
/// group.
const GROUP_LOOKS_SHIFT: u32 = 6;

const _: () = assert!((BUCKETS - 1) >> LOOKS_SHIFT == FAR, "a look is due when a bank may have to move");

impl FullestZone<'_> {
    /// Returns the first parts of all units.
    pub(super) fn units(&self) -> impl Iterator<Item = usize> {
        (0..self.memory.parts.len()).filter(|&part| self.part(part).unit() == part)
    }

    /// Returns the unit of a chunk.
    #[inline]
    pub(super) fn unit_of(&self, chunk: usize) -> usize {
        self.memory.groups[self.group_number(chunk)].unit()
    }

    /// Returns the unit of a block.
    pub(super) fn unit_at(&self, slot: usize) -> usize {
        self.unit_of(slot / CHUNK_FRAMES)
    }

    /// Returns the parts of a unit.
    pub(super) fn parts_of(&self, unit: usize) -> impl Iterator<Item = usize> {
        let next = move |part: &usize| Some(self.part(*part).beside()).filter(|&part| part != unit);
        core::iter::successors(Some(unit), next)
    }

    /// Makes a part one of the unit of another.
    pub(super) fn join(&self, unit: usize, part: usize) {
        let last = self.parts_of(unit).last().unwrap_or(unit);
        self.part(part).join(self.part(unit), self.part(last));
    }

    /// Returns the numbers of the groups of a unit.
    pub(super) fn groups_of(&self, unit: usize) -> impl Iterator<Item = usize> {
        self.parts_of(unit).flat_map(|part| self.groups_of_part(part))
    }

    /// Returns what `find` finds first in the groups of a unit; it gets the number and the state of each. This takes
    /// less time than an iterator over the groups of all parts, whose inner loop is compiled as calls.
    #[inline]
    pub(super) fn find_in_groups<T>(
        &self,
        unit: usize,
        mut find: impl FnMut(usize, &GroupState) -> Option<T>,
    ) -> Option<T> {
        let mut part = unit;
        loop {
            for group in self.groups_of_part(part) {
                let found = find(group, &self.memory.groups[group]);
                if found.is_some() {
                    return found;
                }
            }
            part = self.part(part).beside();
            if part == unit {
                return None;
            }
        }
    }

    /// Whether the test passes for a group of a unit.
    #[inline]
    pub(super) fn any_group(&self, unit: usize, test: impl Fn(&GroupState) -> bool) -> bool {
        self.find_in_groups(unit, |_, group| test(group).then_some(())).is_some()
    }

    /// Returns the groups in which no other CPU allocates, then the others.
    pub(super) fn groups_for(&self, cpu: u32, unit: usize) -> impl Iterator<Item = usize> {
        let of = move |other: bool| {
            self.groups_of(unit).filter(move |&group| self.memory.groups[group].is_of_other(cpu) == other)
        };
        of(false).chain(of(true))
    }

    /// Returns the chunks of a group with these bits.
    pub(super) fn chunks_in(&self, group: usize, chunks: u64) -> impl Iterator<Item = usize> {
        let first = self.first_chunk(group);
        bits(chunks).map(move |bit| first + bit)
    }

    /// Returns all chunks of a group. That at the end of a zone may have fewer.
    pub(super) fn chunks_of(&self, group: usize) -> Range<usize> {
        let last = (group + 1) << self.group_shift();
        self.first_chunk(group)..last.min(self.memory.words.len())
    }

    /// Returns the broken chunks of a unit that are on offer now, group by group.
    pub(super) fn broken_of(&self, unit: usize) -> impl Iterator<Item = usize> {
        self.groups_of(unit).flat_map(|group| self.chunks_in(group, self.memory.groups[group].some()))
    }

    /// Whether a unit has a whole chunk, or two that are buddies.
    pub(super) fn has_whole(&self, unit: usize, two: bool) -> bool {
        self.any_group(unit, |group| group.has_whole(two))
    }

    /// Whether all of a unit is free.
    pub(super) fn is_empty(&self, unit: usize) -> bool {
        !self.any_group(unit, |group| group.whole() != self.all_chunks())
    }

    /// Returns the free frames of a unit, by samples.
    pub(super) fn sampled_free(&self, unit: usize) -> i64 {
        self.groups_of(unit).map(|group| self.memory.groups[group].free()).sum()
    }

    /// Returns the bucket that a unit belongs to by its counts.
    pub(super) fn fullness(&self, unit: usize) -> u32 {
        // All parts are the same power of two of frames, so a shift and a division of small numbers are enough.
        let of_part = self.part_shift() + u32::from(CHUNK_ORDER);
        let sixteenths = (self.sampled_free(unit).max(0) * i64::from(BUCKETS - 1)) >> of_part;
        let parts = u32::try_from(self.parts_of(unit).count()).expect("few parts");
        u32::try_from(sixteenths).map_or(BUCKETS - 1, |sixteenths| (sixteenths / parts).min(BUCKETS - 1))
    }

    /// Puts a unit that is on no list on that of its pool and bucket.
    pub(super) fn link(&self, lists: &mut PartLists, unit: usize) {
        self.link_as(lists, unit, self.fullness(unit));
    }

    /// Puts a unit that is on no list on that of its pool and this bucket. All of an offline unit is free, so its
    /// bucket is the last.
    pub(super) fn link_as(&self, lists: &mut PartLists, unit: usize, bucket: u32) {
        let is_offline = self.part(unit).flags().pool() == BankPool::Offline;
        let bucket = if is_offline { BUCKETS - 1 } else { bucket };
        lists.link(self.memory.parts, u32::try_from(unit).expect("few parts"), bucket);
    }

    /// Takes a unit off its list; its pool is still that of the list.
    pub(super) fn unlink(&self, lists: &mut PartLists, unit: usize) {
        lists.unlink(self.memory.parts, u32::try_from(unit).expect("few parts"));
    }

    /// Whether a unit may have a free block of this order.
    pub(super) fn may_have(&self, unit: usize, order: BlockOrder) -> bool {
        let state: &PartState = self.part(unit);
        if state.seems_to_lack(order) {
            return false;
        }
        let has = order.number() < CHUNK_ORDER || self.has_whole(unit, order.number() > CHUNK_ORDER);
        if !has {
            state.remember_lack(order);
        }
        has
    }

    /// A chunk was given out, or came back.
    #[inline]
    pub(super) fn count_chunk(&self, chunk: usize, unit: usize) {
        let looked_at = (1 << self.part_shift().saturating_sub(LOOKS_SHIFT)) - 1;
        if chunk & looked_at == 0 {
            self.relist(unit);
        }
    }

    /// So many frames of broken chunks were freed or taken, by samples.
    #[inline(never)]
    pub(super) fn count(&self, chunk: usize, frames: i32) {
        let (group, _) = self.group(chunk);
        let (old, new) = group.count(frames);
        if frames > 0 {
            self.part(group.unit()).forget_lack();
        }
        if (old ^ new) >> (self.group_shift() + u32::from(CHUNK_ORDER) - GROUP_LOOKS_SHIFT) != 0 {
            self.relist(group.unit());
        }
    }
}
