//! The compiler of the MPI that a program is started with.
//!
//! **Problem.** A machine has several MPI libraries, and a binary built for one does not run with another. **Idea.**
//! The launcher and the compiler of a library have similar names, `mpirun.mpich` and `mpicc.mpich`, and are in the same
//! folder. **Why this way.** It needs no knowledge of any library. If it fails, the user names the compiler.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::tool::{first_error, runs};

/// The names of launchers, without a suffix.
const LAUNCHERS: [&str; 3] = ["mpirun", "mpiexec", "orterun"];

/// The name of compilers, without the same suffix.
const COMPILER: &str = "mpicc";

/// The end of its name where it builds for the standard ABI.
const STANDARD_ABI: &str = "_abi";

/// The C compiler of one MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler(OsString);

impl Compiler {
    /// Returns the named compiler, or the one of the library whose launcher is in this command line, or `mpicc`.
    ///
    /// # Errors
    /// [`Error::NoCompiler`] if it cannot be run.
    pub fn find(named: Option<&OsStr>, program: &[OsString]) -> Result<Self, Error> {
        if let Some(named) = named {
            return if runs(named) { Ok(Self(named.to_owned())) } else { Err(Error::NoCompiler(named.to_owned())) };
        }
        let beside = program.iter().find_map(|word| beside(Path::new(word)));
        let found = beside.into_iter().chain([OsString::from(COMPILER)]).find(|name| runs(name));
        found.map(Self).ok_or_else(|| Error::NoCompiler(COMPILER.into()))
    }

    /// Returns the launcher in a command line, by which [`Compiler::find`] finds the compiler.
    #[must_use]
    pub fn launcher(program: &[OsString]) -> Option<&OsStr> {
        program.iter().map(OsString::as_os_str).find(|word| beside(Path::new(word)).is_some())
    }

    /// Returns the one beside it that builds for the standard ABI of MPI 5, if it can be run; else this one.
    #[must_use]
    pub fn for_standard_abi(self) -> Self {
        let mut name = self.0.clone();
        name.push(STANDARD_ABI);
        if runs(&name) { Self(name) } else { self }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.0
    }

    /// Runs the compiler to build `what` and returns its output; its first error message if it fails.
    pub(crate) fn run(&self, what: &'static str, arguments: &[&OsStr]) -> Result<String, Error> {
        let refused = |why: String| Error::Compiler { name: self.0.clone(), what, why };
        let output = Command::new(&self.0).args(arguments).output().map_err(|error| refused(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(refused(first_error(&String::from_utf8_lossy(&output.stderr))))
    }
}

fn beside(launcher: &Path) -> Option<OsString> {
    let name = launcher.file_name()?.to_str()?;
    let suffix = LAUNCHERS.iter().find_map(|known| name.strip_prefix(known))?;
    Some(launcher.with_file_name(format!("{COMPILER}{suffix}")).into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_named_as_the_launcher_is() {
        let beside = |word: &str| beside(Path::new(word)).and_then(|name| name.into_string().ok());
        assert_eq!(beside("mpirun.mpich").as_deref(), Some("mpicc.mpich"));
        assert_eq!(beside("/opt/mpi/bin/mpiexec").as_deref(), Some("/opt/mpi/bin/mpicc"));
        assert_eq!(beside("lmp"), None);
        let words = ["timeout", "60", "mpirun.mpich", "-n", "2", "lmp"].map(OsString::from);
        assert_eq!(Compiler::launcher(&words), Some(OsStr::new("mpirun.mpich")));
        assert_eq!(Compiler::launcher(&words[3..]), None);
    }

    #[test]
    fn a_compiler_that_is_not_there_is_refused_and_the_first_error_of_one_is_kept() {
        let named = |name: &str| Compiler::find(Some(OsStr::new(name)), &[]);
        assert!(named("no-such-mpicc").unwrap_err().to_string().contains("libopenmpi-dev"));
        let shell = named("sh").unwrap();
        let why = shell.run("the library", &["-c".as_ref(), "echo a warning >&2; echo an error >&2; exit 1".as_ref()]);
        assert_eq!(why.unwrap_err().to_string(), "\"sh\" cannot build the library: an error");
        assert_eq!(shell.run("the library", &["-c".as_ref(), "echo built".as_ref()]).unwrap(), "built\n");
    }
}
