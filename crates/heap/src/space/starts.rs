//! Where old objects begin: a bit for each place in the blocks where one can.
//!
//! A nursery collection must find the old objects that overlap a dirty card. It cannot walk from object to object, as
//! dead ones lie between them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::geometry::{BLOCK_BYTES, ObjectRef};

const BITS: u32 = u64::BITS;

/// The bits.
#[derive(Debug)]
pub(crate) struct ObjectStarts {
    words: Vec<AtomicU64>,
    /// The binary logarithm of what objects are aligned to.
    shift: u32,
}

impl ObjectStarts {
    /// No object begins in so many blocks. Those that will are aligned to `align`, a power of two.
    pub fn new(blocks: usize, align: u32) -> Self {
        let words = blocks * (BLOCK_BYTES / align / BITS) as usize;
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), shift: align.trailing_zeros() }
    }

    /// An old object is here. No other thread inserts at the same time.
    #[inline]
    pub fn insert(&self, object: ObjectRef) {
        let (word, bit) = self.place(object);
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
    }

    /// An old object is here.
    pub fn insert_among_others(&self, object: ObjectRef) {
        let (word, bit) = self.place(object);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether an old object is here.
    #[inline]
    pub fn contains(&self, object: ObjectRef) -> bool {
        let (word, bit) = self.place(object);
        word.load(Ordering::Relaxed) & bit != 0
    }

    #[inline]
    fn place(&self, object: ObjectRef) -> (&AtomicU64, u64) {
        let granule = object.offset() >> self.shift;
        (&self.words[(granule / BITS) as usize], 1 << (granule % BITS))
    }

    /// How many places for objects begin before an offset.
    const fn granules_below(&self, offset: u32) -> u32 {
        offset.div_ceil(1 << self.shift)
    }

    #[inline]
    fn word(&self, number: u32) -> u64 {
        self.words[number as usize].load(Ordering::Relaxed)
    }

    /// A full collection begins, which will find those that are left.
    pub fn clear(&mut self) {
        self.words.iter_mut().for_each(|word| *word.get_mut() = 0);
    }

    /// The objects that begin from an offset on, before another.
    pub fn within(&self, from: u32, end: u32) -> impl Iterator<Item = ObjectRef> {
        let granules = self.granules_below(from)..self.granules_below(end);
        let words = granules.start / BITS..granules.end.div_ceil(BITS);
        words.flat_map(move |word| {
            let mut bits = self.word(word);
            if word == granules.start / BITS {
                bits &= u64::MAX << (granules.start % BITS);
            }
            if word == granules.end / BITS {
                bits &= !(u64::MAX << (granules.end % BITS));
            }
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.checked_sub(1)?;
                ObjectRef::new((word * BITS + bit) << self.shift)
            })
        })
    }

    /// The last object that begins before an offset in its block.
    pub fn last_before(&self, offset: u32) -> Option<ObjectRef> {
        let first = offset / BLOCK_BYTES * (BLOCK_BYTES >> self.shift);
        let end = self.granules_below(offset);
        let mut word = end / BITS;
        let mut bits = match end % BITS {
            0 => 0,
            part => self.word(word) & !(u64::MAX << part),
        };
        while bits == 0 {
            if word == first / BITS {
                return None;
            }
            word -= 1;
            bits = self.word(word);
        }
        ObjectRef::new((word * BITS + BITS - 1 - bits.leading_zeros()) << self.shift)
    }

    /// The bytes of the table.
    pub const fn metadata_bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_offsets(
            (align, objects) in prop_oneof![Just(8), Just(16)].prop_flat_map(|align| {
                (Just(align), prop::collection::btree_set(1..3 * BLOCK_BYTES / align, 0..200))
            }),
            from in 0_u32..3 * BLOCK_BYTES,
            bytes in 0_u32..BLOCK_BYTES,
        ) {
            let objects: BTreeSet<u32> = objects.into_iter().map(|granule| granule * align).collect();
            let starts = ObjectStarts::new(3, align);
            objects.iter().for_each(|object| starts.insert(ObjectRef::new(*object).unwrap()));
            let granules = (1..3 * BLOCK_BYTES / align).map(|granule| granule * align);
            let contained = granules.filter(|offset| starts.contains(ObjectRef::new(*offset).unwrap()));
            prop_assert_eq!(contained.collect::<BTreeSet<_>>(), objects.clone());
            let end = (from + bytes).min(3 * BLOCK_BYTES);
            let within: Vec<u32> = starts.within(from, end).map(ObjectRef::offset).collect();
            prop_assert_eq!(within, objects.range(from..end).copied().collect::<Vec<_>>());
            let block = from / BLOCK_BYTES * BLOCK_BYTES;
            let before = objects.range(block..from).next_back().copied();
            prop_assert_eq!(starts.last_before(from).map(ObjectRef::offset), before);
        }
    }
}
