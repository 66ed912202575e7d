//! The parts of banks, the sets that they form, and who has their free blocks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use rampart_memory::{BlockOrder, Frame, FrameRange};

use crate::{BankPart, BankPool, BankSets, BankSize, Zone, ZoneIndex};

/// The lists that the free blocks of a set are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// Those of the kernel's pool.
    Kernel,
    /// Those of the user pool.
    User,
    /// Those of the offline pool.
    Offline,
    /// Apart from the lists of the user pool, which the set belongs to.
    Isolated,
}

impl Shelf {
    /// The number of shelves.
    pub const COUNT: u32 = Self::Isolated as u32 + 1;

    const fn pool(self) -> BankPool {
        match self {
            Self::Kernel => BankPool::Kernel,
            Self::User | Self::Isolated => BankPool::User,
            Self::Offline => BankPool::Offline,
        }
    }
}

/// A part of a bank, with the pool of its set.
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
}

/// Parts that change their pool together.
struct Set {
    parts: Vec<usize>,
    shelf: Shelf,
    /// Whether a part is partial: the set is in the kernel's pool for good.
    is_pinned: bool,
    /// Frames that were given out.
    held: u64,
    free: u64,
}

/// All parts and sets of a machine.
pub struct Parts {
    size: BankSize,
    parts: Vec<PoolPart>,
    sets: Vec<Set>,
    /// For each zone, its parts and the number of the bank of the first.
    by_zone: Vec<(Range<usize>, u64)>,
}

impl Parts {
    /// Returns the parts of these zones, without free blocks: the partial ones and their sets are the kernel's, the
    /// others are offline.
    pub fn new(zones: &[Zone], size: BankSize, sets: &BankSets) -> Self {
        let mut new = Self { size, parts: Vec::new(), sets: Vec::new(), by_zone: Vec::new() };
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

    fn add(&mut self, zone: usize, frames: FrameRange, set: usize) {
        let is_partial = frames.count() < self.size.frames();
        if set == self.sets.len() {
            self.sets.push(Set { parts: Vec::new(), shelf: Shelf::Offline, is_pinned: false, held: 0, free: 0 });
        }
        let company = &mut self.sets[set];
        company.parts.push(self.parts.len());
        if is_partial {
            (company.is_pinned, company.shelf) = (true, Shelf::Kernel);
        }
        let blocks = [0; BlockOrder::COUNT];
        self.parts.push(PoolPart { zone, frames, set, is_partial, is_isolated: false, free: 0, blocks });
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

    /// Returns the lists that the free blocks of a set are on.
    pub fn shelf(&self, set: usize) -> Shelf {
        self.sets[set].shelf
    }

    /// Records that the free blocks of a set are on another shelf. A set that went offline is isolated no longer.
    pub fn set_shelf(&mut self, set: usize, shelf: Shelf) {
        let Self { parts, sets, .. } = self;
        sets[set].shelf = shelf;
        if shelf == Shelf::Offline {
            sets[set].parts.iter().for_each(|&part| parts[part].is_isolated = false);
        }
    }

    /// Counts a block that goes on a list, and returns which lists are the part's.
    #[inline]
    pub fn count_in(&mut self, part: usize, order: BlockOrder) -> Shelf {
        let part = &mut self.parts[part];
        let set = &mut self.sets[part.set];
        part.blocks[order.index()] += 1;
        part.free += order.frames();
        set.free += order.frames();
        set.shelf
    }

    /// Counts a block that leaves its list.
    #[inline]
    pub fn count_out(&mut self, part: usize, order: BlockOrder) {
        let part = &mut self.parts[part];
        part.blocks[order.index()] -= 1;
        part.free -= order.frames();
        self.sets[part.set].free -= order.frames();
    }

    /// Counts frames that were given out.
    pub fn hold(&mut self, part: usize, frames: u64) {
        self.sets[self.parts[part].set].held += frames;
    }

    /// Counts frames that came back, and returns the set if it can go offline now.
    pub fn end_hold(&mut self, part: usize, frames: u64) -> Option<usize> {
        let index = self.parts[part].set;
        let set = &mut self.sets[index];
        set.held -= frames;
        (set.held == 0 && !set.is_pinned).then_some(index)
    }

    /// Returns the parts of a zone in the user pool that have a free block of this order or larger, each with the free
    /// frames of its set.
    pub fn user_parts(&self, zone: usize, order: BlockOrder) -> impl Iterator<Item = (usize, u64)> {
        let (parts, _) = &self.by_zone[zone];
        let eligible = move |&part: &usize| {
            let PoolPart { set, blocks, .. } = &self.parts[part];
            self.sets[*set].shelf == Shelf::User && blocks[order.index()..].iter().any(|&count| count > 0)
        };
        parts.clone().filter(eligible).map(|part| (part, self.sets[self.parts[part].set].free))
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
