//! Builds Rampart's C libraries and programs for the MPI at hand.
//!
//! **Problem.** MPI has no binary interface: what a communicator is differs from one MPI to another, so a library that
//! is built for one does not work with another, and a machine has several. **Idea.** The C sources (`mpi/` in the tree)
//! are inside this crate. They are built each time they are needed, in a second, by the compiler that belongs to the
//! program's MPI; wrappers around its functions are generated from its own `mpi.h`. **Why this way.** The result always
//! fits both the MPI and this version of Rampart, and nobody installs or builds anything by hand.
//!
//! A [`Compiler`] is found by the name of the launcher; a [`Library`] is preloaded into a program of MPI, a [`Program`]
//! is started by a launcher. To add a library: put its sources into `mpi/NAME/`, and a constant beside
//! [`Library::TRACE`].
//!
//! This crate runs the C compiler and writes into the folder that it is given. It starts no other program.
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
pub use program::Program;
