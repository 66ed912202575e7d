//! What is unlocked, since when, and what of it is to be locked next.
//!
//! **Problem.** What is unlocked is not verified; what is locked too soon is unlocked again at once, and a program whose next
//! step needs more blocks than may be unlocked would never get on. The paper locks everything at an interval
//! (002_55d5eb8104b64c01.txt, 4.3.1), which gives back what is hot and keeps what is not. **Idea.** First in, first out, under a cap, and by
//! age where an interval is wished. What was locked of late is remembered as *ghosts*, as much as the cap: an opening that
//! meets its ghost would not have been one under twice the cap, which [`Cap`] is told.
//! **Why this way.** A queue costs nothing per access, which cannot be seen anyway; and the ghosts tell a program that needs more
//! from one that sweeps through memory, to which no cap is large enough.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::cap::Cap;
use crate::layout::BlockIndex;
use crate::units::Units;

/// What a device uses is looked at again after this: longer than most of its work takes.
const RETRY: Duration = Duration::from_millis(10);

/// Units of a block that were opened at once, and are to be locked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The block.
    pub block: BlockIndex,
    /// Its units, of which no other opening in the queue has any.
    pub units: Units,
}

impl Opening {
    fn count(self) -> usize {
        self.units.count() as usize
    }
}

/// The queue of what is open.
#[derive(Clone, Debug)]
pub struct Openings {
    open: VecDeque<(Opening, Timestamp)>,
    /// Units of these.
    units: usize,
    /// Those that could not be locked, since when; they do not count.
    held: VecDeque<(Opening, Timestamp)>,
    ghosts: VecDeque<Opening>,
    /// Units of these, whether they were met or not.
    ghost_units: usize,
    is_ghost: HashMap<BlockIndex, Units>,
    interval: Option<Duration>,
    cap: Cap,
}

impl Openings {
    /// Nothing is open; it will be what the cap says, and what grows older than the interval is locked.
    #[must_use]
    pub fn new(cap: Cap, interval: Option<Duration>) -> Self {
        Self {
            open: VecDeque::new(),
            units: 0,
            held: VecDeque::new(),
            ghosts: VecDeque::new(),
            ghost_units: 0,
            is_ghost: HashMap::new(),
            interval,
            cap,
        }
    }

    /// How many openings are in the queue.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// The cap, in units.
    #[must_use]
    pub const fn cap(&self) -> usize {
        self.cap.units()
    }

    /// Whether more is open than may be.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.units > self.cap()
    }

    /// Whether so much more is open that who locks it cannot keep up.
    #[must_use]
    pub const fn is_far_over(&self) -> bool {
        self.units > self.cap() + self.cap() / 4
    }

    /// How often the cap grew.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.cap.grown()
    }

    /// The program uses so many units in all.
    pub fn uses(&mut self, units: usize) {
        self.cap.uses(units);
    }

    /// Something was opened because the program wanted it, which waited so long; not at all for what it never used before.
    pub fn opened(&mut self, opening: Opening, now: Timestamp, waited: Option<Duration>) {
        let ghosts = self.is_ghost.get(&opening.block).copied().unwrap_or_default();
        let met = !(ghosts & opening.units).is_empty();
        self.opened_ahead(opening, now);
        if let Some(waited) = waited {
            self.cap.opened(met, waited);
        }
        self.cap.think(now);
    }

    /// Something was opened ahead of the program, which says nothing about the cap.
    pub fn opened_ahead(&mut self, opening: Opening, now: Timestamp) {
        self.exorcise(opening);
        self.units += opening.count();
        self.open.push_back((opening, now));
    }

    /// What was due cannot be locked now: it is tried again after a while.
    pub fn stays(&mut self, opening: Opening, now: Timestamp) {
        self.held.push_back((opening, now));
    }

    /// What to lock now, if there is anything. It counts as locked from here on.
    pub fn due(&mut self, now: Timestamp) -> Option<Opening> {
        self.cap.think(now);
        while let Some(held) = self.held.pop_front_if(|(_, since)| now.since(*since) >= RETRY) {
            self.units += held.0.count();
            self.open.push_front(held);
        }
        let &(_, since) = self.open.front()?;
        let old = self.interval.is_some_and(|interval| now.since(since) >= interval);
        if self.is_over() || old { self.oldest() } else { None }
    }

    /// What was opened first, however little is open. It counts as locked from here on.
    pub fn oldest(&mut self) -> Option<Opening> {
        let (opening, _) = self.open.pop_front()?;
        self.units -= opening.count();
        *self.is_ghost.entry(opening.block).or_default() |= opening.units;
        self.ghosts.push_back(opening);
        self.ghost_units += opening.count();
        while self.ghost_units > self.cap() {
            // One that was met is no ghost any more, or is one again, farther behind.
            let forgotten = self.ghosts.pop_front().expect("units are of ghosts");
            self.ghost_units -= forgotten.count();
            self.exorcise(forgotten);
        }
        Some(opening)
    }

    /// These are ghosts no longer.
    fn exorcise(&mut self, opening: Opening) {
        if let Some(ghosts) = self.is_ghost.get_mut(&opening.block) {
            *ghosts -= opening.units;
            if ghosts.is_empty() {
                self.is_ghost.remove(&opening.block);
            }
        }
    }

    /// How long it is until something grows too old or is tried again; `None` if nothing does.
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
    use std::collections::HashSet;

    use super::*;
    use crate::cap::Target;
    use proptest::prelude::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A block of one unit.
    fn whole(block: u64) -> Opening {
        Opening { block: BlockIndex(block), units: Units::run(0, 1) }
    }

    /// A program that wants these blocks, one each 100 µs, and waits 90 µs for each that is locked. Returns how often it had
    /// to, and goes on from `time`.
    fn run(openings: &mut Openings, time: &mut u64, wanted: impl IntoIterator<Item = u64>) -> usize {
        let mut open: HashSet<BlockIndex> = openings.open.iter().map(|&(opening, _)| opening.block).collect();
        let mut faults = 0;
        for block in wanted {
            *time += 100;
            if open.insert(BlockIndex(block)) {
                faults += 1;
                *time += 90;
                openings.opened(whole(block), at(*time), Some(Duration::from_micros(90)));
            }
            while let Some(opening) = openings.due(at(*time)) {
                open.remove(&opening.block);
            }
        }
        faults
    }

    fn with_cap(cap: usize) -> Openings {
        let mut openings = Openings::new(Cap::new(cap, 4, Target::Cap), None);
        openings.uses(100_000);
        openings
    }

    #[test]
    fn beyond_the_cap_the_first_opened_is_locked_first() {
        let mut openings = with_cap(2);
        (1..=3).for_each(|block| openings.opened(whole(block), at(block), None));
        assert_eq!(openings.due(at(9)), Some(whole(1)));
        assert_eq!((openings.due(at(9)), openings.count()), (None, 2));
    }

    #[test]
    fn an_interval_locks_what_is_old_however_little_it_is() {
        let mut openings = Openings::new(Cap::new(100, 4, Target::Cap), Some(Duration::from_micros(50)));
        openings.opened(whole(7), at(0), None);
        assert_eq!((openings.due(at(49)), openings.next(at(20))), (None, Some(Duration::from_micros(30))));
        assert_eq!(openings.due(at(50)), Some(whole(7)));
        assert_eq!(openings.next(at(60)), None);
    }

    #[test]
    fn a_program_that_needs_more_than_the_cap_gets_it_and_faults_no_more() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..20_000).map(|step| step % 7));
        assert!((7..=14).contains(&openings.cap()), "{} blocks for 7", openings.cap());
        assert_eq!(run(&mut openings, &mut time, (0..600).map(|step| step % 7)), 0);
    }

    #[test]
    fn a_program_that_sweeps_does_not_make_the_cap_grow_unless_a_target_was_named() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..6_000).map(|step| step % 20));
        assert_eq!((openings.cap(), openings.grown()), (4, 0));
        let mut openings = Openings::new(Cap::new(4, 4, Target::Overhead(0.5)), None);
        openings.uses(100);
        let faults = run(&mut openings, &mut time, (0..60_000).map(|step| step % 20));
        assert!(faults < 40_000, "{} blocks, {faults} faults of 96 µs in 6 s and half of that", openings.cap());
    }

    #[test]
    fn what_was_needed_for_a_while_is_locked_when_the_while_is_over() {
        let (mut openings, mut time) = (with_cap(4), 0);
        run(&mut openings, &mut time, (0..20_000).map(|step| step % 7));
        let (grown, open) = (openings.cap(), openings.count());
        let faults = run(&mut openings, &mut time, (0..60_000).map(|step| step % 3));
        assert!(grown >= 7, "{grown}");
        assert!(open >= openings.count() && openings.cap() == 4 && faults < 60, "{} open, {faults}", openings.count());
    }

    #[test]
    fn what_cannot_be_locked_is_tried_again_after_a_while_and_does_not_count_until_then() {
        let mut openings = with_cap(1);
        openings.opened(whole(1), at(0), None);
        openings.opened(whole(2), at(1), None);
        let pinned = openings.due(at(1)).unwrap();
        openings.stays(pinned, at(1));
        assert_eq!((openings.due(at(2)), openings.next(at(2))), (None, Some(Duration::from_micros(9_999))));
        assert_eq!(openings.due(at(10_001)), Some(pinned));
    }

    #[test]
    fn what_is_open_is_counted_in_units_and_locked_as_it_was_opened() {
        let mut openings = with_cap(8);
        let part = |first, count| Opening { block: BlockIndex(3), units: Units::run(first, count) };
        openings.opened(part(0, 6), at(0), None);
        openings.opened(part(8, 2), at(1), None);
        assert!(!openings.is_over() && openings.count() == 2);
        openings.opened_ahead(part(6, 1), at(2));
        assert!(openings.is_over());
        assert_eq!((openings.due(at(2)), openings.due(at(2))), (Some(part(0, 6)), None));
        assert_eq!(openings.is_ghost[&BlockIndex(3)], Units::run(0, 6));
        openings.opened_ahead(part(2, 1), at(3));
        assert_eq!(openings.is_ghost[&BlockIndex(3)], Units::run(0, 2) | Units::run(3, 3));
    }

    proptest! {
        #[test]
        fn after_the_due_ones_are_locked_no_more_than_the_cap_is_open_and_no_ghost_is_kept_beyond_it(
            wanted in proptest::collection::vec(0_u64..64, 1..400), cap in 1_usize..16
        ) {
            let mut openings = with_cap(cap);
            run(&mut openings, &mut 0, wanted);
            prop_assert!(!openings.is_over() && openings.units == openings.count());
            prop_assert!(openings.ghosts.len() <= 2 * openings.cap() && openings.is_ghost.len() <= openings.ghosts.len());
        }
    }
}
