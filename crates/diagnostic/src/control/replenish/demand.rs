//! Asteroid's rule: the last period's demand, scaled, and never less than half of the average.

use rampart_memory::FrameDemand;

use super::{Replenish, whole};

/// number = max(α · (counter − previous counter), moving average / 2) [Rahman16, 5.2.4.2].
#[derive(Clone, Copy, Debug)]
pub struct FromDemand {
    alpha: f64,
    average: f64,
    remainder: f64,
}

/// The weight of the newest reading in the moving average. The average decays to about a third in 40 readings: an epoch
/// of 1 s at Rahman's 25 ms. Rahman says that it decays gradually, but not how fast.
const WEIGHT: f64 = 1.0 / 40.0;

impl FromDemand {
    /// A rule that provides `alpha` times the demand; `alpha` is at least 1.
    #[must_use]
    pub const fn new(alpha: f64) -> Self {
        Self { alpha, average: 0.0, remainder: 0.0 }
    }
}

impl Replenish for FromDemand {
    #[expect(clippy::cast_precision_loss, reason = "blocks of one reading")]
    fn blocks(&mut self, since: FrameDemand) -> u64 {
        let allocated = since.allocated() as f64;
        let number = (self.alpha * allocated).max(self.average / 2.0);
        self.average += WEIGHT * (allocated - self.average);
        whole(&mut self.remainder, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(blocks: u64) -> FrameDemand {
        FrameDemand { allocated_tested: blocks, ..FrameDemand::default() }
    }

    #[test]
    fn demand_is_provided_for_alpha_times_at_once() {
        let mut rule = FromDemand::new(2.0);
        assert_eq!(rule.blocks(asked(50)), 100);
        assert_eq!(rule.blocks(FrameDemand { allocated_untested: 7, ..FrameDemand::default() }), 14);
    }

    #[test]
    fn a_valley_is_bridged_by_half_of_what_is_usual() {
        let mut rule = FromDemand::new(2.0);
        for _ in 0..1000 {
            rule.blocks(asked(100));
        }
        let valley = rule.blocks(asked(0));
        assert!((49..=50).contains(&valley), "{valley}");
        let later = (0..400).map(|_| rule.blocks(asked(0))).last().unwrap();
        assert_eq!(later, 0, "and the average decays");
    }
}
