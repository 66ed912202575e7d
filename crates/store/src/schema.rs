//! The tables, their migrations, and the check of a file.
//!
//! **Problem.** A file may be new, ours, ours from an older or a newer version, another program's, or damaged; each
//! needs another answer. **Idea.** The file names its program (`application_id`) and the number of its migrations
//! (`user_version`); it is sound if SQLite finds its pages in order, its tables are those that the migrations create,
//! and every row decodes. **Why read every row at the start.** An unreadable fact is found when a person starts the
//! program, not when its frame fails again; the facts are few.

use std::path::Path;

use rusqlite::{Connection, Row, TransactionBehavior};

use crate::Error;
use crate::ages::Age;
use crate::error::At;
use crate::fact::Fact;
use crate::history::TestRecord;
use crate::replica_errors::{NodeTest, StoredReplicaError};
use crate::sighting::Sighting;

/// "Ramp" in ASCII; at offset 68 of the file, see <https://sqlite.org/fileformat2.html#database_header>.
const APPLICATION_ID: i64 = 0x5261_6d70;

/// Each entry makes a version of the schema from the previous one. Entries are only ever appended.
pub(crate) const MIGRATIONS: [&str; 3] = [
    "
    CREATE TABLE failure (
        origin     TEXT    NOT NULL CHECK (origin IN ('real', 'emulated')),
        frame      INTEGER NOT NULL,
        forgotten  INTEGER NOT NULL, -- when a person forgot it, in µs since the epoch; 0: it stands
        test       INTEGER NOT NULL, -- what saw it; 0: a person
        cause      TEXT    NOT NULL,
        lines      INTEGER NOT NULL,
        first_seen INTEGER NOT NULL,
        last_seen  INTEGER NOT NULL,
        mismatches INTEGER NOT NULL,
        evidence   TEXT    NOT NULL,
        retirement TEXT    NOT NULL, -- the same in all rows of a frame that stands
        PRIMARY KEY (origin, frame, forgotten, test)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE test (
        id               INTEGER PRIMARY KEY, -- its start in µs since the epoch, or the next free number
        started          INTEGER NOT NULL,
        notation         TEXT    NOT NULL,
        fidelity         INTEGER NOT NULL,
        orders           TEXT    NOT NULL,
        wanted           INTEGER,
        injected         TEXT,
        ended            INTEGER,             -- this and the next are NULL until it ends
        outcome          TEXT,
        shortfall        TEXT,
        frames_tested    INTEGER,
        bad_frames       INTEGER,
        emulated_frames  INTEGER,
        bytes_per_second INTEGER
    ) STRICT;
",
    "
    CREATE TABLE age (
        first  INTEGER PRIMARY KEY, -- the first of some frames that follow each other
        frames INTEGER NOT NULL,    -- how many they are
        tested INTEGER NOT NULL     -- when, in µs since the epoch
    ) STRICT;
",
    "
    CREATE TABLE replica_error (
        id               INTEGER PRIMARY KEY, -- in the order in which they were written
        at               INTEGER NOT NULL,    -- in µs since the epoch, as is the next
        job              INTEGER NOT NULL,    -- when the job began
        node             TEXT,                -- NULL, here and below: not known
        rank             INTEGER,
        replica          INTEGER,
        wrong_replica    INTEGER,
        what             TEXT    NOT NULL,
        peer             INTEGER,
        tag              INTEGER,
        bytes            INTEGER,
        first_difference INTEGER,
        origin           TEXT    NOT NULL CHECK (origin IN ('real', 'injected', 'spread'))
    ) STRICT;
    CREATE TABLE node_test (
        node  TEXT    PRIMARY KEY,
        began INTEGER NOT NULL -- when the last complete test of its memory began, in µs since the epoch
    ) STRICT, WITHOUT ROWID;
",
];

/// Brings a database to the newest schema, in one transaction.
///
/// # Errors
/// [`Error::Newer`], [`Error::Foreign`], [`Error::Damaged`], or an error if it cannot be read or written.
pub(crate) fn migrate(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), Error> {
    if version(connection, path, migrations.len())? == migrations.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).at(path)?;
    // Check again: another process may have been first.
    let seen = version(&transaction, path, migrations.len())?;
    for migration in &migrations[seen..] {
        transaction.execute_batch(migration).at(path)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).at(path)?;
    transaction.pragma_update(None, "user_version", i64::try_from(migrations.len()).expect("a few")).at(path)?;
    transaction.commit().at(path)
}

/// The number of migrations that the database has seen, at most `known`.
///
/// # Errors
/// [`Error::Newer`], [`Error::Foreign`], [`Error::Damaged`], or an error if it cannot be read.
pub(crate) fn version(connection: &Connection, path: &Path, known: usize) -> Result<usize, Error> {
    // One statement reads one state: another process may be migrating.
    let query = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
        FROM pragma_application_id, pragma_user_version";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?));
    match connection.query_row(query, [], read).at(path)? {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, seen, _) => match usize::try_from(seen) {
            Ok(seen) if seen > known => Err(Error::Newer(path.to_owned(), seen, known)),
            Ok(seen) if seen > 0 => Ok(seen),
            _ => Err(Error::damaged(path, &format!("schema {seen}"))),
        },
        _ => Err(Error::Foreign(path.to_owned())),
    }
}

/// Checks that the database has the newest schema, and that every fact can be read.
///
/// # Errors
/// [`Error::Damaged`] if not; another error if it cannot be read now.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let verdict: String = connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).at(path)?;
    if verdict != "ok" {
        return Err(Error::damaged(path, &verdict));
    }
    let mut made = Connection::open_in_memory().at(path)?;
    migrate(&mut made, path, &MIGRATIONS)?;
    if definitions(connection).at(path)? != definitions(&made).at(path)? {
        return Err(Error::damaged(path, "its tables are not Rampart's"));
    }
    check_rows::<Sighting>(connection, path)?;
    check_rows::<TestRecord>(connection, path)?;
    check_rows::<Age>(connection, path)?;
    check_rows::<StoredReplicaError>(connection, path)?;
    check_rows::<NodeTest>(connection, path)
}

fn definitions(connection: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    connection
        .prepare(
            "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

fn check_rows<T: Fact>(connection: &Connection, path: &Path) -> Result<(), Error> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {}", T::TABLE)).at(path)?;
    let mut rows = statement.query([]).at(path)?;
    while let Some(row) = rows.next().at(path)? {
        T::decode(row).at(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(connection: &Connection) -> Vec<String> {
        definitions(connection).unwrap().into_iter().map(|(_, name, _)| name).collect()
    }

    #[test]
    fn migrations_run_in_order_each_once() {
        let steps = ["CREATE TABLE a (x)", "ALTER TABLE a RENAME TO b", "CREATE TABLE c (x)"];
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("m");
        for (known, expected) in [(1, &["a"][..]), (1, &["a"]), (2, &["b"]), (3, &["b", "c"]), (3, &["b", "c"])] {
            migrate(&mut connection, path, &steps[..known]).unwrap();
            assert_eq!(tables(&connection), expected);
        }
        assert!(matches!(migrate(&mut connection, path, &steps[..2]), Err(Error::Newer(_, 3, 2))));
        assert_eq!(tables(&connection), ["b", "c"], "a newer database is left as it is");
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("m");
        assert!(migrate(&mut connection, path, &["CREATE TABLE a (x)", "no SQL"]).is_err());
        assert_eq!(tables(&connection), [""; 0]);
        assert_eq!(version(&connection, path, 2).unwrap(), 0);
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE songs (title)").unwrap();
        let refused = migrate(&mut connection, Path::new("m"), &MIGRATIONS);
        assert!(matches!(refused, Err(Error::Foreign(_))));
        assert_eq!(tables(&connection), ["songs"]);
    }

    #[test]
    fn no_rampart_wrote_a_store_of_schema_0_or_less() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("m");
        migrate(&mut connection, path, &MIGRATIONS).unwrap();
        for seen in [0, -1] {
            connection.pragma_update(None, "user_version", seen).unwrap();
            assert!(matches!(version(&connection, path, 3), Err(Error::Damaged(..))), "{seen}");
        }
    }

    #[test]
    fn a_store_of_any_earlier_schema_becomes_one_of_the_newest() {
        for seen in 0..MIGRATIONS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            let path = Path::new("m");
            migrate(&mut connection, path, &MIGRATIONS[..seen]).unwrap();
            migrate(&mut connection, path, &MIGRATIONS).unwrap();
            check(&connection, path).unwrap();
        }
    }

    #[test]
    fn the_newest_schema_checks_out_and_any_other_does_not() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("m");
        migrate(&mut connection, path, &MIGRATIONS).unwrap();
        check(&connection, path).unwrap();
        connection.execute_batch("ALTER TABLE test ADD COLUMN colour TEXT").unwrap();
        assert!(matches!(check(&connection, path), Err(Error::Damaged(..))));
    }
}
