//! The fidelity of a test.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The fidelity of a test: fidelity f applies 2f patterns, f backgrounds and their complements ([Rahman16, 5.2.4.5],
/// where it goes from 1 to 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Fidelity(NonZeroU32);

impl Fidelity {
    /// The lowest: the solid background alone.
    pub const MIN: Self = Self(NonZeroU32::MIN);
    /// The highest. Random backgrounds stop finding more long before.
    pub const MAX: Self = Self(NonZeroU32::new(1024).expect("not zero"));

    /// A fidelity, or `None` outside 1 to 1024.
    #[must_use]
    pub const fn new(backgrounds: u32) -> Option<Self> {
        match NonZeroU32::new(backgrounds) {
            Some(count) if count.get() <= Self::MAX.0.get() => Some(Self(count)),
            _ => None,
        }
    }

    /// The number of backgrounds, 1 to 1024.
    #[must_use]
    pub const fn backgrounds(self) -> u32 {
        self.0.get()
    }

    /// The number of patterns: each background and its complement.
    #[must_use]
    pub const fn patterns(self) -> u32 {
        2 * self.0.get()
    }
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// `{0}` is not a fidelity: give a whole number from 1 to 1024
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParseFidelityError(String);

impl FromStr for Fidelity {
    type Err = ParseFidelityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| ParseFidelityError(text.to_owned()))
    }
}

impl TryFrom<u32> for Fidelity {
    type Error = ParseFidelityError;

    fn try_from(backgrounds: u32) -> Result<Self, Self::Error> {
        Self::new(backgrounds).ok_or_else(|| ParseFidelityError(backgrounds.to_string()))
    }
}

impl From<Fidelity> for u32 {
    fn from(fidelity: Fidelity) -> Self {
        fidelity.backgrounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fidelity_is_a_number_from_1_to_1024() {
        assert_eq!("8".parse::<Fidelity>().map(Fidelity::patterns), Ok(16));
        for bad in ["0", "1025", "-1", "1.5", "", "many", "99999999999"] {
            assert!(bad.parse::<Fidelity>().is_err(), "{bad:?}");
        }
    }
}
