//! Marking by several threads.
//!
//! **Problem.** Nobody knows how much can be reached from an object before it was followed. **Idea.** Each marker
//! follows what it finds; one that has nothing left says so, and one that has something gives half of it away. **Why
//! this way.** As long as all are busy, they share nothing but the objects' own words. A collection begins with one
//! marker, as most find too little for another thread to be worth its start.

use super::TraceCounts;
use super::access::{Alone, Among, MarkerAccess};
use super::marker::{Marker, MarkerFindings};
use super::trace::Trace;
use crate::collection::RootSet;
use crate::geometry::ObjectRef;
use crate::object::ObjectModel;
use crate::space::ImmixSpace;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, spawn_scoped, thread};

/// How many objects one marker follows before others help.
const BEFORE_HELP: usize = if cfg!(shuttle) { 1 } else { 256 };

/// Marks all that can be reached, with one marker.
pub(crate) fn mark<M: ObjectModel>(
    trace: &Trace<'_, M>,
    space: &mut ImmixSpace,
    roots: &mut dyn RootSet,
) -> TraceCounts {
    let mut marker = Marker::new(trace, Alone(&mut *space), MarkerFindings::default());
    roots.visit(&mut |value| marker.trace_value(value));
    marker.run(usize::MAX);
    let mut findings = marker.findings;
    findings.replace_below_stuck(space);
    findings.totals()
}

/// Marks all that can be reached, with so many markers if there is enough to do.
pub(crate) fn mark_in_parallel<M: ObjectModel + Sync>(
    trace: &Trace<'_, M>,
    space: &mut ImmixSpace,
    roots: &mut dyn RootSet,
    markers: usize,
) -> TraceCounts {
    if markers < 2 || trace.is_losing {
        return mark(trace, space, roots);
    }
    let mut first = Marker::new(trace, Alone(&mut *space), MarkerFindings::default());
    roots.visit(&mut |value| first.trace_value(value));
    let is_done = first.run(BEFORE_HELP);
    let findings = first.findings;
    let mut all = if is_done { vec![findings] } else { run_all(trace, space, findings, markers) };
    all.iter_mut().for_each(|findings| findings.replace_below_stuck(space));
    let before = TraceCounts { is_helped: !is_done, ..TraceCounts::default() };
    all.into_iter().fold(before, |sum, findings| sum.plus(findings.totals()))
}

/// Goes on with all markers until nothing is left.
fn run_all<M: ObjectModel + Sync>(
    trace: &Trace<'_, M>,
    space: &mut ImmixSpace,
    first: MarkerFindings,
    markers: usize,
) -> Vec<MarkerFindings> {
    let (space, pool) = (&Mutex::new(space), &WorkPool::new(markers));
    let run = |findings| {
        let _ending = Ending(pool);
        let mut marker = Marker::new(trace, Among(space), findings);
        marker.run_among(pool);
        marker.findings
    };
    thread::scope(|scope| {
        let start = |_| {
            let started = spawn_scoped(scope, || run(MarkerFindings::default()));
            // Without a thread for it, the others do its work.
            started.inspect_err(|_| pool.do_without_one()).ok()
        };
        let others: Vec<_> = (1..markers).filter_map(start).collect();
        let own = run(first);
        let others = others.into_iter().map(|other| other.join().expect("a marker does not panic"));
        others.chain([own]).collect()
    })
}

impl<M: ObjectModel, A: MarkerAccess> Marker<'_, '_, M, A> {
    /// Follows references until nothing is left, or so many objects were followed. Returns whether nothing is left.
    fn run(&mut self, most: usize) -> bool {
        let mut left = most;
        loop {
            while let Some(object) = self.findings.pending.pop() {
                self.follow(object, 0..u32::MAX);
                left -= 1;
                if left == 0 {
                    while self.trace_next() {}
                    return false;
                }
            }
            if !self.trace_next() && !self.trace_cards() {
                return true;
            }
        }
    }

    /// Follows references until no marker has any left.
    fn run_among(&mut self, pool: &WorkPool) {
        loop {
            while let Some(object) = self.findings.pending.pop() {
                self.follow(object, 0..u32::MAX);
                if pool.is_hungry() {
                    self.give_half(pool);
                }
            }
            if self.trace_next() || self.trace_cards() {
                continue;
            }
            match pool.take() {
                Some(batch) => self.findings.pending = batch,
                None => return,
            }
        }
    }

    /// Gives away the older half: more can be reached from what was found early. Of slots that wait, nobody knows
    /// whether they lead to anything: they are traced if there is nothing else to give.
    #[cold]
    fn give_half(&mut self, pool: &WorkPool) {
        while self.findings.pending.len() < 2 && self.trace_next() {}
        let half = self.findings.pending.len() / 2;
        if half > 0 {
            pool.put(self.findings.pending.drain(..half).collect());
        }
    }
}

/// What markers have given away.
#[derive(Debug)]
struct WorkPool {
    /// Whether more markers wait than there are batches.
    is_hungry: AtomicBool,
    state: Mutex<WorkPoolState>,
    changed: Condvar,
}

#[derive(Debug)]
struct WorkPoolState {
    batches: Vec<Vec<ObjectRef>>,
    /// Markers that have nothing to do.
    waiting: usize,
    /// All of them.
    markers: usize,
    is_done: bool,
}

impl WorkPoolState {
    /// Nothing is left once all wait for work.
    fn note_if_done(&mut self) {
        self.is_done |= self.waiting == self.markers && self.batches.is_empty();
    }
}

impl WorkPool {
    fn new(markers: usize) -> Self {
        let state = WorkPoolState { batches: Vec::new(), waiting: 0, markers, is_done: false };
        Self { is_hungry: AtomicBool::new(false), state: Mutex::new(state), changed: Condvar::default() }
    }

    #[inline]
    fn is_hungry(&self) -> bool {
        self.is_hungry.load(Ordering::Relaxed)
    }

    fn note(&self, state: &WorkPoolState) {
        self.is_hungry.store(state.waiting > state.batches.len(), Ordering::Relaxed);
    }

    fn put(&self, batch: Vec<ObjectRef>) {
        let mut state = self.state.lock();
        state.batches.push(batch);
        self.note(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// A marker could not be started.
    fn do_without_one(&self) {
        let mut state = self.state.lock();
        state.markers -= 1;
        state.note_if_done();
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for work; `None` once no marker has any.
    fn take(&self) -> Option<Vec<ObjectRef>> {
        let mut state = self.state.lock();
        state.waiting += 1;
        state.note_if_done();
        self.note(&state);
        if state.is_done {
            self.changed.notify_all();
        }
        let mut state = self.changed.wait_while(state, |state| state.batches.is_empty() && !state.is_done);
        let batch = state.batches.pop();
        state.waiting -= usize::from(batch.is_some());
        self.note(&state);
        batch
    }
}

/// If a marker panics, the others end too.
struct Ending<'a>(&'a WorkPool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().is_done = true;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::collection::Collection;
    use crate::geometry::{FailureGrain, LineSize};
    use crate::memory::{SimulatedMemory, attach};
    use crate::native::{NativeModel, Shape};
    use crate::region::HeapRegion;
    use crate::space::allocator::LocalAllocator;
    use crate::space::{CompactionRoom, Source};
    use crate::wear::FailedLines;

    const END: u64 = 1 << 22;

    #[test]
    fn the_others_end_without_a_marker_that_could_not_be_started() {
        let pool = &WorkPool::new(3);
        thread::scope(|scope| {
            let others = [(); 2].map(|()| scope.spawn(|| pool.take()));
            while pool.state.lock().waiting < 2 {
                thread::yield_now();
            }
            pool.do_without_one();
            assert_eq!(others.map(|other| other.join().unwrap()), [None, None]);
        });
    }

    #[test]
    fn a_marker_whose_work_all_waits_in_its_queue_gives_half_of_it_away() {
        let region = HeapRegion::reserve(END).unwrap();
        let mut memory = SimulatedMemory::new(vec![FailedLines::NONE; 64]);
        attach(&mut memory, &region, END);
        let mut space =
            ImmixSpace::new(Box::new(memory), LineSize::L256, FailureGrain::MemoryLine, 8, END, NativeModel::ALIGN);
        let mut local = LocalAllocator::default();
        let mut make = |references| {
            let shape = Shape::new(references, 8).unwrap();
            let at = local.allocate(&mut space, shape.size(), Source::Mutator).unwrap();
            NativeModel::initialize(&region, at, shape)
        };
        let holder = make(8);
        (0..8).for_each(|number| region.write(NativeModel::slot(holder, number), make(1).offset()));
        let trace = Trace::begin(&region, &NativeModel, &mut space, Collection::Nursery, CompactionRoom::Lines);
        let space = Mutex::new(&mut space);
        let mut marker = Marker::new(&trace, Among(&space), MarkerFindings::default());
        marker.follow(holder, 0..u32::MAX);
        assert_eq!(marker.findings.pending, [], "all that was found waits for the cache");
        let pool = WorkPool::new(2);
        marker.give_half(&pool);
        let given: Vec<usize> = pool.state.lock().batches.iter().map(Vec::len).collect();
        assert_eq!((given, marker.findings.pending.len()), (vec![1], 1));
    }
}
