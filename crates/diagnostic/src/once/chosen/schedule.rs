//! Which frames a tester claims next.
//!
//! **Problem.** The kernel gives a range as a whole or not at all. Large ranges are tested best and are refused most
//! often; some refusals last for a moment only. **Idea.** Frames are tried in pieces of up to 16 MiB. A piece that is
//! refused is cut in two, down to a block of 2 MiB; of a block, the free frames in a row are tried, or, where its
//! content is to be moved, it is tried again and then cut further, in the end to single frames: those can be had even
//! beside a page that cannot be moved. **Why this way.** What cannot be had is found by few tries, and what can be had
//! is tested in pieces as large as possible. The schedule is pure: what the kernel answered and the time are handed in.

use std::collections::VecDeque;
use std::time::Duration;

use rampart_linux::kernel_module::{ClaimRefusal, ClaimedFrames, KernelFreeList};
use rampart_memory::{Bytes, FRAME_BYTES, FrameRange, Node};

use crate::machine::PAGEBLOCK;

/// The most frames of a piece: 16 MiB.
const LARGEST_PIECE: u64 = 8 * PAGEBLOCK;

/// Its bytes. Pairs of cells are tested inside a piece.
pub const LARGEST_BYTES: Bytes = Bytes::new(LARGEST_PIECE * FRAME_BYTES);

const _: () = assert!(LARGEST_PIECE <= ClaimedFrames::MOST, "a piece can be claimed");

/// The fewest frames of a piece that is cut in two because its content is not moved; others are cut to single frames.
const SMALLEST_PIECE: u64 = 32;

/// How often a block is tried again.
const TRIES: u32 = 3;

/// The pause before a piece is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long to wait for memory while programs leave too little free.
const PATIENCE: Duration = Duration::from_secs(10);

/// Frames to claim together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePiece {
    /// The frames.
    pub frames: FrameRange,
    tries: u32,
}

impl FramePiece {
    /// Frames that were never tried.
    pub const fn new(frames: FrameRange) -> Self {
        Self { frames, tries: 0 }
    }
}

/// The lists of one zone and migratetype, of which one tester has one after the other: with all of their blocks gone,
/// the kernel would have to allocate its own memory in blocks meant for programs.
pub type ListsOfKind = Vec<KernelFreeList>;

/// All lists of some nodes.
pub fn lists_of(nodes: &[Node]) -> VecDeque<ListsOfKind> {
    let kind = |list: &KernelFreeList| (list.zone, list.migratetype);
    let of_node = |node: &Node| {
        let lists: Vec<_> = KernelFreeList::of_node(*node).collect();
        lists.chunk_by(|one, next| kind(one) == kind(next)).map(<[_]>::to_vec).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_node).collect()
}

/// The next step of a tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPiece {
    /// Claim and test it, and say what came of it.
    Claim(FramePiece),
    /// Nothing to do at the moment.
    Wait,
    /// All was tried.
    Finished,
}

/// The pieces that remain.
#[derive(Debug)]
pub struct FrameSchedule {
    all: Vec<FrameRange>,
    used: bool,
    passes: Option<u32>,
    pass: u32,
    waiting: VecDeque<FramePiece>,
    /// Pieces that are tried again from a time on.
    later: Vec<(Duration, FramePiece)>,
    under_way: usize,
    last_progress: Duration,
}

impl FrameSchedule {
    /// Schedules a test of ranges, repeated `passes` times (`None`: until nobody asks any longer).
    #[must_use]
    pub fn new(ranges: &[FrameRange], used: bool, passes: Option<u32>) -> Self {
        let all: Vec<_> = ranges.iter().flat_map(|range| range.cut_at_multiples(LARGEST_PIECE)).collect();
        let mut schedule = Self {
            all,
            used,
            passes,
            pass: 0,
            waiting: VecDeque::new(),
            later: Vec::new(),
            under_way: 0,
            last_progress: Duration::ZERO,
        };
        schedule.begin_pass();
        schedule
    }

    /// The current pass, from 1.
    #[must_use]
    pub const fn pass(&self) -> u32 {
        self.pass
    }

    /// The requested number of passes, if there is one.
    #[must_use]
    pub const fn passes(&self) -> Option<u32> {
        self.passes
    }

    fn begin_pass(&mut self) {
        self.pass += 1;
        self.waiting.extend(self.all.iter().map(|&frames| FramePiece { frames, tries: 0 }));
    }

    /// A tester's next step at `now` (since the start).
    pub fn next(&mut self, now: Duration) -> NextPiece {
        if let Some(index) = self.later.iter().position(|(from, _)| *from <= now) {
            self.waiting.push_front(self.later.swap_remove(index).1);
        }
        if let Some(piece) = self.waiting.pop_front() {
            self.under_way += 1;
            return NextPiece::Claim(piece);
        }
        if self.under_way > 0 || !self.later.is_empty() {
            return NextPiece::Wait;
        }
        if self.all.is_empty() || self.passes.is_some_and(|passes| self.pass >= passes) {
            return NextPiece::Finished;
        }
        self.begin_pass();
        NextPiece::Wait
    }

    /// A piece was tested.
    pub fn tested(&mut self, now: Duration) {
        self.under_way -= 1;
        self.last_progress = now;
    }

    /// A piece was claimed and taken away before its test ended.
    pub fn lost(&mut self, piece: FramePiece, now: Duration) {
        self.under_way -= 1;
        self.try_again(piece, now);
    }

    /// A piece was not claimed since memory is short.
    pub fn postponed(&mut self, piece: FramePiece, now: Duration) {
        self.under_way -= 1;
        if now.saturating_sub(self.last_progress) < PATIENCE {
            self.later.push((now + PAUSE, piece));
        }
    }

    /// The kernel refused a piece, of which these frames are free now.
    pub fn refused(&mut self, piece: FramePiece, refusal: &ClaimRefusal, free: &[FrameRange], now: Duration) {
        if *refusal == ClaimRefusal::MemoryShort {
            return self.postponed(piece, now);
        }
        self.under_way -= 1;
        if piece.frames.count() > PAGEBLOCK {
            return self.cut(piece);
        }
        if !self.used {
            free.iter().for_each(|&frames| self.try_again(FramePiece { frames, ..piece }, now));
        } else if piece.tries < TRIES && matches!(refusal, ClaimRefusal::Busy { .. }) {
            self.try_again(piece, now);
        } else if piece.frames.count() > SMALLEST_PIECE {
            self.cut(piece);
        } else if piece.frames.count() > 1 {
            self.cut_to_frames(piece);
        }
    }

    fn cut_to_frames(&mut self, piece: FramePiece) {
        for frames in piece.frames.cut_at_multiples(1) {
            self.waiting.push_front(FramePiece { frames, ..piece });
        }
    }

    fn try_again(&mut self, piece: FramePiece, now: Duration) {
        if piece.tries < TRIES {
            self.later.push((now + PAUSE, FramePiece { tries: piece.tries + 1, ..piece }));
        }
    }

    /// Two parts of a piece are tried next; they meet at a multiple of the largest power of two that lies inside.
    fn cut(&mut self, piece: FramePiece) {
        let (start, last) = (piece.frames.start().number(), piece.frames.last().number());
        let bit = (start ^ last).checked_ilog2().unwrap_or(0);
        let (first, second) = piece.frames.split((last >> bit << bit) - start);
        for frames in [second, Some(first)].into_iter().flatten() {
            self.waiting.push_front(FramePiece { frames, ..piece });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_memory::Frame;
    use std::collections::BTreeSet;

    const BUSY: ClaimRefusal = ClaimRefusal::Busy { in_use: 1 };
    const START: Duration = Duration::ZERO;

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    fn claim(schedule: &mut FrameSchedule, now: Duration) -> FramePiece {
        match schedule.next(now) {
            NextPiece::Claim(piece) => piece,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_range_is_cut_at_multiples_of_a_piece() {
        let schedule = FrameSchedule::new(&[range(4000, 5000)], true, Some(1));
        assert_eq!(schedule.all, [range(4000, 96), range(4096, 4096), range(8192, 808)]);
    }

    #[test]
    fn a_piece_that_is_refused_is_cut_down_to_a_block_and_then_tried_by_its_free_frames() {
        let mut schedule = FrameSchedule::new(&[range(0, 1024)], false, Some(1));
        let whole = claim(&mut schedule, START);
        assert_eq!((whole.frames, schedule.next(START)), (range(0, 1024), NextPiece::Wait));
        schedule.refused(whole, &BUSY, &[], START);
        let (first, second) = (claim(&mut schedule, START), claim(&mut schedule, START));
        assert_eq!((first.frames, second.frames), (range(0, 512), range(512, 512)));
        schedule.tested(START);
        schedule.refused(second, &BUSY, &[range(600, 8)], START);
        assert_eq!(schedule.next(START), NextPiece::Wait, "it is tried again after a pause");
        for _ in 1..TRIES {
            let free = claim(&mut schedule, PAUSE * 9);
            assert_eq!(free.frames, range(600, 8));
            schedule.refused(free, &BUSY, &[range(600, 8)], START);
        }
        let free = claim(&mut schedule, PAUSE * 9);
        schedule.refused(free, &BUSY, &[range(600, 8)], START);
        assert_eq!(schedule.next(PAUSE * 9), NextPiece::Finished, "it is not tried for ever");
    }

    #[test]
    fn a_block_whose_content_is_not_moved_is_tried_again_and_then_cut() {
        let mut schedule = FrameSchedule::new(&[range(512, 512)], true, Some(1));
        for _ in 0..=TRIES {
            let block = claim(&mut schedule, PAUSE);
            assert_eq!(block.frames, range(512, 512));
            schedule.refused(block, &BUSY, &[], START);
        }
        let half = claim(&mut schedule, PAUSE);
        assert_eq!(half.frames, range(512, 256));
        schedule.refused(half, &ClaimRefusal::NotMemory, &[], START);
        assert_eq!(claim(&mut schedule, PAUSE).frames, range(512, 128));
    }

    #[test]
    fn a_piece_is_cut_where_a_block_begins() {
        let mut schedule = FrameSchedule::new(&[range(300, 500)], true, Some(1));
        let piece = claim(&mut schedule, START);
        schedule.refused(piece, &ClaimRefusal::NotMemory, &[], START);
        assert_eq!(claim(&mut schedule, START).frames, range(300, 212));
        assert_eq!(claim(&mut schedule, START).frames, range(512, 288));
    }

    #[test]
    fn too_little_memory_is_waited_for_and_not_for_ever() {
        let mut schedule = FrameSchedule::new(&[range(0, 512)], true, Some(1));
        let piece = claim(&mut schedule, START);
        schedule.refused(piece, &ClaimRefusal::MemoryShort, &[], START);
        let piece = claim(&mut schedule, PAUSE);
        schedule.postponed(piece, PATIENCE);
        assert_eq!(schedule.next(PATIENCE * 2), NextPiece::Finished);
    }

    #[test]
    fn a_piece_that_is_lost_is_tested_again_a_few_times() {
        let mut schedule = FrameSchedule::new(&[range(0, 512)], true, Some(1));
        for _ in 0..=TRIES {
            let piece = claim(&mut schedule, PAUSE);
            schedule.lost(piece, START);
        }
        assert_eq!(schedule.next(PAUSE * 2), NextPiece::Finished);
    }

    #[test]
    fn passes_repeat_all_pieces() {
        let mut schedule = FrameSchedule::new(&[range(0, 512)], true, Some(2));
        assert_eq!(schedule.passes(), Some(2));
        for pass in 1..=2 {
            assert_eq!((claim(&mut schedule, START).frames, schedule.pass()), (range(0, 512), pass));
            schedule.tested(START);
            let next = schedule.next(START);
            assert_eq!(next, if pass == 1 { NextPiece::Wait } else { NextPiece::Finished });
        }
        assert_eq!(FrameSchedule::new(&[], true, None).next(START), NextPiece::Finished, "nothing is tested once");
    }

    #[test]
    fn the_smallest_piece_is_cut_to_single_frames_of_which_none_is_cut_further() {
        let mut schedule = FrameSchedule::new(&[range(64, 32)], true, Some(1));
        let piece = claim(&mut schedule, START);
        schedule.refused(piece, &ClaimRefusal::NotMemory, &[], START);
        let mut frames = BTreeSet::new();
        while let NextPiece::Claim(piece) = schedule.next(START) {
            assert_eq!(piece.frames.count(), 1);
            assert!(frames.insert(piece.frames.start().number()), "once");
            schedule.refused(piece, &ClaimRefusal::NotMemory, &[], START);
        }
        assert!(frames.into_iter().eq(64..96));
        assert_eq!(schedule.next(START), NextPiece::Finished);
    }

    proptest! {
        /// A kernel that gives each range without one of the stubborn frames: every other frame is tested once.
        #[test]
        fn all_that_the_kernel_gives_is_tested_once(
            first in 0_u64..3000, count in 1_u64..6000, stubborn in proptest::collection::btree_set(0_u64..9000, 0..5),
        ) {
            let mut schedule = FrameSchedule::new(&[range(first, count)], true, Some(1));
            let (mut tested, mut now) = (BTreeSet::new(), START);
            loop {
                now += PAUSE;
                let piece = match schedule.next(now) {
                    NextPiece::Claim(piece) => piece,
                    NextPiece::Wait => continue,
                    NextPiece::Finished => break,
                };
                let numbers = piece.frames.start().number()..=piece.frames.last().number();
                if stubborn.range(numbers.clone()).next().is_some() {
                    schedule.refused(piece, &BUSY, &[], now);
                } else {
                    for number in numbers {
                        prop_assert!(tested.insert(number), "twice: {number}");
                    }
                    schedule.tested(now);
                }
            }
            for number in first..first + count {
                prop_assert!(stubborn.contains(&number) != tested.contains(&number), "{number}");
            }
            prop_assert!(tested.iter().all(|number| (first..first + count).contains(number)));
        }
    }

    #[test]
    fn all_lists_of_a_node_are_tested_those_of_a_kind_by_one_tester() {
        let kinds = lists_of(&[Node(0), Node(3)]);
        assert_eq!(kinds.len(), 2 * 9);
        let all: Vec<_> = kinds.iter().flatten().copied().collect();
        let expected: Vec<_> = [Node(0), Node(3)].into_iter().flat_map(KernelFreeList::of_node).collect();
        assert_eq!(all, expected);
        for kind in kinds {
            assert!(kind.iter().all(|list| (list.zone, list.migratetype) == (kind[0].zone, kind[0].migratetype)));
            assert_eq!(kind.len(), 9);
        }
    }
}
