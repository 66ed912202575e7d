//! The verdict of a test, computed from counts in one place.

use serde::Serialize;

/// The verdict in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestVerdict {
    /// The whole request was tested; nothing was found.
    Pass,
    /// Bad frames were found.
    Fail,
    /// Nothing was found, but not the whole request was tested.
    Incomplete,
}

impl TestVerdict {
    /// The verdict, from the findings and the reason, if any, why the test is incomplete.
    #[must_use]
    pub const fn of(bad_frames: usize, shortfall: Option<&String>) -> Self {
        match (bad_frames, shortfall) {
            (1.., _) => Self::Fail,
            (0, Some(_)) => Self::Incomplete,
            (0, None) => Self::Pass,
        }
    }

    /// 0 pass, 1 bad frames found, 2 could not test the request.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Incomplete => 2,
        }
    }
}
