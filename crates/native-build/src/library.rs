//! Libraries that are preloaded into MPI programs and interpose their MPI functions.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::Compiler;
use crate::error::Error;
use crate::wrappers;

const TRACE_CALLS: &str = include_str!("../../../mpi/trace/calls.h");

/// A library of wrappers around functions of MPI (the profiling interface, PMPI).
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Its description, for messages.
    what: &'static str,
    /// The name of its file.
    file: &'static str,
    /// The header that declares the functions called after those of MPI.
    calls: &'static str,
    /// Its C sources and headers, by name; the wrappers are generated.
    sources: &'static [(&'static str, &'static str)],
}

impl Library {
    /// Records the calls of each rank into the folder that `RAMPART_TRACE` names.
    pub const TRACE: Self = Self {
        what: "the library that records",
        file: "librampart-trace.so",
        calls: TRACE_CALLS,
        sources: &[
            ("calls.h", TRACE_CALLS),
            ("calls.c", include_str!("../../../mpi/trace/calls.c")),
            ("fortran.h", include_str!("../../../mpi/trace/fortran.h")),
            ("life.h", include_str!("../../../mpi/trace/life.h")),
            ("life.c", include_str!("../../../mpi/trace/life.c")),
            ("record.h", include_str!("../../../mpi/trace/record.h")),
            ("record.c", include_str!("../../../mpi/trace/record.c")),
            ("requests.c", include_str!("../../../mpi/trace/requests.c")),
            ("requests_fortran.c", include_str!("../../../mpi/trace/requests_fortran.c")),
        ],
    };

    /// Builds the library in a folder.
    ///
    /// # Errors
    /// [`Error::Sources`] if the folder cannot be written to, [`Error::Compiler`] if the compiler refuses the sources.
    pub fn build(&self, compiler: &Compiler, folder: &Path) -> Result<PathBuf, Error> {
        let unwritten = Error::unwritten(folder);
        for (name, text) in self.sources {
            fs::write(folder.join(name), text).map_err(&unwritten)?;
        }
        let header = folder.join("header.c");
        fs::write(&header, "#include <mpi.h>\n").map_err(&unwritten)?;
        let declared = compiler.run(self.what, &["-E".as_ref(), header.as_ref()])?;
        fs::write(folder.join("wrappers.c"), wrappers::generate(&declared, self.calls)).map_err(&unwritten)?;
        let library = folder.join(self.file);
        let names = self.sources.iter().map(|(name, _)| *name).chain(["wrappers.c"]);
        let sources = names.filter(|name| name.ends_with(".c"));
        let sources: Vec<OsString> = sources.map(|name| folder.join(name).into_os_string()).collect();
        let mut words: Vec<&OsStr> =
            ["-std=c11", "-O1", "-g0", "-fno-lto", "-fPIC", "-shared", "-Wl,-z,lazy", "-o"].map(OsStr::new).to_vec();
        words.push(library.as_ref());
        words.extend(sources.iter().map(OsString::as_os_str));
        compiler.run(self.what, &words)?;
        Ok(library)
    }
}
