//! The median of repeated measurements, with its bounds.
//!
//! **Problem.** Runs on a busy machine vary, mostly upwards, so a mean and its deviation say little. **Idea.** The
//! median, bounded by two of the values themselves, which a sign test chooses. **Why this way.** It holds for any
//! distribution.

/// The median of some values, at least one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of some values, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianRange {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl MedianRange {
    /// The bounds are the order statistics at n/2 ± 0.98·√n (a sign test of 95 %), for six values or more; for fewer,
    /// the extremes.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (half, width) = (values.len() as f64 / 2.0, 0.98 * (values.len() as f64).sqrt());
        let low = (half - width).max(0.0) as usize;
        let high = ((half + width) as usize).min(values.len() - 1);
        Self { median: values[values.len() / 2], low: values[low], high: values[high] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_a_sign_test() {
        // Of ten and twelve values the second and the third from either end: 97.9 and 96.1 %.
        for (count, low) in [(3, 1.0), (10, 2.0), (12, 3.0)] {
            let range = MedianRange::of((1..=count).rev().map(f64::from).collect());
            assert_eq!((range.low, range.high), (low, f64::from(count) + 1.0 - low));
        }
    }
}
