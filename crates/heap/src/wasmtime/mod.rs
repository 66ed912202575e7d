//! What a host and the heap that wasmtime makes for its store have in common.
//!
//! wasmtime makes its heaps itself, and passes nothing on to them, nor anything back. So a host leaves the plan of the
//! next heap here, and keeps a part of it: weak references, exceptions, and what the collections did.

mod compiled;
mod failures;
mod losses;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rampart_linux::count_loss_notices;
use rampart_memory::Frame;

use crate::collection::Collection;
use crate::collector::Survivors;
use crate::error::Error;
use crate::geometry::{ObjectRef, PAGE};
use crate::heap::{HeapCounts, HeapSettings, check_size};
use crate::memory::{HeapFrameCounts, HeapMemory, PageFrame, SimulatedMemory};
use crate::object::ObjectModel;
use crate::pools::PerfectDemand;
use crate::region::CARDS;
use crate::space::lost::APART;
use crate::wear::FailedLines;

pub use compiled::{
    ANY_TYPE, CompiledAllocator, EXPECTED_TYPE, HOLE_BYTES, HOLE_LIMIT, HOLES_AHEAD, MOST_INLINE, NEXT_HOLE,
};
pub use failures::{FailureLog, LineFailures};
use losses::LostShare;
pub use losses::{DataLost, LostClass};
pub use rampart_linux::LossBell;

/// A heap to be made.
#[derive(Debug)]
pub struct HeapPlan {
    /// How it is run.
    pub settings: HeapSettings,
    /// What it lies on.
    pub memory: Box<dyn HeapMemory>,
    /// What the host keeps, too.
    pub shared: Arc<HeapShare>,
}

/// Why a program gets no object, or no call. The host makes an exception for each, before the program starts: when
/// memory is out, there is none to make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapError {
    /// There is not enough memory.
    OutOfMemory,
    /// An array was to have less than no elements.
    NegativeSize,
    /// The stack has no room for another call.
    StackOverflow,
}

impl HeapError {
    /// How many there are.
    const COUNT: usize = 3;
}

/// The bit of a reference which says that it is an exception, to be thrown, in the place of an object. Objects have it
/// clear.
pub const INSTEAD: u32 = 1;

/// What compiled code asks for if an array would have more bytes than can be named. No object has this size.
pub const TOO_LARGE_SIZE: u32 = u32::MAX - 1;

/// What compiled code asks for if an array would have less than no elements. No object has this size.
pub const NEGATIVE_SIZE: u32 = u32::MAX;

/// What compiled code throws where the stack has no room left: the heap throws the exception for that in its place. It
/// lies behind the numbers of lost objects.
pub const STACK_OVERFLOW: u32 = u32::MAX - (APART - 1);

const _: () = assert!(STACK_OVERFLOW > CARDS && STACK_OVERFLOW.is_multiple_of(APART));

/// What the host and the heap both use.
#[derive(Debug, Default)]
pub struct HeapShare {
    weak: Mutex<WeakSlots>,
    exceptions: Mutex<[Option<WeakNumber>; HeapError::COUNT]>,
    lost: Mutex<LostShare>,
    log: Mutex<CollectionLog>,
    /// Lines that fail while the program runs.
    pub failures: LineFailures,
    /// How many notices of lost pages there were when a collection last looked for them.
    heeded: AtomicUsize,
    /// For tests.
    frames: Mutex<Option<FrameTable>>,
}

/// The frames of a heap's pages, as a collection left them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FrameTable {
    at: BTreeMap<u32, Frame>,
    /// Those of pages in which nothing is.
    free: Vec<Frame>,
}

/// What the collections did.
#[derive(Clone, Debug, Default)]
pub struct CollectionLog {
    /// Each collection, and how long the program stood still.
    pub pauses: Vec<(Collection, Duration)>,
    /// All that happened.
    pub counts: HeapCounts,
    /// How many perfect pages were asked for.
    pub demand: PerfectDemand,
    /// The bytes of the collector's own tables.
    pub metadata: u64,
    /// Which frames the heap began on; `None` if its failures are simulated.
    pub frames: Option<HeapFrameCounts>,
}

/// A weak reference, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeakNumber(usize);

/// What a weak reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeakSlot {
    Unused,
    To(ObjectRef),
    /// Its object is gone.
    Cleared,
}

/// All weak references.
#[derive(Debug, Default)]
struct WeakSlots {
    slots: Vec<WeakSlot>,
    unused: Vec<WeakNumber>,
    /// How many have been cleared since the start.
    cleared: usize,
}

/// Whether code that is compiled from now on looks at each reference that it follows.
static ARE_LOSSES_THROWN: AtomicBool = AtomicBool::new(false);

/// Whether code that is compiled from now on throws where the stack has no room left.
static ARE_OVERFLOWS_THROWN: AtomicBool = AtomicBool::new(false);

static NEXT: Mutex<Option<HeapPlan>> = Mutex::new(None);

/// What plans a heap for which no plan was left.
static PLANNER: Mutex<Option<fn() -> HeapPlan>> = Mutex::new(None);

/// Programs that are compiled from now on throw where they would read lost data; else, losing data ends a program.
pub fn throw_losses(are_thrown: bool) {
    ARE_LOSSES_THROWN.store(are_thrown, Ordering::Relaxed);
}

/// What [`throw_losses`] has set.
pub fn are_losses_thrown() -> bool {
    ARE_LOSSES_THROWN.load(Ordering::Relaxed)
}

/// Programs that are compiled from now on throw [`HeapError::StackOverflow`] where the stack has no room left; else,
/// that ends a program. The thread that runs them must have stack beyond what wasmtime gives them: functions that call
/// no others do not check how much is left.
pub fn throw_overflows(are_thrown: bool) {
    ARE_OVERFLOWS_THROWN.store(are_thrown, Ordering::Relaxed);
}

/// What [`throw_overflows`] has set.
pub fn are_overflows_thrown() -> bool {
    ARE_OVERFLOWS_THROWN.load(Ordering::Relaxed)
}

impl HeapPlan {
    /// The size without a plan: 64 MiB.
    const PAGES: usize = (64 << 20) / PAGE as usize;

    /// Leaves the plan for the next heap.
    ///
    /// # Errors
    /// If no heap can be made of so many pages.
    pub fn leave(self) -> Result<(), Error> {
        check_size(self.memory.pages())?;
        *lock(&NEXT) = Some(self);
        Ok(())
    }

    /// Plans each heap for which no plan was left, from now on: for hosts of several stores.
    pub fn plan_all(planner: fn() -> Self) {
        *lock(&PLANNER) = Some(planner);
    }

    /// Takes the plan; without one, a heap of 64 MiB in which nothing has failed.
    pub fn take() -> Self {
        let (left, planner) = (lock(&NEXT).take(), *lock(&PLANNER));
        left.or_else(|| planner.map(|plan| plan())).unwrap_or_default()
    }
}

impl Default for HeapPlan {
    /// 64 MiB in which nothing has failed.
    fn default() -> Self {
        Self {
            settings: HeapSettings::default(),
            memory: Box::new(SimulatedMemory::new(vec![FailedLines::NONE; Self::PAGES])),
            shared: Arc::default(),
        }
    }
}

impl HeapShare {
    /// A weak reference to the object at an offset of the region; `None` if that is no object.
    pub fn weaken(&self, offset: u32) -> Option<WeakNumber> {
        let slot = WeakSlot::To(ObjectRef::new(offset)?);
        let WeakSlots { slots, unused, .. } = &mut *lock(&self.weak);
        let number = unused.pop().unwrap_or(WeakNumber(slots.len()));
        match slots.get_mut(number.0) {
            Some(unused) => *unused = slot,
            None => slots.push(slot),
        }
        Some(number)
    }

    /// The offset of the object; `None` if it is gone.
    pub fn object(&self, weak: WeakNumber) -> Option<u32> {
        match lock(&self.weak).slots.get(weak.0) {
            Some(WeakSlot::To(object)) => Some(object.offset()),
            _ => None,
        }
    }

    /// How many references have been cleared since the start.
    pub fn cleared(&self) -> usize {
        lock(&self.weak).cleared
    }

    /// The reference itself is gone.
    pub fn forget(&self, weak: WeakNumber) {
        let WeakSlots { slots, unused, .. } = &mut *lock(&self.weak);
        if let Some(slot) = slots.get_mut(weak.0).filter(|slot| **slot != WeakSlot::Unused) {
            *slot = WeakSlot::Unused;
            unused.push(weak);
        }
    }

    /// Throws the exception at an offset of the region from now on. The host must keep it alive.
    pub fn set_exception(&self, error: HeapError, offset: u32) {
        lock(&self.exceptions)[error as usize] = self.weaken(offset);
    }

    /// The offset of the exception for an error; `None` if there is none yet.
    pub fn exception(&self, error: HeapError) -> Option<u32> {
        let number = lock(&self.exceptions)[error as usize];
        number.and_then(|number| self.object(number))
    }

    /// Whether pages were lost since a collection last looked for them.
    pub fn is_loss_noticed(&self) -> bool {
        count_loss_notices() != self.heeded.load(Ordering::Relaxed)
    }

    /// A collection is about to look for lost pages.
    pub fn heed_losses(&self) {
        self.heeded.store(count_loss_notices(), Ordering::Relaxed);
    }

    /// The next collections say which frames the pages of the heap have: for tests.
    pub fn want_frames(&self) {
        lock(&self.frames).get_or_insert_default();
    }

    /// Notes the frames of the pages of the heap, if somebody wants them.
    pub fn note_frames(&self, frames: impl FnOnce() -> Vec<(PageFrame, bool)>) {
        let Some(table) = &mut *lock(&self.frames) else { return };
        *table = FrameTable::default();
        for (PageFrame { at, frame }, is_free) in frames() {
            table.at.extend(at.map(|at| (at, frame)));
            table.free.extend(is_free.then_some(frame));
        }
    }

    /// The frame below an offset, after the last collection.
    pub fn frame_at(&self, offset: u32) -> Option<Frame> {
        lock(&self.frames).as_ref()?.at.get(&(offset / PAGE * PAGE)).copied()
    }

    /// One of the frames in which the last collection found nothing.
    pub fn free_frame(&self, number: usize) -> Option<Frame> {
        lock(&self.frames).as_ref()?.free.get(number).copied()
    }

    /// Follows objects to where a collection has moved them, and clears references to those that are gone.
    pub fn follow<M: ObjectModel>(&self, survivors: &Survivors<'_, M>) {
        let WeakSlots { slots, cleared, .. } = &mut *lock(&self.weak);
        for slot in slots {
            if let WeakSlot::To(object) = *slot {
                *slot = survivors.at(object).map_or(WeakSlot::Cleared, WeakSlot::To);
                *cleared += usize::from(*slot == WeakSlot::Cleared);
            }
        }
    }

    /// Notes what the heap lies on.
    pub fn lies_on(&self, frames: HeapFrameCounts) {
        lock(&self.log).frames = Some(frames);
    }

    /// Notes a collection, and what happened so far.
    pub fn collected(
        &self,
        kind: Collection,
        pause: Duration,
        counts: HeapCounts,
        demand: PerfectDemand,
        metadata: u64,
    ) {
        let mut log = lock(&self.log);
        log.pauses.push((kind, pause));
        (log.counts, log.demand, log.metadata) = (counts, demand, metadata);
    }

    /// What the collections did so far.
    pub fn log(&self) -> CollectionLog {
        lock(&self.log).clone()
    }
}

/// Nothing is left half done by a thread that panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CollectionStress, LocalAllocator, ManagedHeap, NativeModel, Shape};

    #[test]
    fn weak_references_follow_their_objects_and_are_cleared_with_them() {
        let failed = vec![FailedLines::NONE; 64];
        let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed).unwrap();
        let (mut local, share, shape) = (LocalAllocator::default(), HeapShare::default(), Shape::new(0, 40).unwrap());
        let mut new = || {
            let at = heap.allocate(&mut local, shape.size()).unwrap();
            NativeModel::initialize(heap.region(), at, shape).offset()
        };
        let (kept, lost) = (new(), new());
        let mut root = [kept];
        let [to_kept, to_lost] = [kept, lost].map(|object| share.weaken(object).unwrap());
        heap.collect(Collection::Nursery, &mut [&mut local], &mut root, &mut |survivors| share.follow(survivors));
        assert_ne!(root[0], kept, "it has moved");
        assert_eq!((share.object(to_kept), share.object(to_lost)), (Some(root[0]), None));
        assert_eq!(share.cleared(), 1);
        share.forget(to_lost);
        assert_eq!(share.weaken(root[0]), Some(to_lost), "its number is used again");
        assert_eq!(share.weaken(0), None);
    }

    #[test]
    fn exceptions_are_found_where_collections_have_moved_them() {
        let failed = vec![FailedLines::NONE; 64];
        let mut heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed).unwrap();
        let (mut local, share, shape) = (LocalAllocator::default(), HeapShare::default(), Shape::new(0, 40).unwrap());
        let at = heap.allocate(&mut local, shape.size()).unwrap();
        let mut root = [NativeModel::initialize(heap.region(), at, shape).offset()];
        assert_eq!(share.exception(HeapError::OutOfMemory), None);
        share.set_exception(HeapError::OutOfMemory, root[0]);
        heap.collect(Collection::Nursery, &mut [&mut local], &mut root, &mut |survivors| share.follow(survivors));
        assert_ne!(root[0], at, "it has moved");
        assert_eq!(share.exception(HeapError::OutOfMemory), Some(root[0]));
        assert_eq!(share.exception(HeapError::NegativeSize), None);
    }

    #[test]
    fn a_plan_is_taken_once_and_must_be_of_a_possible_size() {
        let plan = |pages| HeapPlan {
            settings: HeapSettings::default(),
            memory: Box::new(SimulatedMemory::new(vec![FailedLines::ALL; pages])),
            shared: Arc::default(),
        };

        assert!(matches!(plan(31).leave(), Err(Error::TooSmall { given: 126_976, least: 131_072 })));
        plan(40).leave().unwrap();
        assert_eq!([HeapPlan::take(), HeapPlan::take()].map(|plan| plan.memory.pages()), [40, HeapPlan::PAGES]);
        HeapPlan::plan_all(|| HeapPlan {
            settings: HeapSettings { stress: CollectionStress::EACH, ..HeapSettings::default() },
            ..HeapPlan::default()
        });
        plan(40).leave().unwrap();
        assert_eq!([(); 3].map(|()| HeapPlan::take().settings.stress == CollectionStress::EACH), [false, true, true]);
    }

    #[test]
    fn frames_are_told_to_who_wants_them_as_the_last_collection_left_them() {
        let share = HeapShare::default();
        let of = |at, number| PageFrame { at, frame: Frame::new(number).unwrap() };
        let frames = || vec![(of(Some(4096), 7), false), (of(Some(8192), 8), true), (of(None, 9), true)];
        share.note_frames(|| unreachable!("nobody wants them"));
        assert_eq!((share.frame_at(4096), share.free_frame(0)), (None, None));
        share.want_frames();
        share.note_frames(frames);
        let number = |frame: Option<Frame>| frame.map(Frame::number);
        assert_eq!(
            [4095, 4096, 8191, 8192, 12288].map(|at| number(share.frame_at(at))),
            [None, Some(7), Some(7), Some(8), None]
        );
        assert_eq!([0, 1, 2].map(|free| number(share.free_frame(free))), [Some(8), Some(9), None]);
        share.note_frames(|| vec![(of(None, 7), true)]);
        assert_eq!((share.frame_at(4096), number(share.free_frame(0))), (None, Some(7)));
    }
}
