//! Collections of young objects find what only old ones refer to, in whatever part of them that is.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rampart_heap::wear::FailedLines;
use rampart_heap::{
    CARD_BYTES, Collection, HeapRegion, HeapSettings, LineSize, LocalAllocator, ManagedHeap, NativeModel, ObjectModel,
    ObjectRef, Shape,
};

use super::Program;

fn start(line: LineSize) -> Program {
    Program::new(HeapSettings { line, ..HeapSettings::default() }, vec![FailedLines::NONE; 256])
}

impl Program {
    /// A new object in a slot of a root, with the write barrier; it contains the slot's number.
    fn store(&mut self, root: usize, slot: u32) {
        let young = self.make(Shape::new(0, 8).unwrap()).expect("there is room");
        let region = self.heap.region();
        region.write(NativeModel::bytes_at(region, young), slot);
        let at = NativeModel::slot(ObjectRef::new(self.roots[root]).unwrap(), slot);
        region.mark_card(at);
        region.write(at, young.offset());
    }

    /// What the object in a slot of a root contains.
    fn load(&self, root: usize, slot: u32) -> Option<u32> {
        let region = self.heap.region();
        let object = ObjectRef::new(region.read(NativeModel::slot(ObjectRef::new(self.roots[root]).unwrap(), slot)))?;
        Some(region.read(NativeModel::bytes_at(region, object)))
    }
}

#[test]
fn a_young_object_lives_if_any_slot_of_an_old_one_refers_to_it() {
    for line in LineSize::ALL {
        // Objects within a card, across cards, and large ones across pages.
        for references in [1, 6, 60, 200, 1900, 10_000] {
            let mut program = start(line);
            // Neighbours on the same cards, before and behind.
            for count in [3, references, 5] {
                program.add(count, 0);
            }
            program.collect(Collection::Nursery);
            let chosen: Vec<u32> =
                (0..references).step_by(references.div_ceil(40) as usize).chain([references - 1]).collect();
            for &slot in &chosen {
                program.store(1, slot);
                program.collect(Collection::Nursery);
                assert_eq!(program.load(1, slot), Some(slot), "{line:?}, {references}");
            }
            program.store(0, 2);
            program.store(2, 0);
            program.collect(Collection::Nursery);
            assert_eq!((program.load(0, 2), program.load(2, 0)), (Some(2), Some(0)), "{line:?}, {references}");
            assert!(chosen.iter().all(|slot| program.load(1, *slot) == Some(*slot)), "{line:?}, {references}");
            let there = chosen.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            assert_eq!(program.objects(), 3 + there + 2);
        }
    }
}

#[test]
fn only_dirty_cards_are_looked_at_and_each_once() {
    let mut program = start(LineSize::L256);
    for _ in 0..3 {
        program.add(10_000, 0);
    }
    program.collect(Collection::Nursery);
    let before = program.heap.counts().cards;
    let slots_of_a_card = CARD_BYTES / 4;
    // Two cards of the first, one of the last, which is hit twice.
    [(0, 10), (0, 11 + 20 * slots_of_a_card), (2, 9990), (2, 9991)]
        .into_iter()
        .for_each(|(root, slot)| program.store(root, slot));
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.counts().cards - before, 3);
    program.collect(Collection::Nursery);
    assert_eq!(program.heap.counts().cards - before, 3, "they are clean now");
}

/// Objects as [`NativeModel`] has them; counts the slots that a collector looks at.
#[derive(Debug, Default)]
struct CountingModel(AtomicU64);

impl ObjectModel for CountingModel {
    const ALIGN: u32 = NativeModel::ALIGN;
    const COLLECTOR_WORD: u32 = NativeModel::COLLECTOR_WORD;
    const FORWARD_WORD: u32 = NativeModel::FORWARD_WORD;

    fn size(&self, region: &HeapRegion, object: ObjectRef) -> u32 {
        NativeModel.size(region, object)
    }

    fn visit_slots(&self, region: &HeapRegion, object: ObjectRef, within: Range<u32>, visit: &mut impl FnMut(u32)) {
        NativeModel.visit_slots(region, object, within, &mut |slot| {
            self.0.fetch_add(1, Ordering::Relaxed);
            visit(slot);
        });
    }
}

#[test]
fn of_a_large_object_a_collection_looks_at_the_slots_in_dirty_cards_alone() {
    let settings = HeapSettings::default();
    let mut heap = ManagedHeap::new(CountingModel::default(), settings, vec![FailedLines::NONE; 256]).unwrap();
    let (mut local, mut roots) = (LocalAllocator::default(), Vec::new());
    // One on pages of its own, one in a block.
    for references in [10_000, 1900] {
        let shape = Shape::new(references, 0).unwrap();
        let at = heap.allocate(&mut local, shape.size()).unwrap();
        roots.push(NativeModel::initialize(heap.region(), at, shape).offset());
    }
    heap.collect(Collection::Nursery, &mut [&mut local], &mut roots, &mut |_| {});
    for (cards, root) in (1_u32..).zip([0, 1, 0, 1]) {
        let before = heap.model().0.load(Ordering::Relaxed);
        let object = ObjectRef::new(roots[root]).unwrap();
        // One card more in each round, and none of them twice.
        (0..cards).for_each(|card| heap.region().mark_card(NativeModel::slot(object, 100 + 100 * card)));
        heap.collect(Collection::Nursery, &mut [&mut local], &mut roots, &mut |_| {});
        let seen = heap.model().0.load(Ordering::Relaxed) - before;
        assert_eq!(seen, u64::from(cards * (CARD_BYTES / 4)), "{cards}");
    }
}
