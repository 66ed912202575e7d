//! Finds the library that is preloaded into a guarded program.
//!
//! **Problem.** The loader takes files only, and may do so long after this program has ended. **Idea.** An optimized
//! binary carries the library (`build.rs`), and writes it once into the folder for caches, under a name that follows
//! from its content. **Why there.** All processes of a program must get the same library, also if `rampart` has been
//! upgraded meanwhile.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::guards::folder;

/// The file name.
const NAME: &str = "librampart_preload.so";

/// The environment variable that names another library.
pub const VARIABLE: &str = "RAMPART_GUARD_LIBRARY";

/// What an optimized binary carries.
static CARRIED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/librampart_preload.so"));

/// Where root's programs keep what they can make again (Filesystem Hierarchy Standard 3.0, 5.5); other users may read
/// it, and root's programs may become theirs.
const CACHE_OF_ROOT: &str = "/var/cache";

/// The path of the library: the one in [`VARIABLE`], or else the one that this program carries, or the one beside it,
/// where cargo builds it. `last_folder` takes the library if no folder for caches can.
///
/// # Errors
/// If there is none, or if it cannot be written.
pub fn find(last_folder: &Path) -> Result<PathBuf, Error> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file()).ok_or(Error::NoGuardLibrary);
    }
    if !CARRIED.is_empty() {
        let cached = cache(rampart_linux::is_root(), |name| env::var_os(name)).map(|cache| unpacked(CARRIED, &cache));
        return match cached {
            Some(Ok(path)) => Ok(path),
            _ => unpacked(CARRIED, last_folder).map_err(Error::GuardFolder),
        };
    }
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).into_iter().flat_map(beside);
    beside.into_iter().find(|path| path.is_file()).ok_or(Error::NoGuardLibrary)
}

/// Our folder for caches (XDG Base Directory Specification 0.8).
fn cache(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = match is_root {
        true => Some(PathBuf::from(CACHE_OF_ROOT)),
        false => absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache"))),
    };
    Some(caches?.join("rampart"))
}

/// The path of the library in this folder. It is written unless it is there.
fn unpacked(library: &[u8], folder: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    hasher.write(library);
    let path = folder.join(format!("librampart_preload-{:016x}.so", hasher.finish()));
    if folder::read(&path).is_ok_and(|there| there == library) {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    let mut new = tempfile::Builder::new().permissions(Permissions::from_mode(0o644)).tempfile_in(folder)?;
    new.write_all(library)?;
    new.persist(&path)?;
    Ok(path)
}

/// The library as `LD_PRELOAD` names it. The loader of glibc replaces `$LIB` (ld.so(8)) by a folder a few levels below
/// the root. The loader of musl does not, finds no such file, and continues without the library, which it could not
/// load.
pub fn preloaded(library: &Path) -> OsString {
    /// More levels up than `$LIB` has: the parent of the root is the root.
    const TO_GLIBC_AND_BACK: &str = "/$LIB/../../../..";
    match library.canonicalize() {
        Ok(library) if library.is_absolute() => {
            let mut named = OsString::from(TO_GLIBC_AND_BACK);
            named.push(library);
            named
        }
        _ => library.as_os_str().to_owned(),
    }
}

fn beside(folder: &Path) -> [PathBuf; 2] {
    [folder.join(NAME), folder.join("deps").join(NAME)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_where_the_standards_say() {
        let of = |is_root, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, value)| OsString::from(value));
            cache(is_root, value).map(|path| path.to_str().unwrap().to_owned())
        };
        let home = [("HOME", "/home/a"), ("XDG_CACHE_HOME", "/scratch/a")];
        assert_eq!(of(true, &home).as_deref(), Some("/var/cache/rampart"));
        assert_eq!(of(false, &home).as_deref(), Some("/scratch/a/rampart"));
        assert_eq!(of(false, &home[..1]).as_deref(), Some("/home/a/.cache/rampart"));
        let relative = [("HOME", "/home/a"), ("XDG_CACHE_HOME", "scratch")];
        assert_eq!(of(false, &relative).as_deref(), Some("/home/a/.cache/rampart"));
        assert_eq!(of(false, &[]), None);
    }

    #[test]
    fn a_library_is_written_once_and_again_where_another_one_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let path = unpacked(b"one", &folder).unwrap();
        let written = fs::metadata(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), written.permissions().mode() & 0o777), (b"one".to_vec(), 0o644));
        assert_eq!(unpacked(b"one", &folder).unwrap(), path);
        let is_same = |one: &fs::Metadata, other: &fs::Metadata| {
            use std::os::unix::fs::MetadataExt as _;
            one.ino() == other.ino()
        };
        assert!(is_same(&written, &fs::metadata(&path).unwrap()), "others may have it mapped");
        assert_ne!(unpacked(b"two", &folder).unwrap(), path, "a program of another version goes on with its own");
        fs::write(&path, b"bad").unwrap();
        assert_eq!(fs::read(unpacked(b"one", &folder).unwrap()).unwrap(), b"one");
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, b"one").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        unpacked(b"one", &folder).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "a link is not followed, but replaced");
        assert!(unpacked(b"one", &elsewhere).is_err(), "no folder");
    }
}
