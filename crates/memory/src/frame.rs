//! Physical pages by number.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, FRAME_BYTES};

/// A physical page, named by its frame number (PFN): its physical address divided by [`FRAME_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frame(u64);

impl Frame {
    /// The largest frame number: physical addresses have at most 52 bits (Intel SDM vol. 3, 4.1.4; Arm ARM D8.1).
    pub const MAX: Self = Self((1 << 40) - 1);

    /// A frame by its number, or `None` above [`Frame::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The frame that holds a physical address, or `None` above 2^52.
    #[must_use]
    pub const fn containing(physical: u64) -> Option<Self> {
        Self::new(physical / FRAME_BYTES)
    }

    /// The frame number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The physical address of the frame's first byte.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0 * FRAME_BYTES
    }

    /// The frame `count` further on, or `None` above [`Frame::MAX`].
    #[must_use]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(number) => Self::new(number),
            None => None,
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Frames `start .. start + count`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameRange {
    start: Frame,
    count: u64,
}

impl FrameRange {
    /// `count` frames from `start`, or `None` if there are none or they pass [`Frame::MAX`].
    #[must_use]
    pub fn new(start: Frame, count: u64) -> Option<Self> {
        start.checked_add(count.checked_sub(1)?)?;
        Some(Self { start, count })
    }

    /// The first frame.
    #[must_use]
    pub const fn start(self) -> Frame {
        self.start
    }

    /// The last frame, inclusive.
    #[must_use]
    pub const fn last(self) -> Frame {
        Frame(self.start.0 + self.count - 1)
    }

    /// The number of frames; at least 1.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes::new(self.count * FRAME_BYTES)
    }

    /// The first `count` frames, at least 1, and the rest, if there is one.
    #[must_use]
    pub fn split(self, count: u64) -> (Self, Option<Self>) {
        let first = Self { start: self.start, count: count.clamp(1, self.count) };
        let rest = self.count - first.count;
        (first, (rest > 0).then(|| Self { start: Frame(self.start.0 + first.count), count: rest }))
    }

    /// The parts into which multiples of `frames`, which is above 0, cut the range, ascending.
    pub fn cut_at_multiples(self, frames: u64) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        core::iter::from_fn(move || {
            let range = rest?;
            let (part, behind) = range.split(frames - range.start.0 % frames);
            rest = behind;
            Some(part)
        })
    }

    /// Its frames, ascending.
    pub fn frames(self) -> impl Iterator<Item = Frame> {
        (self.start.0..=self.last().0).map(Frame)
    }

    /// Whether the range has `frame`.
    #[must_use]
    pub fn contains(self, frame: Frame) -> bool {
        (self.start..=self.last()).contains(&frame)
    }

    /// The fewest ranges that hold exactly these frames, which must ascend; repeated frames count once.
    #[cfg(feature = "std")]
    pub fn merge(frames: impl IntoIterator<Item = Frame>) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for frame in frames {
            match ranges.last_mut() {
                Some(range) if frame.0 == range.last().0 + 1 => range.count += 1,
                Some(range) if frame <= range.last() => {
                    assert!(range.contains(frame), "frames ascend");
                }
                _ => ranges.push(Self { start: frame, count: 1 }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge() {
        let frames = [3, 4, 5, 5, 7, 9, 10].map(|n| Frame::new(n).unwrap());
        let merged = FrameRange::merge(frames);
        let listed: Vec<Frame> = merged.iter().copied().flat_map(FrameRange::frames).collect();
        assert_eq!(listed, [3, 4, 5, 7, 9, 10].map(Frame));
        let expected = [(3, 3), (7, 1), (9, 2)].map(|(s, c)| FrameRange::new(Frame(s), c).unwrap());
        assert_eq!(merged, expected);
    }

    #[test]
    fn a_range_is_split_into_what_it_had() {
        let range = |start, count| FrameRange::new(Frame(start), count).unwrap();
        assert_eq!(range(3, 9).split(4), (range(3, 4), Some(range(7, 5))));
        assert_eq!(range(3, 9).split(9), (range(3, 9), None));
        assert_eq!(range(3, 9).split(99), (range(3, 9), None));
        assert_eq!(range(3, 9).split(0), (range(3, 1), Some(range(4, 8))));
    }

    #[test]
    fn a_range_is_cut_at_multiples() {
        let range = |start, count| FrameRange::new(Frame(start), count).unwrap();
        let cut = |start, count, frames| range(start, count).cut_at_multiples(frames).collect::<Vec<_>>();
        assert_eq!(cut(3, 9, 4), [range(3, 1), range(4, 4), range(8, 4)]);
        assert_eq!(cut(5, 2, 4), [range(5, 2)]);
        assert_eq!(cut(4, 4, 4), [range(4, 4)]);
    }

    #[test]
    fn a_range_never_passes_the_last_frame() {
        assert!(FrameRange::new(Frame::MAX, 1).is_some());
        assert!(FrameRange::new(Frame::MAX, 2).is_none());
        assert!(FrameRange::new(Frame(1), 0).is_none());
    }
}
