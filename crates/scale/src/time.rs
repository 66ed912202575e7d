//! Simulated time, and the price of a byte.
//!
//! **Problem.** A byte at 25 GB/s takes 40 ps, which whole nanoseconds cannot express; with floating point a result
//! would depend on the order of additions. **Idea.** Time is a whole number of picoseconds; a price per byte is a whole
//! number of attoseconds, multiplied exactly and rounded once per message. **Why this way.** 2^64 ps are 213 days, more
//! than any run, and a sum is the same in any order.

use std::fmt;
use std::str::FromStr;

/// A moment since the start of the program, or a length of time: picoseconds, up to 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start.
    pub const ZERO: Self = Self(0);
    /// The last moment. It also stands for everything beyond: what would happen then never happens, and a run that
    /// reaches it ends in an error.
    pub const MAX: Self = Self(u64::MAX);

    /// From picoseconds.
    #[must_use]
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// From nanoseconds; [`Time::MAX`] above 2^64 ps. Values from a file or a user go through [`Self::checked_nanos`].
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1000))
    }

    /// From nanoseconds, if that is at most [`Time::MAX`].
    #[must_use]
    pub const fn checked_nanos(nanos: u64) -> Option<Self> {
        match nanos.checked_mul(1000) {
            Some(picos) => Some(Self(picos)),
            None => None,
        }
    }

    /// From seconds, to the nearest picosecond, if that is at least 0 and below [`Time::MAX`].
    #[must_use]
    pub fn checked_secs_f64(seconds: f64) -> Option<Self> {
        let time = Self::from_secs_f64(seconds);
        (seconds >= 0.0 && time < Self::MAX).then_some(time)
    }

    /// From seconds, to the nearest picosecond; zero if negative or not a number, [`Time::MAX`] above 2^64 ps.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        Self((seconds * 1e12).round() as u64)
    }

    /// Picoseconds.
    #[must_use]
    pub const fn picos(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0 / 1000
    }

    /// Seconds, to the nearest float.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "said in the docs")]
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The sum, or [`Time::MAX`].
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Time from `earlier` to this, or zero.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    /// In the largest unit that leaves at least 1, with up to three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] =
            [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("µs", 1_000_000), ("ns", 1000), ("ps", 1)];
        let (unit, length) = UNITS.into_iter().find(|(_, length)| self.0 >= *length).unwrap_or(("ps", 1));
        let thousandths = u128::from(self.0 % length) * 1000 / u128::from(length);
        if thousandths == 0 {
            write!(f, "{} {unit}", self.0 / length)
        } else {
            write!(f, "{}.{thousandths:03} {unit}", self.0 / length)
        }
    }
}

/// A length of time in hours, at least 0: for what lasts longer than a [`Time`] can be, such as the mean time between
/// failures of a node.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Hours(f64);

impl Hours {
    /// No time.
    pub const ZERO: Self = Self(0.0);
    /// A year of 365.25 days.
    pub const YEAR: Self = Self(8766.0);

    /// From hours.
    #[must_use]
    pub const fn new(hours: f64) -> Self {
        Self(hours)
    }

    /// From minutes.
    #[must_use]
    pub const fn from_minutes(minutes: f64) -> Self {
        Self(minutes / 60.0)
    }

    /// From years of 365.25 days.
    #[must_use]
    pub const fn from_years(years: f64) -> Self {
        Self(years * Self::YEAR.0)
    }

    /// The number of hours.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// So many times as long.
    #[must_use]
    pub const fn times(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }

    /// The number of `other` that fit into this, with fractions.
    #[must_use]
    pub const fn per(self, other: Self) -> f64 {
        self.0 / other.0
    }
}

impl fmt::Display for Hours {
    /// In minutes below an hour, in years from two years on, else in hours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            hours if hours < 1.0 => write!(f, "{:.1} min", 60.0 * hours),
            hours if hours >= 2.0 * Self::YEAR.0 => write!(f, "{:.1} years", hours / Self::YEAR.0),
            hours => write!(f, "{hours:.1} h"),
        }
    }
}

/// The price of a byte: attoseconds (10^-18 s), up to 18 s per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerByte(u64);

const ATTOS_PER_PICO: u64 = 1_000_000;

impl PerByte {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From attoseconds per byte.
    #[must_use]
    pub const fn from_attos(attos: u64) -> Self {
        Self(attos)
    }

    /// From whole nanoseconds per byte; the highest price above 18 s.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000_000_000))
    }

    /// The price of this many bytes, to the nearest picosecond.
    #[must_use]
    pub fn times(self, bytes: u64) -> Time {
        let product = u128::from(self.0) * u128::from(bytes);
        let rounded = match u64::try_from(product) {
            // The usual case: a division by a constant is a multiplication, but not for 128 bits.
            Ok(attos) => attos / ATTOS_PER_PICO + u64::from(attos % ATTOS_PER_PICO >= ATTOS_PER_PICO / 2),
            Err(_) => {
                let picos = (product + u128::from(ATTOS_PER_PICO / 2)) / u128::from(ATTOS_PER_PICO);
                u64::try_from(picos).unwrap_or(u64::MAX)
            }
        };
        Time(rounded)
    }
}

/// {0:?} is no time per byte: write nanoseconds with up to nine decimals, such as 0.04
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParsePerByteError(String);

impl FromStr for PerByte {
    type Err = ParsePerByteError;

    /// Nanoseconds as a decimal number: `6`, `0.04`, `0.000000001`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParsePerByteError(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(refused());
        }
        let whole: u64 = whole.parse().map_err(|_| refused())?;
        let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| refused())?;
        whole.checked_mul(1_000_000_000).and_then(|attos| attos.checked_add(fraction)).map(Self).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_network_of_25_gigabytes_a_second_is_said_exactly() {
        let price: PerByte = "0.04".parse().unwrap();
        assert_eq!(price.times(25_000_000_000), Time::from_secs_f64(1.0));
        assert_eq!(price.times(1), Time::from_picos(40));
    }

    #[test]
    fn what_fits_no_time_is_none() {
        assert_eq!(Time::checked_nanos(u64::MAX / 1000), Some(Time(u64::MAX / 1000 * 1000)));
        assert_eq!(Time::checked_nanos(u64::MAX / 1000 + 1), None);
        assert_eq!(Time::checked_secs_f64(18_446_744.0), Some(Time(18_446_744_000_000_000_000)));
        for seconds in [18_446_745.0, 30_000_000.0, f64::INFINITY, f64::NAN, -1.0] {
            assert_eq!(Time::checked_secs_f64(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn hours_are_shown_in_a_unit_that_fits() {
        let shown = [Hours::from_minutes(5.0), Hours::new(9000.0), Hours::from_years(5.0)].map(|time| time.to_string());
        assert_eq!(shown, ["5.0 min", "9000.0 h", "5.0 years"]);
        assert_eq!((Hours::new(30.0).per(Hours::new(20.0)), Hours::new(30.0).times(2.0)), (1.5, Hours::new(60.0)));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for bad in ["", ".", "1.", ".5", "-1", "1e3", "0.0000000001", "99999999999999999999", "18446744074"] {
            assert!(bad.parse::<PerByte>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_are_shown_as_people_read_them() {
        for (picos, shown) in
            [(0, "0 ps"), (40, "40 ps"), (1500, "1.500 ns"), (775_000_000, "775 µs"), (3_000_000_000_001, "3 s")]
        {
            assert_eq!(Time(picos).to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn a_price_times_bytes_is_rounded_once(attos: u64, bytes: u64) {
            let exact = u128::from(attos) * u128::from(bytes);
            let picos = u128::from(PerByte(attos).times(bytes).0);
            prop_assert!(picos == u128::from(u64::MAX) || (picos * 1_000_000).abs_diff(exact) <= 500_000);
        }
    }
}
