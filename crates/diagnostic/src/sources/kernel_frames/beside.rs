//! Which pages are taken one by one.
//!
//! **Problem.** A block of 2 MiB with one page of the kernel cannot be claimed, though its other pages can be moved.
//! **Idea.** Pages of programs and files in such a block are taken one by one, when their tests are due; free frames
//! there are reached by the kernel's lists (`lists`). A page that could not be taken counts as reachable no longer, but
//! is tried again. **Why this way.** A single page costs more than its share of a block: so only blocks that
//! cannot be had as a whole are treated so.

use rampart_linux::FrameClass;
use rampart_memory::{Frame, FrameRange, Timestamp};

use super::block::{FrameView, Look, times};

/// The pages in use of a block that cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageNeeds {
    /// To be tested now, ascending.
    pub due: Vec<Frame>,
    /// Those whose test has expired.
    pub late: u64,
    /// Those that are not due yet.
    pub fresh: u64,
    /// When the first of these becomes due, and when the first expires.
    pub first: Option<(Timestamp, Timestamp)>,
}

impl PageNeeds {
    /// What to do in such a block.
    pub fn of(block: FrameRange, views: &[FrameView], look: &Look<'_>) -> Self {
        let mut needs = Self { due: Vec::new(), late: 0, fresh: 0, first: None };
        for (frame, view) in block.frames().zip(views) {
            if !matches!(view.class, FrameClass::Anonymous | FrameClass::File) {
                continue;
            }
            let (due, end) = times(view.tested, false, look);
            if due <= look.now || (look.preferred)(frame, view.tested) {
                needs.due.push(frame);
                needs.late += u64::from(end < look.now);
            } else {
                needs.fresh += 1;
                needs.first = Some(needs.first.map_or((due, end), |first| (first.0.min(due), first.1.min(end))));
            }
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use rampart_memory::{TestLifetime, Tested};

    use FrameClass::{Anonymous, AtHand, File, Free, Slab};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1 << 50) + seconds * 1_000_000)
    }

    #[test]
    fn pages_in_use_are_due_one_by_one() {
        let view = |class, second: Option<u64>| FrameView {
            class,
            tested: second.map_or(Tested::NEVER, |second| Tested::at(at(second))),
        };
        let views = [
            view(Slab, None),
            view(Anonymous, Some(10)),
            view(Free, None),
            view(File, Some(100)),
            view(AtHand, Some(1)),
            view(Anonymous, None),
        ];
        let needs = |now| {
            let look = Look {
                bound: TestLifetime::new(Duration::from_secs(1100), Duration::from_secs(100)).unwrap(),
                since: at(0),
                first_move: at(500),
                now: at(now),
                preferred: &|frame, _| frame.number() == 512 + 3 && now == 200,
            };
            let block = FrameRange::new(Frame::new(512).unwrap(), 6).unwrap();
            let needs = PageNeeds::of(block, &views, &look);
            let due: Vec<_> = needs.due.iter().map(|frame| frame.number() - 512).collect();
            (due, needs.late, needs.fresh, needs.first)
        };
        let first = Some((at(500), at(1000)));
        assert_eq!(needs(199), (vec![], 0, 3, first));
        assert_eq!(needs(200), (vec![3], 0, 2, first), "preferred ones are due at any age");
        assert_eq!(needs(500), (vec![5], 0, 2, Some((at(760), at(1010)))));
        assert_eq!(needs(760), (vec![1, 5], 0, 1, Some((at(850), at(1100)))));
        assert_eq!(needs(1001), (vec![1, 3, 5], 1, 0, None));
        assert_eq!(needs(1101), (vec![1, 3, 5], 3, 0, None));
    }
}
