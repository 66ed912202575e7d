//! Random schedules of few threads: the handshake, the queue of failures, and two markers that meet at each object.
//!
//! Run them with `RUSTFLAGS="--cfg shuttle" cargo test --release -p rampart-heap --lib shuttle`. The variable
//! `SHUTTLE_SCHEDULES` sets how many schedules each test tries with each of the two schedulers.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use shuttle::thread;

use super::safepoint::{Safepoint, StopReason};
use super::*;
use crate::geometry::{BLOCK_BYTES, MEMORY_LINE, ObjectRef};
use crate::native::{NativeModel, Shape};

/// Runs a test in random schedules, and in those of three preemptions at most.
fn explore(test: fn()) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES").map_or(10_000, |text| text.parse().expect("a number"));
    shuttle::check_random(test, schedules);
    shuttle::check_pct(test, schedules, 3);
}

/// A thread that runs, unless another has stopped it.
fn run(safepoint: &Safepoint, running: &AtomicUsize, handled: &AtomicUsize, stops: usize) {
    safepoint.enter();
    running.fetch_add(1, SeqCst);
    let stop = |reason| {
        running.fetch_sub(1, SeqCst);
        if let Some(stop) = safepoint.stop(reason) {
            handled.fetch_add(stop.take_failed().len(), SeqCst);
            thread::yield_now();
            assert_eq!(running.load(SeqCst), 0, "a mutator runs");
            handled.fetch_add(stop.take_failed().len(), SeqCst);
        }
        running.fetch_add(1, SeqCst);
    };
    for _ in 0..stops {
        stop(StopReason::Collection);
        if safepoint.is_wanted() {
            stop(StopReason::Failures);
        }
    }
    running.fetch_sub(1, SeqCst);
    safepoint.leave();
}

#[test]
fn nobody_runs_while_one_has_stopped_the_others_and_no_failure_is_lost() {
    explore(|| {
        let (safepoint, running, handled) = (Safepoint::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for stops in [2, 1, 1] {
                let (safepoint, running, handled) = (&safepoint, &running, &handled);
                scope.spawn(move || run(safepoint, running, handled, stops));
            }
            (1..4).for_each(|line| safepoint.fail(line * MEMORY_LINE));
        });
        let left = safepoint.failed();
        assert_eq!(safepoint.is_wanted(), left > 0, "whoever looks must see what is left");
        assert_eq!(handled.load(SeqCst) + left, 3);
    });
}

/// Counts what it sees, and finds each heap sound.
#[derive(Default)]
struct Checker {
    handled: AtomicUsize,
    collections: AtomicUsize,
}

impl CollectionObserver<NativeModel> for Checker {
    fn collected(&self, _kind: Collection, heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        self.collections.fetch_add(1, SeqCst);
        if heap.vacating().is_none() {
            heap.verify(roots.iter().copied()).unwrap();
        }
    }

    fn failed(&self, lines: &[(u32, LineFailure)], _heap: &ManagedHeap<NativeModel>, _roots: &[u32]) {
        self.handled.fetch_add(lines.len(), SeqCst);
    }
}

type CheckedHeap = SharedHeap<NativeModel, Checker>;

fn heap() -> CheckedHeap {
    let failed = vec![FailedLines::NONE; 64];
    let markers = NonZeroUsize::new(2).unwrap();
    SharedHeap::new(NativeModel, HeapSettings::default(), failed, markers, Checker::default()).unwrap()
}

fn new_object(mutator: &mut Mutator<'_, NativeModel, Checker>, references: &[u32], value: u32) -> u32 {
    let shape = Shape::new(2, 8).unwrap();
    let at = mutator.allocate(shape.size()).unwrap();
    let object = NativeModel::initialize(mutator.region(), at, shape);
    (0..).zip(references).for_each(|(slot, to)| mutator.region().write(NativeModel::slot(object, slot), *to));
    mutator.region().write(at + 16, value);
    at
}

/// The values of an object and of the two that it refers to, which must be the same one.
fn values(region: &HeapRegion, at: u32) -> [u32; 2] {
    let object = ObjectRef::new(at).unwrap();
    let [one, other] = [0, 1].map(|slot| region.read(NativeModel::slot(object, slot)));
    assert_eq!(one, other, "one object has become two");
    [region.read(at + 16), region.read(one + 16)]
}

#[test]
fn two_markers_move_each_object_once_whoever_comes_first() {
    explore(|| {
        let heap = heap();
        let mut mutator = heap.mutator();
        for number in 0..4 {
            // No collection in between: what is new stays where it is.
            let shared = new_object(&mut mutator, &[], number);
            for parent in [10, 20] {
                let at = new_object(&mut mutator, &[shared, shared], parent + number);
                mutator.roots().push(at);
            }
        }
        mutator.collect(Collection::Nursery);
        let region = heap.region();
        let roots = mutator.roots().clone();
        for (number, pair) in (0..).zip(roots.chunks(2)) {
            assert_eq!(
                [values(region, pair[0]), values(region, pair[1])],
                [[10 + number, number], [20 + number, number]]
            );
            let referent = |at: u32| region.read(NativeModel::slot(ObjectRef::new(at).unwrap(), 0));
            assert_eq!(referent(pair[0]), referent(pair[1]), "one object has become two");
        }
        drop(mutator);
        let counts = heap.into_inner().counts();
        assert_eq!((counts.moved, counts.marked, counts.helped), (12, 0, 1));
    });
}

#[test]
fn mutators_keep_their_objects_while_others_collect_and_lines_fail() {
    explore(|| {
        let heap = heap();
        thread::scope(|scope| {
            for name in [100, 200, 300, 400] {
                let heap = &heap;
                scope.spawn(move || {
                    let mut mutator = heap.mutator();
                    for step in 0..3 {
                        let shared = new_object(&mut mutator, &[], name);
                        mutator.roots().push(shared);
                        mutator.poll();
                        let shared = mutator.roots().pop().unwrap();
                        // Memory first, as references must be roots meanwhile.
                        mutator.roots().push(shared);
                        let at = new_object(&mut mutator, &[], name + step);
                        let shared = mutator.roots().pop().unwrap();
                        let object = ObjectRef::new(at).unwrap();
                        (0..2).for_each(|slot| mutator.region().write(NativeModel::slot(object, slot), shared));
                        mutator.roots().push(at);
                        match step {
                            0 => mutator.outside(thread::yield_now),
                            1 => mutator.collect(Collection::Nursery),
                            _ => mutator.poll(),
                        }
                    }
                    let roots = mutator.roots().clone();
                    for (step, at) in (0..).zip(roots) {
                        assert_eq!(values(heap.region(), at), [name + step, name]);
                    }
                });
            }
            // In the first blocks, where objects are.
            for line in [0, 1, 600] {
                heap.fail_line(BLOCK_BYTES + line * MEMORY_LINE);
            }
        });
        let mut last = heap.mutator();
        last.poll();
        last.collect(Collection::Full);
        drop(last);
        assert_eq!(heap.observer().handled.load(SeqCst), 3, "no failure is lost");
        let heap = heap.into_inner();
        assert_eq!(heap.vacating(), None);
        assert_eq!(heap.verify([]).unwrap().objects, 0);
    });
}
