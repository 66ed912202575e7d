//! Four mutators and two markers on one heap, while another thread makes lines fail at any time.
//!
//! Each mutator has lists of objects that it changes, and what these must hold; all share a table of objects. Each
//! collection is followed by a check of the whole heap and of what lies on lines that have failed.
//!
//! `RAMPART_HEAP_FAILURES` sets how many lines fail.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{
    Canaries, Collection, CollectionObserver, CollectionStress, HeapSettings, LineFailure, LineSize, ManagedHeap,
    Mutator, NativeModel, ObjectModel, ObjectRef, Shape, SharedHeap,
};

const MUTATORS: usize = 4;
const MARKERS: usize = 2;
/// Objects that each mutator keeps.
const KEPT: usize = 600;
/// Objects that mutators pass on to each other.
const PASSED: usize = 64;

/// What a line held when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Young,
    Old,
    Large,
    Pinned,
    Free,
    Dead,
}

/// What a mutator does now, and where some of its objects are, for the thread that makes lines fail.
#[derive(Debug, Default)]
struct Doing {
    allocates: AtomicBool,
    /// How far it has come.
    steps: AtomicU64,
    /// The object that it changes.
    changes: AtomicU32,
    kept: AtomicU32,
    large: AtomicU32,
    pinned: AtomicU32,
}

#[derive(Debug, Default)]
struct Watcher {
    canaries: Mutex<Canaries>,
    kinds: Mutex<BTreeMap<Kind, usize>>,
    handled: AtomicUsize,
    known: AtomicUsize,
    collections: AtomicU64,
    /// A check, which is no part of the program, is under way.
    is_checking: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CollectionObserver<NativeModel> for Watcher {
    fn collected(&self, _kind: Collection, heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        self.is_checking.store(true, Ordering::Relaxed);
        self.check(heap, roots);
        self.is_checking.store(false, Ordering::Relaxed);
        self.collections.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, lines: &[(u32, LineFailure)], heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        self.is_checking.store(true, Ordering::Relaxed);
        self.count(lines, heap, roots);
        self.is_checking.store(false, Ordering::Relaxed);
        self.handled.fetch_add(lines.len(), Ordering::Relaxed);
    }
}

impl Watcher {
    fn check(&self, heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        if heap.vacating().is_none() {
            heap.verify(roots.iter().copied()).unwrap();
        }
        lock(&self.canaries).check(heap).unwrap();
    }

    fn count(&self, lines: &[(u32, LineFailure)], heap: &ManagedHeap<NativeModel>, roots: &[u32]) {
        let numbers: Vec<u32> = lines.iter().map(|(offset, _)| offset / 64 * 64).collect();
        let mut kinds = lock(&self.kinds);
        for ((_, failure), in_line) in lines.iter().zip(objects_in(&numbers, heap, roots)) {
            let pinned = |at: u32| heap.region().read(at) & 8 != 0;
            let kind = match (failure, in_line) {
                (LineFailure::Known | LineFailure::NotThere, _) => {
                    self.known.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                (LineFailure::Replaced, Some(_)) => Kind::Large,
                (LineFailure::InUse(..), Some(object)) if pinned(object) => Kind::Pinned,
                (LineFailure::InUse(_, Collection::Nursery), Some(_)) => Kind::Young,
                (LineFailure::InUse(..), Some(_)) => Kind::Old,
                (LineFailure::InUse(..) | LineFailure::Replaced, None) => Kind::Dead,
                (LineFailure::Free, None) => Kind::Free,
                other => panic!("{other:?}"),
            };
            *kinds.entry(kind).or_default() += 1;
        }
    }
}

/// Of each line, the live object in it: the last, if there are several.
fn objects_in(lines: &[u32], heap: &ManagedHeap<NativeModel>, roots: &[u32]) -> Vec<Option<u32>> {
    let (region, align) = (heap.region(), NativeModel::ALIGN);
    let (mut found, mut pending, mut seen) = (vec![None; lines.len()], roots.to_vec(), Vec::new());
    while let Some(at) = pending.pop() {
        let (word, bit) = ((at / align / 64) as usize, 1_u64 << (at / align % 64));
        seen.resize(seen.len().max(word + 1), 0);
        let Some(object) = ObjectRef::new(at).filter(|_| seen[word] & bit == 0) else { continue };
        seen[word] |= bit;
        let end = at + region.read(at + 4);
        for (line, found) in lines.iter().zip(&mut found) {
            if at < line + 64 && *line < end {
                *found = (*found).max(Some(at));
            }
        }
        let slots = (0..NativeModel::references(region, object)).map(|slot| NativeModel::slot(object, slot));
        pending.extend(slots.map(|slot| region.read(slot)));
    }
    found
}

/// The draws of a thread, the same in each run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 20).unwrap() % end
    }
}

fn mix(identity: u64, word: u32) -> u64 {
    (identity ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
}

type Heap = SharedHeap<NativeModel, Watcher>;

/// A thread of the program. Roots at even places are objects that refer to those at odd places.
struct Thread<'a> {
    mutator: Mutator<'a, NativeModel, Watcher>,
    doing: &'a Doing,
    /// Orders what is passed on.
    table: &'a Mutex<()>,
}

/// The root that refers to the objects that are passed on.
const TABLE: usize = KEPT;

impl Thread<'_> {
    fn new_object(&mut self, bytes: u32, identity: u64) -> ObjectRef {
        let shape = Shape::new(2, bytes).unwrap();
        self.doing.allocates.store(true, Ordering::Relaxed);
        let at = self.mutator.allocate(shape.size()).expect("there is room");
        self.doing.allocates.store(false, Ordering::Relaxed);
        let region = self.mutator.region();
        let object = NativeModel::initialize(region, at, shape);
        for word in 0..(shape.size() - 16) / 8 {
            let value = [identity, 0].get(word as usize).copied().unwrap_or_else(|| mix(identity, word));
            region.write_double(at + 16 + 8 * word, value);
        }
        object
    }

    /// The identity of an object, all of whose words are as they were written.
    fn identity(&self, object: ObjectRef) -> u64 {
        let (region, at) = (self.mutator.region(), object.offset());
        let identity = region.read_double(at + 16);
        for word in 2..(region.read(at + 4) - 16) / 8 {
            assert_eq!(region.read_double(at + 16 + 8 * word), mix(identity, word), "object {identity:#x} at {at:#x}");
        }
        identity
    }

    fn kept(&mut self, place: usize) -> Option<ObjectRef> {
        ObjectRef::new(self.mutator.roots()[place])
    }

    fn renew(&mut self, place: usize, identity: u64, draws: &mut Draws) {
        let bytes = 8 * match draws.below(64) {
            0 => 1100 + draws.below(500),
            1..=6 => 40 + draws.below(200),
            _ => 2 + draws.below(8),
        };
        let object = self.new_object(u32::try_from(bytes).unwrap(), identity);
        if self.mutator.roots()[place] == self.doing.pinned.load(Ordering::Relaxed) {
            self.unpin();
        }
        self.mutator.roots()[place] = object.offset();
        let seen = if bytes > 8800 { &self.doing.large } else { &self.doing.kept };
        seen.store(object.offset(), Ordering::Relaxed);
    }

    /// Writes to an object: a reference, and a word many times.
    fn change(&mut self, from: usize, to: usize, value: u64) {
        let (Some(object), region) = (self.kept(from), self.mutator.region()) else { return };
        self.doing.changes.store(object.offset(), Ordering::Relaxed);
        let slot = NativeModel::slot(object, u32::try_from(value % 2).unwrap());
        let referent = self.mutator.roots()[to];
        region.mark_card(slot);
        region.write(slot, referent);
        (0..400).for_each(|time| region.write_double(object.offset() + 24, value ^ time));
        self.doing.changes.store(0, Ordering::Relaxed);
    }

    fn pin(&mut self, place: usize) {
        let Some(object) = self.kept(place) else { return };
        self.unpin();
        self.mutator.pin(object);
        self.doing.pinned.store(object.offset(), Ordering::Relaxed);
    }

    fn unpin(&self) {
        if let Some(pinned) = ObjectRef::new(self.doing.pinned.swap(0, Ordering::Relaxed)) {
            self.mutator.unpin(pinned);
        }
    }

    /// What can be seen of an object and what it refers to.
    fn look(&mut self, place: usize) -> u64 {
        let Some(object) = self.kept(place) else { return 0 };
        self.doing.kept.store(object.offset(), Ordering::Relaxed);
        let region = self.mutator.region();
        let of = |object: ObjectRef| mix(self.identity(object), 1) ^ region.read_double(object.offset() + 24);
        let referents = (0..2).filter_map(|slot| ObjectRef::new(region.read(NativeModel::slot(object, slot))));
        referents.fold(of(object), |sum, referent| mix(sum, 7) ^ of(referent))
    }

    /// Takes an object of another thread, and passes one on.
    fn pass(&mut self, place: usize, slot: usize) {
        let passed = self.mutator.roots()[place];
        let _order = lock(self.table);
        let table = self.kept(TABLE).unwrap();
        let slot = NativeModel::slot(table, u32::try_from(slot).unwrap());
        let region = self.mutator.region();
        if let Some(object) = ObjectRef::new(region.read(slot)) {
            self.identity(object);
        }
        region.mark_card(slot);
        region.write(slot, passed);
    }

    /// Runs the program once; what it has seen.
    fn run(&mut self, seed: u64, steps: usize) -> u64 {
        let (mut draws, mut seen) = (Draws(seed), 0_u64);
        for step in 0..steps {
            self.mutator.poll();
            self.doing.steps.fetch_add(1, Ordering::Relaxed);
            let place = draws.below(KEPT);
            match draws.below(16) {
                0..=2 => self.renew(place, seed << 32 | step as u64, &mut draws),
                3..=9 => {
                    let (to, value) = (draws.below(KEPT / 2) * 2 + 1, draws.next());
                    self.change(place / 2 * 2, to, value);
                }
                10 if draws.below(8) == 0 => self.pin(place),
                11 => self.pass(draws.below(KEPT / 2) * 2 + 1, draws.below(PASSED)),
                12 if draws.below(64) == 0 => {
                    self.mutator.outside(|| thread::sleep(Duration::from_micros(50)));
                }
                _ => seen = mix(seen, 3) ^ self.look(place),
            }
        }
        self.unpin();
        self.mutator.roots()[..KEPT].fill(0);
        seen
    }
}

/// Which failures were raised while what.
#[derive(Debug, Default)]
struct Raised {
    all: usize,
    /// Neither in the allocator nor during a collection or another failure.
    outside: usize,
    stopped: usize,
    changing: usize,
}

/// Makes lines fail at random times and places. Its clock is what the program has done: it stands still in a check.
fn raise(heap: &Heap, doing: &[Doing; MUTATORS], end: u32, failures: usize) -> Raised {
    let (mut draws, mut raised) = (Draws(77), Raised::default());
    let clock = || doing.iter().map(|doing| doing.steps.load(Ordering::Relaxed)).sum::<u64>();
    let watcher = heap.observer();
    while watcher.handled.load(Ordering::Relaxed) - watcher.known.load(Ordering::Relaxed) < failures {
        let due = clock() + draws.next() % 128;
        while clock() < due || watcher.is_checking.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(10));
        }
        // A thread may lose its CPU in the allocator, for long: mostly, another thread's time has come. Some failures
        // come while others are dealt with, or during a collection.
        let mut at_random = &doing[draws.below(MUTATORS)];
        let is_inside = |doing: &Doing| doing.allocates.load(Ordering::Relaxed) || heap.is_stopped();
        if draws.below(100) == 0 {
            (0..500).take_while(|_| !heap.is_stopped()).for_each(|_| thread::yield_now());
        } else {
            while is_inside(at_random) {
                thread::yield_now();
                at_random = &doing[draws.below(MUTATORS)];
            }
        }
        let of = |at: &AtomicU32| Some(at.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let chosen = match draws.below(16) {
            0..=2 => of(&at_random.changes),
            3..=5 => of(&at_random.kept),
            6 => of(&at_random.pinned),
            7 => of(&at_random.large),
            _ => None,
        };
        let offset = chosen.unwrap_or_else(|| u32::try_from(draws.below(end as usize)).unwrap());
        let (allocates, is_stopped) = (at_random.allocates.load(Ordering::Relaxed), heap.is_stopped());
        heap.fail_line(offset);
        let changes = doing.iter().any(|doing| doing.changes.load(Ordering::Relaxed) / 64 == offset / 64);
        raised.all += 1;
        raised.outside += usize::from(!allocates && !is_stopped);
        raised.stopped += usize::from(is_stopped);
        raised.changing += usize::from(changes && chosen.is_some());
    }
    raised
}

/// Runs the program on all threads, again and again until so many lines have failed beside the share that has failed
/// before; what each thread has seen.
fn run(
    pages: usize,
    share: f64,
    failures: usize,
    steps: usize,
    stress: CollectionStress,
) -> (Heap, Raised, Vec<HashSet<u64>>) {
    let settings = HeapSettings { line: LineSize::L64, stress, ..HeapSettings::default() };
    let failed = draw_failures(pages, FailureShare::new(share).unwrap(), ClusterBytes::LINE, 7);
    let markers = NonZeroUsize::new(MARKERS).unwrap();
    let heap = SharedHeap::new(NativeModel, settings, failed, markers, Watcher::default()).unwrap();
    let (doing, is_over, table) = (<[Doing; MUTATORS]>::default(), AtomicBool::new(failures == 0), Mutex::new(()));
    let mut first = heap.mutator();
    let shape = Shape::new(u32::try_from(PASSED).unwrap(), 0).unwrap();
    let at = first.allocate(shape.size()).unwrap();
    let passed_on = NativeModel::initialize(heap.region(), at, shape).offset();
    let started = Barrier::new(MUTATORS + 1);
    let (raised, seen) = thread::scope(|scope| {
        let threads: Vec<_> = (0..MUTATORS)
            .map(|number| {
                let (heap, doing, table, is_over, started) = (&heap, &doing[number], &table, &is_over, &started);
                scope.spawn(move || {
                    let mut mutator = heap.mutator();
                    *mutator.roots() = vec![0; KEPT];
                    // Nothing moves until the first mutator has ended.
                    mutator.roots().push(passed_on);
                    started.wait();
                    let mut thread = Thread { mutator, doing, table };
                    let mut seen = HashSet::from([thread.run(number as u64 + 1, steps)]);
                    while !is_over.load(Ordering::Relaxed) {
                        seen.insert(thread.run(number as u64 + 1, steps));
                    }
                    seen
                })
            })
            .collect();
        started.wait();
        drop(first);
        let raised = raise(&heap, &doing, u32::try_from(pages).unwrap() * 4096, failures);
        is_over.store(true, Ordering::Relaxed);
        (raised, threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    });
    (heap, raised, seen)
}

#[test]
fn objects_keep_what_they_hold_while_lines_fail_at_any_time() {
    let failures = std::env::var("RAMPART_HEAP_FAILURES").map_or(2000, |text| text.parse().expect("a number"));
    let steps = 4000;
    let (_, _, undisturbed) = run(1536, 0.0, 0, steps, CollectionStress::Off);
    let (heap, raised, seen) = run(1536, 0.1, failures, steps, CollectionStress::Off);
    assert_eq!(seen, undisturbed, "each thread has seen the same in each round");
    let mut last = heap.mutator();
    last.poll();
    last.collect(Collection::Full);
    drop(last);
    assert_eq!(heap.queued_failures(), 0);
    let watcher = heap.observer();
    let (kinds, load) = (lock(&watcher.kinds).clone(), |count: &AtomicUsize| count.load(Ordering::Relaxed));
    let collections = watcher.collections.load(Ordering::Relaxed);
    let watched = lock(&watcher.canaries).checked();
    let known = load(&watcher.known);
    eprintln!("{raised:?} {kinds:?} known or not there: {known}; {collections} collections, {watched} canaries seen");
    assert_eq!(load(&watcher.handled), raised.all, "no failure is lost");
    for kind in [Kind::Young, Kind::Old, Kind::Large, Kind::Pinned, Kind::Free, Kind::Dead] {
        assert!(kinds.contains_key(&kind), "{kind:?} is missing: {kinds:?}");
    }
    assert!(raised.changing > 0 && raised.stopped > 0 && watched > 0, "{raised:?}");
    assert!(raised.outside * 10 >= raised.all * 9, "{raised:?}");
    let counts = heap.into_inner().counts();
    eprintln!("{counts:?}");
    assert!(counts.moved > 0 && counts.helped > 0, "{counts:?}");
}

#[test]
fn objects_keep_what_they_hold_if_a_collection_comes_before_each_allocation() {
    let steps = 300;
    let (_, _, undisturbed) = run(1536, 0.0, 0, steps, CollectionStress::Off);
    let (heap, _, seen) = run(1536, 0.1, 0, steps, CollectionStress::EACH);
    assert_eq!(seen, undisturbed, "each thread has seen the same");
    let counts = heap.into_inner().counts();
    assert!(counts.nursery > 50 && counts.full > 50 && counts.moved > 0, "{counts:?}");
}
