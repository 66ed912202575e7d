//! What is to be tested in a block of 2 MiB.
//!
//! **Problem.** The kernel moves pages in blocks of 2 MiB, and one that cannot be moved keeps all its free neighbours
//! out of reach. Moving what is in use slows down the program that uses it. **Idea.** Runs of 32 or more free frames
//! are claimed as they are. If a frame in use is due, or a free frame outside of such a run, the whole block is emptied
//! and tested: its tests expire together from then on, and its pages move once each time that it is tested. **Why this
//! way.** The decision depends only on what was seen and on the time, so it can be checked without real memory.
//!
//! With window = lifetime - δ, a test is *due* to be repeated when a quarter of the window is left. An untested frame
//! in a run of free frames is due at once. Any other is due later, when the free memory will have been tested: what is
//! in use then moves to frames that were tested before [Rahman16, fig. 6].

use std::time::Duration;

use rampart_linux::FrameClass;
use rampart_linux::kernel_module::ClaimWay;
use rampart_memory::{Frame, FrameRange, TestLifetime, Tested, Timestamp};

use crate::machine::reach::is_movable;

/// The fewest free frames in a run that are claimed without the rest of their block: each claim has a price.
const FEWEST: u64 = 32;

/// A frame, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView {
    /// Its present use.
    pub class: FrameClass,
    /// Its last test.
    pub tested: Tested,
}

/// Frames to claim together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenPiece {
    /// The frames.
    pub frames: FrameRange,
    /// How they are claimed.
    pub way: ClaimWay,
}

/// How a block stands towards claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The content of each page can be moved, if there is any.
    Movable,
    /// It has pages of the kernel, which may be free again at the next moment.
    Doubtful,
    /// It cannot be claimed.
    Unmovable,
}

/// By what a look judges frames.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The lifetime of tests.
    pub bound: TestLifetime,
    /// Since when the frames are known: the ages of frames without a test count from then.
    pub since: Timestamp,
    /// When frames in use without a test are due.
    pub first_move: Timestamp,
    /// The time of the look.
    pub now: Timestamp,
    /// Frames that are due all the same, by their last test.
    pub preferred: &'a dyn Fn(Frame, Tested) -> bool,
}

/// What is to be done in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    /// To be tested now, ascending and apart.
    pub pieces: Vec<ChosenPiece>,
    /// Frames that can be tested.
    pub reachable: u64,
    /// Of these, frames in use whose test has expired: deadlines that were missed [Rahman16, 4.1.2].
    pub missed: u64,
    /// Of the reachable ones, frames that were never tested.
    pub untested: u64,
    /// When the first test becomes due, and when the first expires; `None` without reachable frames.
    pub first: Option<(Timestamp, Timestamp)>,
}

/// A frame that may be claimed.
struct Candidate {
    frame: Frame,
    view: FrameView,
    /// Whether it is in a long run of free frames.
    in_run: bool,
    due: Timestamp,
    end: Timestamp,
}

/// How long a frame may go without a test: lifetime - δ.
pub fn window(bound: TestLifetime) -> Duration {
    bound.lifetime() - bound.delta()
}

impl FrameView {
    /// Whether it can be tested, if its block can be claimed.
    pub const fn may_be_tested(self) -> bool {
        is_movable(self.class)
    }

    const fn is_in_use(self) -> bool {
        !matches!(self.class, FrameClass::Free | FrameClass::AtHand)
    }
}

impl BlockKind {
    /// The kind of a block with frames of these classes.
    pub fn of(views: &[FrameView]) -> Self {
        use FrameClass::{Kernel, Offline};
        if views.iter().all(|view| view.may_be_tested()) {
            Self::Movable
        } else if views.iter().all(|view| view.may_be_tested() || matches!(view.class, Kernel | Offline)) {
            Self::Doubtful
        } else {
            Self::Unmovable
        }
    }
}

impl BlockNeeds {
    /// What to do in a block that may be claimed.
    pub fn of(block: FrameRange, views: &[FrameView], look: &Look<'_>) -> Self {
        let candidates = candidates(block, views, look);
        let is_due = |candidate: &&Candidate| {
            candidate.due <= look.now || (look.preferred)(candidate.frame, candidate.view.tested)
        };
        let count = |is: &dyn Fn(&&Candidate) -> bool| candidates.iter().filter(is).count() as u64;
        let pieces = if candidates.iter().any(|candidate| !candidate.in_run && is_due(&candidate)) {
            vec![ChosenPiece { frames: block, way: ClaimWay::Move }]
        } else {
            let runs = runs_of(&candidates).filter(|run| run.iter().any(|candidate| is_due(&candidate)));
            let frames = runs.flat_map(|run| FrameRange::merge(run.iter().map(|candidate| candidate.frame)));
            frames.map(|frames| ChosenPiece { frames, way: ClaimWay::Free }).collect()
        };
        Self {
            pieces,
            reachable: candidates.len() as u64,
            missed: count(&|one| one.view.is_in_use() && one.end < look.now),
            untested: count(&|one| one.view.tested == Tested::NEVER),
            first: candidates.iter().map(|one| (one.due, one.end)).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))),
        }
    }
}

fn candidates(block: FrameRange, views: &[FrameView], look: &Look<'_>) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut at = 0;
    for run in views.chunk_by(|one, next| (one.class == FrameClass::Free) == (next.class == FrameClass::Free)) {
        let in_run = run[0].class == FrameClass::Free && run.len() as u64 >= FEWEST;
        for &view in run {
            let frame = block.start().checked_add(at).expect("a frame of the block");
            at += 1;
            if view.may_be_tested() {
                let (due, end) = times(view.tested, in_run, look);
                candidates.push(Candidate { frame, view, in_run, due, end });
            }
        }
    }
    candidates
}

/// When a test is due, and when it expires.
pub fn times(tested: Tested, in_run: bool, look: &Look<'_>) -> (Timestamp, Timestamp) {
    let window = window(look.bound);
    match (tested.moment(), in_run) {
        (Some(moment), _) => (moment.after(3 * window / 4), moment.after(window)),
        (None, true) => (look.since, look.since.after(window / 2)),
        (None, false) => (look.first_move, look.since.after(window)),
    }
}

/// The long runs of free frames.
fn runs_of(candidates: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    let next_to = |one: &Candidate, next: &Candidate| one.frame.checked_add(1) == Some(next.frame);
    candidates.chunk_by(move |one, next| one.in_run == next.in_run && next_to(one, next)).filter(|run| run[0].in_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    use FrameClass::{Anonymous, AtHand, Free, Kernel, Reserved, Slab};

    const START: u64 = 1 << 50;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(START + seconds * 1_000_000)
    }

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    /// The needs of a block at frame 512, as runs of frames: their number, class, and the second of their last test.
    fn needs(runs: &[(usize, FrameClass, Option<u64>)], now: u64) -> BlockNeeds {
        let tested = |second: Option<u64>| second.map_or(Tested::NEVER, |second| Tested::at(at(second)));
        let views: Vec<FrameView> = runs
            .iter()
            .flat_map(|&(count, class, second)| vec![FrameView { class, tested: tested(second) }; count])
            .collect();
        let bound = TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap();
        let look = Look {
            bound,
            since: at(0),
            first_move: at(500),
            now: at(now),
            preferred: &|frame, tested| frame.number() == 1000 && tested < Tested::at(at(95)),
        };
        BlockNeeds::of(range(512, views.len() as u64), &views, &look)
    }

    fn free(frames: FrameRange) -> ChosenPiece {
        ChosenPiece { frames, way: ClaimWay::Free }
    }

    #[test]
    fn free_memory_without_a_test_is_due_at_once_and_used_memory_later() {
        let block = [(100, Free, None), (300, Anonymous, None)];
        assert_eq!(needs(&block, 0).pieces, [free(range(512, 100))]);
        assert_eq!(needs(&block, 0).first, Some((at(0), at(500))));
        let moved = ChosenPiece { frames: range(512, 400), way: ClaimWay::Move };
        assert_eq!(needs(&block, 500).pieces, [moved], "the free part is tested with it");
        let (reachable, untested) = (needs(&block, 0).reachable, needs(&block, 0).untested);
        assert_eq!((reachable, untested), (400, 400));
    }

    #[test]
    fn a_test_is_repeated_when_a_quarter_of_the_window_is_left() {
        let block = [(100, Free, Some(10)), (100, Anonymous, Some(50)), (100, Free, Some(99))];
        assert_eq!(needs(&block, 759), BlockNeeds { first: Some((at(760), at(1010))), ..needs(&block, 100) });
        assert_eq!(needs(&block, 760).pieces, [free(range(512, 100))]);
        assert_eq!(needs(&block, 800).pieces, [ChosenPiece { frames: range(512, 300), way: ClaimWay::Move }]);
        assert_eq!([needs(&block, 1050).missed, needs(&block, 1051).missed], [0, 100]);
    }

    #[test]
    fn small_free_parts_wait_for_the_whole_block() {
        let block = [(31, Free, None), (50, Anonymous, Some(5)), (32, Free, None)];
        assert_eq!(needs(&block, 0).pieces, [free(range(512 + 81, 32))]);
        assert_eq!(needs(&block, 500).pieces[0].way, ClaimWay::Move);
    }

    #[test]
    fn free_frames_at_hand_for_a_cpu_are_tested_with_their_block_and_miss_no_deadline() {
        let block = [(100, Free, Some(700)), (1, AtHand, Some(5)), (100, Anonymous, Some(700))];
        let moved = ChosenPiece { frames: range(512, 201), way: ClaimWay::Move };
        assert_eq!((needs(&block, 754).pieces, needs(&block, 755).pieces), (vec![], vec![moved]));
        assert_eq!(needs(&block, 1100).missed, 0);
    }

    #[test]
    fn preferred_frames_are_due_at_any_age() {
        let block = |class| [(512, class, Some(90))];
        assert_eq!(needs(&block(Free), 100).pieces, [free(range(512, 512))]);
        assert_eq!(needs(&block(Anonymous), 100).pieces[0].way, ClaimWay::Move);
        assert_eq!(needs(&[(400, Free, Some(90))], 100).pieces, []);
    }

    #[test]
    fn what_is_the_kernels_for_sure_is_left_alone() {
        let kind = |class| {
            let view = |class| FrameView { class, tested: Tested::NEVER };
            BlockKind::of(&[view(Free), view(class), view(Free)])
        };
        assert_eq!([kind(Free), kind(AtHand), kind(Anonymous)], [BlockKind::Movable; 3]);
        assert_eq!(kind(Kernel), BlockKind::Doubtful);
        assert_eq!([kind(Slab), kind(Reserved)], [BlockKind::Unmovable; 2]);
    }
}
