//! Opens connections to a database of the newest schema, configured for a file that may be forged.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::error::At;
use crate::schema::{self, MIGRATIONS};

/// Opens an existing database to read it, from one thread at a time.
pub(crate) const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens a database to write it, and creates it if it does not exist.
const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_CREATE).union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// How long a call waits for another process that locks the store.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Configures a connection for a file that may be forged: <https://sqlite.org/security.html>, 1.2.
pub(crate) fn set_up(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    connection.busy_handler(Some(waiting(PATIENCE))).at(path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).at(path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).at(path)?;
    connection.pragma_update(None, "cell_size_check", true).at(path)
}

/// Opens a store of the newest schema, or creates it, with the durability that this crate's documentation describes.
pub(crate) fn connect(path: &Path) -> Result<Connection, Error> {
    let mut connection = Connection::open_with_flags(path, READ_WRITE).at(path)?;
    set_up(&mut connection, path)?;
    // Otherwise SQLite opens an unwritable file read-only, and fails only at the first write.
    if connection.is_readonly("main").at(path)? {
        return Err(Error::Unwritable(path.to_owned(), "permission denied".to_owned()));
    }
    // Before any change: the file may belong to another program.
    schema::version(&connection, path, MIGRATIONS.len())?;
    connection.pragma_update(None, "synchronous", "EXTRA").at(path)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0)).at(path)?;
    if mode != "delete" {
        return Err(Error::Failed(path.to_owned(), format!("its journal stays in mode {mode}")));
    }
    schema::migrate(&mut connection, path, &MIGRATIONS)?;
    Ok(connection)
}

/// Returns a busy handler. It gets the number of its earlier calls for the same lock, waits a millisecond, and returns
/// whether to try again: for at most `patience`.
///
/// SQLite's own handler tries less and less often, down to ten times a second, and so hardly ever hits the gap between
/// two writes of a process that writes many facts.
pub(crate) fn waiting(patience: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    move |asked| {
        thread::sleep(Duration::from_millis(1));
        u128::from(asked.unsigned_abs()) < patience.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_tried_again_every_millisecond_while_patience_lasts() {
        let tries = |millis| {
            let mut again = waiting(Duration::from_millis(millis));
            (0..).take_while(|&asked| again(asked)).count()
        };
        assert_eq!([tries(0), tries(1), tries(7)], [0, 1, 7]);
    }
}
