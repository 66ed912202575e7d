//! Which MPI a program was built for.
//!
//! The dynamic loader says which libraries a program needs, and the name of a library says which MPI it is, and whether
//! another one fits (the MPICH ABI Compatibility Initiative).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    /// Versions 3 to 5.
    OpenMpi,
    /// MPICH, and what has its binary interface.
    Mpich,
    /// Any MPI that has the standard binary interface [MPI 5.0, chapter 20], such as MPICH 5.
    StandardAbi,
}

/// The names of libraries.
const LIBRARIES: [(&str, MpiKind); 3] =
    [("libmpi.so.40", MpiKind::OpenMpi), ("libmpi.so.12", MpiKind::Mpich), ("libmpich.so.12", MpiKind::Mpich)];

/// The beginning of the name of a library with the standard ABI: its number differs between releases.
const STANDARD_ABI: &str = "libmpi_abi.so.";

impl MpiKind {
    /// Finds the MPI that a program needs.
    ///
    /// # Errors
    /// [`Error::NoMpi`] if it needs none that is supported, or several.
    pub fn of(program: &OsStr) -> Result<Self, Error> {
        Self::among(&NeededLibraries::of(program)?.list).map_err(|why| refused(program, why))
    }

    /// Finds it in a list of libraries, a line each.
    fn among(list: &str) -> Result<Self, &'static str> {
        let needed = || list.lines().filter_map(|line| line.split_whitespace().next());
        let listed = LIBRARIES.iter().filter(|(name, _)| needed().any(|one| one == *name)).map(|&(_, kind)| kind);
        let is_standard = needed().any(|one| one.starts_with(STANDARD_ABI));
        let mut kinds = listed.chain(is_standard.then_some(Self::StandardAbi));
        match (kinds.next(), needed().any(|one| one.starts_with("libmpi"))) {
            (Some(kind), _) if kinds.all(|other| other == kind) => Ok(kind),
            (Some(_), _) => Err("it needs two MPI libraries"),
            (None, true) => Err("its MPI is none of Open MPI 3 to 5, MPICH 3 to 5, and those with the ABI of MPI 5"),
            (None, false) => Err("it needs no MPI library: link it dynamically"),
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::StandardAbi => "an MPI with the standard ABI",
        }
    }

    /// Names of its launcher, the most specific one first.
    pub const fn launchers(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["mpirun.openmpi", "mpirun"],
            Self::Mpich => ["mpirun.mpich", "mpirun"],
            Self::StandardAbi => ["mpirun", "mpiexec"],
        }
    }
}

fn refused(program: &OsStr, why: &str) -> Error {
    Error::NoMpi { program: program.to_owned(), why: why.to_owned() }
}

/// The libraries that a program needs, and those that they need.
pub struct NeededLibraries {
    program: PathBuf,
    /// What `ldd` says: a line each.
    list: String,
}

impl NeededLibraries {
    /// Asks the dynamic loader.
    ///
    /// # Errors
    /// [`Error::NoMpi`] if there is no such program, or it cannot be asked.
    pub fn of(program: &OsStr) -> Result<Self, Error> {
        let path = find(program).ok_or_else(|| refused(program, "there is no such program"))?;
        let output = Command::new("ldd").arg(&path).output();
        let output = output.map_err(|_| refused(program, "ldd, which reads it, cannot be run"))?;
        Ok(Self { program: path, list: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// The files of the program and of its libraries. In a running process, the loader names libraries by these paths,
    /// and the program by an empty name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        let paths = self.list.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        std::iter::once(("", self.program.as_path())).chain(paths.map(|path| (path, Path::new(path))))
    }
}

/// The file of a program, which is searched for as a shell does.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_says_which_mpi_it_is() {
        let line = |name: &str| format!("\t{name} => /usr/lib/{name} (0x00007f0000000000)\n");
        let among = |names: &[&str]| MpiKind::among(&names.iter().map(|name| line(name)).collect::<String>());
        assert_eq!(among(&["libc.so.6", "libmpi.so.40"]), Ok(MpiKind::OpenMpi));
        assert_eq!(among(&["libmpichfort.so.12", "libmpich.so.12"]), Ok(MpiKind::Mpich));
        assert_eq!(among(&["libmpi.so.12"]), Ok(MpiKind::Mpich));
        assert_eq!(among(&["libmpi_abi.so.1"]), Ok(MpiKind::StandardAbi));
        assert!(among(&["libmpi.so.12", "libmpi_abi.so.0"]).unwrap_err().contains("two"));
        assert!(among(&["libmpi.so.40", "libmpich.so.12"]).unwrap_err().contains("two"));
        assert!(among(&["libmpi.so.20"]).unwrap_err().contains("none of"));
        assert!(among(&["libc.so.6"]).unwrap_err().contains("dynamically"));
    }

    #[test]
    fn files_are_those_that_the_loader_found() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /lib/libm.so.6 (0x00007f00)\n\
                    \tlibgone.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n";
        let libraries = NeededLibraries { program: "/bin/job".into(), list: list.to_owned() };
        let files: Vec<_> = libraries.files().map(|(name, path)| (name, path.to_str().unwrap())).collect();
        let same = |path| (path, path);
        assert_eq!(files, [("", "/bin/job"), same("/lib/libm.so.6"), same("/lib64/ld-linux-x86-64.so.2")]);
    }
}
