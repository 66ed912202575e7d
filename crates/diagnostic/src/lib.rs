//! The online diagnostic: tests memory while the machine works [Rahman16, ch. 3 and 4].
//!
//! **Problem.** Memory fails while it is in use, and administrators never run a tester that needs the whole machine.
//! **Idea.** Test free memory without taking it from programs, and condemn bad frames before a program gets them. **Why
//! this way.** Decisions ([`control`], [`machine::reserve`], `once::schedule`) are pure functions of their inputs and
//! the time; [`MachineUnderTest`] is the only interface to Linux; [`once`] and [`daemon`] join the two.
//!
//! A module uses only modules below it:
//!
//! | module | owns |
//! |---|---|
//! | [`daemon`] | `rampart watch`: each frame in reach is tested once a lifetime |
//! | [`once`] | `rampart test`: one test, its schedule and its report |
//! | `testing` | shared parts of both: preparation, findings, injected faults, records, known bad frames |
//! | [`sources`] | sources of frames: this machine's free memory |
//! | [`control`] | the test controller over any source, and its policies; pure |
//! | `machine` | the only interface to Linux, and the reserve that stays free for programs |
//! | `error` | why a test could not begin |
//!
//! Libraries: `displaydoc` and `thiserror` (errors), `humantime` (durations), `serde` (the report).

#![forbid(unsafe_code)]

pub mod control;
pub mod daemon;
mod error;
pub mod machine;
pub mod once;
pub mod sources;
mod testing;

pub use error::Error;
pub use machine::MachineUnderTest;
pub use machine::reach::{FrameGroup, GroupReach, reach};
pub use machine::reserve::SMALLEST_CLAIM;
pub use once::chosen::choice::FrameChoice;
pub use once::chosen::dimm::{DimmChoice, DimmMap};
pub use once::{TestProgress, TestRequest, TestSource, report};
pub use testing::bad_frame::BadFrame;
pub use testing::observer::TestObserver;
