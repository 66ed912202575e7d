//! What the program will want next, by what it wanted before.
//!
//! **Problem.** A program that goes through its memory faults on every block, and each time it waits until the block is
//! verified. The paper unlocks a number of pages ahead, by hand (002_55d5eb8104b64c01.txt, 4.3.1, figure 4.3): too few are slow, too many
//! are unlocked for nothing. **Idea.** Follow the streams that faults draw, each with its stride (figure 4.6 shows two interleaved), and
//! open ahead of a stream as far as it has shown that it goes on. **Why this way.** A spare core verifies what is about to
//! be used, and the program then finds it in the shared cache; a program that jumps draws no stream and pays for none.

use crate::layout::BlockIndex;

/// Streams that are followed at once.
const STREAMS: usize = 8;

/// A fault so many blocks from the last of a stream may be its next.
const REACH: i64 = 16;

/// What faults have drawn.
#[derive(Clone, Debug)]
pub struct Ahead {
    streams: [Stream; STREAMS],
    most: u32,
    faults: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The last block that it reached or that was opened ahead of it.
    last: i64,
    /// From one block to the next; 0 for a stream of one fault.
    stride: i64,
    /// How often it went on as it had.
    confirmed: u32,
    /// The number of its last fault; 0 for none.
    used: u64,
}

impl Ahead {
    /// Opens at most so many blocks ahead of a fault; 0 for none.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { streams: [Stream::default(); STREAMS], most, faults: 0 }
    }

    /// A fault on a block. Returns the blocks to open next, in their order: as many as the stream was confirmed times, times
    /// two, but none beyond `blocks` or the most.
    pub fn fault(&mut self, block: BlockIndex, blocks: u64) -> impl Iterator<Item = BlockIndex> + use<> {
        self.faults += 1;
        let at = i64::try_from(block.0).expect("a range has fewer blocks");
        let (faults, most) = (self.faults, i64::from(self.most));
        let stream = self.follow(at);
        stream.used = faults;
        let Stream { stride, confirmed, .. } = *stream;
        let end = i64::try_from(blocks).expect("a range has fewer blocks");
        let room = match stride {
            0 => 0,
            1.. => (end - 1 - at).max(0) / stride,
            _ => at / -stride,
        };
        let count = room.min(most).min(i64::from(confirmed) * 2);
        stream.last = at + count * stride;
        (1..=count).map(move |step| BlockIndex((at + step * stride).unsigned_abs()))
    }

    /// The stream that the fault belongs to, brought up to it.
    fn follow(&mut self, at: i64) -> &mut Stream {
        let expected = self.streams.iter().position(|s| s.used > 0 && s.stride != 0 && s.last + s.stride == at);
        if let Some(index) = expected {
            let stream = &mut self.streams[index];
            (stream.last, stream.confirmed) = (at, stream.confirmed.saturating_add(1));
            return stream;
        }
        let near = |s: &Stream| s.used > 0 && s.last != at && (at - s.last).abs() <= REACH;
        let nearest =
            (0..STREAMS).filter(|&i| near(&self.streams[i])).min_by_key(|&i| (at - self.streams[i].last).abs());
        if let Some(index) = nearest {
            let stream = &mut self.streams[index];
            *stream = Stream { last: at, stride: at - stream.last, confirmed: 0, used: stream.used };
            return stream;
        }
        let oldest = (0..STREAMS).min_by_key(|&i| self.streams[i].used).expect("there are streams");
        self.streams[oldest] = Stream { last: at, ..Stream::default() };
        &mut self.streams[oldest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    /// Runs a program that wants these blocks; returns how often it faulted, and how many were opened ahead for nothing.
    fn run(wanted: impl IntoIterator<Item = u64>, most: u32) -> (usize, usize) {
        let mut ahead = Ahead::new(most);
        let (mut open, mut unused) = (BTreeSet::new(), BTreeSet::new());
        let mut faults = 0;
        for block in wanted {
            unused.remove(&block);
            if open.insert(block) {
                faults += 1;
                for next in ahead.fault(BlockIndex(block), 100_000) {
                    if open.insert(next.0) {
                        unused.insert(next.0);
                    }
                }
            }
        }
        (faults, unused.len())
    }

    #[test]
    fn a_sweep_costs_one_fault_in_many() {
        let (faults, unused) = run(0..10_000, 32);
        assert!(faults < 10_000 / 30, "{faults}");
        assert!(unused <= 32, "{unused}");
    }

    #[test]
    fn so_it_does_backwards_and_by_strides() {
        assert!(run((0..10_000).rev(), 32).0 < 10_000 / 30);
        assert!(run((0..10_000).map(|step| 7 * step), 32).0 < 10_000 / 30);
    }

    #[test]
    fn two_streams_that_interleave_are_told_apart() {
        // 002_55d5eb8104b64c01.txt, figure 4.6: FT's pattern is of several fronts.
        let (faults, unused) = run((0..5_000).flat_map(|step| [step, 50_000 + step]), 32);
        assert!(faults < 10_000 / 25, "{faults}");
        assert!(unused <= 64, "{unused}");
    }

    #[test]
    fn a_program_that_jumps_pays_for_nothing() {
        let jumps = (0..2_000_u64).map(|step| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000);
        let (_, unused) = run(jumps, 32);
        assert!(unused < 40, "of 2000: {unused}");
    }

    #[test]
    fn nothing_is_opened_ahead_if_so_wished() {
        assert_eq!(run(0..100, 0), (100, 0));
    }

    proptest! {
        #[test]
        fn what_is_ahead_is_in_the_range_and_never_more_than_allowed(
            faults in proptest::collection::vec(0_u64..300, 1..300), most in 0_u32..64
        ) {
            let mut ahead = Ahead::new(most);
            for fault in faults {
                let next: Vec<_> = ahead.fault(BlockIndex(fault), 300).collect();
                prop_assert!(next.len() <= most as usize);
                prop_assert!(next.iter().all(|block| block.0 < 300 && block.0 != fault));
            }
        }
    }
}
