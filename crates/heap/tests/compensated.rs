//! A heap that got pages for its failed lines collects as often as one without [Gao13, 6.2], and is not out of memory
//! while half of what works is free.

use rampart_heap::wear::{ClusterBytes, FailureShare, RegionPages, cluster_failures, draw_failures};
use rampart_heap::{HeapCounts, HeapSettings, LocalAllocator, ManagedHeap, NativeModel, Shape};

const WORKING_PAGES: usize = 1024;
const OBJECT: u32 = 64;

/// Which of the objects that are kept a new one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    Oldest,
    /// So most lines have a few objects.
    AtRandom,
}

/// Keeps many objects, and puts one in eight new ones in the place of another.
fn run(share: f64, is_clustered: bool, replaced: Replaced) -> HeapCounts {
    let share = FailureShare::new(share).unwrap();
    let pages = share.compensated(WORKING_PAGES).unwrap();
    let drawn = draw_failures(pages, share, ClusterBytes::LINE, 5);
    let failed = if is_clustered { cluster_failures(&drawn, RegionPages::Two) } else { drawn };
    let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed).unwrap();
    let kept = WORKING_PAGES * 4096 / 2 / OBJECT as usize;
    let (mut local, mut roots) = (LocalAllocator::default(), vec![0; kept]);
    let shape = Shape::new(0, OBJECT - 8).unwrap();
    let mut draw = 1_u64;
    for number in 0..400_000 {
        let mut due = Some(heap.due());
        let at = loop {
            if let Some(at) = heap.allocate(&mut local, shape.size()) {
                break at;
            }
            let kind = due.unwrap_or_else(|| panic!("{share:?} {number}: {:?} {:?}", heap.counts(), heap.demand()));
            heap.collect(kind, &mut [&mut local], &mut roots, &mut |_| {});
            due = kind.next();
        };
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = match replaced {
            _ if number < kept => number,
            Replaced::Oldest => number / 8 % kept,
            Replaced::AtRandom => (draw >> 33) as usize % kept,
        };
        // Most objects die at once.
        if number < kept || number % 8 == 0 {
            roots[place] = NativeModel::initialize(heap.region(), at, shape).offset();
        } else {
            NativeModel::initialize(heap.region(), at, shape);
        }
    }
    heap.counts()
}

#[test]
fn a_heap_with_pages_for_its_failed_lines_collects_as_often_as_one_without() {
    let without = run(0.0, false, Replaced::Oldest);
    assert!(without.nursery > 10 && without.full > 2, "{without:?}");
    for (share, is_clustered) in [(0.1, false), (0.5, false), (0.25, true), (0.5, true)] {
        let with = run(share, is_clustered, Replaced::Oldest);
        assert!(with.nursery * 4 >= without.nursery * 3, "{share}: {with:?}, without: {without:?}");
        let [all, least] = [with, without].map(|counts| counts.nursery + counts.full);
        assert!(all <= least * 5 / 4, "{share}: {with:?}, without: {without:?}");
    }
}

#[test]
fn memory_is_not_out_while_half_of_it_is_free_between_objects() {
    for (share, is_clustered) in [(0.0, false), (0.1, false), (0.5, false), (0.5, true)] {
        let counts = run(share, is_clustered, Replaced::AtRandom);
        assert!(counts.moved_bytes > 1 << 20, "objects move closer: {counts:?}");
    }
}
