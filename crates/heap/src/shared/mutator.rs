//! A thread of a program on a shared heap.

use std::sync::Arc;

use super::{CollectionObserver, SharedHeap, StopReason};
use crate::collection::Collection;
use crate::geometry::ObjectRef;
use crate::heap::ManagedHeap;
use crate::object::{CollectorWord, ObjectModel};
use crate::region::HeapRegion;
use crate::space::allocator::LocalAllocator;
use crate::sync::Mutex;

/// What a collection needs of a mutator. The mutator has it while it runs.
#[derive(Debug, Default)]
pub(super) struct MutatorState {
    pub local: LocalAllocator,
    pub roots: Vec<u32>,
}

/// A thread of a program. While it exists, and is not [outside](Self::outside), its thread must call
/// [`poll`](Self::poll) again and again: collections wait for that.
///
/// A reference that the program holds across a call of [`poll`](Self::poll), [`allocate`](Self::allocate),
/// [`collect`](Self::collect) or [`outside`](Self::outside) must be among the [roots](Self::roots).
///
/// What one mutator stores, another reads: a reference to a new object is passed on with an order (a lock, a channel, a
/// release store), as any data between threads.
#[derive(Debug)]
pub struct Mutator<'a, M, O> {
    heap: &'a SharedHeap<M, O>,
    /// What it has while it runs.
    own: MutatorState,
    /// Where it is while it stands still.
    slot: Arc<Mutex<MutatorState>>,
}

impl<'a, M: ObjectModel + Sync, O: CollectionObserver<M>> Mutator<'a, M, O> {
    pub(super) fn enter(heap: &'a SharedHeap<M, O>) -> Self {
        heap.safepoint.enter();
        let slot = Arc::default();
        heap.slots.lock().push(Arc::clone(&slot));
        Self { heap, own: MutatorState::default(), slot }
    }

    /// The memory.
    pub const fn region(&self) -> &'a HeapRegion {
        &self.heap.region
    }

    /// The references that this thread holds outside of the heap. Collections change them.
    pub const fn roots(&mut self) -> &mut Vec<u32> {
        &mut self.own.roots
    }

    /// Stands still if another mutator wants that, and deals with lines that have failed.
    #[inline]
    pub fn poll(&mut self) {
        if self.heap.safepoint.is_wanted() {
            self.deal_with_failures();
        }
    }

    #[cold]
    fn deal_with_failures(&mut self) {
        self.stop(StopReason::Failures, |_, _| {});
    }

    /// Memory for an object of `bytes`, a multiple of [`ObjectModel::ALIGN`], after collections if need be; `None` if
    /// there is no room. As from [`ManagedHeap::allocate`](crate::ManagedHeap::allocate), it has what others left.
    #[inline]
    pub fn allocate(&mut self, bytes: u32) -> Option<u32> {
        self.poll();
        if bytes <= self.heap.hole_limit
            && let Some(at) = self.own.local.bump.take(bytes)
        {
            return Some(at);
        }
        self.allocate_from_space(bytes)
    }

    #[cold]
    #[inline(never)]
    fn allocate_from_space(&mut self, bytes: u32) -> Option<u32> {
        loop {
            if let Some(at) = self.heap.heap.lock().allocate(&mut self.own.local, bytes) {
                return Some(at);
            }
            // In the same stop, so that no other mutator takes what a collection has found.
            let slot = Arc::clone(&self.slot);
            let result = self.stop(StopReason::Collection, |shared, heap| {
                let mut due = Some(heap.due());
                while let Some(kind) = due {
                    shared.collect(heap, kind);
                    if let Some(at) = heap.allocate(&mut slot.lock().local, bytes) {
                        return Some(at);
                    }
                    due = kind.next();
                }
                None
            });
            // Else another mutator has stopped this one, maybe for a collection.
            if let Some(result) = result {
                return result;
            }
        }
    }

    /// Collects, unless another mutator does so at the same time.
    pub fn collect(&mut self, kind: Collection) {
        self.stop(StopReason::Collection, |shared, heap| {
            shared.collect(heap, kind);
        });
    }

    /// Calls `blocked`, which does not use the heap, and may take long: collections do not wait for it.
    pub fn outside<R>(&mut self, blocked: impl FnOnce() -> R) -> R {
        /// Comes back, even if the call panics.
        struct Outside<'m, 'a, M, O>(&'m mut Mutator<'a, M, O>);
        impl<M, O> Drop for Outside<'_, '_, M, O> {
            fn drop(&mut self) {
                self.0.heap.safepoint.enter();
                self.0.own = std::mem::take(&mut self.0.slot.lock());
            }
        }
        self.publish();
        self.heap.safepoint.leave();
        let back = Outside(self);
        let result = blocked();
        drop(back);
        result
    }

    /// Keeps an object where it is, in all collections.
    pub fn pin(&self, object: ObjectRef) {
        self.heap.region.set_bits(object.offset() + M::COLLECTOR_WORD, CollectorWord::PINNED);
    }

    /// Lets an object move again.
    pub fn unpin(&self, object: ObjectRef) {
        self.heap.region.clear_bits(object.offset() + M::COLLECTOR_WORD, CollectorWord::PINNED);
    }

    fn publish(&mut self) {
        *self.slot.lock() = std::mem::take(&mut self.own);
    }

    /// Stops the others and calls `work`, if nobody else does. In any case, lines that have failed are dealt with. What
    /// is lost while `work` runs waits for the next stop, which the next poll of any mutator begins.
    fn stop<R>(
        &mut self,
        reason: StopReason,
        work: impl FnOnce(&SharedHeap<M, O>, &mut ManagedHeap<M>) -> R,
    ) -> Option<R> {
        /// Takes back what is its own, even if the work panics.
        struct Resting<'m, 'a, M, O>(&'m mut Mutator<'a, M, O>);
        impl<M, O> Drop for Resting<'_, '_, M, O> {
            fn drop(&mut self) {
                self.0.own = std::mem::take(&mut self.0.slot.lock());
            }
        }
        self.publish();
        let heap = self.heap;
        let resting = Resting(self);
        let stop = heap.safepoint.stop(reason);
        let result = stop.map(|stop| {
            let managed = &mut heap.heap.lock();
            let left = managed.space().leavings();
            heap.deal_with_failures(managed, &stop);
            heap.deal_with_losses(managed, &stop);
            managed.space_mut().forget_leavings(left);
            let result = work(heap, managed);
            // No losses: they need a collection, and the work may have found memory that is no object yet.
            heap.deal_with_failures(managed, &stop);
            result
        });
        drop(resting);
        result
    }
}

impl<M, O> Drop for Mutator<'_, M, O> {
    fn drop(&mut self) {
        self.heap.slots.lock().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        self.heap.safepoint.leave();
    }
}
