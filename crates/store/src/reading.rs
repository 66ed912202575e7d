//! Reads a store that cannot be written: early at boot its file system is read-only, and other users have no rights.
//!
//! **Problem.** SQLite must write even to read if the last change was cut off: its journal, or its write-ahead log,
//! must go into the file first. Ignoring them would read half a change, or silently lose the last facts. **Idea.**
//! Three ways, each tried if the previous one fails: read the file in place; read it as one that nobody changes, if no
//! change lies beside it; finish the change in a private copy, and read that. **Why the copy last.** Only in the file's
//! place do SQLite's locks protect a reader from another process' half change.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::connection::{connect, set_up};
use crate::error::At;
use crate::place::{COMPANIONS, beside};
use crate::schema;

/// A read-only connection, with the copy that it reads, if any.
pub(crate) fn open(path: &Path) -> Result<(Connection, Option<Copy>), Error> {
    let first = match in_place(path, false) {
        Ok(connection) => return Ok((connection, None)),
        Err(error) => error,
    };
    if !has_unfinished_change(path) {
        if let Ok(connection) = in_place(path, true) {
            return Ok((connection, None));
        }
        // A copy can mend nothing but an older schema.
        if !matches!(first, Error::Damaged(..)) {
            return Err(first);
        }
    }
    let copy = Copy::of(path).map_err(|cause| Error::Unfinished(path.to_owned(), cause.to_string()))?;
    let connection = copy.finished().map_err(|error| error.of(path))?;
    Ok((connection, Some(copy)))
}

/// Reads the file itself. `immutable`: as one that nobody changes, without locks and companions.
fn in_place(path: &Path, immutable: bool) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if immutable {
        Connection::open_with_flags(address(path), flags | OpenFlags::SQLITE_OPEN_URI)
    } else {
        Connection::open_with_flags(path, flags)
    };
    let mut connection = connection.at(path)?;
    set_up(&mut connection, path)?;
    schema::version(&connection, path, schema::MIGRATIONS.len())?;
    schema::check(&connection, path)?;
    read_only(&connection, path)?;
    Ok(connection)
}

/// A write must fail, not end in a temporary copy.
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

/// A copy of a store with its companions, for this user alone; removed when dropped.
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

    /// Early at boot only file systems in memory can be written.
    fn empty() -> io::Result<Self> {
        let places = [std::env::temp_dir(), PathBuf::from("/run"), PathBuf::from("/dev/shm")];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for (place, attempt) in places.iter().flat_map(|place| (0..100).map(move |attempt| (place, attempt))) {
            let folder = place.join(format!("rampart-read-{}-{attempt}", process::id()));
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

    /// Lets SQLite finish the change, and brings the copy to the newest schema.
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
            // A leftover is a copy in memory.
            let _gone = fs::remove_file(beside(&self.store(), suffix));
        }
        let _gone = fs::remove_dir(&self.0);
    }
}
