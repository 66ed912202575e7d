//! How accurate a mean is.

/// 95 % of Student's distribution lie within this many standard errors, by degrees of freedom from 1 on (any table of
/// it).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Half of the interval that contains the mean of this many values with 95 %, in standard errors; infinite with fewer
/// than two values.
#[must_use]
pub fn student(values: usize) -> f64 {
    match values {
        0 | 1 => f64::INFINITY,
        _ => STUDENT.get(values - 2).copied().unwrap_or(2.0),
    }
}

/// Mean time between events, and the ends of the interval that contains it with 95 %, from a count of events in a time.
/// Without any event there is no mean and no upper end.
///
/// The interval of a count is that of Garwood (*Fiducial limits for the Poisson distribution*, Biometrika 1936):
/// quantiles of the chi-squared distribution, by the approximation of Wilson and Hilferty (PNAS 1931), within 2 % from
/// one event on.
#[must_use]
pub fn mean_between(events: u64, seconds: f64) -> (Option<f64>, f64, Option<f64>) {
    #[expect(clippy::cast_precision_loss, reason = "a count of errors")]
    let count = events as f64;
    let most = chi_squared(2.0 * count + 2.0, 1.96) / 2.0;
    let least = if events == 0 { 0.0 } else { chi_squared(2.0 * count, -1.96) / 2.0 };
    let unless_none = |count: f64| (count > 0.0).then_some(seconds / count);
    (unless_none(count), seconds / most, unless_none(least))
}

/// The quantile of the chi-squared distribution that lies `out` standard deviations out on the normal one.
fn chi_squared(degrees: f64, out: f64) -> f64 {
    let ninth = 2.0 / (9.0 * degrees);
    let root = 1.0 - ninth + out * ninth.sqrt();
    degrees * root.max(0.0).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Garwood's limits of 95 %: 0: 3.69; 1: 0.0253 to 5.57; 10: 4.80 to 18.39; 100: 81.4 to 121.6.
    #[test]
    fn an_interval_of_a_count_is_that_of_the_tables() {
        let near = |ours: f64, table: f64, part: f64| assert!((ours / table - 1.0).abs() < part, "{ours} {table}");
        let (mean, least, most) = mean_between(10, 1000.0);
        assert_eq!(mean, Some(100.0));
        near(1000.0 / least, 18.39, 0.005);
        near(1000.0 / most.unwrap(), 4.80, 0.005);
        near(100.0 / mean_between(100, 100.0).1, 121.6, 0.005);
        near(1.0 / mean_between(1, 1.0).1, 5.57, 0.02);
        let (mean, least, most) = mean_between(0, 10.0);
        assert_eq!((mean, most), (None, None));
        near(10.0 / least, 3.69, 0.02);
    }

    #[test]
    fn fewer_values_say_less() {
        assert_eq!(student(1), f64::INFINITY);
        assert!(student(2) > student(8) && student(8) > student(1000));
    }
}
