//! The store of Rampart's facts: bad frames, the ages of tests, the history of tests, and errors of replicas.
//!
//! **Problem.** A forgotten bad frame is handed to a program again. Tests are killed, disks fill up, files get damaged,
//! and two tests may run at once. **Idea.** One embedded database, written before anything else happens to a bad frame.
//! One test's findings on one frame are one row (a *sighting*) that only this test writes; the facts about a frame are
//! combined from its sightings when it is read. So a count written ten times is counted once, and no test overwrites
//! another's facts. **Why this way.** The same test's later sighting replaces the earlier one completely: writing
//! merges nothing, so two processes cannot get a merge wrong.
//!
//! **Durability.** SQLite with a rollback journal that is deleted to commit, `synchronous=EXTRA`: journal, database and
//! the deletion are each synced before a call returns, so that a committed fact survives `kill -9` and power loss
//! (`FULL` alone leaves the deletion to the kernel: after power loss the journal may be back, and would undo the last
//! fact; <https://sqlite.org/pragma.html#pragma_synchronous>). Not a write-ahead log: bad frames are rare, so its speed
//! buys nothing, while the rollback journal leaves one file at rest and lets SQLite notice that the file was moved away
//! while in use.
//!
//! This crate accesses the file system and contains no policy. A damaged file is set aside, never overwritten; see
//! [`SetAside`]. rasdaemon's database is read in place ([`rasdaemon`]).
//!
//! Libraries: `rusqlite` (SQLite with its source: the best tested embedded database, no server, no system library),
//! `serde` and `serde_json` (lists inside a column), `jiff` (timestamps of another tool), `displaydoc` and `thiserror`
//! (an error's doc comment is its message).

#![forbid(unsafe_code)]

mod ages;
mod column;
mod connection;
mod damage;
mod error;
mod fact;
mod fact_writer;
mod history;
mod location;
pub mod rasdaemon;
mod reading;
mod replica_errors;
mod schema;
mod sighting;
mod store;

pub use ages::Age;
pub use column::Malformed;
pub use damage::SetAside;
pub use error::Error;
pub use fact_writer::{Durability, FactWriter};
pub use history::{TestEnd, TestEnding, TestId, TestRecord, TestStart};
pub use location::default_path;
pub use sighting::FailureRow;
pub use store::{Forgotten, Opened, Store};
