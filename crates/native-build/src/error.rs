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
    /// {0:?} is no function of this MPI whose calls can be counted: name one as mpi.h does, such as MPI_Allreduce
    NoFunction(String),
    /// the kernel's headers are not here ({path} does not exist): install linux-headers-{release} (Debian, Ubuntu) or
    /// kernel-devel-{release} (Fedora), or name their folder by --headers
    NoHeaders {
        /// The folder where they would be.
        path: PathBuf,
        /// The release of the kernel, as `uname -r` prints it.
        release: String,
    },
    /// {0} has no headers of a kernel (no Makefile): name the folder that /lib/modules/RELEASE/build points at
    NotHeaders(PathBuf),
    /// {0} has no sources of the module (no Kbuild): name a copy of Rampart's folder kernel/
    NotSources(PathBuf),
    /// the kernel's build needs {0:?}, which is not here: install it (Debian, Ubuntu: make and gcc; Fedora: make, gcc
    /// and elfutils-libelf-devel), in the version that the kernel was built with
    NoTool(String),
    /// the module cannot be built: {why}; the whole log is in {log}
    Make {
        /// The first error of the log.
        why: String,
        /// The log.
        log: PathBuf,
    },
    /// {0} has no Java toolchain: build it with java/build in Rampart's source tree, or name its folder by --kit
    NoKit(PathBuf),
    /// {0} is missing: build it with `java/build copying` in Rampart's source tree
    NoCopyingHost(PathBuf),
    /// `{name}` is not found, and compiling Java programs needs it: install {package} (Debian, Ubuntu)
    NoJavaTool {
        /// The program.
        name: &'static str,
        /// The package.
        package: &'static str,
    },
    /// {0} names no main class in its manifest: give -cp with the jar, and the name of the class
    NoMainClass(PathBuf),
    /// {path} is no jar: {why}
    Jar {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// {main} cannot be compiled: {why}
    Java {
        /// The main class.
        main: String,
        /// What the compiler says.
        why: String,
    },
    /// interrupted while compiling the program
    Stopped,
    /// {path} cannot be read: {cause}
    Unread {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
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

    pub(crate) fn unread(path: &Path) -> impl Fn(io::Error) -> Self {
        |cause| Self::Unread { path: path.to_owned(), cause }
    }
}
