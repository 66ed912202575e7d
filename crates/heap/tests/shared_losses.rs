//! Mutators on one heap while another thread makes lines lose their data: what is lost is said to be, and everything
//! else keeps what it has.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{
    Collection, CollectionObserver, HeapSettings, LOST, LineFailure, ManagedHeap, Mutator, NativeModel, ObjectRef,
    Shape, SharedHeap, Survivors,
};

const MUTATORS: usize = 3;
/// Lists that each mutator has, and the objects of each.
const LISTS: u32 = 40;
const LINKS: u32 = 30;

/// Overwrites what is lost, as soon as the heap knows.
#[derive(Debug, Default)]
struct Destroyer {
    lost_lines: AtomicUsize,
    silent: AtomicUsize,
    lost_objects: AtomicUsize,
}

impl CollectionObserver<NativeModel> for Destroyer {
    fn failed(&self, lines: &[(u32, LineFailure)], heap: &ManagedHeap<NativeModel>, _roots: &[u32]) {
        for (offset, failure) in lines {
            match failure {
                LineFailure::Lost => {
                    heap.region().fill(offset / 64 * 64, 64, 0xff);
                    self.lost_lines.fetch_add(1, Ordering::Relaxed);
                }
                LineFailure::Free => drop(self.silent.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
    }

    fn collected(&self, _kind: Collection, heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        self.lost_objects.store(heap.lost_objects().len(), Ordering::Relaxed);
        heap.verify(roots.iter().copied().filter(|root| *root < LOST)).unwrap();
    }
}

type LossyHeap = SharedHeap<NativeModel, Destroyer>;

/// A list of objects that know their places in it; the root of it is its number.
fn grow(mutator: &mut Mutator<'_, NativeModel, Destroyer>, list: usize, seed: u32) {
    mutator.roots()[list] = 0;
    for link in 0..LINKS {
        let shape = Shape::new(1, if link == 7 { 9000 } else { 24 + (seed + link) % 200 }).unwrap();
        let at = mutator.allocate(shape.size()).expect("there is room");
        let region = mutator.region();
        let object = NativeModel::initialize(region, at, shape);
        region.write(at + 12, link);
        let next = mutator.roots()[list];
        region.mark_card(at + 8);
        region.write(NativeModel::slot(object, 0), next);
        mutator.roots()[list] = at;
    }
}

/// Whether the list is whole, or ends with a lost object.
fn is_whole(mutator: &mut Mutator<'_, NativeModel, Destroyer>, list: usize) -> bool {
    let (mut at, region) = (mutator.roots()[list], mutator.region());
    for link in (0..LINKS).rev() {
        if at >= LOST {
            return false;
        }
        let object = ObjectRef::new(at).expect("a list ends with its first object");
        assert_eq!(region.read(at + 12), link, "the content of an object that is not said to be lost");
        at = region.read(NativeModel::slot(object, 0));
    }
    assert_eq!(at, 0);
    true
}

#[test]
fn what_is_lost_under_several_threads_is_said_to_be_and_all_else_stays() {
    let settings = HeapSettings::default();
    let failed = draw_failures(2048, FailureShare::new(0.1).unwrap(), ClusterBytes::LINE, 3);
    let markers = NonZeroUsize::new(2).unwrap();
    let heap: LossyHeap = SharedHeap::new(NativeModel, settings, failed, markers, Destroyer::default()).unwrap();
    let (is_over, broken) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..MUTATORS {
            let (heap, is_over, broken) = (&heap, &is_over, &broken);
            scope.spawn(move || {
                let mut mutator = heap.mutator();
                *mutator.roots() = vec![0; LISTS as usize];
                let mut seed = u32::try_from(number).unwrap();
                (0..LISTS as usize).for_each(|list| grow(&mut mutator, list, seed));
                while !is_over.load(Ordering::Relaxed) {
                    mutator.poll();
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let list = (seed >> 8) as usize % LISTS as usize;
                    if !is_whole(&mut mutator, list) {
                        broken.fetch_add(1, Ordering::Relaxed);
                        grow(&mut mutator, list, seed);
                    } else if seed.is_multiple_of(16) {
                        grow(&mut mutator, list, seed);
                    }
                }
                for list in 0..LISTS as usize {
                    is_whole(&mut mutator, list);
                }
            });
        }
        let mut draw = 9_u64;
        while heap.observer().lost_lines.load(Ordering::Relaxed) < 150 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = u32::try_from((draw >> 33) % (3 * 2048 * 4096)).unwrap();
            if draw & 1 << 32 == 0 {
                heap.lose_line(offset);
            } else {
                heap.fail_line(offset);
            }
            thread::sleep(Duration::from_micros(200));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let seen = heap.observer();
    let [lost, silent, broken] = [&seen.lost_objects, &seen.silent, &broken].map(|count| count.load(Ordering::Relaxed));
    eprintln!("{lost} objects lost, {silent} lines free, {broken} lists broken");
    assert!(lost > 0 && silent > 0 && broken > 0 && broken <= lost, "{lost} {silent} {broken}");
    heap.open_reserve();
}

#[test]
fn a_heap_taken_back_from_sharing_knows_the_failures_that_were_queued() {
    let failed = draw_failures(256, FailureShare::new(0.0).unwrap(), ClusterBytes::LINE, 3);
    let markers = NonZeroUsize::new(1).unwrap();
    let heap: LossyHeap =
        SharedHeap::new(NativeModel, HeapSettings::default(), failed, markers, Destroyer::default()).unwrap();
    let mut mutator = heap.mutator();
    let [small, large] = [200, 20_000].map(|bytes| mutator.allocate(Shape::new(0, bytes).unwrap().size()).unwrap());
    drop(mutator);
    heap.fail_line(small);
    heap.lose_line(large);
    heap.lose_line(large + 64);
    let heap = heap.into_inner();
    assert!(heap.failed_lines().any(|(line, _)| line == small / 64 * 64));
    assert_eq!((heap.due(), heap.demand().requested), (Collection::Full, 5 + 1), "one page is replaced, once");
}

/// Makes a line fail while a collection is under way, after it has found what is live.
#[derive(Debug, Default)]
struct Saboteur {
    line: AtomicU32,
    told: Mutex<Vec<LineFailure>>,
}

static SABOTAGED: OnceLock<SharedHeap<NativeModel, Saboteur>> = OnceLock::new();

impl CollectionObserver<NativeModel> for Saboteur {
    fn finish(&self, _survivors: &Survivors<'_, NativeModel>) {
        let line = self.line.swap(0, Ordering::Relaxed);
        if line > 0 {
            SABOTAGED.get().unwrap().fail_line(line);
        }
    }

    fn failed(&self, lines: &[(u32, LineFailure)], _heap: &ManagedHeap<NativeModel>, _roots: &[u32]) {
        self.told.lock().unwrap().extend(lines.iter().map(|(_, failure)| *failure));
    }
}

#[test]
fn a_line_of_a_dead_object_that_fails_while_a_collection_frees_it_is_left_out() {
    let failed = draw_failures(256, FailureShare::new(0.0).unwrap(), ClusterBytes::LINE, 3);
    let markers = NonZeroUsize::new(1).unwrap();
    let heap = SharedHeap::new(NativeModel, HeapSettings::default(), failed, markers, Saboteur::default()).unwrap();
    let heap = SABOTAGED.get_or_init(|| heap);
    let mut mutator = heap.mutator();
    let dead = mutator.allocate(Shape::new(0, 20_000).unwrap().size()).unwrap();
    heap.observer().line.store(dead + 4096, Ordering::Relaxed);
    mutator.collect(Collection::Full);
    assert_eq!(*heap.observer().told.lock().unwrap(), [LineFailure::Free]);
}
