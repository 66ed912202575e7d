//! The programs of a trial: `rampart`, its library, and victims in C.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::error::Error;

/// All engines of `rampart run`.
pub const ENGINES: [&str; 3] = ["move", "minor", "mprotect"];

/// The folder of the victims' sources.
const VICTIMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../end_to_end/victims");

/// `rampart`, its library, and a folder for compiled and written files.
#[derive(Debug)]
pub struct Programs {
    rampart: PathBuf,
    library: PathBuf,
    folder: TempDir,
}

impl Programs {
    /// Uses this built `rampart`.
    pub fn new(rampart: impl Into<PathBuf>, library: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::io("make a temporary folder"))?;
        Ok(Self { rampart: rampart.into(), library: library.into(), folder })
    }

    /// A folder that is removed with this.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a victim, once.
    pub fn victim(&self, name: &str, options: &[&str]) -> Result<PathBuf, Error> {
        let program = self.folder().join(name);
        if program.exists() || self.compile("cc", name, options, &program) {
            Ok(program)
        } else {
            Err(Error::Compile(name.to_owned()))
        }
    }

    /// Compiles a victim with a compiler that may be missing; returns whether it could.
    pub(crate) fn compile(&self, compiler: &str, name: &str, options: &[&str], program: &Path) -> bool {
        let mut command = Command::new(compiler);
        command.args(options).args(["-O1", "-pthread", "-o"]).arg(program).arg(format!("{VICTIMS}/{name}.c"));
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Copies `rampart` and its library to a folder where `rampart` finds the library.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<(), Error> {
        for (program, name) in [(&self.rampart, "rampart"), (&self.library, "librampart_preload.so")] {
            std::fs::copy(program, folder.join(name)).map_err(Error::io("copy `rampart`"))?;
        }
        Ok(())
    }

    /// The binary.
    pub(crate) fn rampart(&self) -> &Path {
        &self.rampart
    }

    /// Adds the environment of `rampart run` to a command. Errors go into a store of its own.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env("RAMPART_STORE", self.folder().join("rampart.db")).env("RAMPART_GUARD_LIBRARY", &self.library);
    }
}
