//! The slots of a zone's frames: a frame's distance from the zone's first frame rounded down to the largest block, so
//! that the slot of a block's buddy differs in one bit.

use rampart_memory::{BlockOrder, Frame, FrameBlock};

use crate::Zone;

/// Frames in a block, as a distance between slots.
#[inline]
pub const fn span(order: BlockOrder) -> u32 {
    1 << order.number()
}

/// The slots of one zone.
#[derive(Clone, Copy)]
pub struct Slots {
    /// The number of the frame of slot 0.
    base: u64,
    /// The first slot that is a frame of the zone.
    pub first: u32,
    /// The slot after the last such one.
    pub end: u32,
    /// All slots, up to the end of the last block of the largest order.
    pub count: u32,
}

impl Slots {
    /// Returns the slots of a zone.
    pub fn of(zone: Zone) -> Self {
        let largest = BlockOrder::MAX.frames();
        let base = zone.frames.start().number() / largest * largest;
        let slot = |frame: u64| u32::try_from(frame - base).expect("a zone has at most Zone::MOST_FRAMES");
        let end = zone.frames.last().number() + 1;
        let first = slot(zone.frames.start().number());
        Self { base, first, end: slot(end), count: slot(end.next_multiple_of(largest)) }
    }

    /// Returns the slot of a frame of the zone.
    #[inline]
    pub fn slot(self, frame: Frame) -> u32 {
        u32::try_from(frame.number() - self.base).expect("the frame lies in the zone")
    }

    /// Returns the frame of a slot.
    #[inline]
    pub fn frame(self, slot: u32) -> Frame {
        Frame::new(self.base + u64::from(slot)).expect("a slot stands for a frame")
    }

    /// Returns the block of this order that begins at a slot.
    #[inline]
    pub fn block(self, slot: u32, order: BlockOrder) -> FrameBlock {
        FrameBlock::new(self.frame(slot), order).expect("a block begins at a multiple of its size")
    }

    /// Returns the fewest blocks that have all frames of the zone, ascending.
    pub fn fewest_blocks(self) -> impl Iterator<Item = (u32, BlockOrder)> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            let slot = next;
            let fits = |order: &BlockOrder| slot.is_multiple_of(span(*order)) && span(*order) <= self.end - slot;
            let order = (slot < self.end).then(|| BlockOrder::all().rfind(fits).expect("one frame always fits"))?;
            next += span(order);
            Some((slot, order))
        })
    }
}
