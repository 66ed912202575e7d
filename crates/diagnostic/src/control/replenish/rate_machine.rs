//! COMeT's rule: five states for each free list [Rahman16, 4.1.5, fig. 9 and 10].
//!
//! The rate rises fast and falls slowly: a list that ran out of tested blocks doubles its rate in each period until no
//! tested block is missing.

use rampart_memory::FrameDemand;

use super::Replenish;

/// The state of a list's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateState {
    /// A: the rate is the minimum.
    Least,
    /// B: the rate doubles.
    Doubling,
    /// C: the rate stays.
    Steady,
    /// D: the rate halves, down to the minimum.
    Halving,
    /// E: the rate is 0; there are enough tested blocks, and no demand.
    Resting,
}

/// The rate of one free list.
#[derive(Clone, Copy, Debug)]
pub struct RateMachine {
    state: RateState,
    rate: u64,
    minimum: u64,
    maximum: u64,
    threshold: u64,
}

impl RateMachine {
    /// A list that starts in state A at the minimum rate, in whole blocks per period as in [Rahman16, fig. 10]. Demand
    /// of at least `threshold` blocks per period is high; no rate exceeds `maximum`, the blocks that can be tested in a
    /// period.
    #[must_use]
    pub fn new(minimum: u64, maximum: u64, threshold: u64) -> Self {
        assert!(0 < minimum && minimum <= maximum && threshold > 0, "a rate that can grow, and a threshold to pass");
        Self { state: RateState::Least, rate: minimum, minimum, maximum, threshold }
    }

    /// The state of the list.
    #[must_use]
    pub const fn state(&self) -> RateState {
        self.state
    }

    /// The next state after `a` blocks allocated, `u` of them untested, with the threshold `th`.
    ///
    /// The rules of [Rahman16, 4.1.5] in order of precedence: an untested block or four times the threshold leads to B;
    /// demand of at least the threshold leads from A and E to B, and from B and D to C; no demand leads from D to A,
    /// and otherwise to E. For A and E, Rahman writes a ≤ th where pressure increases; this code reads it as a ≥ th.
    fn next(self, a: u64, u: u64) -> RateState {
        use RateState::{Doubling, Halving, Least, Resting, Steady};
        let th = self.threshold;
        if u > 0 || a >= 4 * th {
            return Doubling;
        }
        match self.state {
            Least | Resting if a >= th => Doubling,
            Least if a > 0 => Least,
            Least | Resting => Resting,
            Doubling | Steady | Halving if a >= th => Steady,
            Halving if a == 0 => Least,
            _ => Halving,
        }
    }

    fn rate_in(self, state: RateState) -> u64 {
        match state {
            RateState::Least => self.minimum,
            RateState::Doubling => (2 * self.rate.max(self.minimum)).min(self.maximum),
            RateState::Steady => self.rate,
            RateState::Halving => (self.rate / 2).max(self.minimum),
            RateState::Resting => 0,
        }
    }
}

impl Replenish for RateMachine {
    fn blocks(&mut self, since: FrameDemand) -> u64 {
        self.state = self.next(since.allocated(), since.allocated_untested);
        self.rate = self.rate_in(self.state);
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::RateState::{Doubling, Halving, Least, Resting, Steady};
    use super::*;

    fn list() -> RateMachine {
        RateMachine::new(1, 1000, 10)
    }

    fn after(machine: &mut RateMachine, tested: u64, untested: u64) -> (RateState, u64) {
        let since = FrameDemand { allocated_tested: tested, allocated_untested: untested, ..FrameDemand::default() };
        let blocks = machine.blocks(since);
        (machine.state(), blocks)
    }

    #[test]
    fn every_arrow_of_figure_9_is_taken() {
        let mut list = list();
        assert_eq!(after(&mut list, 5, 0), (Least, 1), "0 < a < th keeps A");
        assert_eq!(after(&mut list, 0, 0), (Resting, 0), "a = 0: A to E");
        assert_eq!(after(&mut list, 3, 0), (Resting, 0), "a little demand leaves E at rest");
        assert_eq!(after(&mut list, 12, 0), (Doubling, 2), "pressure: E to B");
        assert_eq!(after(&mut list, 40, 0), (Doubling, 4), "a ≥ 4 th stays in B");
        assert_eq!(after(&mut list, 1, 1), (Doubling, 8), "u > 0 stays in B");
        assert_eq!(after(&mut list, 20, 0), (Steady, 8), "th ≤ a < 4 th: B to C");
        assert_eq!(after(&mut list, 39, 0), (Steady, 8), "and stays");
        assert_eq!(after(&mut list, 0, 1), (Doubling, 16), "u > 0: C to B");
        assert_eq!(after(&mut list, 11, 0), (Steady, 16));
        assert_eq!(after(&mut list, 9, 0), (Halving, 8), "a < th: C to D");
        assert_eq!(after(&mut list, 9, 0), (Halving, 4), "and goes on");
        assert_eq!(after(&mut list, 10, 0), (Steady, 4), "a ≥ th: D to C");
        assert_eq!(after(&mut list, 2, 0), (Halving, 2));
        assert_eq!(after(&mut list, 2, 3), (Doubling, 4), "u > 0: D to B");
        assert_eq!(after(&mut list, 2, 0), (Halving, 2));
        assert_eq!(after(&mut list, 0, 0), (Least, 1), "a = 0: D to A");
        assert_eq!(after(&mut list, 0, 2), (Doubling, 2), "u > 0: A to B");
    }

    #[test]
    fn the_rate_is_never_below_the_least_nor_above_the_most() {
        let mut list = list();
        for _ in 0..40 {
            after(&mut list, 0, 1);
        }
        assert_eq!(after(&mut list, 0, 1), (Doubling, 1000));
        for _ in 0..40 {
            after(&mut list, 1, 0);
        }
        assert_eq!(after(&mut list, 1, 0), (Halving, 1));
    }
}
