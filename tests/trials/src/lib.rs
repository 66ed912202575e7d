//! Trials of `rampart run`: a program under guard, an attacker, and a table of results.
//!
//! **Problem.** The end-to-end tests hold some cells of a large table, and people want to see all of it. **Idea.** The
//! table and its judge are here once; the end-to-end tests run a part of it, and the benches (`cargo xtask bench
//! guard-corruption`, `cargo xtask bench hostile`) the whole. **Why a crate.** Tests and benches are separate programs
//! and share nothing else.
//!
//! This crate does not know how a guard works inside: it sees a program's processes from outside, in `/proc`.
//!
//! Libraries: `serde_json` (reports of `rampart run`), `tempfile`, `displaydoc` and `thiserror` (errors).

#![forbid(unsafe_code)]

pub mod corruption;
mod error;
pub mod hostile;
mod program;

pub use error::Error;
pub use program::{ENGINES, Programs};
