//! Arrays in leaves, where no contiguous array of that size could be.

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{
    Collection, CollectionStress, HeapSettings, LeafArray, LeafSize, LocalAllocator, ManagedHeap, NativeModel,
    ObjectRef, Shape,
};

struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: Vec<u32>,
}

impl Program {
    /// On a heap in which hardly a page is perfect.
    fn new(share: f64, stress: CollectionStress) -> Self {
        let failed = draw_failures(1024, FailureShare::new(share).unwrap(), ClusterBytes::LINE, 3);
        let settings = HeapSettings { stress, ..HeapSettings::default() };
        let heap = ManagedHeap::new(NativeModel, settings, failed).unwrap();
        Self { heap, local: LocalAllocator::default(), roots: Vec::new() }
    }

    fn allocate(&mut self, shape: Shape) -> Option<u32> {
        let mut due = Some(self.heap.due());
        loop {
            if let Some(at) = self.heap.allocate(&mut self.local, shape.size()) {
                return Some(at);
            }
            let kind = due?;
            self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
            due = kind.next();
        }
    }

    /// An array whose spine is a root, by the root's number.
    fn array(&mut self, array: LeafArray) -> Option<usize> {
        let at = self.allocate(array.spine())?;
        let spine = NativeModel::initialize(self.heap.region(), at, array.spine());
        self.roots.push(spine.offset());
        let root = self.roots.len() - 1;
        for number in 0..array.leaves() {
            let at = self.allocate(array.leaf(number))?;
            array.attach(self.heap.region(), self.spine(root), number, at);
        }
        Some(root)
    }

    fn spine(&self, root: usize) -> ObjectRef {
        ObjectRef::new(self.roots[root]).unwrap()
    }
}

#[test]
fn an_array_in_leaves_keeps_its_elements_where_a_contiguous_one_must_borrow_pages() {
    let elements = 100_000;
    let array = LeafArray::new(elements, LeafSize::B256).unwrap();
    let mut program = Program::new(0.1, CollectionStress::Off);
    let root = program.array(array).unwrap();
    for index in 0..elements {
        assert_eq!(array.read(program.heap.region(), program.spine(root), index), Some(0));
        array.write(program.heap.region(), program.spine(root), index, u64::from(index) * 3).unwrap();
    }
    for kind in [Collection::Nursery, Collection::Full, Collection::Compacting] {
        program.heap.collect(kind, &mut [&mut program.local], &mut program.roots, &mut |_| {});
        let sum: u64 = (0..elements).filter_map(|i| array.read(program.heap.region(), program.spine(root), i)).sum();
        assert_eq!(sum, u64::from(elements) * u64::from(elements - 1) / 2 * 3);
    }
    let leaves = program.heap.demand().requested;
    let mut contiguous = Program::new(0.1, CollectionStress::Off);
    let large = Shape::new(0, 8 * elements).unwrap();
    assert!(contiguous.allocate(large).is_none_or(|_| contiguous.heap.demand().requested > 190));
    assert!(leaves < 10, "only the spine, of 12,508 B, wants perfect pages: {leaves}");
}

#[test]
fn leaves_are_built_while_collections_move_them_and_lines_fail_below_them() {
    for (elements, leaf) in
        [(1, LeafSize::B256), (1000, LeafSize::B256), (700, LeafSize::B1024), (1537, LeafSize::B4096)]
    {
        let array = LeafArray::new(elements, leaf).unwrap();
        let mut program = Program::new(0.1, CollectionStress::EACH);
        let root = program.array(array).unwrap();
        for index in 0..elements {
            array.write(program.heap.region(), program.spine(root), index, u64::from(!index)).unwrap();
        }
        for number in 0..array.leaves() {
            let leaf = program.heap.region().read(NativeModel::slot(program.spine(root), number));
            program.heap.fail_line(leaf, &mut [&mut program.local]);
        }
        program.heap.collect(Collection::Full, &mut [&mut program.local], &mut program.roots, &mut |_| {});
        assert_eq!(program.heap.verify(program.roots.iter().copied()).unwrap().objects, u64::from(array.leaves()) + 1);
        for index in 0..elements {
            assert_eq!(array.read(program.heap.region(), program.spine(root), index), Some(u64::from(!index)));
        }
        for index in [elements, elements + 1, u32::MAX] {
            assert_eq!(array.read(program.heap.region(), program.spine(root), index), None);
            assert_eq!(array.write(program.heap.region(), program.spine(root), index, 1), None);
        }
    }
}

#[test]
fn a_leaf_that_is_not_there_yet_has_no_elements() {
    let array = LeafArray::new(100, LeafSize::B256).unwrap();
    let mut program = Program::new(0.0, CollectionStress::Off);
    let at = program.allocate(array.spine()).unwrap();
    let spine = NativeModel::initialize(program.heap.region(), at, array.spine());
    assert_eq!((array.leaves(), array.elements()), (4, 100));
    assert_eq!(array.read(program.heap.region(), spine, 0), None);
    assert_eq!([0, 3].map(|leaf| array.leaf(leaf).size()), [264, 40]);
    assert!(LeafArray::new(u32::MAX, LeafSize::B256).is_none(), "2^27 leaves are too many");
}
