//! The outcome of a test in a word, decided from counts in one place.

use serde::Serialize;

/// The outcome in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that was asked for was tested; nothing was found.
    Pass,
    /// Bad frames were found.
    Fail,
    /// Nothing was found, but not all that was asked for was tested.
    Incomplete,
}

impl Verdict {
    /// The verdict, from what was found and what, if anything, kept the test from its end.
    #[must_use]
    pub const fn of(bad_frames: usize, shortfall: Option<&String>) -> Self {
        match (bad_frames, shortfall) {
            (1.., _) => Self::Fail,
            (0, Some(_)) => Self::Incomplete,
            (0, None) => Self::Pass,
        }
    }

    /// 0 pass, 1 bad frames found, 2 could not test what was asked for.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Incomplete => 2,
        }
    }
}
