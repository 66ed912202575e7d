//! Builds on the user's machine what must fit it: C sources for the MPI at hand and for the kernel, and the user's Java
//! programs.
//!
//! **Problem.** MPI has no standard binary interface: the type of a communicator differs between MPI libraries, so a
//! library built for one does not work with another, and a machine has several. A kernel module fits one kernel only.
//! **Idea.** The C sources (`mpi/` and `kernel/` in the tree) are inside this crate. The compiler of the program's MPI
//! builds them when they are first needed, in a few seconds, and the result is kept; wrappers around its functions are
//! generated from its own `mpi.h`. The kernel's own makefiles build the module. **Why this way.** The result always
//! matches the MPI, or the kernel, and this version of Rampart, and users install and build nothing by hand.
//!
//! A [`Compiler`] is found by the name of the launcher. A [`Library`] is preloaded into an MPI program; a launcher
//! starts a [`MpiProgram`]. To add a library: put its sources into `mpi/NAME/`, and a constant beside
//! [`Library::TRACE`]. A [`ModuleBuild`] is the build of the kernel module with some [`KernelHeaders`].
//!
//! A [`JavaKit`] compiles a [`JavaProgram`] for the heap with failed lines.
//!
//! This crate runs compilers, and hands out a command that runs `make`. It writes into the folder that it is
//! given, and keeps libraries and programs in the user's cache folder.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `tempfile` (what tools print),
//! `zip` (the manifests of jars).

#![forbid(unsafe_code)]

mod java;
mod kernel_module;
mod library;
mod program;

mod cache;
mod compiler;
mod wrappers;

mod error;
mod header;
mod tool;

pub use compiler::Compiler;
pub use error::Error;
pub use header::{Function, Parameter, functions};
pub use java::{JavaKit, JavaProgram};
pub use kernel_module::{KernelHeaders, ModuleBuild, ModuleSources};
pub use library::Library;
pub use program::MpiProgram;
