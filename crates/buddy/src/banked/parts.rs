//! The parts of banks, the sets that they form, which pool each set is in, and what its parts hold.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use rampart_memory::{BlockOrder, Frame, FrameRange};

use crate::{BankPart, BankPool, BankSets, BankSize, Footprint, Migratetype, Zone, ZoneIndex};

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

/// A part of a bank.
pub struct PoolPart {
    /// Its zone.
    pub zone: usize,
    /// Its frames.
    pub frames: FrameRange,
    set: usize,
    is_partial: bool,
    is_isolated: bool,
    free: u64,
    /// Its free blocks of each order.
    blocks: [u32; BlockOrder::COUNT],
    /// A bit for each order of which it has a free block.
    orders: u16,
}

/// Parts that change their pool together.
struct Set {
    parts: Vec<usize>,
    shelf: Shelf,
    /// Whether a part is partial: the set is in the kernel's pool for good.
    is_pinned: bool,
    /// Frames that were given out.
    held: u64,
    /// Those of them whose pages cannot move.
    unmovable: u64,
    free: u64,
}

/// All parts and sets of a machine.
pub struct Parts {
    size: BankSize,
    parts: Vec<PoolPart>,
    sets: Vec<Set>,
    /// For each zone, its parts and the number of the bank of the first.
    by_zone: Vec<(Range<usize>, u64)>,
    /// For each zone, the free frames of its sets that are not isolated.
    free: Vec<u64>,
}

impl Parts {
    /// Returns the parts of these zones, without free blocks: the partial ones and their sets are the kernel's, the
    /// others are offline.
    pub fn new(zones: &[Zone], size: BankSize, sets: &BankSets) -> Self {
        let (parts, free) = (Vec::new(), vec![0; zones.len()]);
        let mut new = Self { size, parts, sets: Vec::new(), by_zone: Vec::new(), free };
        let mut indices = BTreeMap::new();
        for (index, zone) in zones.iter().enumerate() {
            let (first, last) = (size.bank_of(zone.frames.start()), size.bank_of(zone.frames.last()));
            let start = new.parts.len();
            for bank in first..=last {
                let set = *indices.entry(sets.set_of(bank)).or_insert(new.sets.len());
                new.add(index, part_frames(zone.frames, size, bank), set);
            }
            new.by_zone.push((start..new.parts.len(), first));
        }
        new
    }

    /// Returns the memory of its structures.
    pub fn footprint(&self) -> Footprint {
        let of_sets: usize = self.sets.iter().map(|set| set.parts.len()).sum();
        let parts = Footprint::of_zones::<PoolPart>(self.parts.len()) + Footprint::of_zones::<usize>(of_sets);
        let zones = Footprint::of_zones::<(Range<usize>, u64)>(self.by_zone.len());
        parts + Footprint::of_zones::<Set>(self.sets.len()) + zones + Footprint::of_zones::<u64>(self.free.len())
    }

    fn add(&mut self, zone: usize, frames: FrameRange, set: usize) {
        let is_partial = frames.count() < self.size.frames();
        if set == self.sets.len() {
            let (parts, shelf) = (Vec::new(), Shelf::Offline);
            self.sets.push(Set { parts, shelf, is_pinned: false, held: 0, unmovable: 0, free: 0 });
        }
        let company = &mut self.sets[set];
        company.parts.push(self.parts.len());
        if is_partial {
            (company.is_pinned, company.shelf) = (true, Shelf::Kernel);
        }
        let blocks = [0; BlockOrder::COUNT];
        self.parts.push(PoolPart { zone, frames, set, is_partial, is_isolated: false, free: 0, blocks, orders: 0 });
    }

    /// Returns the number of parts.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns a part.
    pub fn part(&self, part: usize) -> &PoolPart {
        &self.parts[part]
    }

    /// Returns the part that a frame of a zone lies in.
    #[inline]
    pub fn part_of(&self, zone: usize, frame: Frame) -> usize {
        let (parts, first) = &self.by_zone[zone];
        let banks = usize::try_from(self.size.bank_of(frame) - first).expect("a zone has as many parts in memory");
        parts.start + banks
    }

    /// Returns the set that a part is in.
    pub fn set_of(&self, part: usize) -> usize {
        self.parts[part].set
    }

    /// Returns the parts of a set.
    pub fn of_set(&self, set: usize) -> &[usize] {
        &self.sets[set].parts
    }

    /// Returns the parts of a zone.
    #[inline]
    pub fn of_zone(&self, zone: usize) -> Range<usize> {
        self.by_zone[zone].0.clone()
    }

    /// Returns the place of a part among those of its zone.
    #[inline]
    pub fn place(&self, part: usize) -> u32 {
        let place = part - self.by_zone[self.parts[part].zone].0.start;
        u32::try_from(place).expect("a zone has fewer parts than frames")
    }

    /// Returns the free frames of a zone that are not isolated.
    #[inline]
    pub fn free_frames(&self, zone: usize) -> u64 {
        self.free[zone]
    }

    /// Returns where a set is.
    #[inline]
    pub fn shelf(&self, set: usize) -> Shelf {
        self.sets[set].shelf
    }

    /// Returns where the set of a part is.
    #[inline]
    pub fn shelf_of(&self, part: usize) -> Shelf {
        self.sets[self.parts[part].set].shelf
    }

    /// Records where a set is now. One that went offline is isolated no longer.
    pub fn set_shelf(&mut self, set: usize, shelf: Shelf) {
        let Self { parts, sets, free, .. } = self;
        let before = core::mem::replace(&mut sets[set].shelf, shelf);
        for &part in &sets[set].parts {
            let part = &mut parts[part];
            if before == Shelf::Isolated {
                free[part.zone] += part.free;
            }
            if shelf == Shelf::Isolated {
                free[part.zone] -= part.free;
            }
            part.is_isolated &= shelf != Shelf::Offline;
        }
    }

    /// Counts a block that goes on a list.
    #[inline]
    pub fn count_in(&mut self, part: usize, order: BlockOrder) {
        let part = &mut self.parts[part];
        let set = &mut self.sets[part.set];
        part.blocks[order.index()] += 1;
        part.orders |= 1 << order.number();
        part.free += order.frames();
        set.free += order.frames();
        if set.shelf != Shelf::Isolated {
            self.free[part.zone] += order.frames();
        }
    }

    /// Counts a block that leaves its list.
    #[inline]
    pub fn count_out(&mut self, part: usize, order: BlockOrder) {
        let part = &mut self.parts[part];
        let set = &mut self.sets[part.set];
        part.blocks[order.index()] -= 1;
        if part.blocks[order.index()] == 0 {
            part.orders &= !(1 << order.number());
        }
        part.free -= order.frames();
        set.free -= order.frames();
        if set.shelf != Shelf::Isolated {
            self.free[part.zone] -= order.frames();
        }
    }

    /// Counts frames that were given out.
    #[inline]
    pub fn hold(&mut self, part: usize, frames: u64, is_movable: bool) {
        let set = &mut self.sets[self.parts[part].set];
        set.held += frames;
        set.unmovable += if is_movable { 0 } else { frames };
    }

    /// Counts frames that came back.
    #[inline]
    pub fn end_hold(&mut self, part: usize, frames: u64, is_movable: bool) {
        let set = &mut self.sets[self.parts[part].set];
        set.held -= frames;
        set.unmovable -= if is_movable { 0 } else { frames };
    }

    /// Whether no frame of a set is held, and none of its parts keeps it in the kernel's pool.
    #[inline]
    pub fn can_go_offline(&self, set: usize) -> bool {
        self.sets[set].held == 0 && !self.sets[set].is_pinned
    }

    /// Whether all pages in a set can move, and none of its parts keeps it in the kernel's pool.
    pub fn is_movable(&self, set: usize) -> bool {
        self.sets[set].unmovable == 0 && !self.sets[set].is_pinned
    }

    /// Whether a part has a free block of this order or larger.
    #[inline]
    pub fn has_block(&self, part: usize, order: BlockOrder) -> bool {
        self.parts[part].orders >> order.number() != 0
    }

    /// Returns the free frames of a part.
    pub fn free_of(&self, part: usize) -> u64 {
        self.parts[part].free
    }

    /// Returns the free frames of the set of a part.
    pub fn free_of_set(&self, part: usize) -> u64 {
        self.sets[self.parts[part].set].free
    }

    /// Records whether a part is isolated.
    pub fn set_isolated(&mut self, part: usize, is_isolated: bool) {
        self.parts[part].is_isolated = is_isolated;
    }

    /// Whether a part of a set is isolated.
    pub fn any_isolated(&self, set: usize) -> bool {
        self.sets[set].parts.iter().any(|&part| self.parts[part].is_isolated)
    }

    /// Returns a part as others see it.
    pub fn state(&self, part: usize) -> BankPart {
        let PoolPart { zone, frames, set, is_partial, free, .. } = self.parts[part];
        BankPart { zone: ZoneIndex(zone), frames, free, pool: self.sets[set].shelf.pool(), is_partial }
    }
}

/// Returns the frames that a zone has of a bank.
fn part_frames(zone: FrameRange, size: BankSize, bank: u64) -> FrameRange {
    let start = zone.start().number().max(bank * size.frames());
    let end = (zone.last().number() + 1).min((bank + 1) * size.frames());
    let start = Frame::new(start).expect("it lies in the zone");
    FrameRange::new(start, end - start.number()).expect("the zone has a frame of the bank")
}
