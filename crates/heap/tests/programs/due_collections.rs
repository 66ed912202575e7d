//! Which collection is due, and which objects are large.

use rampart_heap::wear::FailedLines;
use rampart_heap::{BLOCK_BYTES, Collection, CollectionStress, HeapBlockState, HeapSettings, LineFailure};

use super::Program;

const PAGES: usize = 256;

/// On a heap on which nothing has failed.
fn start(settings: HeapSettings) -> Program {
    Program::new(settings, vec![FailedLines::NONE; PAGES])
}

/// What is due after a collection of young objects with so many percent of the heap in use.
fn due_after(percent: usize, settings: HeapSettings) -> Collection {
    let mut program = start(settings);
    // Whole pages, so that hardly a line is left between objects.
    for _ in 0..PAGES * percent / 100 {
        program.add(0, 4096 - 8);
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
fn a_full_collection_stays_due_until_an_old_object_has_left_its_failed_line() {
    let mut program = start(HeapSettings::default());
    let object = program.add(1, 200);
    program.collect(Collection::Full);
    let at = program.roots[object];
    assert!(matches!(program.fail(at), LineFailure::InUse(_, Collection::Full)));
    program.collect(Collection::Nursery);
    assert_eq!((program.heap.due(), program.roots[object]), (Collection::Full, at));
    program.collect(Collection::Full);
    assert_ne!((program.heap.due(), program.roots[object]), (Collection::Full, at));
}

#[test]
fn what_is_free_between_objects_counts_as_free() {
    let mut program = start(HeapSettings::default());
    program.fill(2048);
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.due(), Collection::Full);
    program.thin_out();
    program.collect(Collection::Full);
    let blocks = program.heap.snapshot();
    assert!(blocks.iter().filter(|block| block.state == HeapBlockState::Recyclable).count() > 20, "they have holes");
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.due(), Collection::Nursery, "half of the heap is free");
}

#[test]
fn what_is_free_counts_as_used_if_the_program_got_no_memory_for_an_object_there() {
    // Between objects of 2 KiB, there is room neither for objects of 8 KiB nor for the pages of large ones.
    for bytes in [8192, 12_288] {
        let mut program = start(HeapSettings::default());
        program.fill(2048);
        program.thin_out();
        program.collect(Collection::Full);
        program.fill(bytes);
        program.collect(Collection::Nursery);
        let blocks = program.heap.snapshot();
        let with_holes = blocks.iter().filter(|block| block.state == HeapBlockState::Recyclable).count();
        assert!(with_holes > 20, "much is free");
        assert_eq!(program.heap.due(), Collection::Full, "{bytes}");
    }
}

/// What is due after a full collection of objects of 2 KiB that fill a heap, and of which one in `gone` is gone.
/// Before, an object of 8 KiB was wanted, or not.
fn due_after_holes(failed: Vec<FailedLines>, gone: usize, is_wanted: bool) -> Collection {
    let mut program = Program::new(HeapSettings::default(), failed);
    program.fill(2048);
    program.keep(|number| (number + 1) % gone > 0);
    program.collect(Collection::Full);
    let found = if is_wanted { program.fill(8192) } else { 0 };
    assert!(found < 4, "{found}");
    program.collect(Collection::Full);
    program.heap.due()
}

#[test]
fn a_compacting_collection_is_due_once_an_eighth_lies_in_holes_that_are_too_short() {
    let none = vec![FailedLines::NONE; PAGES];
    assert_eq!(
        [7, 10].map(|gone| due_after_holes(none.clone(), gone, true)),
        [Collection::Compacting, Collection::Nursery]
    );
    assert_eq!(due_after_holes(none, 7, false), Collection::Nursery);
    // Here these objects lie on borrowed pages, for each of which the heap pays with two of its own.
    let every_second = vec![FailedLines::from_bits(0x5555_5555_5555_5555); PAGES];
    assert_eq!(due_after_holes(every_second.clone(), 7, true), Collection::Compacting);
    assert_eq!(due_after_holes(every_second, 7, false), Collection::Nursery);
}

#[test]
fn what_is_set_aside_for_collections_does_not_count_as_holes() {
    // Of 48 pages, a block: a sixth.
    assert_eq!(due_after_holes(vec![FailedLines::NONE; 48], usize::MAX, true), Collection::Nursery);
}

#[test]
fn what_was_allocated_of_a_block_that_others_may_use_does_not_count_as_free() {
    let mut program = start(HeapSettings::default());
    // Four fit a block, and what is left of it is shared.
    for round in 0..4 {
        assert!(program.fill(7 << 10) > 100);
        program.roots.clear();
        program.collect(Collection::Nursery);
        assert_eq!(program.heap.due(), Collection::Nursery, "all is usable again after round {round}");
    }
}

#[test]
fn collections_of_young_objects_that_find_few_go_on_although_little_is_free() {
    let mut program = start(HeapSettings::default());
    // Nine of ten pages are in use, by many objects, which a full collection would mark again.
    for _ in 0..PAGES * 9 / 10 * 16 {
        program.add(0, 256 - 8);
    }
    program.collect(Collection::Full);
    let old = program.roots.len();
    for (young, due) in [(0, Collection::Nursery), (0, Collection::Nursery), (usize::MAX, Collection::Full)] {
        program.fill(256);
        program.roots.truncate(old.saturating_add(young));
        program.collect(Collection::Nursery);
        assert_eq!(program.heap.due(), due);
    }
}

#[test]
fn a_full_collection_that_leaves_little_is_not_followed_by_another() {
    let mut program = start(HeapSettings::default());
    for _ in 0..PAGES * 87 / 100 {
        program.add(0, 4096 - 8);
    }
    program.collect(Collection::Full);
    assert_eq!(program.heap.due(), Collection::Nursery);
}

#[test]
fn a_full_collection_is_due_once_data_is_lost_or_an_old_object_lies_on_a_failed_line() {
    let mut program = start(HeapSettings::default());
    let [first, second] = [200, 30_000].map(|bytes| program.add(0, bytes));
    let before = program.roots[first];
    assert_eq!(program.lose(0), LineFailure::NotThere);
    assert_eq!(program.heap.due(), Collection::Nursery);
    assert_eq!(program.lose(program.roots[second]), LineFailure::Lost);
    assert_eq!(program.heap.due(), Collection::Full);
    program.collect(Collection::Full);
    assert_eq!(program.heap.due(), Collection::Nursery);
    assert!(program.roots[second] >= rampart_heap::LOST, "the large one is lost");
    let old = program.roots[first];
    assert_ne!(old, 0, "the first one, at {before} before, is there");
    let failure = program.fail(old);
    assert!(matches!(failure, LineFailure::InUse(_, Collection::Full)), "{failure:?}");
    assert_eq!((program.heap.due(), program.heap.vacating()), (Collection::Full, Some(Collection::Full)));
}

#[test]
fn a_line_with_a_young_object_waits_for_a_collection_of_young_objects_only() {
    let mut program = start(HeapSettings::default());
    let young = program.add(0, 200);
    let failure = program.fail(program.roots[young]);
    assert!(matches!(failure, LineFailure::InUse(_, Collection::Nursery)), "{failure:?}");
    assert_eq!((program.heap.due(), program.heap.vacating()), (Collection::Nursery, Some(Collection::Nursery)));
    program.collect(Collection::Nursery);
    assert_eq!((program.heap.vacating(), program.objects()), (None, 1));
}

#[test]
fn an_object_of_more_than_half_a_block_is_large_whatever_the_settings_say() {
    let mut program = start(HeapSettings { large_above: u32::MAX, ..HeapSettings::default() });
    let small = program.add(0, BLOCK_BYTES / 2 - 8);
    let large = [BLOCK_BYTES / 2, BLOCK_BYTES, 3 * BLOCK_BYTES].map(|bytes| program.add(0, bytes));
    let before = program.roots.clone();
    program.collect(Collection::Full);
    assert!(large.iter().all(|large| program.roots[*large] == before[*large]), "large objects do not move");
    assert!(large.iter().all(|large| before[*large].is_multiple_of(4096) && before[*large] > before[small]));
    assert_eq!(program.heap.demand().requested, 4 + 1 + 8 + 1 + 24 + 1, "pages, with a header of 8 bytes each");
    assert_eq!(program.objects(), 4);
}

#[test]
fn under_stress_there_is_no_room_before_a_collection_and_else_there_is() {
    let every = |most: u32| CollectionStress::Every(most.try_into().unwrap());
    for (stress, most) in [(CollectionStress::EACH, 1), (every(3), 3), (CollectionStress::Off, 20)] {
        let mut program = start(HeapSettings { stress, ..HeapSettings::default() });
        for _ in 0..3 {
            // Large ones count, too.
            (1..=most).map(|number| 20_000 * (number % 2) + 16).for_each(|bytes| _ = program.add(0, bytes));
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
        let mut program = start(HeapSettings { stress, ..HeapSettings::default() });
        program.add(0, HeapSettings::default().large_above - 8);
        assert_eq!(program.heap.demand().requested, 0, "{stress:?}");
        program.add(0, HeapSettings::default().large_above);
        assert_eq!(program.heap.demand().requested, 3, "{stress:?}");
    }
}
