//! Opens connections to a database of the newest schema, configured for a file that may be forged.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::error::At;
use crate::schema::{self, MIGRATIONS};

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
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).at(path)?;
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

/// Returns a busy handler that tries again every millisecond, for at most `patience`.
///
/// SQLite's own handler tries less and less often, down to ten times a second, and so hardly ever hits the gap between
/// two writes of a process that writes many facts.
pub(crate) fn waiting(patience: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    const STEP: Duration = Duration::from_millis(1);
    move |asked| {
        thread::sleep(STEP);
        u128::from(asked.unsigned_abs()) < patience.as_millis() / STEP.as_millis()
    }
}
