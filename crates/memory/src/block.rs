//! Blocks of a page allocator: frames in powers of two.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, FRAME_BYTES, Frame};

/// The order, or rank, of a block: it has 2^order frames [Rahman16, 4.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockOrder(u8);

impl BlockOrder {
    /// One frame.
    pub const ZERO: Self = Self(0);

    /// The largest order on Linux' free lists: 1,024 frames, 4 MiB (`MAX_ORDER` in mmzone.h before 6.4, less one).
    pub const MAX: Self = Self(10);

    /// The number of orders.
    pub const COUNT: usize = Self::MAX.0 as usize + 1;

    /// An order by its number, or `None` above [`BlockOrder::MAX`].
    #[must_use]
    pub const fn new(order: u8) -> Option<Self> {
        if order <= Self::MAX.0 { Some(Self(order)) } else { None }
    }

    /// Its number: 0 to 10.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its number, to index with.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Frames in a block of this order: 1 to 1,024.
    #[must_use]
    pub const fn frames(self) -> u64 {
        1 << self.0
    }

    /// Bytes in a block of this order.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes::new(self.frames() * FRAME_BYTES)
    }

    /// The next smaller order; `None` below one frame.
    #[must_use]
    pub const fn below(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(order) => Some(Self(order)),
            None => None,
        }
    }

    /// The next larger order; `None` above [`BlockOrder::MAX`].
    #[must_use]
    pub const fn above(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// All orders, the smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..=Self::MAX.0).map(Self)
    }
}

impl fmt::Display for BlockOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A block of 2^order frames whose first number is a multiple of that, as the buddy system keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameBlock {
    first: Frame,
    order: BlockOrder,
}

impl FrameBlock {
    /// The block of this order that starts at `first`, or `None` if it is not aligned or passes [`Frame::MAX`].
    #[must_use]
    pub const fn new(first: Frame, order: BlockOrder) -> Option<Self> {
        let aligned = first.number() & (order.frames() - 1) == 0;
        if aligned && first.checked_add(order.frames() - 1).is_some() { Some(Self { first, order }) } else { None }
    }

    /// The block of one frame.
    #[must_use]
    pub const fn of(frame: Frame) -> Self {
        Self { first: frame, order: BlockOrder::ZERO }
    }

    /// Its first frame.
    #[must_use]
    pub const fn first(self) -> Frame {
        self.first
    }

    /// Its order.
    #[must_use]
    pub const fn order(self) -> BlockOrder {
        self.order
    }

    /// The number of frames: 1 to 1,024.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.order.frames()
    }

    /// Its frames, ascending.
    pub fn frames(self) -> impl Iterator<Item = Frame> {
        let first = self.first.number();
        (first..first + self.count()).map(|number| Frame::new(number).expect("a block ends below the last frame"))
    }

    /// Whether the block has `frame`.
    #[must_use]
    pub const fn contains(self, frame: Frame) -> bool {
        frame.number() >> self.order.0 == self.first.number() >> self.order.0
    }
}

impl fmt::Display for FrameBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} order {}", self.first, self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_aligned_to_its_size() {
        let order = BlockOrder::new(3).unwrap();
        assert!(FrameBlock::new(Frame::new(8).unwrap(), order).is_some());
        assert!(FrameBlock::new(Frame::new(12).unwrap(), order).is_none());
        assert_eq!(BlockOrder::new(11), None);
    }

    #[test]
    fn a_block_contains_its_frames_and_no_other() {
        let block = FrameBlock::new(Frame::new(16).unwrap(), BlockOrder::new(2).unwrap()).unwrap();
        let inside: Vec<u64> = (0..40).filter(|&n| block.contains(Frame::new(n).unwrap())).collect();
        assert_eq!(inside, [16, 17, 18, 19]);
        assert_eq!(block.frames().map(Frame::number).collect::<Vec<_>>(), inside);
    }

    #[test]
    fn the_last_block_fits_below_the_last_frame() {
        let first = Frame::new(Frame::MAX.number() - 1023).unwrap();
        assert!(FrameBlock::new(first, BlockOrder::MAX).is_some());
    }
}
