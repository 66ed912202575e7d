//! How much tested memory is kept ready for a program.
//!
//! **Problem.** A frame is tested some hundred times slower than it is touched for the first time, so it must be tested
//! before the program asks; but what lies ready is taken from everybody. **Idea.** The stock is counted in *trays* of a
//! huge page each. What a program wanted and did not find ready is wanted from then on too, up to the most that is
//! allowed; when some of it lay there unused for a while, half of that is not wanted any more. **Why this way.** A
//! program asks for memory in bursts that nothing foretells, so what counts is how deep the last bursts were, which is
//! all that is remembered. The diagnostic's controller decides for a whole machine, from free lists and guarantees per
//! list [Rahman16, 5.2]; here is one list, and no guarantee: what is handed out untested is tested later
//! ([`Guard::renew`](crate::Guard::renew)).

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::state::layout::MOST_PAGES;

/// Pages of a tray.
pub const TRAY_PAGES: u64 = MOST_PAGES as u64;

/// How long trays must lie unused before fewer are wanted.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many trays are wanted.
#[derive(Clone, Debug)]
pub struct PoolTarget {
    wanted: usize,
    most: usize,
    /// Pages that were not ready, less whole trays.
    missed: u64,
    /// The fewest that lay ready since `since`.
    lowest: usize,
    since: Timestamp,
}

impl PoolTarget {
    /// One tray is wanted, and never more than `most`. With `most` 0, none ever is.
    #[must_use]
    pub fn new(most: usize, now: Timestamp) -> Self {
        Self { wanted: most.min(1), most, missed: 0, lowest: most, since: now }
    }

    /// How many trays are to lie ready.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.wanted
    }

    /// Something was taken, and so many trays are left.
    pub fn taken(&mut self, left: usize) {
        self.lowest = self.lowest.min(left);
    }

    /// So many pages were asked for, and were not ready.
    pub fn missed(&mut self, pages: u64) {
        self.lowest = 0;
        self.missed += pages;
        let trays = usize::try_from(self.missed / TRAY_PAGES).unwrap_or(usize::MAX);
        self.missed %= TRAY_PAGES;
        self.wanted = self.wanted.saturating_add(trays).min(self.most);
    }

    /// Time goes by, and so many trays lie ready.
    pub fn tick(&mut self, ready: usize, now: Timestamp) {
        if now.since(self.since) < PATIENCE {
            return;
        }
        let unused = self.lowest.min(ready);
        if self.wanted > 1 {
            self.wanted = (self.wanted - unused.div_ceil(2).min(self.wanted)).max(1);
        }
        (self.lowest, self.since) = (ready, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_stock_that_runs_out_grows_by_what_was_missed_up_to_the_most() {
        let mut stock = PoolTarget::new(4, at(0));
        let wanted: Vec<_> = (0..7).map(|_| (stock.wanted(), stock.missed(TRAY_PAGES / 2)).0).collect();
        assert_eq!(wanted, [1, 1, 2, 2, 3, 3, 4]);
        stock.missed(100 * TRAY_PAGES);
        assert_eq!(stock.wanted(), 4);
    }

    #[test]
    fn what_lies_unused_is_not_wanted_for_long() {
        let mut stock = PoolTarget::new(32, at(0));
        stock.missed(31 * TRAY_PAGES);
        assert_eq!(stock.wanted(), 32);
        stock.tick(32, at(3)); // it ran out since the start, so nothing is too much
        assert_eq!(stock.wanted(), 32);
        stock.tick(32, at(6));
        assert_eq!(stock.wanted(), 16);
        (9..60).step_by(3).for_each(|second| stock.tick(stock.wanted(), at(second)));
        assert_eq!(stock.wanted(), 1, "one stays for the next burst");
    }

    #[test]
    fn a_stock_of_none_wants_none() {
        let mut stock = PoolTarget::new(0, at(0));
        stock.missed(TRAY_PAGES);
        stock.tick(0, at(9));
        assert_eq!(stock.wanted(), 0);
    }

    proptest! {
        /// A program that takes the same in every burst finds it ready from some burst on, and not much more.
        #[test]
        fn a_steady_program_is_served(burst in 1_usize..60, most in 60_usize..100) {
            let mut stock = PoolTarget::new(most, at(0));
            let mut missed = 0;
            for second in 1..120 {
                let mut ready = stock.wanted();
                missed = 0;
                for _ in 0..burst {
                    if ready == 0 {
                        stock.missed(TRAY_PAGES);
                        missed += 1;
                    } else {
                        ready -= 1;
                        stock.taken(ready);
                    }
                }
                stock.tick(stock.wanted(), at(3 * second));
                prop_assert!(stock.wanted() <= most && stock.wanted() <= burst + 1);
            }
            prop_assert_eq!(missed, 0);
        }
    }
}
