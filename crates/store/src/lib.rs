//! Rampart's store of facts: bad frames and the history of tests.
//!
//! **Problem.** A forgotten bad frame is handed to a program again. Tests are killed, disks fill up, files rot, and two
//! tests may run at once. **Idea.** One embedded database, written before anything else happens to a bad frame. What
//! one test saw of one frame is one row (a *sighting*), which only this test writes; readers combine a frame's
//! sightings. So a count kept ten times is counted once, and no test overwrites another's facts. **Why this way.** The
//! same test's later sighting replaces the earlier one as a whole: writing merges nothing, so two processes cannot
//! conflict.
//!
//! **Durability.** SQLite with a rollback journal that is deleted to commit, `synchronous=EXTRA`: journal, database and
//! the deletion are each synced before a call returns, so a committed fact survives `kill -9` and power loss. (`FULL`
//! alone leaves the deletion to the kernel: after power loss the journal may be back, and would undo the last fact;
//! <https://sqlite.org/pragma.html#pragma_synchronous>.) There is no write-ahead log: bad frames are rare, so its speed
//! gains nothing, while the rollback journal leaves one file at rest and lets SQLite notice that the file was moved
//! away while in use.
//!
//! This crate uses the file system and makes no policy. A damaged file is set aside, never overwritten; see
//! [`SetAside`]. rasdaemon's database is read in its place ([`rasdaemon`]).
//!
//! Libraries: `rusqlite` (SQLite with its source: the best tested embedded database, no server, no system library),
//! `serde` and `serde_json` (lists inside a column), `jiff` (times as another tool writes them), `displaydoc` and
//! `thiserror` (an error's doc comment is its message).

#![forbid(unsafe_code)]

mod ages;
mod column;
mod connection;
mod damage;
mod error;
mod fact;
mod history;
mod keeper;
mod place;
pub mod rasdaemon;
mod reading;
mod schema;
mod sighting;
mod store;

pub use ages::Age;
pub use column::Malformed;
pub use damage::SetAside;
pub use error::Error;
pub use history::{TestEnd, TestEnding, TestId, TestRecord, TestStart};
pub use keeper::{Keeper, Kept};
pub use place::default_path;
pub use sighting::FailureRow;
pub use store::{Forgotten, Opened, Store};
