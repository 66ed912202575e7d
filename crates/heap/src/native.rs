//! Objects for programs and runtimes without an object model of their own.
//!
//! An object has a header of 8 bytes, then references of 4 bytes each, then bytes. The header has the number of
//! references above the collector's bits, and the size; a moved object has its new place where the size was.

use std::ops::Range;

use crate::geometry::ObjectRef;
use crate::object::ObjectModel;
use crate::region::HeapRegion;

/// The model of such objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeModel;

const HEADER: u32 = 8;

/// What an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// References.
    references: u32,
    /// The whole size in bytes.
    size: u32,
}

impl Shape {
    /// An object with so many references and bytes; `None` if it would have 2^24 references, or more than 1 GiB.
    #[must_use]
    pub fn new(references: u32, bytes: u32) -> Option<Self> {
        let size = u64::from(HEADER) + 4 * u64::from(references) + u64::from(bytes);
        let size =
            u32::try_from(size.next_multiple_of(NativeModel::ALIGN.into())).ok().filter(|size| *size <= 1 << 30)?;
        (references < 1 << 24).then_some(Self { references, size })
    }

    /// The size in bytes, with the header.
    #[must_use]
    pub const fn size(self) -> u32 {
        self.size
    }
}

impl NativeModel {
    /// Makes new memory an object: its references refer to nothing, and its bytes are what was there.
    #[inline]
    pub fn initialize(region: &HeapRegion, at: u32, shape: Shape) -> ObjectRef {
        region.write(at, shape.references << 8);
        region.write(at + 4, shape.size);
        for slot in 0..shape.references {
            region.write(at + HEADER + 4 * slot, 0);
        }
        ObjectRef::new(at).expect("memory of the heap is not at offset 0")
    }

    /// How many references an object has.
    #[inline]
    #[must_use]
    pub fn references(region: &HeapRegion, object: ObjectRef) -> u32 {
        region.read(object.offset()) >> 8
    }

    /// The place of a reference of an object in the region.
    #[inline]
    #[must_use]
    pub const fn slot(object: ObjectRef, number: u32) -> u32 {
        object.offset() + HEADER + 4 * number
    }

    /// The place of an object's first byte behind its references.
    #[must_use]
    pub fn bytes_at(region: &HeapRegion, object: ObjectRef) -> u32 {
        Self::slot(object, Self::references(region, object))
    }
}

impl ObjectModel for NativeModel {
    const ALIGN: u32 = 8;
    const COLLECTOR_WORD: u32 = 0;
    const FORWARD_WORD: u32 = 4;

    #[inline]
    fn size(&self, region: &HeapRegion, object: ObjectRef) -> u32 {
        region.read(object.offset() + 4)
    }

    #[inline]
    fn visit_slots(&self, region: &HeapRegion, object: ObjectRef, within: Range<u32>, visit: &mut impl FnMut(u32)) {
        let first = Self::slot(object, 0);
        let end = Self::slot(object, Self::references(region, object)).min(within.end);
        let start = first.max(within.start.next_multiple_of(4));
        (start..end).step_by(4).for_each(visit);
    }
}
