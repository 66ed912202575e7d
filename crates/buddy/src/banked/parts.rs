//! The parts of banks, the sets that they form, which pool each set is in, and what its parts hold.

use core::ops::Range;

use rampart_memory::{BlockOrder, Frame, FrameRange};

use crate::steps::{StepKind, step};
use crate::zone::slots::span;
use crate::{BankPart, BankPool, BankSets, BankSize, Error, Footprint, Migratetype, Storage, Zone, ZoneIndex};

/// Where a set is: in a pool, or apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// In the kernel's pool.
    Kernel,
    /// In the user pool.
    User,
    /// In the offline pool.
    Offline,
    /// In the user pool, but apart from its other sets: no request gets a block of it.
    Isolated,
}

impl Shelf {
    /// The number of shelves.
    pub const COUNT: u32 = Self::Isolated as u32 + 1;

    /// Returns the pool that is made for a request.
    pub const fn of(migratetype: Migratetype) -> Self {
        match migratetype {
            Migratetype::Movable => Self::User,
            Migratetype::Unmovable | Migratetype::Reclaimable => Self::Kernel,
        }
    }

    const fn pool(self) -> BankPool {
        match self {
            Self::Kernel => BankPool::Kernel,
            Self::User | Self::Isolated => BankPool::User,
            Self::Offline => BankPool::Offline,
        }
    }
}

/// A part of a bank. No zone has more frames than 32 bits count.
#[derive(Clone, Copy)]
struct PoolPart {
    zone: u32,
    set: u32,
    free: u32,
    /// Its free blocks of each order.
    blocks: [u32; BlockOrder::COUNT],
    /// A bit for each order of which it has a free block.
    orders: u16,
    is_partial: bool,
    is_isolated: bool,
}

const _: () = assert!(size_of::<PoolPart>() == 60, "mostly counts");

/// Parts that change their pool together.
#[derive(Clone, Copy)]
struct Set {
    /// Its parts: so many of [`Parts::members`], from here on.
    first: u32,
    count: u32,
    /// Frames that were given out.
    held: u32,
    /// Those of them whose pages cannot move.
    unmovable: u32,
    shelf: Shelf,
    /// Whether a part is partial: the set is in the kernel's pool for good.
    is_pinned: bool,
}

impl Set {
    const EMPTY: Self = Self { first: 0, count: 0, held: 0, unmovable: 0, shelf: Shelf::Offline, is_pinned: false };

    const fn members(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// The parts of a zone.
struct ZoneParts {
    parts: Range<usize>,
    /// The number of the bank of the first.
    bank: u64,
    frames: FrameRange,
}

impl ZoneParts {
    /// Returns the number of the bank that a part is of.
    const fn bank_at(&self, part: usize) -> u64 {
        self.bank + (part - self.parts.start) as u64
    }

    /// Returns the frames of a part.
    fn frames_of(&self, part: usize, size: BankSize) -> FrameRange {
        let bank = self.bank_at(part);
        let start = self.frames.start().number().max(bank * size.frames());
        let end = (self.frames.last().number() + 1).min((bank + 1) * size.frames());
        let start = Frame::new(start).expect("it lies in the zone");
        FrameRange::new(start, end - start.number()).expect("the zone has a frame of the bank")
    }
}

/// All parts and sets of a machine.
pub struct Parts<'a, S: Storage<'a>> {
    size: BankSize,
    parts: S::Array<PoolPart>,
    /// The sets, and empty ones: as many as parts.
    sets: S::Array<Set>,
    /// The parts, those of a set together.
    members: S::Array<u32>,
    by_zone: S::Array<ZoneParts>,
    /// For each zone, the free frames of its sets that are not isolated.
    free: S::Array<u64>,
}

/// Returns the number of parts of banks in a zone.
pub fn parts_of(zone: &Zone, size: BankSize) -> usize {
    let banks = size.bank_of(zone.frames.last()) - size.bank_of(zone.frames.start());
    usize::try_from(banks).expect("a zone has as many parts in memory") + 1
}

impl<'a, S: Storage<'a>> Parts<'a, S> {
    /// Returns the parts of these zones, without free blocks: the partial ones and their sets are the kernel's, the
    /// others are offline.
    pub fn new(storage: &S, zones: &[Zone], size: BankSize, sets: BankSets<'_>) -> Result<Self, Error> {
        let mut end = 0;
        let zone_parts = |index: usize| {
            let (zone, start) = (&zones[index], end);
            end += parts_of(zone, size);
            Ok(ZoneParts { parts: start..end, bank: size.bank_of(zone.frames.start()), frames: zone.frames })
        };
        let by_zone = storage.array(zones.len(), zone_parts)?;
        let mut zone_of = zones.iter().zip(0..).flat_map(|(zone, index)| (0..parts_of(zone, size)).map(move |_| index));
        let part = |_| {
            let zone = zone_of.next().expect("each part has a zone");
            let blocks = [0; BlockOrder::COUNT];
            Ok(PoolPart { zone, set: 0, free: 0, blocks, orders: 0, is_partial: false, is_isolated: false })
        };
        let mut new = Self {
            size,
            parts: storage.array(end, part)?,
            sets: storage.filled(end, Set::EMPTY)?,
            members: storage.array(end, |part| Ok(index_of(part)))?,
            by_zone,
            free: storage.filled(zones.len(), 0)?,
        };
        new.form_sets(sets)?;
        Ok(new)
    }

    /// Puts each part into its set.
    fn form_sets(&mut self, given: BankSets<'_>) -> Result<(), Error> {
        let Self { size, parts, sets, members, by_zone, .. } = self;
        let key = |part: u32| {
            let zone = by_zone.partition_point(|zone| zone.parts.end <= part as usize);
            given.set_of(by_zone[zone].bank_at(part as usize))
        };
        members.sort_unstable_by_key(|&part| (key(part), part));
        let mut first = 0;
        for (set, company) in members.chunk_by(|&one, &other| key(one) == key(other)).enumerate() {
            let mut frames = 0;
            sets[set] = Set { first, count: index_of(company.len()), ..Set::EMPTY };
            for &part in company {
                let own = &mut parts[part as usize];
                let count = by_zone[own.zone as usize].frames_of(part as usize, *size).count();
                (own.set, own.is_partial) = (index_of(set), count < size.frames());
                if own.is_partial {
                    (sets[set].is_pinned, sets[set].shelf) = (true, Shelf::Kernel);
                }
                frames += count;
            }
            u32::try_from(frames).map_err(|_| Error::SetTooLarge(frames))?;
            first += sets[set].count;
        }
        Ok(())
    }

    /// Returns the memory of its structures.
    pub fn footprint(&self) -> Footprint {
        let parts = Footprint::of_zones::<PoolPart>(self.parts.len()) + Footprint::of_zones::<u32>(self.members.len());
        let zones = Footprint::of_zones::<ZoneParts>(self.by_zone.len());
        parts + Footprint::of_zones::<Set>(self.sets.len()) + zones + Footprint::of_zones::<u64>(self.free.len())
    }

    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the zone of a part.
    #[inline]
    pub fn zone_of(&self, part: usize) -> usize {
        self.parts[part].zone as usize
    }

    /// Returns the frames of a part.
    pub fn frames(&self, part: usize) -> FrameRange {
        self.by_zone[self.zone_of(part)].frames_of(part, self.size)
    }

    /// Returns the part that a frame of a zone lies in.
    #[inline]
    pub fn part_of(&self, zone: usize, frame: Frame) -> usize {
        let ZoneParts { parts, bank, .. } = &self.by_zone[zone];
        let banks = usize::try_from(self.size.bank_of(frame) - bank).expect("a zone has as many parts in memory");
        parts.start + banks
    }

    /// Returns the set that a part is in.
    #[inline]
    pub fn set_of(&self, part: usize) -> usize {
        self.parts[part].set as usize
    }

    /// Returns the parts of a set.
    pub fn of_set(&self, set: usize) -> impl ExactSizeIterator<Item = usize> {
        self.members[self.sets[set].members()].iter().map(|&part| part as usize)
    }

    /// Returns the parts of a zone.
    #[inline]
    pub fn of_zone(&self, zone: usize) -> Range<usize> {
        self.by_zone[zone].parts.clone()
    }

    /// Returns the place of a part among those of its zone.
    #[inline]
    pub fn place(&self, part: usize) -> u32 {
        index_of(part - self.by_zone[self.zone_of(part)].parts.start)
    }

    /// Returns the free frames of a zone that are not isolated.
    #[inline]
    pub fn free_frames(&self, zone: usize) -> u64 {
        self.free[zone]
    }

    /// Returns where a set is.
    #[inline]
    pub fn shelf(&self, set: usize) -> Shelf {
        step(StepKind::Bank);
        self.sets[set].shelf
    }

    /// Returns where the set of a part is.
    #[inline]
    pub fn shelf_of(&self, part: usize) -> Shelf {
        step(StepKind::Bank);
        self.sets[self.set_of(part)].shelf
    }

    /// Records where a set is now. One that went offline is isolated no longer.
    pub fn set_shelf(&mut self, set: usize, shelf: Shelf) {
        let Self { parts, sets, members, free, .. } = self;
        let before = core::mem::replace(&mut sets[set].shelf, shelf);
        for &part in &members[sets[set].members()] {
            step(StepKind::Bank);
            let part = &mut parts[part as usize];
            if before == Shelf::Isolated {
                free[part.zone as usize] += u64::from(part.free);
            }
            if shelf == Shelf::Isolated {
                free[part.zone as usize] -= u64::from(part.free);
            }
            part.is_isolated &= shelf != Shelf::Offline;
        }
    }

    /// Counts a block that goes on a list.
    #[inline]
    pub fn count_in(&mut self, part: usize, order: BlockOrder) {
        step(StepKind::Bank);
        let part = &mut self.parts[part];
        part.blocks[order.index()] += 1;
        part.orders |= 1 << order.number();
        part.free += span(order);
        if self.sets[part.set as usize].shelf != Shelf::Isolated {
            self.free[part.zone as usize] += order.frames();
        }
    }

    /// Counts a block that leaves its list.
    #[inline]
    pub fn count_out(&mut self, part: usize, order: BlockOrder) {
        step(StepKind::Bank);
        let part = &mut self.parts[part];
        part.blocks[order.index()] -= 1;
        if part.blocks[order.index()] == 0 {
            part.orders &= !(1 << order.number());
        }
        part.free -= span(order);
        if self.sets[part.set as usize].shelf != Shelf::Isolated {
            self.free[part.zone as usize] -= order.frames();
        }
    }

    /// Counts a block that was given out.
    #[inline]
    pub fn hold(&mut self, part: usize, order: BlockOrder, is_movable: bool) {
        step(StepKind::Bank);
        let set = &mut self.sets[self.parts[part].set as usize];
        set.held += span(order);
        set.unmovable += if is_movable { 0 } else { span(order) };
    }

    /// Counts a block that came back.
    #[inline]
    pub fn end_hold(&mut self, part: usize, order: BlockOrder, is_movable: bool) {
        step(StepKind::Bank);
        let set = &mut self.sets[self.parts[part].set as usize];
        set.held -= span(order);
        set.unmovable -= if is_movable { 0 } else { span(order) };
    }

    /// Whether no frame of a set is held, and none of its parts keeps it in the kernel's pool.
    #[inline]
    pub fn can_go_offline(&self, set: usize) -> bool {
        step(StepKind::Bank);
        self.sets[set].held == 0 && !self.sets[set].is_pinned
    }

    /// Whether all pages in a set can move, and none of its parts keeps it in the kernel's pool.
    pub fn is_movable(&self, set: usize) -> bool {
        step(StepKind::Bank);
        self.sets[set].unmovable == 0 && !self.sets[set].is_pinned
    }

    /// Whether a part has a free block of this order or larger.
    #[inline]
    pub fn has_block(&self, part: usize, order: BlockOrder) -> bool {
        step(StepKind::Bank);
        self.parts[part].orders >> order.number() != 0
    }

    /// Returns the free frames of a part.
    pub fn free_of(&self, part: usize) -> u64 {
        step(StepKind::Bank);
        u64::from(self.parts[part].free)
    }

    /// Returns the free frames of the set of a part.
    pub fn free_of_set(&self, part: usize) -> u64 {
        self.of_set(self.set_of(part)).map(|part| self.free_of(part)).sum()
    }

    /// Records whether a part is isolated.
    pub fn set_isolated(&mut self, part: usize, is_isolated: bool) {
        self.parts[part].is_isolated = is_isolated;
    }

    /// Whether a part of a set is isolated.
    pub fn any_isolated(&self, set: usize) -> bool {
        self.of_set(set).any(|part| {
            step(StepKind::Bank);
            self.parts[part].is_isolated
        })
    }

    /// Returns a part as others see it.
    pub fn state(&self, part: usize) -> BankPart {
        BankPart {
            zone: ZoneIndex(self.zone_of(part)),
            frames: self.frames(part),
            free: self.free_of(part),
            pool: self.shelf_of(part).pool(),
            is_partial: self.parts[part].is_partial,
        }
    }
}

/// Returns an index of a part or a set, of which there are fewer than frames.
fn index_of(place: usize) -> u32 {
    u32::try_from(place).expect("a machine has fewer parts of banks")
}
