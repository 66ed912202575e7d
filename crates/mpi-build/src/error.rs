//! The errors of a build.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Why a build failed. Each message is one line and says what to do.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// there is no {0:?}: install the development files of the program's MPI (libopenmpi-dev, libmpich-dev), or name
    /// its compiler by --mpicc
    NoCompiler(OsString),
    /// {name:?} cannot build {what}: {why}
    Compiler {
        /// The compiler's name.
        name: OsString,
        /// The library or program to build.
        what: &'static str,
        /// Its first error message.
        why: String,
    },
    /// the sources cannot be written to {path}: {cause}
    Sources {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn unwritten(folder: &Path) -> impl Fn(io::Error) -> Self {
        |cause| Self::Sources { path: folder.to_owned(), cause }
    }
}
