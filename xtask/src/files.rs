//! Files, with errors that name them; and the folder of what is built.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::error::Error;

/// The folder of what cargo builds for this tree.
pub fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })
}

/// Writes a file.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|cause| Error::Write { path: path.to_owned(), cause })
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map(|_bytes| ()).map_err(|cause| Error::Write { path: to.to_owned(), cause })
}

/// Makes a folder, and those that it is in.
pub fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|cause| Error::Write { path: folder.to_owned(), cause })
}

/// Removes a folder with its content, if it exists.
pub fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::Write { path: folder.to_owned(), cause }),
        _ => Ok(()),
    }
}
