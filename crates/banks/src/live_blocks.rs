//! The blocks that are in use at one moment of a trace, found by any of their frames.
//!
//! **Problem.** The kernel may free a block in other sizes than it allocated it in: it splits huge pages, and a trace
//! that begins on a running machine knows some blocks only frame by frame. **Idea.** Each frame knows its block, and a
//! block is over when its last frame is. **Why this way.** There is one rule for blocks that are freed as a whole, in
//! parts, or several at once; and most blocks have one frame, so that this costs little.

use std::collections::HashMap;

use rampart_memory::{BlockOrder, Frame};

/// The frames of a chunk: those of the largest block.
const CHUNK: usize = 1 << BlockOrder::MAX.number();

/// No block: blocks are numbered from 1 on.
const NONE: u32 = 0;

/// Blocks in use, each with a value.
#[derive(Debug)]
pub struct LiveBlocks<T> {
    /// The block of each frame, by frame number / [`CHUNK`].
    chunks: HashMap<u64, Box<[u32; CHUNK]>>,
    /// Number 1 comes first. A number is reused when its block is over.
    blocks: Vec<Option<LiveBlock<T>>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct LiveBlock<T> {
    value: T,
    /// Its frames that were not freed yet.
    left: u64,
}

impl<T> Default for LiveBlocks<T> {
    fn default() -> Self {
        Self { chunks: HashMap::new(), blocks: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> LiveBlocks<T> {
    /// Adds a block. Its frames must be in none.
    pub fn insert(&mut self, first: Frame, order: BlockOrder, value: T) {
        let block = Some(LiveBlock { value, left: order.frames() });
        let number = if let Some(number) = self.vacant.pop() {
            self.blocks[number as usize - 1] = block;
            number
        } else {
            self.blocks.push(block);
            u32::try_from(self.blocks.len()).expect("blocks of a machine, at most one a frame")
        };
        for (chunk, places) in parts(first, order) {
            self.chunks.entry(chunk).or_insert_with(|| Box::new([NONE; CHUNK]))[places].fill(number);
        }
    }

    /// Takes these frames out of use, and passes each block to `over` whose last frame was among them. Returns whether
    /// any of the frames was in use.
    pub fn release(&mut self, first: Frame, order: BlockOrder, mut over: impl FnMut(T)) -> bool {
        let mut found = false;
        for (chunk, places) in parts(first, order) {
            let Some(owners) = self.chunks.get_mut(&chunk) else { continue };
            for owner in owners[places].iter_mut().filter(|owner| **owner != NONE) {
                found = true;
                let number = std::mem::replace(owner, NONE);
                let slot = &mut self.blocks[number as usize - 1];
                let block = slot.as_mut().expect("a frame's block is in use");
                block.left -= 1;
                if block.left == 0 {
                    over(slot.take().expect("as above").value);
                    self.vacant.push(number);
                }
            }
        }
        found
    }

    /// Removes the block of which exactly these frames are in use, if it passes; `None` if there is none such.
    pub fn take_whole(&mut self, first: Frame, order: BlockOrder, passes: impl Fn(&T) -> bool) -> Option<T> {
        let (chunk, places) = parts(first, order).next()?;
        let number = *self.chunks.get(&chunk)?.get(places.start)?;
        let block = self.blocks.get(usize::try_from(number.checked_sub(1)?).ok()?)?.as_ref()?;
        let mut chunks = parts(first, order).map(|(chunk, places)| Some(&self.chunks.get(&chunk)?[places]));
        let is_owner = |owners: &[u32]| owners.iter().all(|owner| *owner == number);
        let is_whole = block.left == order.frames() && chunks.all(|owners| owners.is_some_and(is_owner));
        if !is_whole || !passes(&block.value) {
            return None;
        }
        let mut taken = None;
        self.release(first, order, |value| taken = Some(value));
        taken
    }

    /// Returns the values, in an order that depends on the calls alone.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.blocks.iter_mut().flatten().map(|block| &mut block.value)
    }

    /// Removes all blocks.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(self).blocks.into_iter().flatten().map(|block| block.value)
    }
}

/// The chunks of a block's frames, one if it is aligned, and the places in each.
fn parts(first: Frame, order: BlockOrder) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let (begin, end) = (first.number(), first.number() + order.frames());
    let size = CHUNK as u64;
    (begin / size..=(end - 1) / size).map(move |chunk| {
        let place = |frame: u64| usize::try_from(frame.clamp(chunk * size, (chunk + 1) * size) - chunk * size);
        let inside = "a place in a chunk";
        (chunk, place(begin).expect(inside)..place(end).expect(inside))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    fn order(number: u8) -> BlockOrder {
        BlockOrder::new(number).unwrap()
    }

    fn release(blocks: &mut LiveBlocks<u32>, first: u64, size: u8) -> (bool, Vec<u32>) {
        let mut over = Vec::new();
        let found = blocks.release(frame(first), order(size), |value| over.push(value));
        (found, over)
    }

    #[test]
    fn a_block_is_over_when_its_last_frame_is() {
        let mut blocks = LiveBlocks::default();
        blocks.insert(frame(8), order(2), 1);
        blocks.insert(frame(12), order(0), 2);
        assert_eq!(release(&mut blocks, 9, 0), (true, vec![]));
        assert_eq!(release(&mut blocks, 9, 0), (false, vec![]));
        assert_eq!(release(&mut blocks, 10, 1), (true, vec![]));
        assert_eq!(release(&mut blocks, 8, 3), (true, vec![1, 2]));
        assert_eq!(blocks.drain().count(), 0);
    }

    #[test]
    fn a_block_is_taken_only_whole() {
        let mut blocks = LiveBlocks::default();
        blocks.insert(frame(8), order(2), 1);
        let mut take = |first, size, passes| blocks.take_whole(frame(first), order(size), |_| passes);
        assert_eq!([take(8, 1, true), take(8, 3, true), take(9, 0, true), take(12, 0, true)], [None; 4]);
        assert_eq!([take(8, 2, false), take(8, 2, true), take(8, 2, true)], [None, Some(1), None]);
        blocks.insert(frame(8), order(2), 2);
        release(&mut blocks, 11, 0);
        assert_eq!(blocks.take_whole(frame(8), order(2), |_| true), None);
        let last = CHUNK as u64 - 4;
        blocks.insert(frame(last), order(2), 3);
        assert_eq!(blocks.take_whole(frame(last + 1), order(2), |_| true), None, "nothing is known of the next chunk");
        assert_eq!(release(&mut blocks, last, 0), (true, vec![]), "its other frames are still in use");
    }

    /// The last frames of one chunk and the first of the next.
    const NEAR: u64 = 1000;

    proptest! {
        /// A map from each frame to its block does the same.
        #[test]
        fn every_frame_has_the_block_of_a_naive_map(
            steps in proptest::collection::vec((0_u64..60, 0_u8..=5, 0..3), 1..200)
        ) {
            let (mut blocks, mut naive) = (LiveBlocks::default(), BTreeMap::<u64, u32>::new());
            for (number, (first, size, kind)) in (1..).zip(steps) {
                let first = NEAR + first;
                let frames = first..first + order(size).frames();
                let before = naive.clone();
                let mut gone: Vec<u32> =
                    frames.clone().filter_map(|frame| naive.remove(&frame)).collect();
                let found = !gone.is_empty();
                gone.retain(|block| !naive.values().any(|owner| owner == block));
                gone.dedup();
                if kind == 2 {
                    let owners: Vec<_> = frames.clone().map(|frame| before.get(&frame).copied()).collect();
                    let is_whole = |block: &u32| {
                        let frames = before.values().filter(|owner| *owner == block).count() as u64;
                        frames == order(size).frames() && owners.iter().all(|owner| *owner == Some(*block))
                    };
                    let whole = owners[0].filter(is_whole);
                    let taken = blocks.take_whole(frame(first), order(size), |_| true);
                    prop_assert_eq!(taken, whole);
                    if taken.is_none() {
                        naive = before;
                    }
                    continue;
                }
                let (seen, mut over) = release(&mut blocks, first, size);
                over.sort_unstable();
                gone.sort_unstable();
                gone.dedup();
                prop_assert_eq!((seen, over), (found, gone));
                if kind == 1 {
                    blocks.insert(frame(first), order(size), number);
                    naive.extend(frames.map(|frame| (frame, number)));
                }
            }
            let mut left: Vec<u32> = blocks.values_mut().map(|value| *value).collect();
            let mut expected: Vec<u32> = naive.into_values().collect();
            left.sort_unstable();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(left, expected);
        }
    }
}
