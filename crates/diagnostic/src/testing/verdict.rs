//! The verdict of a test, decided from counts in one place.

use serde::Serialize;

/// The verdict of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestVerdict {
    /// The whole request was tested; no bad frame was found.
    Pass,
    /// Bad frames were found.
    Fail,
    /// No bad frame was found, but a part of the request was not tested.
    Incomplete,
}

impl TestVerdict {
    /// The verdict, from the number of bad frames and the shortfall, if any.
    #[must_use]
    pub const fn of(bad_frames: usize, shortfall: Option<&String>) -> Self {
        match (bad_frames, shortfall) {
            (1.., _) => Self::Fail,
            (0, Some(_)) => Self::Incomplete,
            (0, None) => Self::Pass,
        }
    }

    /// 0: pass; 1: bad frames found; 2: could not test the whole request.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Incomplete => 2,
        }
    }
}
