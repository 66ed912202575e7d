//! Which MPI a program was built for.
//!
//! The dynamic loader says which libraries a program needs, and the name of a library says which MPI it is, and whether
//! another one fits (the MPICH ABI Compatibility Initiative).

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::error::Error;

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    /// Versions 3 to 5.
    OpenMpi,
    /// MPICH, and what has its binary interface.
    Mpich,
}

/// The names of libraries.
const LIBRARIES: [(&str, MpiKind); 3] =
    [("libmpi.so.40", MpiKind::OpenMpi), ("libmpi.so.12", MpiKind::Mpich), ("libmpich.so.12", MpiKind::Mpich)];

impl MpiKind {
    /// Finds the MPI that a program needs.
    ///
    /// # Errors
    /// [`Error::NoMpi`] if it needs none that is supported, or several.
    pub fn of(program: &OsStr) -> Result<Self, Error> {
        let refused = |why: &str| Error::NoMpi { program: program.to_owned(), why: why.to_owned() };
        let path = find(program).ok_or_else(|| refused("there is no such program"))?;
        let output =
            Command::new("ldd").arg(path).output().map_err(|_| refused("ldd, which reads it, cannot be run"))?;
        Self::among(&String::from_utf8_lossy(&output.stdout)).map_err(refused)
    }

    /// Finds it in a list of libraries, a line each.
    fn among(list: &str) -> Result<Self, &'static str> {
        let needed = || list.lines().filter_map(|line| line.split_whitespace().next());
        let mut kinds = LIBRARIES.iter().filter(|(name, _)| needed().any(|one| one == *name)).map(|&(_, kind)| kind);
        match (kinds.next(), needed().any(|one| one.starts_with("libmpi"))) {
            (Some(kind), _) if kinds.all(|other| other == kind) => Ok(kind),
            (Some(_), _) => Err("it needs two MPI libraries"),
            (None, true) => Err("its MPI is none of Open MPI 3 to 5 and MPICH 3 to 4"),
            (None, false) => Err("it needs no MPI library: link it dynamically"),
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }

    /// Names of its launcher, the most specific one first.
    pub const fn launchers(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["mpirun.openmpi", "mpirun"],
            Self::Mpich => ["mpirun.mpich", "mpirun"],
        }
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
        assert!(among(&["libmpi.so.40", "libmpich.so.12"]).unwrap_err().contains("two"));
        assert!(among(&["libmpi.so.20"]).unwrap_err().contains("none of"));
        assert!(among(&["libc.so.6"]).unwrap_err().contains("dynamically"));
    }
}
