//! When 16 MiB of memory are looked at, and what is tested there.
//!
//! **Problem.** A machine has millions of frames, and to look at each of them costs time too. A claim can be refused,
//! for a moment or for good. **Idea.** A stretch of 8 blocks has one time of its next look: when the first of its tests
//! becomes due, or a refused block may be tried again, and at least four times a window, since its memory may be used
//! otherwise by then. Free memory of several blocks is claimed as one piece; if that is refused, block by block; a
//! block that is refused is left alone for a while. **Why this way.** A few hundred bytes for 16 MiB are enough to know
//! where to look next. The decision depends only on what was seen and on the time.

use std::time::Duration;

use rampart_linux::kernel_module::ClaimWay;
use rampart_memory::{Frame, FrameRange, Node, TestLifetime, Tested, Timestamp};

use super::beside::PageNeeds;
use super::block::{BlockKind, BlockNeeds, ChosenPiece, FrameView, Look, window};
use crate::machine::PAGEBLOCK;

/// Blocks of a stretch.
const BLOCKS: usize = 8;

/// Frames of a stretch: 16 MiB.
pub const STRETCH: u64 = BLOCKS as u64 * PAGEBLOCK;

/// A block in which all seems to be movable, and that was refused so often in a row, cannot be had. A doubtful one
/// cannot after one refusal. Its pages are then taken one by one, for which some of the window must be left.
const TRIES: u32 = 2;

/// The pause after a claim of free frames was refused: a program has taken one of them.
const PAUSE: Duration = Duration::from_secs(1);

/// What a look at a stretch showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StretchNeeds {
    /// To be tested now, ascending.
    pub pieces: Vec<ChosenPiece>,
    /// Pages to be tested one by one now, of each block that cannot be claimed and has some.
    pub pages: Vec<Vec<Frame>>,
    /// Whether a frame that can be tested was never tested.
    pub has_untested: bool,
}

/// Up to 16 MiB of memory of one node.
#[derive(Clone, Debug)]
pub struct Stretch {
    frames: FrameRange,
    node: Node,
    since: Timestamp,
    deadline: Timestamp,
    look_at: Timestamp,
    reachable: u64,
    missed: u64,
    refused: u64,
    /// Pieces in the hands of testers.
    out: usize,
    /// How often each block was refused in a row.
    refusals: [Option<Refusals>; BLOCKS],
    /// When pages of each block may be taken one by one again.
    next_pages: [Timestamp; BLOCKS],
    /// Whether blocks are claimed one by one, since a larger piece was refused.
    apart: bool,
}

/// Refusals of a block in a row.
#[derive(Clone, Copy, Debug)]
struct Refusals {
    count: u32,
    /// When it may be tried again.
    retry: Timestamp,
}

impl StretchNeeds {
    /// Whether nothing is to be tested.
    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.pages.is_empty()
    }
}

impl Stretch {
    /// Frames that were never looked at, at most [`STRETCH`], which no multiple of it divides.
    pub fn new(frames: FrameRange, node: Node, bound: TestLifetime, now: Timestamp) -> Self {
        Self {
            frames,
            node,
            since: now,
            deadline: now.after(window(bound) / 2),
            look_at: now,
            reachable: frames.count(),
            missed: 0,
            refused: 0,
            out: 0,
            refusals: [None; BLOCKS],
            next_pages: [now; BLOCKS],
            apart: false,
        }
    }

    /// The frames.
    pub const fn frames(&self) -> FrameRange {
        self.frames
    }

    /// Their node.
    pub const fn node(&self) -> Node {
        self.node
    }

    /// When the first test in it expires, as far as it is known.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// When to look at it.
    pub const fn look_at(&self) -> Timestamp {
        self.look_at
    }

    /// Frames that can be tested, as far as it is known.
    pub const fn reachable(&self) -> u64 {
        self.reachable
    }

    /// Frames in use whose test has expired, and that could have been moved.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Frames in use whose test has expired, since the kernel did not move them.
    pub const fn refused_frames(&self) -> u64 {
        self.refused
    }

    /// Has it looked at now, before others.
    pub const fn hurry(&mut self, now: Timestamp) {
        (self.look_at, self.deadline) = (now, now);
    }

    /// Testers have so many pieces of it.
    pub const fn hand_out(&mut self, pieces: usize) {
        self.out += pieces;
    }

    /// A tester is done with a piece of it.
    pub const fn came_back(&mut self) {
        self.out -= 1;
    }

    /// Whether testers have pieces of it.
    pub const fn is_out(&self) -> bool {
        self.out > 0
    }

    /// When frames in use without a test are due: after a quarter of the window, in which free memory is tested, and
    /// before three quarters of it. Not all at once: what is moved would come into memory that is moved next.
    fn first_move(&self, bound: TestLifetime) -> Timestamp {
        let half = window(bound) / 2;
        self.since.after(half / 2 + half.mul_f64(phase(self.frames)))
    }

    /// Decides what to test now. If that is nothing, decides when to look again; else it is to be looked at when the
    /// pieces have come back.
    pub fn look(
        &mut self,
        views: &[FrameView],
        preferred: &dyn Fn(Frame, Tested) -> bool,
        bound: TestLifetime,
        now: Timestamp,
    ) -> StretchNeeds {
        let look = Look { bound, since: self.since, first_move: self.first_move(bound), now, preferred };
        let mut needs = StretchNeeds::default();
        self.look_at = now.after(window(bound) / 4);
        self.deadline = now.after(window(bound));
        (self.reachable, self.missed, self.refused) = (0, 0, 0);
        let mut rest = views;
        for block in self.frames.cut_at_multiples(PAGEBLOCK) {
            let size = usize::try_from(block.count()).expect("a block is small");
            let Some((views, behind)) = rest.split_at_checked(size) else { break };
            rest = behind;
            if !self.look_at_block(&mut needs, block, views, &look) {
                // A page may come into use there with a test that is half a window old.
                self.look_at = self.look_at.min(now.after(window(bound) / 8));
                self.look_at_pages(&mut needs, block, PageNeeds::of(block, views, &look), now);
            }
        }
        if needs.is_empty() {
            self.apart = false;
        } else {
            self.look_at = now;
        }
        needs
    }

    /// Adds what is to be tested of a block; false if the block cannot be had as a whole.
    fn look_at_block(
        &mut self,
        needs: &mut StretchNeeds,
        block: FrameRange,
        views: &[FrameView],
        look: &Look<'_>,
    ) -> bool {
        let kind = BlockKind::of(views);
        if kind == BlockKind::Unmovable {
            return false;
        }
        let found = BlockNeeds::of(block, views, look);
        let refusals = &mut self.refusals[place(block)];
        if found.pieces.is_empty() {
            *refusals = None;
        }
        let most = if kind == BlockKind::Movable { TRIES } else { 1 };
        let given_up = refusals.is_some_and(|refusals| refusals.count >= most);
        match *refusals {
            Some(Refusals { retry, .. }) if look.now < retry => self.look_at = self.look_at.min(retry),
            _ => self.add_pieces(needs, kind, &found),
        }
        if !given_up {
            self.promise(needs, &found);
        }
        !given_up
    }

    /// Adds the pages that are to be taken one by one of a block that cannot be had as a whole.
    fn look_at_pages(&mut self, needs: &mut StretchNeeds, block: FrameRange, found: PageNeeds, now: Timestamp) {
        self.refused += found.late;
        self.reachable += found.fresh;
        if let Some((due, end)) = found.first {
            (self.look_at, self.deadline) = (self.look_at.min(due), self.deadline.min(end));
        }
        let next = self.next_pages[place(block)];
        if found.due.is_empty() {
            return;
        }
        if now < next {
            self.look_at = self.look_at.min(next);
        } else {
            needs.pages.push(found.due);
        }
    }

    /// A block that can be had.
    fn promise(&mut self, needs: &mut StretchNeeds, block: &BlockNeeds) {
        self.deadline = block.first.map_or(self.deadline, |(_, end)| end.min(self.deadline));
        self.reachable += block.reachable;
        self.missed += block.missed;
        needs.has_untested |= block.untested > 0;
    }

    fn add_pieces(&mut self, needs: &mut StretchNeeds, kind: BlockKind, block: &BlockNeeds) {
        self.look_at = block.first.map_or(self.look_at, |(due, _)| due.min(self.look_at));
        let joins = kind == BlockKind::Movable && !self.apart;
        for &piece in &block.pieces {
            let last = needs.pieces.last_mut().filter(|last| joins && [last.way, piece.way] == [ClaimWay::Free; 2]);
            match last.and_then(|last| Some((joined(last.frames, piece.frames)?, last))) {
                Some((frames, last)) => last.frames = frames,
                None => needs.pieces.push(piece),
            }
        }
    }

    /// Pages of it were taken one by one, or were not to be had.
    pub fn took_pages(&mut self, first: Frame, bound: TestLifetime, now: Timestamp) {
        self.next_pages[place_of(first)] = now.after(move_pause(bound));
    }

    /// A piece of it was refused.
    pub fn refused(&mut self, piece: ChosenPiece, bound: TestLifetime, now: Timestamp) {
        let blocks: Vec<_> = piece.frames.cut_at_multiples(PAGEBLOCK).collect();
        if blocks.len() > 1 {
            self.apart = true;
            return;
        }
        let pause = match piece.way {
            ClaimWay::Free => PAUSE,
            ClaimWay::Move => move_pause(bound),
        };
        let refusals = &mut self.refusals[place(piece.frames)];
        let count = refusals.map_or(1, |before| before.count + 1);
        *refusals = Some(Refusals { count, retry: now.after(pause) });
    }
}

/// A number of a stretch, from 0 to 1 and far from those of its neighbours: multiples of the golden ratio.
fn phase(stretch: FrameRange) -> f64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (stretch.start().number() / STRETCH).wrapping_mul(GOLDEN);
    f64::from(u32::try_from(mixed >> 32).expect("the upper half")) / f64::from(u32::MAX)
}

/// The pause after a try to move pages: none is moved twice within δ.
fn move_pause(bound: TestLifetime) -> Duration {
    bound.delta().max(window(bound) / 16)
}

/// The place of a block, or of a part of it, in its stretch.
fn place(block: FrameRange) -> usize {
    place_of(block.start())
}

/// The place of the block with a frame.
fn place_of(frame: Frame) -> usize {
    usize::try_from(frame.number() / PAGEBLOCK).expect("the number of a block fits a usize") % BLOCKS
}

/// Both ranges as one, if the second begins where the first ends.
fn joined(one: FrameRange, next: FrameRange) -> Option<FrameRange> {
    let follows = one.last().checked_add(1) == Some(next.start());
    follows.then(|| FrameRange::new(one.start(), one.count() + next.count()).expect("both are ranges of frames"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_linux::FrameClass::{self, Anonymous, Free, Kernel, Slab};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1 << 50) + seconds * 1_000_000)
    }

    fn bound() -> TestLifetime {
        TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap()
    }

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    fn views(blocks: &[(FrameClass, Option<u64>)]) -> Vec<FrameView> {
        let tested = |second: Option<u64>| second.map_or(Tested::NEVER, |second| Tested::at(at(second)));
        let block = |&(class, second)| vec![FrameView { class, tested: tested(second) }; 512];
        blocks.iter().flat_map(block).collect()
    }

    fn look(stretch: &mut Stretch, blocks: &[(FrameClass, Option<u64>)], now: u64) -> Vec<(u64, u64, ClaimWay)> {
        let needs = stretch.look(&views(blocks), &|_, _| false, bound(), at(now));
        let piece = |piece: &ChosenPiece| (piece.frames.start().number(), piece.frames.count(), piece.way);
        needs.pieces.iter().map(piece).collect()
    }

    #[test]
    fn free_blocks_are_one_piece_until_that_is_refused() {
        use ClaimWay::Free as AsFree;
        let blocks = [(Free, None), (Free, None), (Kernel, None), (Free, None), (Slab, None), (Free, None)];
        let mut stretch = Stretch::new(range(4096, 6 * 512), Node(0), bound(), at(0));
        let pieces = look(&mut stretch, &blocks, 0);
        assert_eq!(pieces, [(4096, 1024, AsFree), (5632, 512, AsFree), (6656, 512, AsFree)]);
        assert_eq!(stretch.reachable(), 4 * 512);
        let piece = ChosenPiece { frames: range(4096, 1024), way: AsFree };
        stretch.refused(piece, bound(), at(1));
        assert_eq!(look(&mut stretch, &blocks, 1).len(), 4, "block by block");
        let tested = blocks.map(|(class, _)| (class, Some(1)));
        assert_eq!(look(&mut stretch, &tested, 2), []);
        assert_eq!((stretch.look_at(), stretch.deadline()), (at(127), at(1001)), "eight times a window");
        assert_eq!(
            look(&mut stretch, &tested, 251 + 500),
            [(4096, 1024, AsFree), (5632, 512, AsFree), (6656, 512, AsFree)]
        );
    }

    #[test]
    fn a_block_that_was_refused_is_left_alone_for_a_while() {
        let blocks = [(Anonymous, Some(0)), (Anonymous, Some(400))];
        let mut stretch = Stretch::new(range(0, 1024), Node(0), bound(), at(0));
        assert_eq!(look(&mut stretch, &blocks, 749), []);
        assert_eq!(stretch.look_at(), at(750));
        assert_eq!(look(&mut stretch, &blocks, 750), [(0, 512, ClaimWay::Move)]);
        let piece = ChosenPiece { frames: range(0, 512), way: ClaimWay::Move };
        stretch.refused(piece, bound(), at(760));
        assert_eq!(look(&mut stretch, &blocks, 761), []);
        assert_eq!((stretch.look_at(), stretch.deadline(), stretch.reachable()), (at(860), at(1000), 1024), "after δ");
        assert_eq!(look(&mut stretch, &blocks, 860), [(0, 512, ClaimWay::Move)]);
        stretch.refused(piece, bound(), at(860));
        let pages = |stretch: &mut Stretch, now| {
            let pages = stretch.look(&views(&blocks), &|_, _| false, bound(), at(now)).pages;
            pages.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(pages(&mut stretch, 861), [512], "then one by one");
        stretch.took_pages(range(0, 1).start(), bound(), at(870));
        assert_eq!([pages(&mut stretch, 871), pages(&mut stretch, 970)], [vec![], vec![512]], "again after δ");
        look(&mut stretch, &blocks, 1001);
        assert_eq!((stretch.deadline(), stretch.reachable()), (at(1400), 512), "no more is promised of it");
        assert_eq!((stretch.missed(), stretch.refused_frames()), (0, 512), "the kernel did not move them");
        let mut stretch = Stretch::new(range(0, 1024), Node(0), bound(), at(0));
        look(&mut stretch, &blocks, 1001);
        assert_eq!((stretch.missed(), stretch.refused_frames()), (512, 0), "they could have been moved");
    }

    #[test]
    fn what_cannot_be_read_is_looked_at_later() {
        let mut stretch = Stretch::new(range(0, 1024), Node(0), bound(), at(0));
        assert_eq!(look(&mut stretch, &[], 5), []);
        assert_eq!(stretch.look_at(), at(255));
    }
}
