//! The online diagnostic: memory is tested while the machine works [Rahman16, ch. 3 and 4].
//!
//! **Problem.** Memory fails while it is in use, and a tester that needs the machine for itself is never run. **Idea.**
//! Test what is free, politely, and condemn what fails before a program is given it. **Why this way.** Decisions
//! ([`control`], [`machine::reserve`], `once::schedule`) are pure functions of what was seen and of the time;
//! [`Machine`] is the only way to Linux; [`once`] and [`daemon`] join the two.
//!
//! A room names only rooms below it:
//!
//! | room | owns |
//! |---|---|
//! | [`daemon`] | `rampart watch`: each frame in reach is tested once a lifetime |
//! | [`once`] | `rampart test`: one test, its schedule and its report |
//! | `testing` | what both share: preparing, findings, injected faults, records, known bad frames |
//! | [`sources`] | where frames come from: this machine's free memory |
//! | [`control`] | the test controller over any source, and its policies; pure |
//! | `machine` | the only way to Linux, and the reserve that stays free for programs |
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
pub use machine::Machine;
pub use machine::reserve::SMALLEST_CLAIM;
pub use once::{TestProgress, TestRequest, report};
pub use testing::bad_frame::BadFrame;
pub use testing::observer::TestObserver;
