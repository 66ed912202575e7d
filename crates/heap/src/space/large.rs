//! Large objects: each on perfect pages of its own, wherever these are [Gao13, 3.3.3].

use std::collections::BTreeMap;

use super::free_addresses::FreeAddresses;
use crate::geometry::{ObjectRef, PAGE, narrow};
use crate::memory::{HeapMemory, NotMapped};
use crate::pools::HeapPage;

/// The large objects, and the addresses that are free for more.
#[derive(Debug)]
pub(crate) struct LargeObjects {
    first: u32,
    free: FreeAddresses,
    objects: BTreeMap<u32, Vec<HeapPage>>,
    /// Those that came since the last collection.
    young: Vec<u32>,
}

impl LargeObjects {
    /// Addresses from `first` to the end of the region.
    pub fn new(first: u32, end: u64) -> Self {
        let pages = u32::try_from((end - u64::from(first)) / u64::from(PAGE)).expect("pages of 4 GiB");
        Self { first, free: FreeAddresses::new(first, pages), objects: BTreeMap::new(), young: Vec::new() }
    }

    /// Where they begin.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Behind the last one.
    pub fn end(&self) -> u32 {
        self.objects.last_key_value().map_or(self.first, |(at, pages)| at + narrow(pages.len()) * PAGE)
    }

    /// Whether it is one of these objects.
    #[inline]
    pub const fn contains(&self, object: ObjectRef) -> bool {
        object.offset() >= self.first
    }

    /// Puts an object on these pages; `None` if no addresses are free, with the pages back.
    pub fn put(&mut self, pages: Vec<HeapPage>) -> Result<u32, Vec<HeapPage>> {
        let Some(at) = self.free.take(narrow(pages.len())) else { return Err(pages) };
        self.objects.insert(at, pages);
        self.young.push(at);
        Ok(at)
    }

    /// Puts the pages of an object below it.
    pub fn map(&self, at: u32, memory: &mut dyn HeapMemory) -> Result<(), NotMapped> {
        memory.map_imperfect(at, &self.objects[&at])
    }

    /// Takes an object away that has just been put there; returns its pages.
    pub fn take_back(&mut self, at: u32) -> Vec<HeapPage> {
        self.young.retain(|young| *young != at);
        self.remove(at)
    }

    fn remove(&mut self, at: u32) -> Vec<HeapPage> {
        let pages = self.objects.remove(&at).expect("an object that was put there");
        self.free.release(at, narrow(pages.len()));
        pages
    }

    /// Ends a collection: removes the objects that did not survive, of all or of the young ones, and returns where they
    /// were, and their pages.
    pub fn sweep(&mut self, all: bool, survives: impl Fn(ObjectRef) -> bool) -> Vec<(u32, Vec<HeapPage>)> {
        let young = std::mem::take(&mut self.young);
        let looked_at = if all { self.objects.keys().copied().collect() } else { young };
        let mut swept = Vec::new();
        for at in looked_at {
            if ObjectRef::new(at).is_some_and(&survives) {
                continue;
            }
            swept.push((at, self.remove(at)));
        }
        swept
    }

    /// The objects, by their offsets, and how many pages they have.
    pub fn objects(&self) -> impl Iterator<Item = (u32, u32)> {
        self.objects.iter().map(|(at, pages)| (*at, narrow(pages.len())))
    }

    /// Where a page is.
    pub fn place_of(&self, page: HeapPage) -> Option<u32> {
        let find = |(at, pages): (&u32, &Vec<HeapPage>)| {
            let place = pages.iter().position(|there| *there == page)?;
            Some(at + narrow(place) * PAGE)
        };
        self.objects.iter().find_map(find)
    }

    /// The object at an offset.
    pub fn object_at(&self, offset: u32) -> Option<ObjectRef> {
        let (at, pages) = self.objects.range(..=offset).next_back()?;
        ObjectRef::new(*at).filter(|_| offset - at < narrow(pages.len()) * PAGE)
    }

    /// The pages of an object; `None` if it is not there.
    pub fn pages_of(&self, object: ObjectRef) -> Option<&[HeapPage]> {
        self.objects.get(&object.offset()).map(|pages| &pages[..])
    }

    /// The page of an object at an offset.
    pub fn page_mut(&mut self, offset: u32) -> Option<&mut HeapPage> {
        let (at, pages) = self.objects.range_mut(..=offset).next_back()?;
        pages.get_mut(((offset - at) / PAGE) as usize)
    }

    /// How many pages they have.
    pub fn pages(&self) -> usize {
        self.objects.values().map(Vec::len).sum()
    }

    /// About the bytes of the tables.
    pub fn metadata_bytes(&self) -> u64 {
        let entries = 2 * self.objects.len() + self.young.len();
        let pages = self.pages() * size_of::<HeapPage>();
        (self.free.metadata_bytes() + entries * 2 * size_of::<u64>() + pages) as u64
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
                    let put = large.put(vec![HeapPage::Borrowed; count]);
                    prop_assert_eq!(put.ok(), first.map(place));
                    first.into_iter().for_each(|first| there[first..first + count].fill(Some(first)));
                } else if let Some(first) = there.iter().flatten().nth(chosen).copied() {
                    let pages = large.take_back(place(first));
                    prop_assert_eq!(pages.len(), there.iter().filter(|page| **page == Some(first)).count());
                    there.iter_mut().filter(|page| **page == Some(first)).for_each(|page| *page = None);
                }
                let end = there.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                prop_assert_eq!(large.end(), place(end));
                prop_assert_eq!(large.pages(), there.iter().flatten().count());
                for (page, within) in (0..PAGES).flat_map(|page| [0, 100, PAGE - 1].map(|within| (page, within))) {
                    let (first, at) = (there[page], place(page) + within);
                    prop_assert_eq!(large.object_at(at).map(ObjectRef::offset), first.map(place));
                    prop_assert_eq!(large.page_mut(at).is_some(), first.is_some());
                }
            }
        }
    }
}
