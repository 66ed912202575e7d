//! The objects of WebAssembly: their headers, and where their references are.

use std::cell::Cell;
use std::mem;
use std::ops::Range;
use std::ptr::NonNull;

use rampart_heap::{HeapRegion, ObjectModel, ObjectRef};
use wasmtime_environ::copying::{ALIGN, ARRAY_LENGTH_OFFSET, FORWARDING_REF_OFFSET, HEADER_SIZE, InlineTraceInfo};
use wasmtime_environ::{VMGcKind, VMSharedTypeIndex};

use super::super::trace_infos::TraceInfos;
use crate::runtime::vm::{ExternRefHostDataId, GcHeapObject, GcStoreTraceState, TraceInfo, VMGcHeader};

/// Where the elements of an array begin that are references.
const ELEMENTS: u32 = ARRAY_LENGTH_OFFSET + 4;

/// The bits of a header's first word that say where references are.
pub(super) const RESERVED: u32 = (1 << 26) - 1;

const _: () = assert!(HEADER_SIZE == 16 && FORWARDING_REF_OFFSET == 16);

/// The header of all objects.
#[repr(C)]
pub(super) struct ObjectHeader {
    pub(super) header: VMGcHeader,
    pub(super) object_size: u32,
    pub(super) collector_word: u32,
}

const _: () = {
    assert!(mem::size_of::<ObjectHeader>() == HEADER_SIZE as usize);
    assert!(mem::offset_of!(ObjectHeader, collector_word) == WasmModel::COLLECTOR_WORD as usize);
};

// SAFETY: all objects have this header.
unsafe impl GcHeapObject for ObjectHeader {
    #[inline]
    fn is(_header: &VMGcHeader) -> bool {
        true
    }
}

/// An array.
#[repr(C)]
pub(super) struct ArrayHeader {
    header: ObjectHeader,
    pub(super) length: u32,
}

// SAFETY: objects of this kind have this header.
unsafe impl GcHeapObject for ArrayHeader {
    #[inline]
    fn is(header: &VMGcHeader) -> bool {
        header.kind() == VMGcKind::ArrayRef
    }
}

/// An `externref`.
#[repr(C)]
pub(super) struct ExternObject {
    header: ObjectHeader,
    /// The word in which a moved object has its new offset.
    forward: u32,
    pub(super) host_data: ExternRefHostDataId,
}

// SAFETY: objects of this kind are laid out so.
unsafe impl GcHeapObject for ExternObject {
    #[inline]
    fn is(header: &VMGcHeader) -> bool {
        header.kind() == VMGcKind::ExternRef
    }
}

/// What tells where the references of a struct are whose header has no room for that.
#[derive(Clone, Copy)]
pub(super) struct TypeTable {
    pub(super) infos: NonNull<TraceInfos>,
    pub(super) state: NonNull<GcStoreTraceState<'static>>,
}

/// The objects of WebAssembly.
#[derive(Default)]
pub(super) struct WasmModel {
    /// During a collection.
    pub(super) types: Cell<Option<TypeTable>>,
}

// SAFETY: the cell is only used by the collection that set it, which has exclusive access to the heap.
unsafe impl Send for WasmModel {}
// SAFETY: as for `Send`.
unsafe impl Sync for WasmModel {}

impl WasmModel {
    /// The offsets of the references of an object whose header does not say them.
    fn by_type(&self, region: &HeapRegion, object: ObjectRef, visit: &mut impl FnMut(u32)) {
        let bits = region.read(object.offset() + wasmtime_environ::VM_GC_HEADER_TYPE_INDEX_OFFSET);
        let (ty, types) = (VMSharedTypeIndex::new(bits), self.types.get().expect("a collection knows the types"));
        // SAFETY: set by the collection that is under way, for its own time, and nobody else uses either meanwhile.
        let info = unsafe { (*types.infos.as_ptr()).trace_info(&ty, types.state.as_ref()) };
        let TraceInfo::Struct { gc_ref_offsets } = info else { return };
        gc_ref_offsets.iter().for_each(|offset| visit(object.offset() + offset));
    }
}

impl ObjectModel for WasmModel {
    const ALIGN: u32 = ALIGN;
    const COLLECTOR_WORD: u32 = 12;
    const FORWARD_WORD: u32 = FORWARDING_REF_OFFSET;

    #[inline]
    fn size(&self, region: &HeapRegion, object: ObjectRef) -> u32 {
        region.read(object.offset() + wasmtime_environ::VM_GC_HEADER_SIZE)
    }

    #[inline]
    fn visit_slots(&self, region: &HeapRegion, object: ObjectRef, within: Range<u32>, visit: &mut impl FnMut(u32)) {
        let mut visit = |slot: u32| {
            if within.contains(&slot) {
                visit(slot);
            }
        };
        match InlineTraceInfo::decode(region.read(object.offset()) & RESERVED) {
            InlineTraceInfo::Struct { gc_ref_bitmap } => {
                let (mut bits, fields) = (gc_ref_bitmap, object.offset() + HEADER_SIZE);
                while bits != 0 {
                    visit(fields + 4 * bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
            InlineTraceInfo::Array { elems_are_gc_refs: false } => {}
            InlineTraceInfo::Array { elems_are_gc_refs: true } => {
                let first = object.offset() + ELEMENTS;
                let end = first + 4 * region.read(object.offset() + ARRAY_LENGTH_OFFSET);
                let start = first.max(within.start.next_multiple_of(4));
                (start..end.min(within.end)).step_by(4).for_each(visit);
            }
            InlineTraceInfo::OutOfLine => self.by_type(region, object, &mut visit),
        }
    }

    #[inline]
    fn referent(value: u32) -> Option<ObjectRef> {
        // A number of 31 bits has its lowest bit set.
        if value & 1 == 1 { None } else { ObjectRef::new(value) }
    }
}
