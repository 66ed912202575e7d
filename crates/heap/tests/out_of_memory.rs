//! Memory is out: what is there stays as it is, and the program that handles it gets a little more.

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{
    BLOCK_BYTES, Collection, HeapSettings, LineSize, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, RootSet,
    Shape,
};

/// All objects, in a list.
struct List(u32);

impl RootSet for List {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        self.0 = visit(self.0);
    }
}

struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    list: List,
}

impl Program {
    fn new(pages: usize, share: f64, line: LineSize) -> Self {
        let failed = draw_failures(pages, FailureShare::new(share).unwrap(), ClusterBytes::LINE, 7);
        let settings = HeapSettings { line, ..HeapSettings::default() };
        let heap = ManagedHeap::new(NativeModel, settings, failed).unwrap();
        Self { heap, local: LocalAllocator::default(), list: List(0) }
    }

    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        let mut due = Some(self.heap.due());
        loop {
            if let Some(at) = self.heap.allocate(&mut self.local, bytes) {
                return Some(at);
            }
            let kind = due?;
            self.heap.collect(kind, &mut [&mut self.local], &mut self.list, &mut |_| {});
            due = kind.next();
        }
    }

    /// Makes the list longer until memory is out; by how many objects.
    fn fill(&mut self, shape: Shape) -> u64 {
        let mut made = 0;
        while let Some(at) = self.allocate(shape.size()) {
            let object = NativeModel::initialize(self.heap.region(), at, shape);
            self.heap.region().write(NativeModel::slot(object, 0), self.list.0);
            self.list.0 = object.offset();
            made += 1;
        }
        made
    }

    fn check(&self, objects: u64) {
        assert_eq!(self.heap.verify([self.list.0]).unwrap().objects, objects);
    }
}

#[test]
fn a_handler_gets_a_block_of_what_is_set_aside_and_what_is_there_stays() {
    let small = Shape::new(1, 8).unwrap();
    for (share, line) in [(0.0, LineSize::L256), (0.0, LineSize::L64), (0.1, LineSize::L64), (0.5, LineSize::L64)] {
        let mut program = Program::new(1024, share, line);
        let all = program.fill(small);
        program.check(all);
        assert_eq!(program.fill(small), 0, "memory is out");
        program.heap.open_reserve();
        let more = program.fill(small);
        let blocks = (more * u64::from(small.size())) as f64 / f64::from(BLOCK_BYTES);
        // A hole is as good as a line: collections find other ones among failed lines, too.
        let (least, most) = if share == 0.0 { (0.9, 1.0) } else { (0.0, 3.0) };
        assert!((least..=most).contains(&blocks), "{blocks} blocks more with {share} failed");
        program.heap.open_reserve();
        program.check(all + more);
    }
}

#[test]
fn what_a_handler_got_is_set_aside_again_once_there_is_room() {
    let small = Shape::new(1, 8).unwrap();
    let mut program = Program::new(1024, 0.0, LineSize::L256);
    let before = program.fill(small);
    program.heap.open_reserve();
    let more = program.fill(small);
    assert!(more > 0);
    program.list.0 = 0;
    program.heap.collect(Collection::Full, &mut [&mut program.local], &mut program.list, &mut |_| {});
    let again = program.fill(small);
    assert!(again.abs_diff(before) < before / 100, "{again} after {before}");
    program.check(again);
}

#[test]
fn an_object_that_never_fits_damages_nothing() {
    let mut program = Program::new(256, 0.1, LineSize::L64);
    let small = program.fill(Shape::new(1, 2000).unwrap());
    for bytes in [1 << 20, 1 << 30, (1 << 31) - 16] {
        assert_eq!(program.heap.could_hold(bytes), bytes <= 256 * 4096);
        assert_eq!(program.allocate(bytes), None);
        program.check(small);
    }
    // Half of the list is dropped.
    for _ in 0..small / 2 {
        let first = ObjectRef::new(program.list.0).unwrap();
        program.list.0 = program.heap.region().read(NativeModel::slot(first, 0));
    }
    assert!(program.fill(Shape::new(1, 2000).unwrap()) > small / 4, "what is dropped is there again");
}
