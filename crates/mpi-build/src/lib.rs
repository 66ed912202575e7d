//! Builds Rampart's C libraries and programs for the MPI at hand.
//!
//! **Problem.** MPI has no standard binary interface: the type of a communicator differs between MPI libraries, so a
//! library built for one does not work with another, and a machine has several. **Idea.** The C sources (`mpi/` in the
//! tree) are inside this crate. The compiler of the program's MPI builds them each time they are needed, in a second.
//! Wrappers around its functions are generated from its own `mpi.h`. **Why this way.** The result always matches both
//! the MPI and this version of Rampart, and users install and build nothing by hand.
//!
//! A [`Compiler`] is found by the name of the launcher. A [`Library`] is preloaded into an MPI program; a launcher
//! starts a [`MpiProgram`]. To add a library: put its sources into `mpi/NAME/`, and a constant beside
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
pub use program::MpiProgram;
