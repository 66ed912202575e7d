//! The errors of a store, with advice on what to do.
//!
//! **Problem.** "Disk full" must never be confused with "damaged": a full disk keeps facts in memory, damage replaces
//! the file. **Idea.** SQLite's result codes are sorted here and nowhere else.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

use crate::Malformed;

/// Why a fact could not be kept or read.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// no path for the store: set HOME or XDG_STATE_HOME to an absolute path, or name a file
    NoPlace,
    /// the store {0} is not a regular file: name another
    NotAFile(PathBuf),
    /// the store {0} cannot be written ({1}): make it and its folder writable, or name another file
    Unwritable(PathBuf, String),
    /// the store {0} has schema {1} of a newer Rampart, this one knows up to {2}: use the newer one, or name another
    /// file
    Newer(PathBuf, usize, usize),
    /// {0} is not a store of Rampart, or is too damaged to recognize: move it away, or name another file
    Foreign(PathBuf),
    /// the store {0} is busy with another process: try again when that is done
    Busy(PathBuf),
    /// the store {0} is damaged, and another rampart has it open: end that one, then try again
    DamagedInUse(PathBuf),
    /// no space is left for the store {0}: free some on its disk
    Full(PathBuf),
    /// the store {0} is damaged ({1}): it is set aside when it is next opened
    Damaged(PathBuf, String),
    /// the store {0} was moved or deleted while in use: leave it in its place
    Moved(PathBuf),
    /// the store {0} cannot be read or written ({1}): check the disk it is on
    Failed(PathBuf, String),
    /// the last change of the store {0} was interrupted, and no copy to complete it could be made ({1}): make the store
    /// writable, or set TMPDIR to a writable folder
    Unfinished(PathBuf, String),
    /// rasdaemon's database {0} cannot be read ({1}): run `rasdaemon --record`, and let this user read the file
    Rasdaemon(PathBuf, String),
}

impl Error {
    /// The content of the store is wrong. `why` may quote it, including line breaks.
    pub(crate) fn damaged(path: &Path, why: &str) -> Self {
        Self::Damaged(path.to_owned(), why.replace(char::is_control, " "))
    }

    /// The same error for another file: for the store, if its copy was read.
    pub(crate) fn of(self, path: &Path) -> Self {
        let path = path.to_owned();
        match self {
            Self::Damaged(_, why) => Self::Damaged(path, why),
            Self::Newer(_, seen, known) => Self::Newer(path, seen, known),
            Self::Foreign(_) => Self::Foreign(path),
            other => Self::Unfinished(path, other.to_string()),
        }
    }

    /// Whether a store that is opened again at the same path may take the fact.
    pub(crate) const fn needs_reopening(&self) -> bool {
        matches!(self, Self::Damaged(..) | Self::Moved(_))
    }
}

/// Adds the store's path to an error.
pub(crate) trait At<T> {
    /// Converts the error, with the path.
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for Result<T, rusqlite::Error> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| of_sqlite(path, &source))
    }
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(path.to_owned()),
            _ => Error::Unwritable(path.to_owned(), source.to_string()),
        })
    }
}

impl<T> At<T> for Result<T, Malformed> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|malformed| Error::damaged(path, &malformed.to_string()))
    }
}

/// Result codes: <https://sqlite.org/rescode.html>. CORRUPT and NOTADB mean that the file's content is wrong. So does
/// ERROR, because this crate's statements fit its tables; and a value of the wrong type. No other code does.
fn of_sqlite(path: &Path, source: &rusqlite::Error) -> Error {
    use rusqlite::Error as Sqlite;
    let why = source.to_string();
    let Sqlite::SqliteFailure(failure, _) = source else {
        return match source {
            Sqlite::SqlInputError { .. }
            | Sqlite::FromSqlConversionFailure(..)
            | Sqlite::InvalidColumnType(..)
            | Sqlite::Utf8Error(..) => Error::damaged(path, &why),
            _ => Error::Failed(path.to_owned(), why),
        };
    };
    match failure.extended_code & 0xff {
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB | ffi::SQLITE_ERROR => Error::damaged(path, &why),
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => Error::Busy(path.to_owned()),
        ffi::SQLITE_FULL => Error::Full(path.to_owned()),
        ffi::SQLITE_READONLY if failure.extended_code == ffi::SQLITE_READONLY_DBMOVED => Error::Moved(path.to_owned()),
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_CANTOPEN => Error::Unwritable(path.to_owned(), why),
        _ => Error::Failed(path.to_owned(), why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_content_counts_as_damage() {
        let damage = [ffi::SQLITE_ERROR, ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB];
        for code in 1..=ffi::SQLITE_NOTADB {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let is_damage = matches!(of_sqlite(Path::new(""), &failure), Error::Damaged(..));
            assert_eq!(is_damage, damage.contains(&code), "result code {code}");
        }
    }

    /// <https://sqlite.org/rescode.html>
    #[test]
    fn each_result_code_has_its_advice() {
        let kinds = [
            (ffi::SQLITE_BUSY, "busy"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "busy"),
            (ffi::SQLITE_LOCKED, "busy"),
            (ffi::SQLITE_FULL, "no space"),
            (ffi::SQLITE_READONLY, "cannot be written"),
            (ffi::SQLITE_READONLY_DIRECTORY, "cannot be written"),
            (ffi::SQLITE_PERM, "cannot be written"),
            (ffi::SQLITE_CANTOPEN, "cannot be written"),
            (ffi::SQLITE_READONLY_DBMOVED, "was moved or deleted"),
            (ffi::SQLITE_CORRUPT_INDEX, "is damaged"),
            (ffi::SQLITE_IOERR, "cannot be read or written"),
            (ffi::SQLITE_IOERR_FSYNC, "cannot be read or written"),
        ];
        for (code, advice) in kinds {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let message = of_sqlite(Path::new("/p/r.db"), &failure).to_string();
            assert!(message.contains(advice), "{code}: {message}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_damage_and_a_misused_call_is_not() {
        let wrong_type = rusqlite::Error::InvalidColumnType(0, "at".to_owned(), rusqlite::types::Type::Blob);
        assert!(matches!(of_sqlite(Path::new(""), &wrong_type), Error::Damaged(..)));
        assert!(matches!(of_sqlite(Path::new(""), &rusqlite::Error::QueryReturnedNoRows), Error::Failed(..)));
    }

    #[test]
    fn each_message_is_one_line_that_names_the_store() {
        let path = Path::new("/p/r.db");
        let full: Result<(), _> = Err(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(
            full.at(path).unwrap_err().to_string(),
            "no space is left for the store /p/r.db: free some on its disk"
        );
        let newer = Error::Newer(path.to_owned(), 7, 1).to_string();
        assert!(newer.contains("/p/r.db has schema 7") && !newer.contains('\n'), "{newer}");
    }
}
