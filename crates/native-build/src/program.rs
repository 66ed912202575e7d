//! MPI programs that Rampart itself starts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::Compiler;
use crate::error::Error;

/// A program of one C source.
#[derive(Clone, Copy, Debug)]
pub struct MpiProgram {
    /// Its description, for messages.
    what: &'static str,
    /// The name of its file; the source has the suffix `.c`.
    file: &'static str,
    source: &'static str,
}

impl MpiProgram {
    /// Measures the network between two ranks.
    pub const CALIBRATE: Self = Self {
        what: "the program that measures",
        file: "calibrate",
        source: include_str!("../../../mpi/calibrate/calibrate.c"),
    };

    /// Builds the program in a folder.
    ///
    /// # Errors
    /// [`Error::Sources`] if the folder cannot be written to, [`Error::Compiler`] if the compiler refuses the source.
    pub fn build(&self, compiler: &Compiler, folder: &Path) -> Result<PathBuf, Error> {
        let (source, program) = (folder.join(format!("{}.c", self.file)), folder.join(self.file));
        fs::write(&source, self.source).map_err(Error::unwritten(folder))?;
        let [standard, speed, whole, output] = ["-std=c11", "-O2", "-fno-lto", "-o"].map(AsRef::as_ref);
        compiler.run(self.what, &[standard, speed, whole, output, program.as_ref(), source.as_ref()])?;
        Ok(program)
    }
}
