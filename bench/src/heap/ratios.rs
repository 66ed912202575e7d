//! Ratios of paired measurements, with their interval.

use rampart_scale::confidence::student;

use crate::median::MedianRange;

/// A geometric mean of ratios, the ends of the interval that contains the true one with 95 %, and the median with its
/// bounds, which runs that something has delayed hardly change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioInterval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub median: MedianRange,
}

impl RatioInterval {
    /// Of the ratios of pairs, at least one. Their logarithms have Student's interval; of one pair it has no ends.
    pub fn of(ratios: &[f64]) -> Self {
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let count = logarithms.len() as f64;
        let mean = logarithms.iter().sum::<f64>() / count;
        let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
        let within = if ratios.len() < 2 {
            f64::INFINITY
        } else {
            student(ratios.len()) * (squares / (count - 1.0) / count).sqrt()
        };
        let [mean, low, high] = [mean, mean - within, mean + within].map(f64::exp);
        Self { mean, low, high, median: MedianRange::of(ratios.to_vec()) }
    }

    /// Of so many rounds: of each, the geometric mean of its ratios.
    pub fn of_rounds<R: ExactSizeIterator<Item = f64>>(rounds: usize, ratios: impl Fn(usize) -> R) -> Self {
        Self::of(&(0..rounds).map(|round| geometric_mean(ratios(round))).collect::<Vec<_>>())
    }
}

impl std::fmt::Display for RatioInterval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mean, low, high, median: MedianRange { median, low: least, high: most } } = self;
        write!(f, "{mean:.3} [{low:.3}, {high:.3}], median {median:.3} [{least:.3}, {most:.3}]")
    }
}

/// The geometric mean of some ratios, at least one.
fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student_over_logarithms() {
        // The logarithms to base 2 are 0, 1 and 2: mean 1, standard error 1/√3, and Student's quantile is 4.303.
        let ratio = RatioInterval::of(&[1.0, 2.0, 4.0]);
        assert!((ratio.mean - 2.0).abs() < 1e-9 && ratio.median.median == 2.0);
        assert!((ratio.high.log2() - 1.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-3);
        assert!((ratio.low * ratio.high - 4.0).abs() < 1e-9);
        assert_eq!(RatioInterval::of(&[1.5]).high, f64::INFINITY);
        assert!((geometric_mean([1.0, 4.0].into_iter()) - 2.0).abs() < 1e-9);
    }
}
