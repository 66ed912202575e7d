//! Which blocks are unlocked, since when, and which of them are to be locked next.
//!
//! **Problem.** What is unlocked is not verified; what is locked too soon is unlocked again at once, and a program whose next
//! step needs more blocks than may be unlocked would never get on. The paper locks everything at an interval
//! (002_55d5eb8104b64c01.txt, 4.3.1), which gives back what is hot and keeps what is not. **Idea.** First in, first out, under a cap, and by
//! age where an interval is wished. Blocks that were locked of late are remembered as *ghosts*, as many as the cap: an opening that
//! meets its ghost would not have been one under twice the cap, which [`Cap`] is told.
//! **Why this way.** A queue costs nothing per access, which cannot be seen anyway; and the ghosts tell a program that needs more
//! from one that sweeps through memory, to which no cap is large enough.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::cap::{Cap, Target};
use crate::layout::BlockIndex;

/// What a device uses is looked at again after this: longer than most of its work takes.
const RETRY: Duration = Duration::from_millis(10);

/// The queue of open blocks.
#[derive(Clone, Debug)]
pub struct Openings {
    open: VecDeque<(BlockIndex, Timestamp)>,
    /// Those that could not be locked, since when; they do not count.
    held: VecDeque<(BlockIndex, Timestamp)>,
    ghosts: VecDeque<BlockIndex>,
    is_ghost: HashSet<BlockIndex>,
    interval: Option<Duration>,
    cap: Cap,
}

impl Openings {
    /// None is open; at most `cap` blocks will be for long, or what the target makes of it.
    #[must_use]
    pub fn new(cap: usize, target: Target, interval: Option<Duration>) -> Self {
        Self {
            open: VecDeque::new(),
            held: VecDeque::new(),
            ghosts: VecDeque::new(),
            is_ghost: HashSet::new(),
            interval,
            cap: Cap::new(cap, target),
        }
    }

    /// How many blocks are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// The cap, in blocks.
    #[must_use]
    pub const fn cap(&self) -> usize {
        self.cap.blocks()
    }

    /// How often the cap grew.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.cap.grown()
    }

    /// The program uses so many blocks in all.
    pub fn uses(&mut self, blocks: usize) {
        self.cap.uses(blocks);
    }

    /// A block was opened because the program wanted it, which waited so long; not at all for one that it never used before.
    pub fn opened(&mut self, block: BlockIndex, now: Timestamp, waited: Option<Duration>) {
        self.open.push_back((block, now));
        let met = self.is_ghost.remove(&block);
        if let Some(waited) = waited {
            self.cap.opened(met, waited);
        }
        self.cap.think(now);
    }

    /// A block was opened ahead of the program, which says nothing about the cap.
    pub fn opened_ahead(&mut self, block: BlockIndex, now: Timestamp) {
        self.open.push_back((block, now));
    }

    /// A block that was due cannot be locked now: it is tried again after a while.
    pub fn stays(&mut self, block: BlockIndex, now: Timestamp) {
        self.held.push_back((block, now));
    }

    /// The block to lock now, if there is one. It counts as locked from here on.
    pub fn due(&mut self, now: Timestamp) -> Option<BlockIndex> {
        self.cap.think(now);
        while let Some(held) = self.held.pop_front_if(|(_, since)| now.since(*since) >= RETRY) {
            self.open.push_front(held);
        }
        let &(_, since) = self.open.front()?;
        let old = self.interval.is_some_and(|interval| now.since(since) >= interval);
        if self.open.len() <= self.cap() && !old {
            return None;
        }
        self.oldest()
    }

    /// The block that was opened first, however few are open. It counts as locked from here on.
    pub fn oldest(&mut self) -> Option<BlockIndex> {
        let (block, _) = self.open.pop_front()?;
        if self.is_ghost.insert(block) {
            self.ghosts.push_back(block);
        }
        while self.ghosts.len() > self.cap() {
            // One that was met is no ghost any more, or is one again, farther behind.
            let forgotten = self.ghosts.pop_front().expect("there are more than the cap");
            self.is_ghost.remove(&forgotten);
        }
        Some(block)
    }

    /// How long it is until a block grows too old or is tried again; `None` if none does.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        let left = |since: &Timestamp, time: Duration| time.saturating_sub(now.since(*since));
        let old = self.open.front().zip(self.interval).map(|((_, since), interval)| left(since, interval));
        let again = self.held.front().map(|(_, since)| left(since, RETRY));
        old.into_iter().chain(again).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A program that wants these blocks, one each 100 µs, and waits 400 µs for each that is locked. Returns how often it had
    /// to, and goes on from `time`.
    fn run(openings: &mut Openings, time: &mut u64, wanted: impl IntoIterator<Item = u64>) -> usize {
        let mut open: HashSet<BlockIndex> = openings.open.iter().map(|&(block, _)| block).collect();
        let mut faults = 0;
        for block in wanted {
            *time += 100;
            if open.insert(BlockIndex(block)) {
                faults += 1;
                *time += 400;
                openings.opened(BlockIndex(block), at(*time), Some(Duration::from_micros(400)));
            }
            while let Some(block) = openings.due(at(*time)) {
                open.remove(&block);
            }
        }
        faults
    }

    fn with_cap(cap: usize) -> Openings {
        let mut openings = Openings::new(cap, Target::Cap, None);
        openings.uses(100_000);
        openings
    }

    #[test]
    fn beyond_the_cap_the_first_opened_is_locked_first() {
        let mut openings = with_cap(2);
        (1..=3).for_each(|block| openings.opened(BlockIndex(block), at(block), None));
        assert_eq!(openings.due(at(9)), Some(BlockIndex(1)));
        assert_eq!((openings.due(at(9)), openings.count()), (None, 2));
    }

    #[test]
    fn an_interval_locks_what_is_old_however_little_it_is() {
        let mut openings = Openings::new(100, Target::Cap, Some(Duration::from_micros(50)));
        openings.opened(BlockIndex(7), at(0), None);
        assert_eq!((openings.due(at(49)), openings.next(at(20))), (None, Some(Duration::from_micros(30))));
        assert_eq!(openings.due(at(50)), Some(BlockIndex(7)));
        assert_eq!(openings.next(at(60)), None);
    }

    #[test]
    fn a_program_that_needs_more_than_the_cap_gets_it_and_faults_no_more() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..2_000).map(|step| step % 7));
        assert!((7..=14).contains(&openings.cap()), "{} blocks for 7", openings.cap());
        assert_eq!(run(&mut openings, &mut time, (0..600).map(|step| step % 7)), 0);
    }

    #[test]
    fn a_program_that_sweeps_does_not_make_the_cap_grow_unless_a_target_was_named() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..6_000).map(|step| step % 20));
        assert_eq!((openings.cap(), openings.grown()), (4, 0));
        let mut openings = Openings::new(4, Target::Overhead(0.5), None);
        openings.uses(100);
        let faults = run(&mut openings, &mut time, (0..60_000).map(|step| step % 20));
        assert!(faults < 10_000, "{} blocks, {faults} faults of 400 µs in 6 s and half of that", openings.cap());
    }

    #[test]
    fn what_was_needed_for_a_while_is_locked_when_the_while_is_over() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..3_000).map(|step| step % 30));
        let (grown, open) = (openings.cap(), openings.count());
        let faults = run(&mut openings, &mut time, (0..60_000).map(|step| step % 3));
        assert!(grown >= 30 || grown == 4, "{grown}");
        assert!(open >= openings.count() && openings.cap() == 4 && faults < 60, "{} open, {faults}", openings.count());
    }

    #[test]
    fn what_cannot_be_locked_is_tried_again_after_a_while_and_does_not_count_until_then() {
        let mut openings = with_cap(1);
        openings.opened(BlockIndex(1), at(0), None);
        openings.opened(BlockIndex(2), at(1), None);
        let pinned = openings.due(at(1)).unwrap();
        openings.stays(pinned, at(1));
        assert_eq!((openings.due(at(2)), openings.next(at(2))), (None, Some(Duration::from_micros(9_999))));
        assert_eq!(openings.due(at(10_001)), Some(pinned));
    }

    proptest! {
        #[test]
        fn after_the_due_ones_are_locked_no_more_than_the_cap_is_open_and_no_ghost_is_kept_beyond_it(
            wanted in proptest::collection::vec(0_u64..64, 1..400), cap in 1_usize..16
        ) {
            let mut openings = with_cap(cap);
            run(&mut openings, &mut 0, wanted);
            prop_assert!(openings.count() <= openings.cap());
            prop_assert!(openings.ghosts.len() <= 2 * openings.cap() && openings.is_ghost.len() <= openings.ghosts.len());
        }
    }
}
