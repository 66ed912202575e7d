//! Means of ratios, over programs and runs.

use rampart_scale::confidence::student;

/// A mean, and how far from it the true one lies with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioMean {
    pub mean: f64,
    /// `None` of a single run.
    pub within: Option<f64>,
}

/// The geometric mean.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (sum / values.len() as f64).exp()
}

impl RatioMean {
    /// Of independent values, at least one.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, within: None };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, within: Some(student(values.len()) * (variance / count).sqrt()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_intervals_are_those_of_the_textbook() {
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
        let mean = RatioMean::of(&[1.0, 2.0, 3.0]);
        // Student's t of two degrees of freedom is 4.303; the standard deviation is 1.
        assert!((mean.mean - 2.0).abs() < 1e-12 && (mean.within.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-3);
        assert_eq!(RatioMean::of(&[7.0]), RatioMean { mean: 7.0, within: None });
    }
}
