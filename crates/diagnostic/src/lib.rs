//! The online diagnostic: it tests memory while the machine works [Rahman16, ch. 3 and 4].
//!
//! **Problem.** Memory fails while it is in use, and a tester that needs the machine for itself is never run. **Idea.**
//! Test free memory without disturbing programs, and condemn bad frames before a program gets them. **Why this way.**
//! Decisions ([`control`], [`machine::reserve`], `once::schedule`) are pure functions of observations and of the time;
//! [`MachineUnderTest`] is the only way to Linux; [`once`] and [`daemon`] join the two.
//!
//! A room uses only rooms below it:
//!
//! | room | owns |
//! |---|---|
//! | [`daemon`] | `rampart watch`: each frame within reach is tested once per lifetime |
//! | [`once`] | `rampart test`: one test, its block schedule and its report |
//! | `testing` | the common parts: preparation, findings, injected faults, records, known bad frames |
//! | [`sources`] | sources of frames: this machine's free memory |
//! | [`control`] | the test controller over any source, and its policies; pure |
//! | `machine` | the only way to Linux, and the memory reserve for programs |
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
pub use machine::reserve::SMALLEST_CLAIM;
pub use once::{TestProgress, TestRequest, report};
pub use testing::bad_frame::BadFrame;
pub use testing::observer::TestObserver;
