//! How accurate a mean is.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// What lies below the upper end of an interval that leaves out 5 %, half of it on each side.
const UPPER: f64 = 0.975;

/// Half of the interval that contains the mean of this many values with 95 %, in standard errors; infinite with fewer
/// than two values.
///
/// # Panics
/// Never: from two values on, there is Student's distribution.
#[must_use]
pub fn student(values: usize) -> f64 {
    if values < 2 {
        return f64::INFINITY;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
    let freedom = (values - 1) as f64;
    StudentsT::new(0.0, 1.0, freedom).expect("a positive number of degrees of freedom").inverse_cdf(UPPER)
}

/// Mean time between events, and the ends of the interval that contains it with 95 %, from a count of events in a time.
/// Without any event there is no mean and no upper end.
///
/// The interval of a count is that of Garwood (*Fiducial limits for the Poisson distribution*, Biometrika 1936), from
/// quantiles of the chi-squared distribution.
#[must_use]
pub fn mean_between(events: u64, seconds: f64) -> (Option<f64>, f64, Option<f64>) {
    #[expect(clippy::cast_precision_loss, reason = "a count of errors")]
    let count = events as f64;
    let most = chi_squared(2.0 * count + 2.0, UPPER) / 2.0;
    let least = if events == 0 { 0.0 } else { chi_squared(2.0 * count, 1.0 - UPPER) / 2.0 };
    let unless_none = |count: f64| (count > 0.0).then_some(seconds / count);
    (unless_none(count), seconds / most, unless_none(least))
}

/// The quantile of the chi-squared distribution below which this part of it lies.
fn chi_squared(degrees: f64, part: f64) -> f64 {
    ChiSquared::new(degrees).expect("a positive number of degrees of freedom").inverse_cdf(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Garwood's limits of 95 %: 0: 3.689; 1: 0.0253 to 5.572; 10: 4.795 to 18.390; 100: 81.36 to 121.63.
    #[test]
    fn an_interval_of_a_count_is_that_of_the_tables() {
        let near = |ours: f64, table: f64| assert!((ours / table - 1.0).abs() < 2e-4, "{ours} {table}");
        let (mean, least, most) = mean_between(10, 1000.0);
        assert_eq!(mean, Some(100.0));
        near(1000.0 / least, 18.390);
        near(1000.0 / most.unwrap(), 4.795);
        let (_, least, most) = mean_between(100, 100.0);
        near(100.0 / least, 121.63);
        near(100.0 / most.unwrap(), 81.36);
        near(1.0 / mean_between(1, 1.0).1, 5.572);
        let (mean, least, most) = mean_between(0, 10.0);
        assert_eq!((mean, most), (None, None));
        near(10.0 / least, 3.689);
    }

    #[test]
    fn fewer_values_say_less() {
        assert_eq!(student(1), f64::INFINITY);
        for (values, errors) in [(2, 12.706), (3, 4.303), (8, 2.365), (31, 2.042), (121, 1.980), (1_000_001, 1.960)] {
            assert!((student(values) - errors).abs() < 5e-4, "{values}: {}", student(values));
        }
    }
}
