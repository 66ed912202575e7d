//! Finds what is already in a table.
//!
//! **Problem.** Each operation asks whether its message or its shape is in a table. A map with the entries as keys
//! would keep each of them twice. **Idea.** A hash table of places in the table; who asks compares the entries.

use std::hash::{BuildHasher, Hash, RandomState};

/// No place.
const NONE: u32 = u32::MAX;

/// The places of a table's entries, by the hashes of these. Hashes are seeded: no file can be made to collide.
#[derive(Debug, Default)]
pub(super) struct Interner {
    seed: RandomState,
    /// A hash, and the place of its entry; a power of two of them, at most half of them used.
    slots: Vec<(u32, u32)>,
    used: usize,
}

impl Interner {
    /// The place of this entry; `is` compares it with the one at a place. If the table lacks it, `end` is returned,
    /// where the caller puts it.
    pub fn find<T: Hash + ?Sized>(&mut self, entry: &T, end: u32, is: impl Fn(u32) -> bool) -> u32 {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one, too")]
        let hash = self.seed.hash_one(entry) as u32;
        let slot = self.slot(hash, is);
        if self.slots[slot].1 == NONE {
            self.slots[slot] = (hash, end);
            self.used += 1;
        }
        self.slots[slot].1
    }

    /// The slot of an entry, or the empty one for it.
    fn slot(&self, hash: u32, is: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot].1 != NONE && !(self.slots[slot].0 == hash && is(self.slots[slot].1)) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(64);
        let before = std::mem::replace(&mut self.slots, vec![(0, NONE); size]);
        for (hash, place) in before.into_iter().filter(|(_, place)| *place != NONE) {
            let slot = self.slot(hash, |_| false);
            self.slots[slot] = (hash, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_map_finds(entries in proptest::collection::vec(0..500_u32, 0..1000)) {
            let (mut interner, mut table, mut map) = (Interner::default(), Vec::new(), HashMap::new());
            for entry in entries {
                let end = u32::try_from(table.len()).unwrap();
                let place = interner.find(&entry, end, |place| table[place as usize] == entry);
                prop_assert_eq!(place, *map.entry(entry).or_insert(end));
                if place == end {
                    table.push(entry);
                }
            }
        }
    }
}
