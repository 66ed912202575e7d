//! How many blocks of each list to test: *memblocks* [Rahman16, 5.2.4.2], or COMeT's rates [Rahman16, 4.1.5].

mod demand;
mod rate_machine;

use rampart_memory::FrameDemand;

pub use demand::FromDemand;
pub use rate_machine::{RateMachine, RateState};

/// A rule for one free list.
pub trait Replenish {
    /// Returns the number of blocks to test now, after a demand of `since` in one monitoring period.
    fn blocks(&mut self, since: FrameDemand) -> u64;
}

/// Tests nothing ahead of allocation: the on-demand strategy, rate 0 [Rahman16, 3.2, tab. 1].
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Replenish for Nothing {
    fn blocks(&mut self, _since: FrameDemand) -> u64 {
        0
    }
}

/// The same number of blocks in each period, whatever the demand: *Min*, *Max* and *Application* of [Rahman16, fig.
/// 16].
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    rate: f64,
    remainder: f64,
}

impl Steady {
    /// Makes a rule of `rate` blocks per period; fractions add up to a block after some periods.
    #[must_use]
    pub const fn new(rate: f64) -> Self {
        Self { rate, remainder: 0.0 }
    }
}

impl Replenish for Steady {
    fn blocks(&mut self, _since: FrameDemand) -> u64 {
        whole(&mut self.remainder, self.rate)
    }
}

/// Adds `more` to the remainder, and takes the whole blocks out of it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "blocks of one period, not negative")]
fn whole(remainder: &mut f64, more: f64) -> u64 {
    *remainder += more;
    let blocks = remainder.floor();
    *remainder -= blocks;
    blocks as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_a_block_is_owed_until_it_is_one() {
        let mut steady = Steady::new(0.25);
        let blocks: Vec<u64> = (0..8).map(|_| steady.blocks(FrameDemand::default())).collect();
        assert_eq!(blocks, [0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn on_demand_tests_nothing_ahead() {
        let demand = FrameDemand { allocated_untested: 900, ..FrameDemand::default() };
        assert_eq!(Nothing.blocks(demand), 0);
    }
}
