//! What counts as the collector's own data.

use rampart_heap::wear::FailedLines;
use rampart_heap::{Collection, HeapSettings, NativeModel, Shape};

use super::Program;

/// On perfect pages.
fn start(is_generational: bool) -> Program {
    let settings = HeapSettings { is_generational, ..HeapSettings::default() };
    Program::new(settings, vec![FailedLines::NONE; 256])
}

#[test]
fn the_largest_stack_of_markers_counts_from_the_collection_that_needed_it() {
    let mut program = start(true);
    let table = program.add(1000, 0);
    for number in 0..1000 {
        let object = program.make(Shape::new(0, 8).unwrap()).unwrap().offset();
        let table = rampart_heap::ObjectRef::new(program.roots[table]).unwrap();
        program.heap.region().write(NativeModel::slot(table, number), object);
    }
    let before = program.heap.metadata_bytes();
    program.collect(Collection::Full);
    let stack = program.heap.counts().most_stack_bytes;
    assert!((4000..16_000).contains(&stack), "a reference for each of 1000 objects: {stack} bytes");
    assert!(program.heap.metadata_bytes() >= before + stack);
    program.roots.clear();
    program.collect(Collection::Full);
    assert_eq!(program.heap.counts().most_stack_bytes, stack);
}

#[test]
fn cards_count_where_young_objects_are_collected_by_themselves() {
    let [sticky, immix] = [true, false].map(|is_generational| start(is_generational).heap.metadata_bytes());
    // A byte for each 256 B of 41 blocks of 32 KiB: a quarter more than 256 pages fill, and the first.
    assert_eq!(sticky - immix, 41 * 128);
}
