//! Memory is out: what is there stays as it is, and the program that handles it gets a little more.

use rampart_heap::wear::FailedLines;
use rampart_heap::{BLOCK_BYTES, Collection, HeapSettings, LineSize, NativeModel, ObjectRef, Shape};

use super::{Program, drawn};

/// Its only root is a list of all objects.
fn start(pages: usize, share: f64, line: LineSize) -> Program {
    let settings = HeapSettings { line, ..HeapSettings::default() };
    Program { roots: vec![0], ..Program::new(settings, drawn(pages, share, 7)) }
}

/// Makes the list longer until memory is out; by how many objects.
fn fill(program: &mut Program, shape: Shape) -> u64 {
    let mut made = 0;
    while let Some(object) = program.make(shape) {
        program.heap.region().write(NativeModel::slot(object, 0), program.roots[0]);
        program.roots[0] = object.offset();
        made += 1;
    }
    made
}

#[test]
fn a_handler_gets_a_block_of_what_is_set_aside_and_what_is_there_stays() {
    let small = Shape::new(1, 8).unwrap();
    for (share, line) in [(0.0, LineSize::L256), (0.0, LineSize::L64), (0.1, LineSize::L64), (0.5, LineSize::L64)] {
        let mut program = start(1024, share, line);
        let all = fill(&mut program, small);
        assert_eq!(program.objects(), all);
        assert_eq!(fill(&mut program, small), 0, "memory is out");
        program.heap.open_reserve();
        let more = fill(&mut program, small);
        let blocks = (more * u64::from(small.size())) as f64 / f64::from(BLOCK_BYTES);
        // A hole is as good as a line: collections find other ones among failed lines, too.
        let (least, most) = if share == 0.0 { (0.9, 1.0) } else { (0.0, 3.0) };
        assert!((least..=most).contains(&blocks), "{blocks} blocks more with {share} failed");
        program.heap.open_reserve();
        assert_eq!(program.objects(), all + more);
    }
}

#[test]
fn what_a_handler_got_is_set_aside_again_once_there_is_room() {
    let small = Shape::new(1, 8).unwrap();
    let mut program = start(1024, 0.0, LineSize::L256);
    let before = fill(&mut program, small);
    program.heap.open_reserve();
    let more = fill(&mut program, small);
    assert!(more > 0);
    program.roots[0] = 0;
    program.collect(Collection::Full);
    let again = fill(&mut program, small);
    assert!(again.abs_diff(before) < before / 100, "{again} after {before}");
    assert_eq!(program.objects(), again);
}

#[test]
fn where_all_lines_have_failed_memory_is_out_from_the_start() {
    for line in [LineSize::L64, LineSize::L256] {
        let mut program = start(256, 1.0, line);
        program.heap.open_reserve();
        for bytes in [8, 2000, 20_000, 200_000] {
            assert_eq!(fill(&mut program, Shape::new(1, bytes).unwrap()), 0, "objects of {bytes} bytes");
        }
        assert_eq!((program.objects(), program.heap.demand().borrowed), (0, 0));
    }
}

#[test]
fn without_perfect_memory_to_borrow_large_objects_are_out_of_memory_and_small_ones_are_not() {
    let large = Shape::new(1, 40_000).unwrap();
    for (borrowable, expected) in [(0, 0), (19, 1), (20, 2), (usize::MAX, 33)] {
        let settings = HeapSettings { line: LineSize::L64, borrowable, ..HeapSettings::default() };
        let mut program = Program { roots: vec![0], ..Program::new(settings, vec![FailedLines::from_bits(1); 1024]) };
        // Ten pages each, paid for with twenty.
        assert_eq!(fill(&mut program, large).min(33), expected);
        assert_eq!(program.heap.demand().most_borrowed.min(330), 10 * expected);
        let small = fill(&mut program, Shape::new(1, 8).unwrap());
        assert_eq!(small > 100_000, borrowable < usize::MAX, "{small} small ones");
    }
}

#[test]
fn an_object_that_never_fits_damages_nothing() {
    let mut program = start(256, 0.1, LineSize::L64);
    let small = fill(&mut program, Shape::new(1, 2000).unwrap());
    for bytes in [1 << 20, 1 << 30, (1 << 31) - 16] {
        assert_eq!(program.heap.could_hold(bytes), bytes <= 256 * 4096);
        assert_eq!(program.allocate(bytes), None);
        assert_eq!(program.objects(), small);
    }
    // Half of the list is dropped.
    for _ in 0..small / 2 {
        let first = ObjectRef::new(program.roots[0]).unwrap();
        program.roots[0] = program.heap.region().read(NativeModel::slot(first, 0));
    }
    assert!(fill(&mut program, Shape::new(1, 2000).unwrap()) > small / 4, "what is dropped is there again");
}
