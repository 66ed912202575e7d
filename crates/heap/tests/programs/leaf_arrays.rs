//! Arrays in leaves, where no contiguous array of that size could be.

use rampart_heap::{Collection, CollectionStress, HeapSettings, LeafArray, LeafSize, NativeModel, ObjectRef, Shape};

use super::{Program, drawn};

/// On a heap of which this share of the lines has failed: with 0.1, hardly a page is perfect.
fn start(share: f64, stress: CollectionStress) -> Program {
    Program::new(HeapSettings { stress, ..HeapSettings::default() }, drawn(1024, share, 3))
}

/// An array whose spine is a root, by the root's number.
fn in_leaves(program: &mut Program, array: LeafArray) -> Option<usize> {
    let spine = program.make(array.spine())?;
    program.roots.push(spine.offset());
    let root = program.roots.len() - 1;
    for number in 0..array.leaves() {
        let leaf = program.allocate(array.leaf(number).size())?;
        array.attach(program.heap.region(), object(program, root), number, leaf);
    }
    Some(root)
}

fn object(program: &Program, root: usize) -> ObjectRef {
    ObjectRef::new(program.roots[root]).unwrap()
}

#[test]
fn an_array_in_leaves_keeps_its_elements_where_a_contiguous_one_must_borrow_pages() {
    let elements = 100_000;
    let array = LeafArray::new(elements, LeafSize::B256).unwrap();
    let mut program = start(0.1, CollectionStress::Off);
    let root = in_leaves(&mut program, array).unwrap();
    for index in 0..elements {
        assert_eq!(array.read(program.heap.region(), object(&program, root), index), Some(0));
        array.write(program.heap.region(), object(&program, root), index, u64::from(index) * 3).unwrap();
    }
    for kind in [Collection::Nursery, Collection::Full, Collection::Compacting] {
        program.collect(kind);
        let sum: u64 = (0..elements).filter_map(|i| array.read(program.heap.region(), object(&program, root), i)).sum();
        assert_eq!(sum, u64::from(elements) * u64::from(elements - 1) / 2 * 3);
    }
    let leaves = program.heap.demand().requested;
    let mut contiguous = start(0.1, CollectionStress::Off);
    let large = Shape::new(0, 8 * elements).unwrap();
    assert!(contiguous.make(large).is_some());
    assert!(contiguous.heap.demand().requested > 190, "it wants a perfect page for each 4 KiB");
    assert!(leaves < 10, "only the spine, of 12,508 B, wants perfect pages: {leaves}");
}

#[test]
fn leaves_are_built_while_collections_move_them_and_lines_fail_below_them() {
    for (elements, leaf) in
        [(1, LeafSize::B256), (1000, LeafSize::B256), (700, LeafSize::B1024), (1537, LeafSize::B4096)]
    {
        let array = LeafArray::new(elements, leaf).unwrap();
        let mut program = start(0.1, CollectionStress::EACH);
        let root = in_leaves(&mut program, array).unwrap();
        for index in 0..elements {
            array.write(program.heap.region(), object(&program, root), index, u64::from(!index)).unwrap();
        }
        for number in 0..array.leaves() {
            let leaf = program.heap.region().read(NativeModel::slot(object(&program, root), number));
            program.fail(leaf);
        }
        program.collect(Collection::Full);
        assert_eq!(program.objects(), u64::from(array.leaves()) + 1);
        for index in 0..elements {
            assert_eq!(array.read(program.heap.region(), object(&program, root), index), Some(u64::from(!index)));
        }
        for index in [elements, elements + 1, u32::MAX] {
            assert_eq!(array.read(program.heap.region(), object(&program, root), index), None);
            assert_eq!(array.write(program.heap.region(), object(&program, root), index, 1), None);
        }
    }
}

#[test]
fn a_leaf_that_is_lost_has_no_elements() {
    let array = LeafArray::new(100, LeafSize::B256).unwrap();
    let mut program = start(0.0, CollectionStress::Off);
    let root = in_leaves(&mut program, array).unwrap();
    let leaf = program.heap.region().read(NativeModel::slot(object(&program, root), 1));
    program.lose(leaf + 128);
    program.collect(Collection::Full);
    let read = |index| array.read(program.heap.region(), object(&program, root), index);
    assert_eq!([0, 31, 32, 63, 64].map(read), [Some(0), Some(0), None, None, Some(0)]);
    assert_eq!(array.write(program.heap.region(), object(&program, root), 40, 1), None);
}

#[test]
fn a_leaf_that_is_not_there_yet_has_no_elements() {
    let array = LeafArray::new(100, LeafSize::B256).unwrap();
    let mut program = start(0.0, CollectionStress::Off);
    let spine = program.make(array.spine()).unwrap();
    assert_eq!((array.leaves(), array.elements()), (4, 100));
    assert_eq!(array.read(program.heap.region(), spine, 0), None);
    assert_eq!([0, 3].map(|leaf| array.leaf(leaf).size()), [264, 40]);
    assert!(LeafArray::new(u32::MAX, LeafSize::B256).is_none(), "2^27 leaves are too many");
}
