//! Discontiguous arrays: large ones that need no perfect page [Gao13, 3.3.3].
//!
//! **Problem.** A large array wants pages without failed lines; with failures everywhere, there are few. **Idea.** A
//! spine refers to leaves of a fixed size, and each leaf lies in a hole. **Why this way.** Leaves are ordinary objects:
//! the collector moves them from lines that fail, and needs to know nothing of arrays. It costs another load for each
//! access (`cargo xtask bench arrays`).
//!
//! Elements have 8 bytes and are no references. Spine and leaves are objects of [`NativeModel`].

use crate::geometry::{CAN_FAIL, ObjectRef};
use crate::native::{NativeModel, Shape};
use crate::region::{HeapRegion, LOST};

/// How many elements a leaf has: a power of two, so that an access needs no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSize(u32);

impl LeafSize {
    /// 256 B: a leaf fits most holes, if up to a tenth of the lines has failed.
    pub const B256: Self = Self(5);
    /// 1 KiB.
    pub const B1024: Self = Self(7);
    /// 4 KiB: for failed lines that hardware gathers.
    pub const B4096: Self = Self(9);

    /// How many elements a leaf has.
    #[must_use]
    pub const fn elements(self) -> u32 {
        1 << self.0
    }
}

/// The shape of an array of so many elements in leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafArray {
    elements: u32,
    leaf: LeafSize,
}

impl LeafArray {
    /// The shape; `None` if the spine would be too large an object.
    #[must_use]
    pub fn new(elements: u32, leaf: LeafSize) -> Option<Self> {
        let array = Self { elements, leaf };
        Shape::new(array.leaves(), 0).map(|_| array)
    }

    /// How many leaves the array has.
    #[must_use]
    pub const fn leaves(self) -> u32 {
        self.elements.div_ceil(self.leaf.elements())
    }

    /// How many elements it has.
    #[must_use]
    pub const fn elements(self) -> u32 {
        self.elements
    }

    /// The shape of the spine.
    #[must_use]
    pub fn spine(self) -> Shape {
        Shape::new(self.leaves(), 0).expect("`new` has checked it")
    }

    /// The shape of a leaf, by its number. The last one has only the elements that are left.
    #[must_use]
    pub fn leaf(self, number: u32) -> Shape {
        let before = number * self.leaf.elements();
        let here = self.elements.saturating_sub(before).min(self.leaf.elements());
        Shape::new(0, 8 * here).expect("a leaf is small")
    }

    /// Makes new memory a leaf of zeros, and puts it below a spine. Allocating it may have moved the spine: take its
    /// place from the roots again.
    pub fn attach(self, region: &HeapRegion, spine: ObjectRef, number: u32, at: u32) {
        let shape = self.leaf(number);
        let leaf = NativeModel::initialize(region, at, shape);
        let first = NativeModel::slot(leaf, 0);
        region.fill(first, leaf.offset() + shape.size() - first, 0);
        let slot = NativeModel::slot(spine, number);
        region.mark_card(slot);
        region.write(slot, leaf.offset());
    }

    /// The place of an element in the region; `None` if there is none with that index.
    #[inline]
    fn place(self, region: &HeapRegion, spine: ObjectRef, index: u32) -> Option<u32> {
        if index >= self.elements {
            return None;
        }
        let leaf = ObjectRef::new(region.read(NativeModel::slot(spine, index >> self.leaf.0)))?;
        if CAN_FAIL && leaf.offset() >= LOST {
            return None;
        }
        Some(NativeModel::slot(leaf, 0) + 8 * (index & (self.leaf.elements() - 1)))
    }

    /// Reads an element; `None` if the array has none with that index, its leaf is not there yet, or is
    /// lost.
    #[inline]
    #[must_use]
    pub fn read(self, region: &HeapRegion, spine: ObjectRef, index: u32) -> Option<u64> {
        self.place(region, spine, index).map(|place| region.read_double(place))
    }

    /// Writes an element; `None` as for [`Self::read`].
    #[inline]
    pub fn write(self, region: &HeapRegion, spine: ObjectRef, index: u32, value: u64) -> Option<()> {
        self.place(region, spine, index).map(|place| region.write_double(place, value))
    }
}
