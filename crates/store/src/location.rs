//! The path of the store, and the lock that protects its replacement.
//!
//! **Problem.** Replacing a damaged file would harm other processes that have it open. **Idea.** Each process holds a
//! shared lock on a file beside the store as long as it has the store open; a process that replaces the store holds the
//! lock exclusively. **Why a separate file.** The lock must not be on the file that is replaced, and closing a second
//! handle of the store would drop SQLite's own locks (<https://sqlite.org/howtocorrupt.html>, 2.2).

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::connection::waiting;
use crate::error::At;

/// The files that SQLite may keep beside a database: <https://sqlite.org/tempfiles.html>.
pub(crate) const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The default path of the store: for root `/var/lib/rampart/rampart.db` (FHS 3.0, 5.8), for others
/// `rampart/rampart.db` in `$XDG_STATE_HOME`, or else in `$HOME/.local/state` (XDG Base Directory Specification 0.8; a
/// relative path counts as unset). `variable` reads an environment variable.
///
/// # Errors
/// [`Error::NoPlace`] if neither variable holds an absolute path.
pub fn default_path(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    if is_root {
        return Ok(PathBuf::from("/var/lib/rampart/rampart.db"));
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|folder| folder.join("rampart/rampart.db")).ok_or(Error::NoPlace)
}

/// Appends a suffix to the path.
pub(crate) fn beside(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates the folders of a store. Returns its path: absolute, because SQLite treats a relative path that starts with
/// `file:` as a URI; and without links, so that a replacement replaces the file and not a link to it.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(path).at(path)?;
    if let Some(folder) = path.parent() {
        make_folder(folder).at(&path)?;
    }
    match path.metadata() {
        Ok(found) if found.is_file() => path.canonicalize().at(&path),
        Ok(_) => Err(Error::NotAFile(path)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(other) => Err(other).at(&path),
    }
}

/// Creates a folder and its parents, each durable when this returns.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent();
    parent.map_or(Ok(()), make_folder)?;
    // Recursive, so that it is no error if another process has just made it.
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    parent.map_or(Ok(()), sync)
}

/// Makes the names in a folder durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The right to use or to replace the store; released when dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

impl Lock {
    /// Takes the shared right to use the store. Waits at most `patience` for a process that replaces it.
    pub(crate) fn shared(path: &Path, patience: Duration) -> Result<Self, Error> {
        Self::take(path, patience, File::try_lock_shared)?.ok_or_else(|| Error::Busy(path.to_owned()))
    }

    /// Takes the exclusive right to replace the store. Waits at most `patience` for processes that use it.
    pub(crate) fn exclusive(path: &Path, patience: Duration) -> Result<Self, Error> {
        Self::take(path, patience, File::try_lock)?.ok_or_else(|| Error::DamagedInUse(path.to_owned()))
    }

    fn take(
        path: &Path,
        patience: Duration,
        try_lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<Self>, Error> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(beside(path, ".lock")).at(path)?;
        let mut again = waiting(patience);
        for asked in 0.. {
            match try_lock(&file) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(TryLockError::WouldBlock) if again(asked) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error).at(path),
            }
        }
        unreachable!("patience ends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;

    fn user(home: Option<&str>, state: Option<&str>) -> Result<PathBuf, Error> {
        default_path(false, |name| match name {
            "HOME" => home.map(OsString::from),
            "XDG_STATE_HOME" => state.map(OsString::from),
            other => panic!("{other} was looked up"),
        })
    }

    #[test]
    fn the_store_lies_where_the_conventions_say() {
        assert_eq!(default_path(true, |_| None).unwrap(), Path::new("/var/lib/rampart/rampart.db"));
        assert_eq!(user(Some("/home/u"), Some("/s")).unwrap(), Path::new("/s/rampart/rampart.db"));
        let home = Path::new("/home/u/.local/state/rampart/rampart.db");
        assert_eq!(user(Some("/home/u"), None).unwrap(), home);
        assert_eq!(user(Some("/home/u"), Some("relative")).unwrap(), home);
        assert!(matches!(user(None, None), Err(Error::NoPlace)));
        assert!(matches!(user(Some(""), Some("")), Err(Error::NoPlace)));
    }

    #[test]
    fn folders_are_made_for_all_to_read_and_the_owner_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/r.db");
        assert_eq!(prepare(&path).unwrap(), path);
        for made in ["a", "a/b"] {
            let mode = folder.path().join(made).metadata().unwrap().permissions().mode() & 0o777;
            assert!(mode & 0o700 == 0o700 && mode & !0o755 == 0, "{made}: {mode:o}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/"), Path::new("/dev/null")] {
            assert!(matches!(prepare(path), Err(Error::NotAFile(_))), "{}", path.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for path in [file.join("r.db"), PathBuf::from("/proc/nowhere/r.db"), PathBuf::new()] {
            assert!(matches!(prepare(&path), Err(Error::Unwritable(..))), "{}", path.display());
        }
        let endless = folder.path().join("endless.db");
        std::os::unix::fs::symlink("endless.db", &endless).unwrap();
        assert!(matches!(prepare(&endless), Err(Error::Unwritable(..))), "a link to itself");
    }

    #[test]
    fn a_folder_that_is_gone_cannot_be_made_durable() {
        let folder = tempfile::tempdir().unwrap();
        assert!(sync(folder.path()).is_ok());
        assert_eq!(sync(&folder.path().join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_leads_to_the_file_itself() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("r.db"), "").unwrap();
        std::os::unix::fs::symlink("r.db", folder.join("link.db")).unwrap();
        assert_eq!(prepare(&folder.join("link.db")).unwrap(), folder.join("r.db"));
    }

    #[test]
    fn users_share_and_a_replacer_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let brief = Duration::from_millis(10);
        let users = [Lock::shared(&path, brief).unwrap(), Lock::shared(&path, brief).unwrap()];
        assert!(matches!(Lock::exclusive(&path, brief), Err(Error::DamagedInUse(_))));
        drop(users);
        let replacer = Lock::exclusive(&path, brief).unwrap();
        assert!(matches!(Lock::shared(&path, brief), Err(Error::Busy(_))));
        drop(replacer);
        assert!(Lock::shared(&path, brief).is_ok());
    }

    #[test]
    fn a_lock_that_is_released_in_time_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let tried = Cell::new(0);
        let take = |millis, free_at| {
            tried.set(0);
            let taken = Lock::take(&path, Duration::from_millis(millis), |_| {
                tried.set(tried.get() + 1);
                if tried.get() < free_at { Err(TryLockError::WouldBlock) } else { Ok(()) }
            });
            (taken.unwrap().is_some(), tried.get())
        };
        assert_eq!([take(9, 1), take(9, 4), take(2, 9), take(0, 9)], [(true, 1), (true, 4), (false, 3), (false, 1)]);
    }
}
