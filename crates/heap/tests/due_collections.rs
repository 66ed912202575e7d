//! Which collection is due, and which objects are large.

use rampart_heap::wear::FailedLines;
use rampart_heap::{
    BLOCK_BYTES, Collection, CollectionStress, HeapBlockState, HeapSettings, LineFailure, LocalAllocator, ManagedHeap,
    NativeModel, ObjectRef, Shape,
};

struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: Vec<u32>,
}

const PAGES: usize = 256;

impl Program {
    fn new(settings: HeapSettings) -> Self {
        let heap = ManagedHeap::new(NativeModel, settings, vec![FailedLines::NONE; PAGES]).unwrap();
        Self { heap, local: LocalAllocator::default(), roots: Vec::new() }
    }

    /// An object that stays.
    fn add(&mut self, bytes: u32) -> ObjectRef {
        let shape = Shape::new(0, bytes).unwrap();
        let at = self.heap.allocate(&mut self.local, shape.size()).expect("there is room");
        let object = NativeModel::initialize(self.heap.region(), at, shape);
        self.roots.push(object.offset());
        object
    }

    fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
    }
}

/// What is due after a collection of young objects with so many percent of the heap in use.
fn due_after(percent: usize, settings: HeapSettings) -> Collection {
    let mut program = Program::new(settings);
    // Whole pages, so that hardly a line is left between objects.
    for _ in 0..PAGES * percent / 100 {
        program.add(4096 - 8);
    }
    program.collect(Collection::Nursery);
    program.heap.due()
}

#[test]
fn a_full_collection_is_due_once_one_of_young_objects_leaves_less_than_a_fifth() {
    let settings = HeapSettings::default();
    for (percent, due) in [(10, Collection::Nursery), (70, Collection::Nursery), (87, Collection::Full)] {
        assert_eq!(due_after(percent, settings), due, "{percent}");
    }
    let half = HeapSettings { full_below: 0.5, ..settings };
    assert_eq!([40, 60].map(|percent| due_after(percent, half)), [Collection::Nursery, Collection::Full]);
    let immix = HeapSettings { is_generational: false, ..settings };
    assert_eq!([10, 87].map(|percent| due_after(percent, immix)), [Collection::Full; 2]);
    let stressed = HeapSettings { stress: CollectionStress::Every(1000.try_into().unwrap()), ..settings };
    assert_eq!([10, 87].map(|percent| due_after(percent, stressed)), [Collection::Full; 2], "the second of four");
}

#[test]
fn what_is_free_between_objects_counts_as_free() {
    let mut program = Program::new(HeapSettings::default());
    while let Some(at) = program.heap.allocate(&mut program.local, 2048) {
        let shape = Shape::new(0, 2048 - 8).unwrap();
        program.roots.push(NativeModel::initialize(program.heap.region(), at, shape).offset());
    }
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.due(), Collection::Full);
    let mut number = 0;
    program.roots.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    program.collect(Collection::Full);
    let blocks = program.heap.snapshot();
    assert!(blocks.iter().filter(|block| block.state == HeapBlockState::Recyclable).count() > 20, "they have holes");
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.due(), Collection::Nursery, "half of the heap is free");
}

#[test]
fn a_full_collection_that_leaves_little_is_not_followed_by_another() {
    let mut program = Program::new(HeapSettings::default());
    for _ in 0..PAGES * 87 / 100 {
        program.add(4096 - 8);
    }
    program.collect(Collection::Full);
    assert_eq!(program.heap.due(), Collection::Nursery);
}

#[test]
fn a_full_collection_is_due_once_data_is_lost_or_an_old_object_lies_on_a_failed_line() {
    let mut program = Program::new(HeapSettings::default());
    let (first, second) = (program.add(200), program.add(30_000));
    assert_eq!(program.heap.lose_line(0, &mut [&mut program.local]), LineFailure::NotThere);
    assert_eq!(program.heap.due(), Collection::Nursery);
    assert_eq!(program.heap.lose_line(second.offset(), &mut [&mut program.local]), LineFailure::Lost);
    assert_eq!(program.heap.due(), Collection::Full);
    program.collect(Collection::Full);
    assert_eq!(program.heap.due(), Collection::Nursery);
    assert!(program.roots[1] >= rampart_heap::LOST, "the large one is lost");
    let old = program.roots[0];
    assert_ne!(old, 0, "the first one, at {} before, is there", first.offset());
    let failure = program.heap.fail_line(old, &mut [&mut program.local]);
    assert!(matches!(failure, LineFailure::InUse(_, Collection::Full)), "{failure:?}");
    assert_eq!((program.heap.due(), program.heap.vacating()), (Collection::Full, Some(Collection::Full)));
}

#[test]
fn a_line_with_a_young_object_waits_for_a_collection_of_young_objects_only() {
    let mut program = Program::new(HeapSettings::default());
    let young = program.add(200);
    let failure = program.heap.fail_line(young.offset(), &mut [&mut program.local]);
    assert!(matches!(failure, LineFailure::InUse(_, Collection::Nursery)), "{failure:?}");
    assert_eq!((program.heap.due(), program.heap.vacating()), (Collection::Nursery, Some(Collection::Nursery)));
    program.collect(Collection::Nursery);
    assert_eq!((program.heap.vacating(), program.heap.verify(program.roots.clone()).unwrap().objects), (None, 1));
}

#[test]
fn an_object_of_more_than_half_a_block_is_large_whatever_the_settings_say() {
    let mut program = Program::new(HeapSettings { large_above: u32::MAX, ..HeapSettings::default() });
    let small = program.add(BLOCK_BYTES / 2 - 8);
    let large = [BLOCK_BYTES / 2, BLOCK_BYTES, 3 * BLOCK_BYTES].map(|bytes| program.add(bytes));
    program.collect(Collection::Full);
    assert!(large.iter().all(|object| program.roots.contains(&object.offset())), "large objects do not move");
    assert!(large.iter().all(|object| object.offset() % 4096 == 0 && object.offset() > small.offset()));
    assert_eq!(program.heap.demand().requested, 4 + 1 + 8 + 1 + 24 + 1, "pages, with a header of 8 bytes each");
    assert_eq!(program.heap.verify(program.roots.clone()).unwrap().objects, 4);
}

#[test]
fn under_stress_there_is_no_room_before_a_collection_and_else_there_is() {
    let every = |most: u32| CollectionStress::Every(most.try_into().unwrap());
    for (stress, most) in [(CollectionStress::EACH, 1), (every(3), 3), (CollectionStress::Off, 20)] {
        let mut program = Program::new(HeapSettings { stress, ..HeapSettings::default() });
        for _ in 0..3 {
            // Large ones count, too.
            (1..=most).map(|number| 20_000 * (number % 2) + 16).for_each(|bytes| _ = program.add(bytes));
            let next = program.heap.allocate(&mut program.local, 32);
            assert_eq!(next.is_none(), stress != CollectionStress::Off);
            program.roots.clear();
            program.collect(Collection::Full);
        }
    }
}

#[test]
fn the_largest_object_for_blocks_is_none_of_the_large_ones_under_stress_either() {
    for stress in [CollectionStress::Off, CollectionStress::Every(100.try_into().unwrap())] {
        let mut program = Program::new(HeapSettings { stress, ..HeapSettings::default() });
        program.add(HeapSettings::default().large_above - 8);
        assert_eq!(program.heap.demand().requested, 0, "{stress:?}");
        program.add(HeapSettings::default().large_above);
        assert_eq!(program.heap.demand().requested, 3, "{stress:?}");
    }
}
