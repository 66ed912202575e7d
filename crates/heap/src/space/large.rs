//! Large objects: each on perfect pages of its own, wherever these are [Gao13, 3.3.3].
//!
//! One table says which page lies below each address, so no object has a list of pages of its own. So that it stays
//! short, objects take the first addresses that are free.

use std::collections::BTreeMap;
use std::ops::Range;

use super::free_addresses::FreeAddresses;
use crate::geometry::{ObjectRef, PAGE, narrow};
use crate::pools::HeapPage;

/// The large objects, and the addresses that are free for more.
#[derive(Debug)]
pub(crate) struct LargeObjects {
    first: u32,
    free: FreeAddresses,
    /// The objects, and how many pages they have.
    objects: BTreeMap<u32, u32>,
    /// The page below each address, up to the highest that was ever used; where no object is, the entry means nothing.
    below: Vec<HeapPage>,
    /// Those that came since the last collection.
    young: Vec<u32>,
}

impl LargeObjects {
    /// Addresses from `first` to the end of the region.
    pub fn new(first: u32, end: u64) -> Self {
        let pages = u32::try_from((end - u64::from(first)) / u64::from(PAGE)).expect("pages of 4 GiB");
        let free = FreeAddresses::new(first, pages);
        Self { first, free, objects: BTreeMap::new(), below: Vec::new(), young: Vec::new() }
    }

    /// Where they begin.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Behind the last one.
    pub fn end(&self) -> u32 {
        self.objects.last_key_value().map_or(self.first, |(at, pages)| at + pages * PAGE)
    }

    /// Whether it is one of these objects.
    #[inline]
    pub const fn contains(&self, object: ObjectRef) -> bool {
        object.offset() >= self.first
    }

    /// Where the pages of an object are in the table.
    fn places(&self, at: u32, pages: u32) -> Range<usize> {
        let first = ((at - self.first) / PAGE) as usize;
        first..first + pages as usize
    }

    /// A place for an object of so many pages, and its entries in the table, which the caller must fill in. `None` if
    /// no addresses are free.
    #[inline]
    pub fn put(&mut self, pages: u32) -> Option<(u32, &mut [HeapPage])> {
        let at = self.free.take(pages)?;
        self.objects.insert(at, pages);
        self.young.push(at);
        let places = self.places(at, pages);
        if self.below.len() < places.end {
            self.below.resize(places.end, HeapPage::Borrowed);
        }
        Some((at, &mut self.below[places]))
    }

    /// Takes an object away that has just been put there.
    pub fn take_back(&mut self, at: u32) {
        self.young.retain(|young| *young != at);
        let pages = self.objects.remove(&at).expect("an object that was put there");
        self.free.release(at, pages);
    }

    /// Ends a collection: removes the objects that did not survive, of all or of the young ones. Calls `swept` for
    /// each, with its place and its pages.
    pub fn sweep(&mut self, all: bool, survives: impl Fn(ObjectRef) -> bool, mut swept: impl FnMut(u32, &[HeapPage])) {
        let young = std::mem::take(&mut self.young);
        let looked_at = if all { self.objects.keys().copied().collect() } else { young };
        for at in looked_at {
            if ObjectRef::new(at).is_some_and(&survives) {
                continue;
            }
            let pages = self.objects.remove(&at).expect("an object that was put there");
            self.free.release(at, pages);
            swept(at, &self.below[self.places(at, pages)]);
        }
    }

    /// The objects, by their offsets, and how many pages they have.
    pub fn objects(&self) -> impl Iterator<Item = (u32, u32)> {
        self.objects.iter().map(|(at, pages)| (*at, *pages))
    }

    /// Where a page is.
    pub fn place_of(&self, page: HeapPage) -> Option<u32> {
        self.objects().find_map(|(at, pages)| {
            let place = self.below[self.places(at, pages)].iter().position(|there| *there == page)?;
            Some(at + narrow(place) * PAGE)
        })
    }

    /// The object at an offset.
    pub fn object_at(&self, offset: u32) -> Option<ObjectRef> {
        let (at, pages) = self.objects.range(..=offset).next_back()?;
        ObjectRef::new(*at).filter(|_| offset - at < pages * PAGE)
    }

    /// The pages of an object; `None` if it is not there.
    pub fn pages_of(&self, object: ObjectRef) -> Option<&[HeapPage]> {
        let pages = self.objects.get(&object.offset())?;
        Some(&self.below[self.places(object.offset(), *pages)])
    }

    /// The page of an object at an offset.
    pub fn page_mut(&mut self, offset: u32) -> Option<&mut HeapPage> {
        self.object_at(offset)?;
        Some(&mut self.below[((offset - self.first) / PAGE) as usize])
    }

    /// How many pages they have.
    pub fn pages(&self) -> usize {
        self.objects.values().map(|pages| *pages as usize).sum()
    }

    /// About the bytes of the tables.
    pub fn metadata_bytes(&self) -> u64 {
        // The nodes of a tree are about half full, so it takes about twice the bytes of its entries.
        let objects = 2 * self.objects.len() * size_of::<(u32, u32)>();
        let young = self.young.capacity() * size_of::<u32>();
        let below = self.below.capacity() * size_of::<HeapPage>();
        (self.free.metadata_bytes() + objects + young + below) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 64;
    const FIRST: u32 = 1 << 20;

    fn place(page: usize) -> u32 {
        FIRST + narrow(page) * PAGE
    }

    proptest! {
        #[test]
        fn objects_lie_at_the_first_free_addresses_that_are_contiguous(
            steps in prop::collection::vec((1_usize..12, 0_usize..100, prop::bool::ANY), 1..200),
        ) {
            let mut large = LargeObjects::new(FIRST, u64::from(place(PAGES)));
            // The same, page by page: the object that is there, by its first page.
            let mut there: [Option<usize>; PAGES] = [None; PAGES];
            for (count, chosen, is_put) in steps {
                if is_put {
                    let first = there.windows(count).position(|pages| pages.iter().all(Option::is_none));
                    let put = large.put(narrow(count)).map(|(at, pages)| {
                        pages.fill(HeapPage::own(at / PAGE));
                        (at, pages.len())
                    });
                    prop_assert_eq!(put, first.map(|first| (place(first), count)));
                    first.into_iter().for_each(|first| there[first..first + count].fill(Some(first)));
                } else if let Some(first) = there.iter().flatten().nth(chosen).copied() {
                    let pages = large.pages_of(ObjectRef::new(place(first)).unwrap()).map(<[_]>::len);
                    prop_assert_eq!(pages, Some(there.iter().filter(|page| **page == Some(first)).count()));
                    large.take_back(place(first));
                    there.iter_mut().filter(|page| **page == Some(first)).for_each(|page| *page = None);
                }
                let end = there.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                prop_assert_eq!(large.end(), place(end));
                prop_assert_eq!(large.pages(), there.iter().flatten().count());
                for (page, within) in (0..PAGES).flat_map(|page| [0, 100, PAGE - 1].map(|within| (page, within))) {
                    let (first, at) = (there[page], place(page) + within);
                    prop_assert_eq!(large.object_at(at).map(ObjectRef::offset), first.map(place));
                    let below = large.page_mut(at).copied();
                    prop_assert_eq!(below, first.map(|first| HeapPage::own(place(first) / PAGE)));
                }
            }
        }
    }
}
