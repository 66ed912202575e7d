//! What the collector must know of objects, and the word that it keeps in each.

use std::ops::Range;

use crate::geometry::ObjectRef;
use crate::region::HeapRegion;

/// The objects of a runtime. All have a word of 32 bits for the collector, and another that the collector may overwrite
/// in an object that it has moved away.
pub trait ObjectModel {
    /// All objects begin at multiples of this, and all sizes are multiples of it: 8 or 16. The collector's word, and
    /// all that [`ObjectModel::size`] reads, lie in the first bytes of an object, as many as this.
    const ALIGN: u32;

    /// The offset of the collector's word in an object, a multiple of 4. The collector uses its lowest eight bits,
    /// which are 0 in a new object.
    const COLLECTOR_WORD: u32;

    /// The offset of the word in which a moved object has its new place, a multiple of 4, below the size of any object.
    const FORWARD_WORD: u32;

    /// The size in bytes, a multiple of [`ObjectModel::ALIGN`].
    fn size(&self, region: &HeapRegion, object: ObjectRef) -> u32;

    /// Calls `visit` with the offset of each reference slot of an object that lies within a range; `0..u32::MAX` covers
    /// all.
    fn visit_slots(&self, region: &HeapRegion, object: ObjectRef, within: Range<u32>, visit: &mut impl FnMut(u32));

    /// The object that the value of a slot refers to; `None` if it is no reference.
    #[inline]
    fn referent(value: u32) -> Option<ObjectRef> {
        ObjectRef::new(value)
    }
}

/// The value of a collector's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectorWord(pub u32);

/// The mark of a live object. It alternates between full collections, so that none has to be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveMark {
    One = 1,
    Two = 2,
}

impl LiveMark {
    pub const fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }
}

impl CollectorWord {
    /// That of an object.
    #[inline]
    pub fn of<M: ObjectModel>(region: &HeapRegion, object: ObjectRef) -> Self {
        Self(region.read(object.offset() + M::COLLECTOR_WORD))
    }

    /// Makes it that of an object.
    #[inline]
    pub fn write<M: ObjectModel>(self, region: &HeapRegion, object: ObjectRef) {
        region.write(object.offset() + M::COLLECTOR_WORD, self.0);
    }

    const MARK: u32 = 3;

    const FORWARDED: u32 = 1 << 2;

    pub const PINNED: u32 = 1 << 3;

    const CLAIMED: u32 = 1 << 4;

    /// Whether the object is new since the last collection.
    pub const fn is_young(self) -> bool {
        self.0 & Self::MARK == 0
    }

    pub const fn is_marked(self, mark: LiveMark) -> bool {
        self.0 & Self::MARK == mark as u32
    }

    /// Marked, and old from now on.
    pub const fn marked(self, mark: LiveMark) -> Self {
        Self(self.0 & !Self::MARK | mark as u32)
    }

    pub const fn is_forwarded(self) -> bool {
        self.0 & Self::FORWARDED != 0
    }

    pub const fn forwarded(self) -> Self {
        Self(self.0 | Self::FORWARDED)
    }

    /// Whether a marker among several has the object to itself.
    pub const fn is_claimed(self) -> bool {
        self.0 & Self::CLAIMED != 0
    }

    /// Claimed by a marker.
    pub const fn claimed(self) -> Self {
        Self(self.0 | Self::CLAIMED)
    }

    pub const fn is_pinned(self) -> bool {
        self.0 & Self::PINNED != 0
    }

    pub const fn pinned(self) -> Self {
        Self(self.0 | Self::PINNED)
    }

    pub const fn unpinned(self) -> Self {
        Self(self.0 & !Self::PINNED)
    }
}
