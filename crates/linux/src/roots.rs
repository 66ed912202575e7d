//! The roots of the kernel's files.
//!
//! This crate reads all files below two folders that are passed in: `/proc` and `/sys` on a machine, a fake tree in a
//! test, so that a machine with every feature, or with none, can be tested anywhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// The two folders in which the kernel shows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    proc: PathBuf,
    sys: PathBuf,
}

impl Default for Roots {
    /// `/proc` and `/sys`.
    fn default() -> Self {
        Self::new("/proc", "/sys")
    }
}

impl Roots {
    /// Other folders than the usual two.
    #[must_use]
    pub fn new(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), sys: sys.into() }
    }

    /// A file below `/proc`.
    #[must_use]
    pub fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.proc.join(path)
    }

    /// A file below `/sys`.
    #[must_use]
    pub fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sys.join(path)
    }
}

/// The whole text of one of the kernel's files, with invalid UTF-8 replaced (a firmware's DIMM label may be anything).
pub(crate) fn text(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// [`text`], or this crate's error.
pub(crate) fn require(path: &Path) -> Result<String, Error> {
    text(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })
}

/// The number in a file that holds nothing else; `None` if it cannot be read or is no number.
pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path).ok()?.trim().parse().ok()
}

/// The folders in `folder` named `prefix` and a number, by ascending number; none if it cannot be read.
pub(crate) fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found
}
