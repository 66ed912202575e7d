//! A heap for many threads: parallel mutators, and collections by parallel markers [Gao13, 4].
//!
//! **Problem.** Threads that share a heap must not wait for each other at each object; a collection moves objects, so
//! no thread may use one meanwhile; and lines fail whenever they do. **Idea.** Each mutator bumps through holes of its
//! own and locks the space only for the next one. A mutator that finds no room stops the others, collects with several
//! markers, and takes what it needs before they go on. Whoever learns of a failed line puts it into a queue, and a stop
//! deals with the queue. **Why this way.** What is behind the lock is [`ManagedHeap`] as it is: one heap, one set of
//! rules.

mod mutator;
mod safepoint;
#[cfg(all(test, shuttle))]
mod shuttle_tests;

use std::num::NonZeroUsize;
use std::sync::Arc;

pub use mutator::Mutator;
use mutator::MutatorState;
use safepoint::{Safepoint, Stop, StopReason};

use crate::collection::{Collection, RootSet};
use crate::collector::Survivors;
use crate::error::Error;
use crate::heap::{HeapSettings, ManagedHeap};
use crate::object::ObjectModel;
use crate::region::HeapRegion;
use crate::space::LineFailure;
use crate::space::allocator::LocalAllocator;
use crate::sync::{Mutex, MutexGuard};
use crate::wear::FailedLines;

/// Sees what a shared heap does. All mutators stand still meanwhile.
pub trait CollectionObserver<M>: Sync {
    /// A collection has found what is live, and frees the rest next: for weak references.
    fn finish(&self, _survivors: &Survivors<'_, M>) {}

    /// A collection has ended.
    fn collected(&self, _kind: Collection, _heap: &ManagedHeap<M>, _roots: &[u32]) {}

    /// Lines have failed, at these offsets: what becomes of each. If data is lost, the collection that finds out which
    /// objects are lost is next.
    fn failed(&self, _lines: &[(u32, LineFailure)], _heap: &ManagedHeap<M>, _roots: &[u32]) {}
}

/// Sees nothing.
impl<M> CollectionObserver<M> for () {}

/// A heap for many mutators.
#[derive(Debug)]
pub struct SharedHeap<M, O = ()> {
    region: HeapRegion,
    /// What `ManagedHeap::hole_limit` says.
    hole_limit: u32,
    markers: usize,
    safepoint: Safepoint,
    heap: Mutex<ManagedHeap<M>>,
    slots: Mutex<Vec<Arc<Mutex<MutatorState>>>>,
    observer: O,
}

/// The roots of all mutators.
struct AllRoots<'a>(Vec<&'a mut Vec<u32>>);

impl RootSet for AllRoots<'_> {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        self.0.iter_mut().flat_map(|roots| roots.iter_mut()).for_each(|root| *root = visit(*root));
    }
}

impl AllRoots<'_> {
    fn values(&self) -> Vec<u32> {
        self.0.iter().flat_map(|roots| roots.iter().copied()).collect()
    }
}

impl<M: ObjectModel + Sync, O: CollectionObserver<M>> SharedHeap<M, O> {
    /// A heap as [`ManagedHeap::new`] makes it, for collections by so many threads that mark.
    ///
    /// # Errors
    /// As there.
    pub fn new(
        model: M,
        settings: HeapSettings,
        failed: Vec<FailedLines>,
        markers: NonZeroUsize,
        observer: O,
    ) -> Result<Self, Error> {
        let mut heap = ManagedHeap::new(model, settings, failed)?;
        heap.space_mut().note_leaving();
        Ok(Self {
            region: heap.region().share().expect("it is the heap's own"),
            hole_limit: heap.hole_limit(),
            markers: markers.get(),
            safepoint: Safepoint::default(),
            heap: Mutex::new(heap),
            slots: Mutex::default(),
            observer,
        })
    }

    /// The memory.
    pub const fn region(&self) -> &HeapRegion {
        &self.region
    }

    /// Who sees what the heap does.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The calling thread becomes a mutator.
    pub fn mutator(&self) -> Mutator<'_, M, O> {
        Mutator::enter(self)
    }

    /// A line of 64 B has failed, at an offset in the region. Any thread may call this at any time. It only queues the
    /// failure: the next mutator that polls, or the collection that is under way, does what
    /// [`ManagedHeap::fail_line`] says. Until then, and until the collection that is named there, the caller must keep
    /// the line readable and writable.
    pub fn fail_line(&self, offset: u32) {
        self.safepoint.fail(offset);
    }

    /// A line of 64 B has failed, and its data is gone. Any thread may call this at any time. It only queues the loss:
    /// the next mutator that polls finds out which objects are lost, as [`ManagedHeap::lose_line`] says, before any
    /// mutator goes on. Until then, the caller must keep mutators from reading the line: hardware does, as such an
    /// access raises an exception.
    pub fn lose_line(&self, offset: u32) {
        self.safepoint.lose(offset);
    }

    /// As [`ManagedHeap::open_reserve`]: those that handle an error for lack of memory get some.
    pub fn open_reserve(&self) {
        self.heap.lock().open_reserve();
    }

    /// How many failures are queued.
    pub fn queued_failures(&self) -> usize {
        self.safepoint.failed()
    }

    /// Whether a mutator has stopped all others.
    pub fn is_stopped(&self) -> bool {
        self.safepoint.is_stopped()
    }

    /// The heap, once no mutator is left. Failures that are still queued are dealt with first.
    pub fn into_inner(self) -> ManagedHeap<M> {
        let mut heap = self.heap.into_inner();
        let (failed, lost) = self.safepoint.into_failed();
        heap.space_mut().expect_losses(&lost);
        heap.fail_lines(&failed, &mut []);
        heap.lose_lines(&lost, &mut []);
        heap.space_mut().end_note_leaving();
        heap
    }

    /// Calls `work` with the allocators and the roots of all mutators, which stand still.
    fn with_mutators<R>(&self, work: impl FnOnce(&mut [&mut LocalAllocator], &mut AllRoots<'_>) -> R) -> R {
        let slots = self.slots.lock();
        let mut states: Vec<MutexGuard<'_, MutatorState>> = slots.iter().map(|slot| slot.lock()).collect();
        let (mut locals, roots): (Vec<_>, Vec<_>) = states
            .iter_mut()
            .map(|state| {
                let MutatorState { local, roots } = &mut **state;
                (local, roots)
            })
            .unzip();
        work(&mut locals, &mut AllRoots(roots))
    }

    fn collect(&self, heap: &mut ManagedHeap<M>, kind: Collection) {
        self.with_mutators(|locals, roots| {
            let finish = &mut |survivors: &Survivors<'_, M>| self.observer.finish(survivors);
            heap.collect_in_parallel(kind, self.markers, locals, roots, finish);
            self.observer.collected(kind, heap, &roots.values());
        });
    }

    /// Deals with the lines that have failed so far.
    fn deal_with_failures(&self, heap: &mut ManagedHeap<M>, stop: &Stop<'_>) {
        heap.space_mut().expect_losses(&stop.lost());
        self.deal_with(&stop.take_failed(), heap, ManagedHeap::fail_lines);
    }

    /// Deals with the lines whose data is gone so far: a collection finds out which objects are lost.
    fn deal_with_losses(&self, heap: &mut ManagedHeap<M>, stop: &Stop<'_>) {
        let failures = self.deal_with(&stop.take_lost(), heap, ManagedHeap::lose_lines);
        if failures.contains(&LineFailure::Lost) {
            self.collect(heap, Collection::Full);
        }
    }

    fn deal_with(
        &self,
        lines: &[u32],
        heap: &mut ManagedHeap<M>,
        tell: impl Fn(&mut ManagedHeap<M>, &[u32], &mut [&mut LocalAllocator]) -> Vec<LineFailure>,
    ) -> Vec<LineFailure> {
        if lines.is_empty() {
            return Vec::new();
        }
        self.with_mutators(|locals, roots| {
            let failures = tell(heap, lines, locals);
            let handled: Vec<(u32, LineFailure)> = lines.iter().copied().zip(failures.iter().copied()).collect();
            self.observer.failed(&handled, heap, &roots.values());
            failures
        })
    }
}
