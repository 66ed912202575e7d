//! Programs with one thread on a heap of native objects.

mod compensated;
mod dirty_cards;
mod due_collections;
mod leaf_arrays;
mod lost_data;
mod out_of_memory;
mod placement;
mod tables;

use rampart_heap::wear::{ClusterBytes, FailedLines, FailureShare, draw_failures};
use rampart_heap::{Collection, HeapSettings, LineFailure, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, Shape};

/// The bytes of an object before its references.
const HEADER: u32 = 8;

struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    /// The references that it holds outside of the heap.
    roots: Vec<u32>,
}

/// Pages of which this share of the lines has failed.
fn drawn(pages: usize, share: f64, seed: u64) -> Vec<FailedLines> {
    draw_failures(pages, FailureShare::new(share).unwrap(), ClusterBytes::LINE, seed)
}

impl Program {
    fn new(settings: HeapSettings, failed: Vec<FailedLines>) -> Self {
        let heap = ManagedHeap::new(NativeModel, settings, failed).unwrap();
        Self { heap, local: LocalAllocator::default(), roots: Vec::new() }
    }

    /// Memory, after collections if need be; `None` if it is out.
    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        self.heap.allocate_or_collect(&mut self.local, bytes, &mut self.roots)
    }

    /// An object in such memory, which nothing holds yet.
    fn make(&mut self, shape: Shape) -> Option<ObjectRef> {
        let at = self.allocate(shape.size())?;
        Some(NativeModel::initialize(self.heap.region(), at, shape))
    }

    /// An object that it holds, if there is room without a collection; its offset.
    fn try_add(&mut self, shape: Shape) -> Option<u32> {
        let at = self.heap.allocate(&mut self.local, shape.size())?;
        self.roots.push(NativeModel::initialize(self.heap.region(), at, shape).offset());
        Some(at)
    }

    /// An object that it holds, for which there is room without a collection; the number of the root.
    fn add(&mut self, references: u32, bytes: u32) -> usize {
        self.try_add(Shape::new(references, bytes).unwrap()).expect("there is room");
        self.roots.len() - 1
    }

    /// Adds objects of `size` bytes, with their headers, until there is no room without a collection; how many.
    fn fill(&mut self, size: u32) -> usize {
        let shape = Shape::new(0, size - HEADER).unwrap();
        std::iter::from_fn(|| self.try_add(shape)).count()
    }

    /// Keeps roots by their numbers, from 0.
    fn keep(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut numbers = 0..;
        self.roots.retain(|_| numbers.next().is_some_and(&is_kept));
    }

    /// Keeps every second root.
    fn thin_out(&mut self) {
        self.keep(|number| number % 2 == 1);
    }

    fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
    }

    fn fail(&mut self, offset: u32) -> LineFailure {
        self.heap.fail_line(offset, &mut [&mut self.local])
    }

    fn lose(&mut self, offset: u32) -> LineFailure {
        self.heap.lose_line(offset, &mut [&mut self.local])
    }

    /// How many objects a sound heap has.
    fn objects(&self) -> u64 {
        self.heap.verify(self.roots.iter().copied()).unwrap().objects
    }
}
