//! The classes of lost objects, as TeaVM's objects tell them.
//!
//! An object of Java begins with a reference to its virtual table, and the virtual table with one to the class. The
//! elements of an array of Java are an object of their own, to which the last field of the array refers.

use std::collections::{BTreeMap, BTreeSet};

use rampart_heap::wasmtime::{DataLost, HeapShare};
use rampart_heap::{HeapRegion, LOST, LostObject, ManagedHeap, ObjectModel, ObjectRef, Survivors};
use wasmtime_environ::VMGcKind;
use wasmtime_environ::copying::{HEADER_SIZE, InlineTraceInfo};

use super::objects::{RESERVED, WasmModel};

/// Notes the classes of objects that were lost, if what is left of them tells it.
pub(super) fn note_lost(shared: &HeapShare, survivors: &Survivors<'_, WasmModel>) {
    let classes = Classes::of(shared, survivors.region(), survivors.model());
    for LostObject { header, first, .. } in survivors.lost_objects().iter().skip(shared.lost_objects()) {
        let begins_with_reference = |header: [u32; 4]| {
            let fields = InlineTraceInfo::decode(header[0] & RESERVED);
            matches!(fields, InlineTraceInfo::Struct { gc_ref_bitmap } if gc_ref_bitmap & 1 == 1)
        };
        let first = first.filter(|_| header.is_some_and(begins_with_reference));
        let table = first.and_then(WasmModel::referent).and_then(|table| survivors.at(table));
        let class = table.and_then(|table| classes.of_table(table));
        shared.add_lost_class(class.map(ObjectRef::offset));
    }
}

/// Looks at all live objects for what tells more of the classes of lost ones: the class of each object whose last field
/// refers to a lost one, as the last field of an array may, and the class of the objects of each type. For use at the
/// end of a full collection in which [`note_lost`] has not found each class.
pub(super) fn find_clues(shared: &HeapShare, heap: &ManagedHeap<WasmModel>) {
    let (region, model) = (heap.region(), heap.model());
    let classes = Classes::of(shared, region, model);
    let (mut of_tables, mut of_types) = (BTreeMap::new(), BTreeSet::new());
    for object in heap.old_objects() {
        let Some(table) = classes.first_of(object) else { continue };
        let Some(class) = *of_tables.entry(table).or_insert_with(|| classes.of_table(table)) else { continue };
        let ty: u32 = region.read(object.offset() + wasmtime_environ::VM_GC_HEADER_TYPE_INDEX_OFFSET);
        of_types.insert((ty, class));
        let mut last = 0;
        model.visit_slots(region, object, 0..u32::MAX, &mut |slot| last = region.read(slot));
        if let Err(lost) = DataLost::check(last) {
            shared.set_holder(lost, class.offset());
        }
    }
    of_types.into_iter().for_each(|(ty, class)| shared.set_class_of_type(ty, class.offset()));
}

/// Finds the classes of objects.
struct Classes<'a> {
    region: &'a HeapRegion,
    model: &'a WasmModel,
    /// The class of classes; `None` if the program has not said it.
    of_classes: Option<u32>,
}

impl<'a> Classes<'a> {
    fn of(shared: &HeapShare, region: &'a HeapRegion, model: &'a WasmModel) -> Self {
        Self { region, model, of_classes: shared.class_of_classes() }
    }

    /// The class of the objects that have a virtual table, if it is one: other structs begin with references, too.
    fn of_table(&self, table: ObjectRef) -> Option<ObjectRef> {
        let class = self.first_of(table)?;
        let of_class = self.first_of(self.first_of(class)?)?;
        (Some(of_class.offset()) == self.of_classes).then_some(class)
    }

    /// What the first field of a struct refers to.
    fn first_of(&self, object: ObjectRef) -> Option<ObjectRef> {
        if object.offset() >= LOST || self.kind_of(object) != VMGcKind::StructRef {
            return None;
        }
        let (at, mut first) = (object.offset() + HEADER_SIZE, 0);
        self.model.visit_slots(self.region, object, at..at + 4, &mut |slot| first = self.region.read(slot));
        WasmModel::referent(first)
    }

    fn kind_of(&self, object: ObjectRef) -> VMGcKind {
        VMGcKind::from_high_bits_of_u32(self.region.read(object.offset()))
    }
}
