//! The collector of `rampart-heap` in the place of wasmtime's copying collector.
//!
//! **Problem.** wasmtime has no interface for collectors of others: the trait is private, and who implements it is
//! fixed. **Idea.** This file replaces `copying.rs` of the crate `wasmtime`; its types keep their names, and objects
//! their layout, so that nothing else changes. The word that the header has as padding is the collector's. **Why this
//! way.** Compiled code bumps a cursor up to a limit and calls the runtime at the limit: only the runtime knows that
//! the range is a hole. The write barrier is in `compiler.rs`, what objects look like in `objects.rs`.

mod losses;
mod objects;

use self::objects::{ArrayHeader, ExternObject, ObjectHeader, RESERVED, TypeTable, WasmModel};
use super::VMArrayRef;
use super::trace_infos::TraceInfos;
use crate::runtime::vm::{
    ExternRefHostDataId, GarbageCollection, GcHeap, GcProgress, GcRoot, GcRootsIter, GcRuntime,
    GcStoreTraceState, TypedGcRef, VMExternRef, VMGcHeader, VMGcObjectData, VMGcRef,
    VMMemoryDefinition,
};
use crate::{Engine, bail_bug, prelude::*};
use std::sync::Arc;
use std::time::Instant;

use core::{alloc::Layout, any::Any, mem, ptr::NonNull, sync::atomic::AtomicUsize};
use rampart_heap::wasmtime::{
    CompiledAllocator, DataLost, HeapError, HeapPlan, HeapShare, INSTEAD, LossBell, NEGATIVE_SIZE, STACK_OVERFLOW,
    TOO_LARGE_SIZE, are_losses_thrown,
};
use rampart_heap::{
    CARD_BYTES, Collection, HeapRegion, LOST, LineFailure, LocalAllocator, ManagedHeap, ObjectRef, RootSet,
};
use wasmtime_environ::copying::{ALIGN, CopyingTypeLayouts, InlineTraceInfo};
use wasmtime_environ::{GcArrayLayout, GcStructLayout, GcTypeLayouts, VMGcKind, VMSharedTypeIndex};

/// The collector.
#[derive(Default)]
pub struct CopyingCollector {
    layouts: CopyingTypeLayouts,
}

// SAFETY: its heaps and the barriers of `compiler.rs`, which stands beside it, are made for each other.
unsafe impl GcRuntime for CopyingCollector {
    fn layouts(&self) -> &dyn GcTypeLayouts {
        &self.layouts
    }

    fn new_gc_heap(&self, _engine: &Engine) -> Result<Box<dyn GcHeap>> {
        Ok(Box::new(ImmixHeap::default()) as _)
    }
}

/// A heap of a store.
struct ImmixHeap {
    trace_infos: TraceInfos,
    no_gc_count: u64,
    /// Dropped before the memory: it may have put pages there.
    heap: Option<ManagedHeap<WasmModel>>,
    memory: Option<crate::vm::Memory>,
    vmmemory: Option<VMMemoryDefinition>,
    /// A lost page makes compiled code call the runtime at its next allocation. Dropped before what it closes.
    bell: Option<LossBell>,
    /// Where compiled code allocates.
    compiled: CompiledAllocator,
    local: LocalAllocator,
    /// What the host uses, too.
    shared: Arc<HeapShare>,
    /// The `externref`s, and what they hold.
    externs: Vec<(ObjectRef, ExternRefHostDataId)>,
    /// The size of the allocation that failed last.
    short_of: Option<u32>,
    /// Memory set aside for its retry: an offset, and the size. It is not an object yet: the next collection forgets
    /// it.
    found: Option<(u32, u32)>,
    /// The size for which the last collection found no memory: its retry is refused.
    exhausted: Option<u32>,
    /// A collection must move objects out of failed lines.
    must_vacate: bool,
}

/// Memory that is missing.
#[derive(Clone, Copy)]
struct Shortage {
    bytes: u32,
    /// A collection does not help.
    is_final: bool,
}

impl From<Shortage> for u64 {
    fn from(shortage: Shortage) -> Self {
        shortage.bytes.into()
    }
}

impl Default for ImmixHeap {
    fn default() -> Self {
        Self {
            trace_infos: TraceInfos::new(),
            no_gc_count: 0,
            memory: None,
            vmmemory: None,
            bell: None,
            compiled: CompiledAllocator::default(),
            local: LocalAllocator::default(),
            heap: None,
            shared: Arc::default(),
            externs: Vec::new(),
            short_of: None,
            found: None,
            exhausted: None,
            must_vacate: false,
        }
    }
}

impl ImmixHeap {
    /// Makes the heap, once its memory is there.
    fn open(&mut self) {
        let vmmemory = self.vmmemory.as_ref().expect("the memory is attached");
        assert!(vmmemory.current_length() as u64 == 1 << 32, "the memory of the heap has 4 GiB from the start");
        // SAFETY: wasmtime reserves 4 GiB and a guard of more than 64 KiB, and this heap is their only user. Compiled
        // code and `heap_slice` access the memory while the collector does not.
        let region = unsafe { HeapRegion::over(vmmemory.base.as_non_null()) };
        let HeapPlan { settings, memory, shared } = HeapPlan::take();
        self.shared = shared;
        let heap = ManagedHeap::over(region, LOST.into(), WasmModel::default(), settings, memory);
        self.heap = Some(heap.expect("whoever sets the plan checks it"));
        // SAFETY: the words are atomic and lie in a box, which `detach` and drop end after the bell.
        self.bell = Some(unsafe { LossBell::at(self.compiled.words()) });
    }

    fn heap(&mut self) -> &mut ManagedHeap<WasmModel> {
        self.heap.as_mut().expect("the heap is open while its memory is attached")
    }

    /// Says where compiled code allocates: nowhere, if pages were lost meanwhile.
    fn hand_out(&mut self) {
        self.compiled.take_back(&self.local);
        if self.heap().is_stressed() || self.shared.is_loss_noticed() {
            self.compiled.close();
        }
    }

    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        if let Some((at, _)) = self.found.take_if(|(_, found)| *found == bytes) {
            return Some(at);
        }
        self.compiled.hand_over(&mut self.local);
        let heap = self.heap.as_mut().expect("the heap is open while its memory is attached");
        let at = heap.allocate(&mut self.local, bytes);
        self.hand_out();
        at
    }

    /// An object without content; a reference to it.
    fn allocate_object(&mut self, header: VMGcHeader, layout: Layout) -> Result<Result<VMGcRef, Shortage>> {
        ensure!(layout.align() == ALIGN as usize, "objects are aligned to {ALIGN} bytes");
        let size = u32::try_from(layout.size()).ok().and_then(|size| size.checked_next_multiple_of(ALIGN));
        let size = size.ok_or(crate::Trap::AllocationTooLarge)?;
        self.shared.failures.set_inside(true);
        let object = self.find_room(size);
        self.shared.failures.set_inside(false);
        let gc_ref = match object {
            Ok(gc_ref) => gc_ref,
            Err(shortage) => return Ok(Err(shortage)),
        };
        *self.index_mut(typed(&gc_ref))? = ObjectHeader { header, object_size: size, collector_word: 0 };
        Ok(Ok(gc_ref))
    }

    /// Memory for an object, as if there were one already.
    fn find_room(&mut self, size: u32) -> Result<VMGcRef, Shortage> {
        if self.exhausted.take() == Some(size) || !self.heap().could_hold(size) {
            return Err(Shortage { bytes: size, is_final: true });
        }
        // What was lost is found out before the program reads it.
        // If a collection has found room for this allocation already, it is used first.
        let is_found = self.found.is_some_and(|(_, found)| found == size);
        let is_collected_first = !is_found && (self.must_vacate() || self.shared.is_loss_noticed());
        let room = if is_collected_first { None } else { self.allocate(size).and_then(VMGcRef::from_raw_u32) };
        room.ok_or_else(|| {
            self.short_of = Some(size);
            Shortage { bytes: size, is_final: false }
        })
    }

    /// Deals with lines that have failed since. Whether a collection must move objects out of them, before anything
    /// else is allocated.
    fn must_vacate(&mut self) -> bool {
        if !self.shared.failures.is_any() {
            return self.must_vacate;
        }
        self.compiled.hand_over(&mut self.local);
        let heap = self.heap.as_mut().expect("the heap is open while its memory is attached");
        // wasmtime may try again before it collects.
        self.must_vacate |= self.shared.failures.heed(heap, &mut self.local, Instant::now);
        self.hand_out();
        self.must_vacate
    }

    /// What compiled code gets in the place of an object: an exception to be thrown. Those who handle it need memory,
    /// too.
    fn refuse(&mut self, error: HeapError) -> Result<VMGcRef> {
        self.heap().open_reserve();
        let exception = self.shared.exception(error).ok_or(crate::Trap::AllocationTooLarge)?;
        Ok(VMGcRef::from_raw_u32(exception | INSTEAD).expect("it is not 0"))
    }

    /// The exception for a stack that overflows; without one, the program ends.
    fn stack_overflow(&self) -> Result<VMGcRef> {
        let exception = self.shared.exception(HeapError::StackOverflow).and_then(VMGcRef::from_raw_u32);
        exception.ok_or_else(|| crate::Trap::StackOverflow.into())
    }

    /// The exception for a lost object, which compiled code expected to be of a type, if it said any.
    fn thrown_for(&self, lost: DataLost, expected: Option<u32>) -> Option<VMGcRef> {
        self.shared.set_expected(lost, expected);
        self.shared.lost_exception(lost).and_then(VMGcRef::from_raw_u32)
    }

    /// Collects as is due. If the allocation that failed still does not fit, collects again with the next stronger
    /// kind.
    fn collect(&mut self, roots: &mut RootList<'_>, state: &mut GcStoreTraceState<'_>) -> Result<()> {
        self.shared.failures.set_inside(true);
        let collected = self.collect_as_due(roots, state);
        self.shared.failures.set_inside(false);
        collected
    }

    fn collect_as_due(&mut self, roots: &mut RootList<'_>, state: &mut GcStoreTraceState<'_>) -> Result<()> {
        (self.found, self.must_vacate) = (None, false);
        let short_of = self.short_of.take();
        let mut due = Some(if short_of.is_some() { self.heap().due() } else { Collection::Full });
        while let Some(kind) = due {
            self.collect_once(kind, roots, state)?;
            let Some(bytes) = short_of else { break };
            self.found = self.allocate(bytes).map(|at| (at, bytes));
            due = kind.next().filter(|_| self.found.is_none());
            self.exhausted = Some(bytes).filter(|_| due.is_none() && self.found.is_none());
        }
        Ok(())
    }

    fn collect_once(
        &mut self,
        kind: Collection,
        roots: &mut RootList<'_>,
        state: &mut GcStoreTraceState<'_>,
    ) -> Result<()> {
        let Self { heap, local, externs, trace_infos, compiled, shared, .. } = self;
        let began = Instant::now();
        let heap = heap.as_mut().expect("the heap is open while its memory is attached");
        let mut dead = Vec::new();
        let types = TypeTable { infos: NonNull::from(trace_infos), state: NonNull::from(&mut *state).cast() };
        heap.model().types.set(Some(types));
        shared.heed_losses();
        heap.take_up_calls(&mut [local]);
        for offset in shared.take_doomed() {
            if heap.lose_line(offset, &mut [local]) == LineFailure::Lost {
                heap.region().fill(offset / 64 * 64, 64, 0xff);
            }
        }
        let known = shared.lost_objects();
        heap.collect(kind, &mut [local], roots, &mut |survivors| {
            shared.follow(survivors);
            losses::note_lost(shared, survivors);
            externs.retain_mut(|(object, data)| match survivors.at(*object) {
                Some(now) => {
                    *object = now;
                    true
                }
                None => {
                    dead.push(*data);
                    false
                }
            });
        });
        if shared.is_class_missing(known) && are_losses_thrown() {
            losses::find_clues(shared, heap);
        }
        heap.model().types.set(None);
        let ended = Instant::now();
        shared.collected(kind, ended - began, heap.counts(), heap.demand(), heap.metadata_bytes());
        shared.failures.collected(heap, began, ended)?;
        shared.note_frames(|| heap.frames());
        compiled.clear();
        let lost = heap.lost_objects().len();
        if lost > 0 && !are_losses_thrown() {
            return Err(DataLost(u32::try_from(lost - 1)?).into());
        }
        self.hand_out();
        for data in dead {
            state.host_data_table.dealloc(data)?;
        }
        roots.end()
    }
}

/// The roots of a collection.
struct RootList<'a> {
    roots: Vec<GcRoot<'a>>,
    broken: Option<crate::Error>,
}

impl RootList<'_> {
    fn end(&mut self) -> Result<()> {
        self.broken.take().map_or(Ok(()), Err)
    }
}

impl RootSet for RootList<'_> {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        for root in &mut self.roots {
            match root.get() {
                Ok(value) => {
                    let now = visit(value.as_raw_u32());
                    if now != value.as_raw_u32() {
                        root.set(VMGcRef::from_raw_u32(now).expect("an object moves to a place"));
                    }
                }
                Err(error) => self.broken = Some(error),
            }
        }
    }
}

fn typed(gc_ref: &VMGcRef) -> &TypedGcRef<ObjectHeader> {
    gc_ref.as_typed_unchecked()
}

// SAFETY: all accesses are to offsets of one region, of which none leads outside (`HeapRegion`), or are checked slices
// of it; no address of the host is ever written into it.
unsafe impl GcHeap for ImmixHeap {
    fn is_attached(&self) -> bool {
        self.memory.is_some()
    }

    fn attach(&mut self, memory: crate::vm::Memory) {
        assert!(!self.is_attached() && !memory.is_shared_memory());
        self.vmmemory = Some(memory.vmmemory());
        self.memory = Some(memory);
        self.open();
    }

    fn detach(&mut self) -> crate::vm::Memory {
        let memory = self.memory.take().expect("the memory is attached");
        *self = Self::default();
        memory
    }

    fn as_any(&self) -> &dyn Any {
        self as _
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self as _
    }

    fn enter_no_gc_scope(&mut self) {
        self.no_gc_count += 1;
    }

    fn exit_no_gc_scope(&mut self) {
        self.no_gc_count -= 1;
    }

    fn clone_gc_ref(&mut self, gc_ref: &VMGcRef) -> VMGcRef {
        gc_ref.unchecked_copy()
    }

    fn write_gc_ref(&mut self, destination: &mut Option<VMGcRef>, source: Option<&VMGcRef>) -> Result<()> {
        // The destination is a global, an element of a table, a field that the host sets, or what is thrown. Compiled
        // code may throw a reference to a lost object, or what stands for a full stack: the exception for that is
        // thrown in its place.
        let expected = self.compiled.take_expected_type();
        let thrown = match (source.map(VMGcRef::as_raw_u32), expected) {
            (Some(STACK_OVERFLOW), _) => Some(self.stack_overflow()?),
            (Some(value), Some(expected)) => {
                DataLost::check(value).err().and_then(|lost| self.thrown_for(lost, expected))
            }
            _ => None,
        };
        *destination = thrown.or(source.map(VMGcRef::unchecked_copy));
        Ok(())
    }

    fn expose_gc_ref_to_wasm(&mut self, _gc_ref: VMGcRef) -> Result<()> {
        Ok(())
    }

    fn alloc_externref(&mut self, host_data: ExternRefHostDataId) -> Result<Result<VMExternRef, u64>> {
        let size = mem::size_of::<ExternObject>().next_multiple_of(ALIGN as usize);
        let mut header = VMGcHeader::externref();
        header.set_reserved_u26(InlineTraceInfo::NO_GC_EDGES.encode());
        let gc_ref = match self.allocate_object(header, Layout::from_size_align(size, ALIGN as usize)?)? {
            Err(short) => return Ok(Err(short.into())),
            Ok(gc_ref) => gc_ref,
        };
        self.index_mut::<ExternObject>(gc_ref.as_typed_unchecked())?.host_data = host_data;
        self.externs.extend(ObjectRef::new(gc_ref.as_raw_u32()).map(|object| (object, host_data)));
        Ok(Ok(gc_ref.into_externref_unchecked()))
    }

    fn externref_host_data(&self, externref: &VMExternRef) -> Result<ExternRefHostDataId> {
        let offset = externref.as_gc_ref().as_raw_u32();
        if let Err(lost) = DataLost::check(offset) {
            // What it holds is known.
            let known = self.externs.iter().find(|(object, _)| object.offset() == offset);
            return known.map(|(_, data)| *data).ok_or_else(|| lost.into());
        }
        Ok(self.index::<ExternObject>(externref.as_gc_ref().as_typed_unchecked())?.host_data)
    }

    fn header(&self, gc_ref: &VMGcRef) -> Result<&VMGcHeader> {
        if gc_ref.as_raw_u32() == STACK_OVERFLOW {
            return self.index(self.stack_overflow()?.as_typed_unchecked::<VMGcHeader>());
        }
        DataLost::check(gc_ref.as_raw_u32())?;
        self.index(gc_ref.as_typed_unchecked())
    }

    fn header_mut(&mut self, gc_ref: &VMGcRef) -> Result<&mut VMGcHeader> {
        DataLost::check(gc_ref.as_raw_u32())?;
        self.index_mut(gc_ref.as_typed_unchecked())
    }

    fn object_size(&self, gc_ref: &VMGcRef) -> Result<usize> {
        DataLost::check(gc_ref.as_raw_u32())?;
        Ok(usize::try_from(self.index(typed(gc_ref))?.object_size)?)
    }

    /// For compiled code only: a reference with the bit [`INSTEAD`] is an exception to be thrown.
    fn alloc_raw(&mut self, header: VMGcHeader, layout: Layout) -> Result<Result<VMGcRef, u64>> {
        let error = match u32::try_from(layout.size()) {
            Ok(NEGATIVE_SIZE) => HeapError::NegativeSize,
            Ok(TOO_LARGE_SIZE) | Err(_) => HeapError::OutOfMemory,
            Ok(_) => match self.allocate_object(header, layout)? {
                Ok(gc_ref) => return Ok(Ok(gc_ref)),
                // Without an exception for it, wasmtime tells the host.
                Err(Shortage { bytes, is_final })
                    if !is_final || self.shared.exception(HeapError::OutOfMemory).is_none() =>
                {
                    return Ok(Err(bytes.into()));
                }
                Err(_) => HeapError::OutOfMemory,
            },
        };
        self.refuse(error).map(Ok)
    }

    fn alloc_uninit_struct_or_exn(
        &mut self,
        ty: VMSharedTypeIndex,
        layout: &GcStructLayout,
    ) -> Result<Result<VMGcRef, u64>> {
        let kind = if layout.is_exception { VMGcKind::ExnRef } else { VMGcKind::StructRef };
        let mut header = VMGcHeader::from_kind_and_index(kind, ty);
        header.set_reserved_u26(InlineTraceInfo::r#struct(layout).encode());
        Ok(self.allocate_object(header, layout.layout())?.map_err(u64::from))
    }

    fn dealloc_uninit_struct_or_exn(&mut self, _gcref: VMGcRef) -> Result<()> {
        Ok(())
    }

    fn alloc_uninit_array(
        &mut self,
        ty: VMSharedTypeIndex,
        length: u32,
        layout: &GcArrayLayout,
    ) -> Result<Result<VMArrayRef, u64>> {
        let mut header = VMGcHeader::from_kind_and_index(VMGcKind::ArrayRef, ty);
        header.set_reserved_u26(InlineTraceInfo::array(layout).encode());
        let layout = layout.layout(length).ok_or(crate::Trap::AllocationTooLarge)?;
        let gc_ref = match self.allocate_object(header, layout)? {
            Err(short) => return Ok(Err(short.into())),
            Ok(gc_ref) => gc_ref,
        };
        self.index_mut(gc_ref.as_typed_unchecked::<ArrayHeader>())?.length = length;
        Ok(Ok(gc_ref.into_arrayref_unchecked()))
    }

    fn dealloc_uninit_array(&mut self, _arrayref: VMArrayRef) -> Result<()> {
        Ok(())
    }

    fn array_len(&self, arrayref: &VMArrayRef) -> Result<u32> {
        DataLost::check(arrayref.as_gc_ref().as_raw_u32())?;
        Ok(self.index::<ArrayHeader>(arrayref.as_gc_ref().as_typed_unchecked())?.length)
    }

    /// Always 0: then wasmtime collects first instead of growing the heap. This heap has its 4 GiB from the start and
    /// cannot grow.
    fn allocated_bytes(&self) -> usize {
        0
    }

    fn gc<'a, 'b>(
        &'a mut self,
        roots: GcRootsIter<'a>,
        trace_state: &'a mut GcStoreTraceState<'b>,
    ) -> Box<dyn GarbageCollection + 'a>
    where
        'b: 'a,
    {
        assert_eq!(self.no_gc_count, 0, "no collection inside of a no-GC scope");
        Box::new(ImmixCollection { roots: Some(roots), trace_state, heap: self })
    }

    unsafe fn vmctx_gc_heap_data(&self) -> NonNull<u8> {
        self.compiled.data()
    }

    fn take_memory(&mut self) -> crate::vm::Memory {
        self.vmmemory.take();
        self.memory.take().expect("the memory is attached")
    }

    unsafe fn replace_memory(&mut self, memory: crate::vm::Memory, _delta_bytes_grown: u64) {
        self.vmmemory = Some(memory.vmmemory());
        self.memory = Some(memory);
    }

    #[inline]
    fn vmmemory(&self) -> VMMemoryDefinition {
        let vmmemory = self.vmmemory.as_ref().expect("the memory is attached");
        VMMemoryDefinition { base: vmmemory.base, current_length: AtomicUsize::new(vmmemory.current_length()) }
    }

    /// The host may write references through this: the cards of the object are noted, if it can have any.
    fn gc_object_data_mut(&mut self, gc_ref: &VMGcRef) -> Result<&mut VMGcObjectData> {
        let range = self.object_range(gc_ref)?;
        let region = self.heap().region();
        let start = gc_ref.as_raw_u32();
        match InlineTraceInfo::decode(region.read(start) & RESERVED) {
            InlineTraceInfo::Array { elems_are_gc_refs: false } | InlineTraceInfo::Struct { gc_ref_bitmap: 0 } => {}
            _ => (start / CARD_BYTES * CARD_BYTES..u32::try_from(range.end)?)
                .step_by(CARD_BYTES as usize)
                .for_each(|card| region.mark_card(card)),
        }
        match self.heap_slice_mut().get_mut(range) {
            Some(data) => Ok(data.into()),
            None => bail_bug!("gc object out of bounds"),
        }
    }
}

struct ImmixCollection<'a, 'b> {
    roots: Option<GcRootsIter<'a>>,
    trace_state: &'a mut GcStoreTraceState<'b>,
    heap: &'a mut ImmixHeap,
}

impl GarbageCollection for ImmixCollection<'_, '_> {
    /// A collection is one increment.
    fn collect_increment(&mut self) -> Result<GcProgress> {
        if let Some(roots) = self.roots.take() {
            let mut roots = RootList { roots: roots.collect(), broken: None };
            self.heap.collect(&mut roots, self.trace_state)?;
        }
        Ok(GcProgress::Complete)
    }
}
