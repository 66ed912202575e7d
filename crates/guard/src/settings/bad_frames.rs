//! Frames that a guarded program must not get: the guard's extract of the map of bad frames.
//!
//! **Problem.** The map is a database that outlives everything; a guard lives inside an unknown program. **Idea.**
//! `rampart run` hands over a list of frames, a number per line, in a file that is replaced as a whole when the map
//! grows. **Why this way.** It is read in a moment and needs no library, and a reader finds the old list or the new
//! one.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use rampart_memory::{Frame, ParseFrameError};

/// A set of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadFrames(BTreeSet<Frame>);

impl BadFrames {
    /// The file, in the folder of the state of a guarded program.
    pub const FILE: &str = "bad-frames";

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pages on such frames, counted from 0; pages with an unknown frame are not among them.
    #[must_use]
    pub fn among(&self, frames: &[Option<Frame>]) -> Vec<u64> {
        let bad = |frame: &Option<Frame>| frame.is_some_and(|frame| self.0.contains(&frame));
        (0..).zip(frames).filter(|(_, frame)| bad(frame)).map(|(page, _)| page).collect()
    }
}

impl FromIterator<Frame> for BadFrames {
    fn from_iter<I: IntoIterator<Item = Frame>>(frames: I) -> Self {
        Self(frames.into_iter().collect())
    }
}

/// In the form that [`BadFrames::from_str`] reads.
impl fmt::Display for BadFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|frame| writeln!(f, "{frame}"))
    }
}

impl FromStr for BadFrames {
    type Err = ParseFrameError;

    fn from_str(text: &str) -> Result<Self, ParseFrameError> {
        text.lines().map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(numbers in prop::collection::vec(0..=Frame::MAX.number(), 0..50)) {
            let list: BadFrames = numbers.into_iter().filter_map(Frame::new).collect();
            prop_assert_eq!(list.to_string().parse(), Ok(list));
        }
    }

    #[test]
    fn a_list_of_frames_is_read_whole_or_refused() {
        let known: BadFrames = "16\n0x7\n".parse().unwrap();
        assert_eq!(known.among(&[Frame::new(7), None, Frame::new(8), Frame::new(16)]), [0, 3]);
        assert!(!known.is_empty() && "".parse::<BadFrames>().unwrap().is_empty());
        for bad in ["x", "7\n\n8", "-1", "99999999999999999999"] {
            assert!(bad.parse::<BadFrames>().is_err(), "{bad:?}");
        }
    }
}
