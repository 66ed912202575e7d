//! `arrays`: what an array in leaves costs beside a contiguous one, by size of leaves, beside [Gao13, 3.3.3].
//!
//! Each loop does nothing but access the array, so this is the most that a program can lose. The figure of the works is
//! a mean over whole programs, which do other things, too. Contiguous and discontiguous arrays take turns.

use std::hint::black_box;
use std::time::Instant;

use rampart_heap::wear::FailedLines;
use rampart_heap::{HeapSettings, LeafArray, LeafSize, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, Shape};

use crate::median::MedianRange;

/// Pages of the heap.
const PAGES: usize = 16_384;

/// Numbers of elements: an array that fits the first cache of a core, one that fits the second, one that fits none.
const ELEMENTS: [u32; 3] = [2 << 10, 64 << 10, 1 << 20];

/// Accesses of a measurement: about a millisecond, so that few are interrupted.
const ACCESSES: u32 = 1 << 20;

const ROUNDS: usize = 101;

/// An array on the heap: how an element is read and written.
trait Array {
    fn read(&self, index: u32) -> u64;
    fn write(&self, index: u32, value: u64);
}

struct Contiguous<'h> {
    heap: &'h ManagedHeap<NativeModel>,
    object: ObjectRef,
    elements: u32,
}

impl Contiguous<'_> {
    #[inline]
    fn place(&self, index: u32) -> u32 {
        assert!(index < self.elements, "the array has no such element");
        NativeModel::slot(self.object, 0) + 8 * index
    }
}

impl Array for Contiguous<'_> {
    #[inline]
    fn read(&self, index: u32) -> u64 {
        self.heap.region().read_double(self.place(index))
    }

    #[inline]
    fn write(&self, index: u32, value: u64) {
        self.heap.region().write_double(self.place(index), value);
    }
}

struct InLeaves<'h> {
    heap: &'h ManagedHeap<NativeModel>,
    spine: ObjectRef,
    array: LeafArray,
}

impl Array for InLeaves<'_> {
    #[inline]
    fn read(&self, index: u32) -> u64 {
        self.array.read(self.heap.region(), self.spine, index).expect("the array has this element")
    }

    #[inline]
    fn write(&self, index: u32, value: u64) {
        self.array.write(self.heap.region(), self.spine, index, value).expect("the array has this element");
    }
}

#[derive(Clone, Copy)]
enum Loop {
    ReadInOrder,
    WriteInOrder,
    ReadAtRandom,
    /// Reads in order, and does a dozen operations with each element.
    HashInOrder,
}

impl Loop {
    const ALL: [(Self, &'static str); 4] = [
        (Self::ReadInOrder, "read in order"),
        (Self::WriteInOrder, "write in order"),
        (Self::ReadAtRandom, "read at random"),
        (Self::HashInOrder, "hash in order"),
    ];

    /// Nanoseconds per access.
    fn time(self, array: &impl Array, elements: u32) -> f64 {
        let began = Instant::now();
        match self {
            Self::ReadInOrder => {
                for _ in 0..ACCESSES / elements {
                    black_box((0..elements).map(|index| array.read(index)).fold(0, u64::wrapping_add));
                }
            }
            Self::WriteInOrder => {
                for round in 0..ACCESSES / elements {
                    (0..elements).for_each(|index| array.write(index, (index ^ round).into()));
                }
            }
            Self::HashInOrder => {
                for _ in 0..ACCESSES / elements {
                    black_box((0..elements).fold(0, |hash, index| mixed(hash ^ array.read(index))));
                }
            }
            Self::ReadAtRandom => {
                let (mut index, mut sum) = (1_u32, 0_u64);
                for _ in 0..ACCESSES {
                    // Each index is known only when the last one is: a generator that is linear.
                    index = index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    sum = sum.wrapping_add(array.read(index >> 8 & (elements - 1)));
                }
                black_box(sum);
            }
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(ACCESSES)
    }
}

/// The finalizer of SplitMix64.
const fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Memory for an object; the heap has room for all.
fn allocate(heap: &mut ManagedHeap<NativeModel>, local: &mut LocalAllocator, shape: Shape) -> ObjectRef {
    let at = heap.allocate(local, shape.size()).expect("the heap has room for all arrays");
    NativeModel::initialize(heap.region(), at, shape)
}

fn in_leaves(heap: &mut ManagedHeap<NativeModel>, local: &mut LocalAllocator, array: LeafArray) -> ObjectRef {
    let spine = allocate(heap, local, array.spine());
    for number in 0..array.leaves() {
        let at = heap.allocate(local, array.leaf(number).size()).expect("the heap has room for all arrays");
        array.attach(heap.region(), spine, number, at);
    }
    spine
}

/// Runs the bench.
pub fn run(_: &[String]) -> Result<(), String> {
    println!(
        "arrays: an access of an array in leaves / of a contiguous one; medians of {ROUNDS} rounds, with bounds of 95 %"
    );
    println!("[Gao13, 3.3.3]: below 1.13 in the mean over whole programs, with leaves of 256 B and more\n");
    println!("{:<16} {:>9} {:>14}  by bytes of leaves", "loop", "elements", "contiguous");
    for elements in ELEMENTS {
        for (kind, name) in Loop::ALL {
            compare(elements, kind, name)?;
        }
    }
    Ok(())
}

/// Prints a line: one loop over arrays of one size.
fn compare(elements: u32, kind: Loop, name: &str) -> Result<(), String> {
    let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), vec![FailedLines::NONE; PAGES])
        .map_err(|error| error.to_string())?;
    let mut local = LocalAllocator::default();
    let shape = Shape::new(0, 8 * elements).ok_or("an array that fits the heap")?;
    let object = allocate(&mut heap, &mut local, shape);
    heap.region().fill(NativeModel::slot(object, 0), 8 * elements, 0);
    let sizes = [(256, LeafSize::B256), (1024, LeafSize::B1024), (4096, LeafSize::B4096)];
    let mut arrays = Vec::new();
    for (bytes, leaf) in sizes {
        let array = LeafArray::new(elements, leaf).ok_or("a spine that fits the heap")?;
        arrays.push((bytes, array, in_leaves(&mut heap, &mut local, array)));
    }
    let contiguous = Contiguous { heap: &heap, object, elements };
    let (mut alone, mut ratios) = (Vec::new(), vec![Vec::new(); arrays.len()]);
    for _ in 0..ROUNDS {
        for ((_, array, spine), ratios) in arrays.iter().zip(&mut ratios) {
            let before = kind.time(&contiguous, elements);
            let leaves = kind.time(&InLeaves { heap: &heap, spine: *spine, array: *array }, elements);
            let after = kind.time(&contiguous, elements);
            ratios.push(2.0 * leaves / (before + after));
            alone.push(before);
        }
    }
    print!("{name:<16} {elements:>9} {:>11.2} ns", MedianRange::of(alone).median);
    for ((bytes, ..), ratios) in arrays.iter().zip(ratios) {
        let range = MedianRange::of(ratios);
        print!("  {bytes} B: {:.2} ({:.2} to {:.2})", range.median, range.low, range.high);
    }
    println!();
    Ok(())
}
