//! Objects of many sizes, of which one in eight replaces another in a table that lives on: stores of young objects into
//! an old one.

use std::ops::Range;

use crate::heap::HeapUnderTest;

/// The references of an object.
const REFERENCES: u32 = 2;

/// What a program makes.
pub struct Mix {
    /// The entries of the table.
    entries: u32,
    /// Sizes in bytes, and how many objects of a thousand have them.
    sizes: [(Range<u32>, u32); 4],
}

/// Small objects, and hardly any others.
pub const SMALL: Mix =
    Mix { entries: 50_000, sizes: [(8..72, 800), (64..256, 170), (256..3300, 28), (4096..64096, 2)] };

/// Half of the objects are medium ones.
pub const MEDIUM: Mix =
    Mix { entries: 4000, sizes: [(8..72, 328), (64..256, 170), (256..8192, 500), (8192..65536, 2)] };

/// Three of ten objects are large ones.
pub const LARGE: Mix = Mix { entries: 600, sizes: [(8..72, 500), (64..256, 170), (256..3300, 30), (8192..65536, 300)] };

/// Makes so many objects; returns a hash of the sizes that were drawn and of which entries are set in the end.
pub fn run(heap: &mut impl HeapUnderTest, objects: u64, mix: &Mix) -> u64 {
    let table = heap.allocate(mix.entries, 0);
    let table = heap.roots().push(table);
    let (mut random, mut hash) = (XorShift(88_172_645_463_325_252), 0_u64);
    for _ in 0..objects {
        let bytes = mix.draw(&mut random);
        hash = hash.rotate_left(5) ^ u64::from(bytes);
        let object = heap.allocate(REFERENCES, bytes);
        if random.below(8) != 0 {
            continue;
        }
        let entry = random.below(mix.entries);
        // The object knows its neighbour until that is replaced, but not the neighbour's: chains do not grow.
        let neighbour = heap.load(heap.roots().get(table), (entry + 1) % mix.entries);
        if neighbour != 0 {
            heap.store(neighbour, 0, 0);
            heap.store(object, 0, neighbour);
        }
        heap.store(heap.roots().get(table), entry, object);
    }
    let table = heap.roots().get(table);
    let set = (0..mix.entries).filter(|entry| heap.load(table, *entry) != 0).count();
    heap.roots().pop(1);
    hash ^ set as u64
}

impl Mix {
    fn draw(&self, random: &mut XorShift) -> u32 {
        let mut of_thousand = random.below(1000);
        for (sizes, share) in &self.sizes {
            if of_thousand < *share {
                return (sizes.start + random.below(sizes.end - sizes.start)).next_multiple_of(8);
            }
            of_thousand -= share;
        }
        unreachable!("the shares of all sizes are a thousand")
    }
}

/// Marsaglia's xorshift64*, so that all heaps get the same program.
struct XorShift(u64);

impl XorShift {
    #[inline]
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(end)) >> 32) as u32
    }
}
