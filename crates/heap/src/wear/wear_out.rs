//! Which lines of a memory wear out first.
//!
//! **Problem.** Wear levelling spreads writes evenly, so failures come late, and then everywhere; [Gao13, 7.2] holds
//! that it harms, as failures that are spread leave no page whole. **Idea.** A line fails when it has got as many
//! writes as it endures. **Why this way.** With an endurance for each line and a rate of writes for each page, the
//! order of failures follows, and so what is left at each share of failed lines.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{FailedLines, FailureShare};

/// How the writes are spread over the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteSpread {
    /// Each page gets as many: wear levelling.
    Levelled,
    /// The page with rank *r* gets 1/*r* of what the first gets (Zipf), and the ranks are at random places.
    Skewed,
}

/// A memory of which a share of the lines has worn out.
#[derive(Clone, Debug, PartialEq)]
pub struct WornMemory {
    /// The failed lines of each page.
    pub failed: Vec<FailedLines>,
    /// The writes until then, as a share of what all lines endure together.
    pub writes: f64,
}

/// The standard deviation of the logarithm of what a line endures. No measurement: [Gao13, 2] has only the mean.
const ENDURANCE_SPREAD: f64 = 0.25;

/// A line and how long it lives.
#[derive(Debug)]
struct LineLife {
    page: usize,
    line: u32,
    rate: f64,
    endures: f64,
}

/// The lines of a memory in the order in which they fail.
#[derive(Debug)]
pub struct WearOrder {
    pages: usize,
    lives: Vec<LineLife>,
}

impl WearOrder {
    /// That of a memory of so many pages.
    #[must_use]
    pub fn new(pages: usize, spread: WriteSpread, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let rates = rates(pages, spread, &mut random);
        let lines = |(page, rate)| (0..u64::BITS).map(move |line| (page, line, rate));
        let mut lives: Vec<LineLife> = (0..pages)
            .zip(rates)
            .flat_map(lines)
            .map(|(page, line, rate)| LineLife { page, line, rate, endures: endurance(&mut random) })
            .collect();
        lives.sort_by(|one, other| one.ends().total_cmp(&other.ends()));
        Self { pages, lives }
    }

    /// The memory once this share of its lines has failed.
    #[must_use]
    pub fn at(&self, share: FailureShare) -> WornMemory {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "lines"
        )]
        let failing = (self.lives.len() as f64 * share.get()).round() as usize;
        let mut failed = vec![FailedLines::NONE; self.pages];
        self.lives[..failing].iter().for_each(|life| failed[life.page] = failed[life.page].with(life.line));
        let now = self.lives[..failing].last().map_or(0.0, LineLife::ends);
        let written: f64 = self.lives.iter().map(|life| (life.rate * now).min(life.endures)).sum();
        let endured: f64 = self.lives.iter().map(|life| life.endures).sum();
        WornMemory { failed, writes: written / endured }
    }
}

impl LineLife {
    /// When it fails.
    fn ends(&self) -> f64 {
        self.endures / self.rate
    }
}

/// The rate of writes to each line of each page.
#[expect(clippy::cast_precision_loss, reason = "ranks of pages")]
fn rates(pages: usize, spread: WriteSpread, random: &mut ChaCha8Rng) -> Vec<f64> {
    if spread == WriteSpread::Levelled {
        return vec![1.0; pages];
    }
    let mut rates: Vec<f64> = (1..=pages).map(|rank| 1.0 / rank as f64).collect();
    // Fisher and Yates.
    for last in (1..pages).rev() {
        rates.swap(last, random.random_range(0..=last));
    }
    rates
}

/// What a line endures, relative to the median: log-normal, by Box and Muller.
fn endurance(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    (ENDURANCE_SPREAD * normal).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worn(share: f64, spread: WriteSpread) -> WornMemory {
        WearOrder::new(1024, spread, 4).at(FailureShare::new(share).unwrap())
    }

    fn failed(memory: &WornMemory) -> u32 {
        memory.failed.iter().map(|page| page.count()).sum()
    }

    #[test]
    fn as_many_lines_have_failed_as_was_asked_for() {
        for spread in [WriteSpread::Levelled, WriteSpread::Skewed] {
            assert_eq!([0.0, 0.1, 1.0].map(|share| failed(&worn(share, spread))), [0, 6554, 65536]);
            assert!(worn(0.0, spread).writes.abs() < f64::EPSILON);
            assert!((worn(1.0, spread).writes - 1.0).abs() < 1e-9, "all that they endure");
            assert_eq!(worn(0.1, spread), worn(0.1, spread), "from one seed");
        }
    }

    #[test]
    fn levelled_wear_comes_late_and_everywhere_and_skewed_wear_early_and_in_few_pages() {
        let [levelled, skewed] = [WriteSpread::Levelled, WriteSpread::Skewed].map(|spread| worn(0.1, spread));
        let perfect = |memory: &WornMemory| memory.failed.iter().filter(|page| page.is_perfect()).count();
        // Of 1024 pages, 0.9^64 each are perfect by chance: one or two.
        assert!(perfect(&levelled) < 10, "{}", perfect(&levelled));
        assert!(perfect(&skewed) > 800, "{}", perfect(&skewed));
        // The first tenth of a log-normal distribution with 0.25 ends at 0.73 of the median.
        assert!((0.65..0.75).contains(&levelled.writes), "{}", levelled.writes);
        assert!(skewed.writes < levelled.writes / 2.0, "{}", skewed.writes);
    }
}
