//! How much may be unlocked, by what locking costs.
//!
//! **Problem.** What may be unlocked at once is protection against overhead: the paper tuned it by hand for each program
//! (002_55d5eb8104b64c01.txt, 4.3.1 and tables 4.3 to 4.6), and a program changes: it scatters while it builds, sweeps while it computes,
//! and needs more than any fixed cap for a while. **Idea.** Ask how much of the last moments the program waited for locked
//! blocks. If that is beyond the target, and more room would have spared it, the cap doubles; while it is well below, the cap
//! shrinks step by step to the least that was asked for. A growth that undoes a shrink makes the next shrink wait twice as
//! long, so a program whose need does not change is left alone. **Why this way.** Waiting is what the user feels, and it can be
//! measured where it happens; which blocks are hot cannot be seen without paying for it.

use std::time::Duration;

use rampart_memory::Timestamp;

/// How often the cap is thought about.
const PERIOD: Duration = Duration::from_millis(20);

/// The overhead that is taken for a program that cannot go on, where no other was asked for.
const USUAL: f64 = 0.2;

/// Below this part of the target the cap shrinks.
const LOW: f64 = 0.5;

/// What a fault costs beside its service: the message, and two threads that are woken. 7 µs in all for a single page.
const AROUND: Duration = Duration::from_micros(6);

/// Rest after a growth until the next shrink, at first and at most.
const REST: Duration = Duration::from_millis(500);
const MOST_REST: Duration = Duration::from_secs(64);

/// So small a part of what the program uses need not be locked: with less, it has no chance to work.
const PART: usize = 20;

/// Nor less than so many blocks.
const FEWEST: usize = 4;

/// What a user wants it to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The cap is as asked, and grows only for a program that cannot go on with it: which needs somewhat more room than it
    /// has, and does little but wait.
    Cap,
    /// Whatever it takes to keep the overhead below this part of the program's own time.
    Overhead(f64),
}

/// The number of blocks that may be unlocked.
#[derive(Clone, Debug)]
pub struct Cap {
    target: Target,
    /// What was asked for, and what of it is asked of a program of this size.
    asked: usize,
    least: usize,
    now: usize,
    /// Openings of this period, those of them that more room would have spared, and what the program waited for them.
    seen: usize,
    met: usize,
    waited: Duration,
    since: Option<Timestamp>,
    rest: Duration,
    changed: Timestamp,
    shrunk: bool,
    grown: u32,
}

impl Cap {
    /// At most `asked` blocks, or what the target makes of it.
    #[must_use]
    pub fn new(asked: usize, target: Target) -> Self {
        assert!(asked >= 1, "a program needs a block to work on");
        let least = asked.min(FEWEST);
        Self {
            target,
            asked,
            least,
            now: least,
            seen: 0,
            met: 0,
            waited: Duration::ZERO,
            since: None,
            rest: REST,
            changed: Timestamp::from_micros(0),
            shrunk: false,
            grown: 0,
        }
    }

    /// The cap.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.now
    }

    /// How often it grew because the program waited.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.grown
    }

    /// The program uses so many blocks in all: of few, fewer may be unlocked.
    pub fn uses(&mut self, blocks: usize) {
        self.least = (blocks / PART).max(FEWEST).min(self.asked);
        self.now = self.now.max(self.least);
    }

    /// The program waited so long for a block that was locked; `met`: it would not have, with twice the cap.
    pub fn opened(&mut self, met: bool, waited: Duration) {
        self.seen += 1;
        self.met += usize::from(met);
        self.waited += waited + AROUND;
    }

    /// Thinks about it, if it is time.
    pub fn think(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        let past = now.since(since);
        if past < PERIOD {
            return;
        }
        let overhead = self.waited.as_secs_f64() / past.saturating_sub(self.waited).as_secs_f64().max(1e-9);
        let (target, spared) = match self.target {
            Target::Cap => (USUAL, 2 * self.met > self.seen),
            Target::Overhead(target) => (target, self.seen > 0),
        };
        if overhead > target && spared {
            self.grow(now);
        } else if overhead < LOW * target && self.now > self.least && now.since(self.changed) >= self.rest {
            self.shrink(now);
        }
        (self.seen, self.met, self.waited, self.since) = (0, 0, Duration::ZERO, Some(now));
    }

    fn grow(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.shrunk) {
            self.rest = (2 * self.rest).min(MOST_REST);
        }
        self.now *= 2;
        self.grown = self.grown.saturating_add(1);
        self.changed = now;
    }

    /// The next step may follow at once: only what comes after a growth waits.
    fn shrink(&mut self, now: Timestamp) {
        self.now = (self.now - self.now.div_ceil(4)).max(self.least);
        self.shrunk = true;
        if self.now == self.least {
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    /// Periods in each of which the program waits this part of the time for so many blocks.
    fn periods(cap: &mut Cap, from: u64, count: u64, share: f64, met: bool) -> u64 {
        for period in 0..count {
            cap.think(at(from + 20 * period));
            cap.opened(met, (PERIOD.mul_f64(share)).saturating_sub(AROUND));
        }
        cap.think(at(from + 20 * count));
        from + 20 * count
    }

    #[test]
    fn of_a_small_heap_a_twentieth_may_be_unlocked_but_never_less_than_four_blocks() {
        let mut cap = Cap::new(16, Target::Cap);
        assert_eq!(cap.blocks(), 4);
        for (uses, least) in [(10, 4), (200, 10), (1000, 16), (100_000, 16)] {
            cap.uses(uses);
            assert_eq!(cap.blocks(), least, "of {uses}");
        }
        assert_eq!(Cap::new(2, Target::Cap).blocks(), 2);
    }

    #[test]
    fn a_program_that_waits_gets_more_and_gives_it_back_when_it_does_not() {
        let mut cap = Cap::new(4, Target::Cap);
        let now = periods(&mut cap, 0, 4, 0.5, true);
        assert_eq!((cap.blocks(), cap.grown()), (64, 4));
        periods(&mut cap, now, 100, 0.0, false);
        assert_eq!(cap.blocks(), 4);
    }

    #[test]
    fn more_room_is_not_given_where_it_does_not_help_unless_a_target_was_named() {
        let grown = |target| {
            let mut cap = Cap::new(4, target);
            periods(&mut cap, 0, 10, 0.5, false);
            cap.grown()
        };
        assert_eq!(grown(Target::Cap), 0);
        assert_eq!(grown(Target::Overhead(0.2)), 10);
        assert_eq!(grown(Target::Overhead(1.2)), 0, "half of the time is an overhead of 1");
    }

    /// A program that needs 40 blocks for good: with fewer it waits for half of its time.
    #[test]
    fn a_program_whose_need_does_not_change_is_left_alone_more_and_more() {
        let mut cap = Cap::new(16, Target::Cap);
        cap.uses(1000);
        let mut grown = Vec::new();
        let mut waits = 0;
        for period in 0..30_000 {
            let short = cap.blocks() < 40;
            waits += u32::from(short);
            cap.think(at(20 * period));
            cap.opened(short, if short { PERIOD / 2 } else { Duration::ZERO });
            if period % 10_000 == 9_999 {
                grown.push(cap.grown());
            }
        }
        assert!(waits < 60, "{waits} of 30,000 periods");
        assert!(grown[0] >= 2 && grown[2] - grown[1] <= 8, "{grown:?}");
    }
}
