//! The heap with failed lines, for runtimes in C. `include/rampart_heap.h` says what each function does.
//!
//! Objects are those of [`NativeModel`]. A model of the runtime's own would be called back for each object; who needs
//! that uses [`rampart_heap`] from Rust.
//!
//! A panic does not leave a function: it ends the process.

#![warn(unsafe_op_in_unsafe_fn)]

use std::ffi::{c_int, c_void};
use std::num::NonZeroU32;

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{
    Collection, CollectionStress, HeapSettings, LineFailure, LineSize, LocalAllocator, ManagedHeap, NativeModel,
    ObjectRef, RootSet, Shape,
};

/// `rampart_heap_settings`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CHeapSettings {
    pages: usize,
    failed: f64,
    seed: u64,
    line: u32,
    stress: u32,
}

/// `rampart_visit`.
pub type VisitFunction = unsafe extern "C" fn(visitor: *mut c_void, reference: u32) -> u32;

/// `rampart_roots`.
pub type RootsFunction = unsafe extern "C" fn(context: *mut c_void, visit: VisitFunction, visitor: *mut c_void);

/// The roots of a runtime in C.
#[derive(Clone, Copy, Debug)]
struct CRoots {
    function: RootsFunction,
    context: *mut c_void,
}

/// `rampart_heap`.
#[derive(Debug)]
pub struct CHeap {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: CRoots,
}

impl RootSet for CRoots {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        unsafe extern "C" fn visit_one(visitor: *mut c_void, reference: u32) -> u32 {
            // SAFETY: `visitor` is what is passed below, which outlives the call; nothing else uses it meanwhile.
            let visit = unsafe { &mut *visitor.cast::<&mut dyn FnMut(u32) -> u32>() };
            visit(reference)
        }
        let mut visit = visit;
        // SAFETY: whoever made the heap gave a function and a context that fit each other, for as long as the heap is
        // there (`rampart_heap_create`); the function calls `visit_one` with the visitor that it gets.
        unsafe { (self.function)(self.context, visit_one, (&raw mut visit).cast()) }
    }
}

impl CHeapSettings {
    /// A heap; `None` if the settings are wrong or there is no memory.
    fn heap(self) -> Option<ManagedHeap<NativeModel>> {
        let line = match self.line {
            0 => HeapSettings::default().line,
            bytes => LineSize::ALL.into_iter().find(|line| line.bytes() == bytes)?,
        };
        let stress = NonZeroU32::new(self.stress).map_or(CollectionStress::Off, CollectionStress::Every);
        // Before the failures are drawn, which takes memory.
        if self.pages as u64 > rampart_heap::MOST / 4096 {
            return None;
        }
        let failed = draw_failures(self.pages, FailureShare::new(self.failed)?, ClusterBytes::LINE, self.seed);
        ManagedHeap::new(NativeModel, HeapSettings { line, stress, ..HeapSettings::default() }, failed).ok()
    }
}

impl CHeap {
    fn collect(&mut self, kind: Collection) {
        let Self { heap, local, roots } = self;
        heap.collect(kind, &mut [local], roots, &mut |_| {});
    }

    fn allocate(&mut self, shape: Shape) -> Option<ObjectRef> {
        let at = self.heap.allocate_or_collect(&mut self.local, shape.size(), &mut self.roots)?;
        let region = self.heap.region();
        region.fill(at, shape.size(), 0);
        Some(NativeModel::initialize(region, at, shape))
    }

    /// The place of a reference of an object.
    fn slot(&self, object: u32, number: u32) -> Option<u32> {
        let object = ObjectRef::new(object)?;
        (number < NativeModel::references(self.heap.region(), object)).then(|| NativeModel::slot(object, number))
    }

    /// All roots, as they are.
    fn root_values(&self) -> Vec<u32> {
        let (mut roots, mut values) = (self.roots, Vec::new());
        roots.visit(&mut |value| {
            values.push(value);
            value
        });
        values
    }
}

/// See `rampart_heap.h`.
///
/// # Safety
/// `settings` must be NULL or point to settings. While the heap exists, `roots` must be a function that may be called
/// with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rampart_heap_create(
    settings: *const CHeapSettings,
    roots: Option<RootsFunction>,
    context: *mut c_void,
) -> *mut CHeap {
    // SAFETY: the caller's promise.
    let settings = unsafe { settings.as_ref() };
    let made = settings.and_then(|settings| settings.heap()).zip(roots);
    made.map_or(std::ptr::null_mut(), |(heap, function)| {
        let (local, roots) = (LocalAllocator::default(), CRoots { function, context });
        Box::into_raw(Box::new(CHeap { heap, local, roots }))
    })
}

/// See `rampart_heap.h`.
///
/// # Safety
/// `heap` must be NULL, or come from [`rampart_heap_create`] and not be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rampart_heap_destroy(heap: *mut CHeap) {
    if !heap.is_null() {
        // SAFETY: the caller's promise: it was a box, and is freed once.
        drop(unsafe { Box::from_raw(heap) });
    }
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_allocate(heap: &mut CHeap, references: u32, bytes: u32) -> u32 {
    Shape::new(references, bytes).and_then(|shape| heap.allocate(shape)).map_or(0, ObjectRef::offset)
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_load(heap: &CHeap, object: u32, number: u32) -> u32 {
    heap.slot(object, number).map_or(0, |slot| heap.heap.region().read(slot))
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_store(heap: &mut CHeap, object: u32, number: u32, value: u32) -> c_int {
    let Some(slot) = heap.slot(object, number) else { return -1 };
    heap.heap.region().mark_card(slot);
    heap.heap.region().write(slot, value);
    0
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_bytes(heap: &CHeap, object: u32) -> *mut c_void {
    let region = heap.heap.region();
    let at = ObjectRef::new(object).map(|object| NativeModel::bytes_at(region, object) as usize);
    at.map_or(std::ptr::null_mut(), |at| region.base().as_ptr().wrapping_add(at).cast())
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_pin(heap: &mut CHeap, object: u32, is_pinned: c_int) {
    match (ObjectRef::new(object), is_pinned) {
        (Some(object), 0) => heap.heap.unpin(object),
        (Some(object), _) => heap.heap.pin(object),
        (None, _) => {}
    }
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_collect(heap: &mut CHeap, kind: c_int) {
    heap.collect(match kind {
        0 => Collection::Nursery,
        1 => Collection::Full,
        _ => Collection::Compacting,
    });
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_collections(heap: &CHeap) -> u64 {
    let counts = heap.heap.counts();
    counts.nursery + counts.full
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_fail_line(heap: &mut CHeap, offset: u32) -> c_int {
    match heap.heap.fail_line(offset, &mut [&mut heap.local]) {
        LineFailure::NotThere => 0,
        LineFailure::Known => 1,
        LineFailure::Free => 2,
        LineFailure::Replaced => 3,
        LineFailure::InUse(..) => 4,
        LineFailure::Lost => 5,
    }
}

/// See `rampart_heap.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rampart_heap_verify(heap: &CHeap) -> i64 {
    heap.heap.verify(heap.root_values()).map_or(-1, |live| i64::try_from(live.objects).unwrap_or(i64::MAX))
}
