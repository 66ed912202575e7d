//! Reads a store that cannot be written: early at boot its file system is read-only, and other users have no write
//! permission.
//!
//! **Problem.** If the last change was interrupted, SQLite must write even to read: it must apply its journal, or its
//! write-ahead log, to the file first. Otherwise it would read half a change, or silently lose the last facts.
//! **Idea.** Three ways, each tried if the previous one fails: read the file in place; read it as immutable, if no
//! unfinished change is beside it; complete the change in a private copy, and read that. **Why the copy last.** Only in
//! place do SQLite's locks protect a reader from a half-written change of another process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::connection::{READ_ONLY, connect, set_up};
use crate::error::At;
use crate::location::{COMPANIONS, beside};
use crate::schema;

/// Opens a read-only connection, and returns the copy that it reads if there is one.
pub(crate) fn open(path: &Path) -> Result<(Connection, Option<Copy>), Error> {
    let error = match in_place(path, false) {
        Ok(connection) => return Ok((connection, None)),
        Err(error) => error,
    };
    if !has_unfinished_change(path) {
        if let Ok(connection) = in_place(path, true) {
            return Ok((connection, None));
        }
        // A copy helps only against an older schema.
        if !matches!(error, Error::Damaged(..)) {
            return Err(error);
        }
    }
    let copy = Copy::of(path).map_err(|cause| Error::Unfinished(path.to_owned(), cause.to_string()))?;
    let connection = copy.finished().map_err(|cause| cause.of(path))?;
    Ok((connection, Some(copy)))
}

/// Reads the file in place. `immutable`: assumes that no process changes it, without locks and companion files.
fn in_place(path: &Path, immutable: bool) -> Result<Connection, Error> {
    let connection = if immutable {
        Connection::open_with_flags(address(path), READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI))
    } else {
        Connection::open_with_flags(path, READ_ONLY)
    };
    let mut connection = connection.at(path)?;
    set_up(&mut connection, path)?;
    schema::version(&connection, path, schema::MIGRATIONS.len())?;
    schema::check(&connection, path)?;
    read_only(&connection, path)?;
    Ok(connection)
}

/// Makes writes fail, because a write to a temporary copy would be lost.
fn read_only(connection: &Connection, path: &Path) -> Result<(), Error> {
    connection.pragma_update(None, "query_only", true).at(path)
}

/// <https://sqlite.org/uri.html>
fn address(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => address.push(char::from(*byte)),
            other => address.push_str(&format!("%{other:02x}")),
        }
    }
    address + "?immutable=1"
}

fn has_unfinished_change(path: &Path) -> bool {
    let size = |suffix| beside(path, suffix).metadata().map_or(0, |found| found.len());
    size("-journal") > 0 || size("-wal") > 0
}

/// A private copy of a store and its companion files, for this user only; removed when dropped.
#[derive(Debug)]
pub(crate) struct Copy(PathBuf);

impl Copy {
    fn of(path: &Path) -> io::Result<Self> {
        let copy = Self::empty()?;
        fs::copy(path, copy.store())?;
        for companion in ["-journal", "-wal"] {
            match fs::copy(beside(path, companion), beside(&copy.store(), companion)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(copy)
    }

    /// Creates an empty folder. Early at boot, only file systems in memory are writable.
    fn empty() -> io::Result<Self> {
        let folders = [std::env::temp_dir(), PathBuf::from("/run"), PathBuf::from("/dev/shm")];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for (parent, attempt) in folders.iter().flat_map(|parent| (0..100).map(move |attempt| (parent, attempt))) {
            let folder = parent.join(format!("rampart-read-{}-{attempt}", process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn store(&self) -> PathBuf {
        self.0.join("rampart.db")
    }

    /// Lets SQLite complete the change, and brings the copy to the newest schema.
    fn finished(&self) -> Result<Connection, Error> {
        let path = self.store();
        let connection = connect(&path)?;
        schema::check(&connection, &path)?;
        read_only(&connection, &path)?;
        Ok(connection)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        for suffix in [""].into_iter().chain(COMPANIONS) {
            // At worst, a copy in memory remains.
            let _gone = fs::remove_file(beside(&self.store(), suffix));
        }
        let _gone = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use rampart_memory::Timestamp;
    use std::os::unix::fs::symlink;

    /// A folder in memory if possible: syncing a real disk takes time.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// A store at rest.
    fn store(folder: &tempfile::TempDir, name: &str) -> PathBuf {
        let path = folder.path().join(name);
        drop(Store::open(&path, Timestamp::default()).unwrap());
        path
    }

    #[test]
    fn a_journal_or_a_log_with_content_is_a_change_to_complete() {
        let folder = folder();
        let path = folder.path().join("r.db");
        let unfinished = |journal: Option<&str>, log: Option<&str>| {
            for (suffix, content) in [("-journal", journal), ("-wal", log)] {
                let _absent = fs::remove_file(beside(&path, suffix));
                content.into_iter().for_each(|content| fs::write(beside(&path, suffix), content).unwrap());
            }
            has_unfinished_change(&path)
        };
        assert!(unfinished(Some("x"), None) && unfinished(None, Some("x")) && unfinished(Some("x"), Some("x")));
        assert!(!unfinished(None, None) && !unfinished(Some(""), Some("")));
    }

    #[test]
    fn any_character_of_a_path_may_stand_in_its_address() {
        let address = address(Path::new("/p-q/A_z 9?#%\u{e9}.db"));
        assert_eq!(address, "file:/p-q/A_z%209%3f%23%25%c3%a9.db?immutable=1");
    }

    /// A store with a write-ahead log, although it is empty, is read only with a file beside it. No such file can be
    /// made here, not even by root.
    #[test]
    fn without_an_unfinished_change_a_store_is_read_as_immutable() {
        let folder = folder();
        let path = store(&folder, "r%20?#.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        drop(writer);
        symlink("nowhere", beside(&path, "-shm")).unwrap();
        assert!(in_place(&path, false).is_err());
        let (connection, copy) = open(&path).unwrap();
        assert!(copy.is_none());
        assert!(connection.execute("DELETE FROM age", []).is_err(), "nothing is written");
    }

    #[test]
    fn a_store_of_an_older_schema_is_read_in_a_copy_and_left_as_it_is() {
        let folder = folder();
        let path = folder.path().join("r.db");
        let mut old = Connection::open(&path).unwrap();
        schema::migrate(&mut old, &path, &schema::MIGRATIONS[..1]).unwrap();
        drop(old);
        let before = fs::read(&path).unwrap();
        let (connection, copy) = open(&path).unwrap();
        let copy = copy.unwrap();
        assert!(schema::check(&connection, &path).is_ok() && copy.store().exists());
        assert!(connection.execute("DELETE FROM age", []).is_err(), "what were written to it would be lost");
        let own = copy.0.clone();
        drop((connection, copy));
        assert!(!own.exists(), "the copy is gone");
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn what_cannot_be_read_is_not_copied() {
        let folder = folder();
        assert!(matches!(open(&folder.path().join("absent.db")), Err(Error::Unwritable(..))));
        let path = store(&folder, "r.db");
        assert!(Copy::of(&path).is_ok(), "no journal need be there");
        fs::create_dir(beside(&path, "-journal")).unwrap();
        assert!(Copy::of(&path).is_err(), "without its journal, a copy would have half a change");
    }
}
