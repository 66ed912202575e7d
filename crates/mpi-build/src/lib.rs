//! Builds Rampart's C libraries and programs for the installed MPI.
//!
//! **Problem.** MPI has no binary interface: a communicator differs from one MPI to another, so a library for one does
//! not work with another, and a machine has several. **Idea.** This crate contains the C sources (`mpi/` in the tree).
//! They are built at each use, in a second, by the compiler of the program's MPI; wrappers around its functions are
//! generated from its own `mpi.h`. **Why this way.** The result always fits both the MPI and this version of Rampart,
//! and nobody installs or builds anything by hand.
//!
//! The name of the launcher leads to the [`Compiler`]; a [`Library`] is preloaded into an MPI program, and a launcher
//! starts a [`MpiProgram`]. To add a library, put its sources into `mpi/NAME/`, and a constant beside
//! [`Library::TRACE`].
//!
//! This crate runs the C compiler and writes into the given folder. It starts no other program.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message).

#![forbid(unsafe_code)]

mod library;
mod program;

mod compiler;
mod wrappers;

mod error;
mod header;

pub use compiler::Compiler;
pub use error::Error;
pub use header::{Function, Parameter, functions};
pub use library::Library;
pub use program::MpiProgram;
