//! The classes of lost objects, as TeaVM's objects tell them.
//!
//! An object of Java begins with a reference to a virtual table, and that with one to the class. The elements of an
//! array of Java are an object of WebAssembly of their own, to which only the array refers.

use std::collections::BTreeMap;

use rampart_heap::wasmtime::{DataLost, HeapShare};
use rampart_heap::{HeapRegion, LOST, LostObject, ManagedHeap, ObjectModel, ObjectRef, Survivors};
use wasmtime_environ::VMGcKind;
use wasmtime_environ::copying::HEADER_SIZE;

use super::objects::WasmModel;

/// Notes the classes of objects that were lost, if what is left of them tells it.
pub(super) fn note_lost(shared: &HeapShare, survivors: &Survivors<'_, WasmModel>) {
    let (region, model) = (survivors.region(), survivors.model());
    for LostObject { header, first, .. } in survivors.lost_objects().iter().skip(shared.lost_objects()) {
        let is_struct = header.is_some_and(|header| VMGcKind::from_high_bits_of_u32(header[0]) == VMGcKind::StructRef);
        let table = first.filter(|_| is_struct).and_then(WasmModel::referent).and_then(|table| survivors.at(table));
        let class = table.and_then(|table| first_of(model, region, table)).filter(|class| is_class(model, region, *class));
        shared.add_lost_class(class.map(ObjectRef::offset));
    }
}

/// Learns from live objects, if [`note_lost`] did not find all classes: which class an object has whose last field
/// refers to a lost object, as that of an array of Java does; and which class the objects of each type have. A full
/// collection has just ended.
pub(super) fn find_clues(shared: &HeapShare, heap: &ManagedHeap<WasmModel>) {
    let (region, model) = (heap.region(), heap.model());
    let mut classes: BTreeMap<ObjectRef, Option<ObjectRef>> = BTreeMap::new();
    for object in heap.old_objects().filter(|object| is_struct(region, *object)) {
        let Some(table) = first_of(model, region, object) else { continue };
        let find = || first_of(model, region, table).filter(|class| is_class(model, region, *class));
        let Some(class) = *classes.entry(table).or_insert_with(find) else { continue };
        let ty = region.read(object.offset() + wasmtime_environ::VM_GC_HEADER_TYPE_INDEX_OFFSET);
        shared.set_class_of_type(ty, class.offset());
        let mut last = 0;
        model.visit_slots(region, object, 0..u32::MAX, &mut |slot| last = region.read(slot));
        if let Err(lost) = DataLost::check(last) {
            shared.set_holder(lost, class.offset());
        }
    }
}

fn is_struct(region: &HeapRegion, object: ObjectRef) -> bool {
    VMGcKind::from_high_bits_of_u32(region.read(object.offset())) == VMGcKind::StructRef
}

/// The struct to which the first field of a struct refers.
fn first_of(model: &WasmModel, region: &HeapRegion, object: ObjectRef) -> Option<ObjectRef> {
    let (at, mut first) = (object.offset() + HEADER_SIZE, None);
    model.visit_slots(region, object, at..at + 4, &mut |slot| first = WasmModel::referent(region.read(slot)));
    first.filter(|first| first.offset() < LOST && is_struct(region, *first))
}

/// Whether an object is a class: their class is the one that is its own.
fn is_class(model: &WasmModel, region: &HeapRegion, object: ObjectRef) -> bool {
    let class_of = |object| first_of(model, region, first_of(model, region, object)?);
    class_of(object).is_some_and(|class| class_of(class) == Some(class))
}
