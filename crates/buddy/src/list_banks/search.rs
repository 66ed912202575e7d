//! The lists of the banks of one zone, and a walk along them.

use core::cmp::Reverse;

use rampart_memory::{BlockOrder, Bytes};

use crate::banked::{Parts, Shelf};
use crate::zone::links::Links;
use crate::{End, Error, Footprint, Storage};

/// The banks of a zone, each on the list of its shelf, and the cached bank of each list.
pub struct ZoneBanks<'a, S: Storage<'a>> {
    /// The first part of the zone; the elements of the lists are the distances from it.
    start: usize,
    lists: Links<'a, S>,
    cached: [Option<usize>; Shelf::COUNT as usize],
}

impl<'a, S: Storage<'a>> ZoneBanks<'a, S> {
    /// Returns the lists for so many banks of a zone, before [`ZoneBanks::begin`].
    pub fn new(storage: &S, banks: usize) -> Result<Self, Error> {
        let count = u32::try_from(banks).expect("a zone has fewer parts than frames");
        Ok(Self { start: 0, lists: Links::new(storage, count, Shelf::COUNT)?, cached: [None; Shelf::COUNT as usize] })
    }

    /// Puts the banks of a zone on their lists, the lowest first.
    pub fn begin(&mut self, parts: &Parts<'a, S>, zone: usize) {
        let own = parts.of_zone(zone);
        self.start = own.start;
        self.lists.begin();
        for part in own {
            self.lists.push(self.lists.head(parts.shelf_of(part) as u32), parts.place(part), End::Back);
        }
    }

    /// Returns its memory.
    pub fn footprint(&self) -> Footprint {
        // The elements of these lists are banks, and their heads are no heads of lists of blocks.
        let lists = self.lists.footprint();
        let lists = Bytes::new(lists.zones.get() + lists.frames.get());
        Footprint { zones: lists, ..Footprint::default() } + Footprint::of_zones::<Self>(1)
    }

    /// Puts a part at the head of a list.
    pub fn put_first(&mut self, part: usize, list: Shelf) {
        let place = u32::try_from(part - self.start).expect("it lies in the zone");
        self.lists.remove(place);
        self.lists.push(self.lists.head(list as u32), place, End::Front);
    }

    /// Records that a part served the last request of a list.
    pub const fn set_cached(&mut self, list: Shelf, part: usize) {
        self.cached[list as usize] = Some(part);
    }
}

/// A search of one zone for a bank with a block of an order.
pub struct Search<'s, 'a, S: Storage<'a>> {
    banks: &'s ZoneBanks<'a, S>,
    parts: &'s Parts<'a, S>,
    order: BlockOrder,
    looked_at: u64,
}

impl<'s, 'a, S: Storage<'a>> Search<'s, 'a, S> {
    pub const fn new(banks: &'s ZoneBanks<'a, S>, parts: &'s Parts<'a, S>, order: BlockOrder) -> Self {
        Self { banks, parts, order, looked_at: 0 }
    }

    /// Returns how many banks were looked at.
    pub const fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Returns the cached bank of a list if it is still on it and has room.
    pub fn cached(&mut self, list: Shelf) -> Option<usize> {
        let part = self.banks.cached[list as usize]?;
        self.looked_at += 1;
        (self.parts.shelf_of(part) == list && self.parts.has_block(part, self.order)).then_some(part)
    }

    /// Returns the first bank with room on a list.
    pub fn first(&mut self, list: Shelf) -> Option<usize> {
        self.with_room(list).next()
    }

    /// Returns the bank with room on a list that has most free frames, the lowest of several.
    pub fn with_most_free(&mut self, list: Shelf) -> Option<usize> {
        let parts = self.parts;
        self.with_room(list).max_by_key(|&part| (parts.free_of(part), Reverse(part)))
    }

    fn with_room(&mut self, list: Shelf) -> impl Iterator<Item = usize> {
        let Self { banks, parts, order, looked_at } = self;
        let on_list = banks.lists.from(banks.lists.head(list as u32), End::Front);
        let looked = on_list.map(|place| banks.start + place as usize).inspect(|_| *looked_at += 1);
        looked.filter(|&part| parts.has_block(part, *order))
    }
}
