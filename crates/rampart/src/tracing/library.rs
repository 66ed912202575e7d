//! The library that records, built for the MPI at hand.
//!
//! **Problem.** What a communicator is, differs from one MPI to another, so a library built for one is of no use with another; and nobody
//! wants to build one by hand. **Idea.** Its source is in this program; it is built each time, in a second, by the compiler that
//! comes with the MPI. **Why this way.** It always fits both the MPI and this version of Rampart.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::{mpi, wrappers};
use crate::error::Error;

const CALLS: &str = include_str!("../../../../mpi/trace/calls.h");

/// The library's source, but for the wrappers.
const SOURCE: [(&str, &str); 9] = [
    ("calls.h", CALLS),
    ("calls.c", include_str!("../../../../mpi/trace/calls.c")),
    ("fortran.h", include_str!("../../../../mpi/trace/fortran.h")),
    ("life.h", include_str!("../../../../mpi/trace/life.h")),
    ("life.c", include_str!("../../../../mpi/trace/life.c")),
    ("record.h", include_str!("../../../../mpi/trace/record.h")),
    ("record.c", include_str!("../../../../mpi/trace/record.c")),
    ("requests.c", include_str!("../../../../mpi/trace/requests.c")),
    ("requests_fortran.c", include_str!("../../../../mpi/trace/requests_fortran.c")),
];

/// Builds it in a folder.
pub fn build(compiler: &OsStr, folder: &Path) -> Result<PathBuf, Error> {
    let unwritten = |cause| Error::Traced { path: folder.to_owned(), cause };
    for (name, text) in SOURCE {
        fs::write(folder.join(name), text).map_err(unwritten)?;
    }
    let header = folder.join("header.c");
    fs::write(&header, "#include <mpi.h>\n").map_err(unwritten)?;
    let declared = mpi::compile(compiler, &["-E".as_ref(), header.as_ref()])?;
    fs::write(folder.join("wrappers.c"), wrappers::generate(&declared, CALLS)).map_err(unwritten)?;
    let library = folder.join("librampart-trace.so");
    let sources = SOURCE.map(|(name, _)| name).into_iter().chain(["wrappers.c"]).filter(|name| name.ends_with(".c"));
    let sources: Vec<OsString> = sources.map(|name| folder.join(name).into_os_string()).collect();
    let mut words: Vec<&OsStr> =
        ["-std=c11", "-O1", "-g0", "-fno-lto", "-fPIC", "-shared", "-Wl,-z,lazy", "-o"].map(OsStr::new).to_vec();
    words.push(library.as_ref());
    words.extend(sources.iter().map(OsString::as_os_str));
    mpi::compile(compiler, &words)?;
    Ok(library)
}
