//! When a bank is worth emptying: after it has been a surplus for as long as it is full.
//!
//! **Problem.** Memory that a program gives back is often needed again a minute later. A bank that is emptied at once
//! was emptied for nothing then; one that is never emptied stays on for nothing. **Idea.** Nobody knows which it will
//! be, so wait until keeping the bank on has cost as much as emptying it will: then the sum is at most twice that of
//! who knew (the ski-rental rule). Emptying costs as much as pages lie in the bank, so the wait is a share of the
//! patience with a full bank. **Why this way.** Banks change all the time, so not a bank has an age but the surplus:
//! how long there was room to do without one bank, two, and so on. The emptiest bank goes with the oldest surplus.
//! Meanwhile pages are freed by themselves, and the bank becomes cheaper.
//!
//! Two thresholds: a surplus begins beyond the whole reserve, and is over only with less than half of it.

/// How long there has been room to do without one unit, two units, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurplusAges {
    /// In microseconds, the oldest first.
    ages: Vec<u64>,
}

impl SurplusAges {
    /// Lets time pass. There is room to do without `begins` units beyond the reserve, and without `lasts` beyond half
    /// of it.
    pub fn pass(&mut self, micros: u64, begins: usize, lasts: usize) {
        self.ages.truncate(lasts);
        self.ages.iter_mut().for_each(|age| *age += micros);
        if self.ages.len() < begins {
            self.ages.resize(begins, 0);
        }
    }

    /// Returns how many of the units go, given how full each is, the emptiest first: its used frames and all of them. A
    /// full one waits for `patience` microseconds.
    pub fn ripe(&self, units: &[(u64, u64)], patience: u64) -> usize {
        let is_ripe = |(age, (used, frames)): &(&u64, &(u64, u64))| {
            u128::from(**age) * u128::from(*frames) >= u128::from(patience) * u128::from(*used)
        };
        self.ages.iter().zip(units).take_while(is_ripe).count()
    }

    /// Units have gone, with the oldest surplus.
    pub fn gone(&mut self, units: usize) {
        self.ages.drain(..units.min(self.ages.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bank_waits_as_long_as_it_is_full() {
        let mut ages = SurplusAges::default();
        let banks = [(0, 100), (10, 100), (50, 100), (100, 100)];
        ages.pass(10, 4, 4);
        assert_eq!(ages.ripe(&banks, 1000), 1, "an empty bank goes at once");
        ages.pass(99, 4, 4);
        assert_eq!(ages.ripe(&banks, 1000), 1);
        ages.pass(1, 4, 4);
        assert_eq!(ages.ripe(&banks, 1000), 2);
        ages.pass(899, 4, 4);
        assert_eq!(ages.ripe(&banks, 1000), 3);
        ages.pass(1, 4, 4);
        assert_eq!(ages.ripe(&banks, 1000), 4);
        assert_eq!(SurplusAges { ages: vec![0; 4] }.ripe(&banks, 0), 4, "without patience all go at once");
    }

    #[test]
    fn a_surplus_lasts_until_half_of_the_reserve_is_gone() {
        let mut ages = SurplusAges::default();
        ages.pass(1, 3, 3);
        ages.pass(10, 1, 3);
        assert_eq!(ages.ages, [10, 10, 10]);
        ages.pass(10, 1, 2);
        ages.pass(10, 3, 3);
        assert_eq!(ages.ages, [30, 30, 0], "a surplus that was gone begins anew");
    }

    #[test]
    fn those_that_go_take_the_oldest_surplus_along() {
        let mut ages = SurplusAges { ages: vec![30, 20, 10] };
        ages.gone(1);
        assert_eq!(ages.ages, [20, 10]);
        ages.gone(5);
        assert_eq!(ages, SurplusAges::default());
    }
}
