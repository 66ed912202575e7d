//! Trials of `rampart run`: a program under guard, somebody who means it ill, and a table of what came of it.
//!
//! **Problem.** The end-to-end tests hold some cells of a large table, and a person wants to see all of it. **Idea.**
//! The table and its judge stand here once; the end-to-end tests run a part of it, and the benches (`cargo xtask bench
//! guard-corruption`, `cargo xtask bench hostile`) the whole. **Why a crate.** Both are programs of their own and share
//! nothing else.
//!
//! Nothing here knows how a guard is built: it sees the processes of a program as another process does, in `/proc`.
//!
//! Libraries: `serde_json` (reports of `rampart run`), `tempfile`, `displaydoc` and `thiserror` (errors).

#![forbid(unsafe_code)]

pub mod corruption;
mod error;
pub mod hostile;
mod program;

pub use error::Error;
pub use program::{ENGINES, Programs};
