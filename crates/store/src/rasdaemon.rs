//! Reads the memory errors that rasdaemon recorded in its own database; never writes to it.
//!
//! **Problem.** On most servers rasdaemon listens to the kernel and stores every memory error with its address, also
//! from before Rampart was started. Rampart must not write to this database; moreover, rasdaemon does not wait for
//! readers: it drops an error that it must store while another process reads. **Idea.** Read the file's change counter,
//! which takes no lock, and query SQLite only if it changed; then read a few rows at a time, by their number. **Why by
//! number.** Its timestamps are whole seconds, in local time, as text: they do not distinguish two errors of one
//! second.
//!
//! Source: rasdaemon, db/ras-store-db.c and core/ras-mc-handler.c: table `mc_event`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_memory::{Bytes, ErrorBatch, McEvent, MemoryError, Severity, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ffi};

use crate::Error;
use crate::connection::READ_ONLY;

/// The default path of rasdaemon's database.
pub const DEFAULT_PATH: &str = "/var/lib/rasdaemon/ras-mc_event.db";

/// How long a call waits while rasdaemon locks its database.
const PATIENCE: Duration = Duration::from_millis(200);

/// Rows read under one lock, which takes well below a millisecond.
const ROWS_PER_LOCK: u32 = 64;

/// Rows of type `Info` are not errors.
const QUERY: &str =
    "SELECT id, timestamp, err_count, err_type, label, mc, top_layer, middle_layer, lower_layer, address,
    grain, syndrome FROM mc_event WHERE id > ?1 AND err_type IS NOT 'Info' ORDER BY id LIMIT ?2";

/// The start of a database file, up to its change counter and size.
type Header = [u8; 32];

/// Reads the errors in rasdaemon's database, each one once.
#[derive(Debug)]
pub struct Rasdaemon {
    path: PathBuf,
    since: Timestamp,
    /// The number of the last row read.
    last_id: i64,
    /// The file's header at the last reading.
    last_header: Option<Header>,
}

impl Rasdaemon {
    /// Opens the database at `path`, such as [`DEFAULT_PATH`], to read errors from `since` on.
    ///
    /// # Errors
    /// [`Error::Rasdaemon`] if it cannot be read or has no table of memory errors.
    pub fn open(path: &Path, since: Timestamp) -> Result<Self, Error> {
        let refuse = |why: &str| refusal(path, why);
        // SQLite treats a relative path that starts with `file:` as a URI.
        let path = std::path::absolute(path).map_err(|cause| refuse(&cause.to_string()))?;
        highest_id(&connect(&path)?).map_err(|cause| refuse(&cause.to_string()))?;
        // Its timestamps are whole seconds: an error in the second of `since` counts as new.
        let since = Timestamp::from_micros(since.micros() - since.micros() % 1_000_000);
        Ok(Self { path, since, last_id: 0, last_header: None })
    }

    /// Returns the errors recorded since the last call; at the first call, since the time given to [`Rasdaemon::open`].
    ///
    /// # Errors
    /// [`Error::Rasdaemon`] if they cannot be read now; a later call returns them.
    pub fn poll(&mut self) -> Result<ErrorBatch, Error> {
        let header = header(&self.path);
        if header.is_some() && header == self.last_header {
            return Ok(ErrorBatch::default());
        }
        let connection = connect(&self.path)?;
        let read = || -> rusqlite::Result<_> {
            // There are fewer rows than before: the database was created anew.
            let mut last = if highest_id(&connection)? < self.last_id { 0 } else { self.last_id };
            let mut batch = ErrorBatch::default();
            while let Some(read) = read_some(&connection, last, self.since, &mut batch)? {
                last = read;
            }
            Ok((last, batch))
        };
        let (last, batch) = read().map_err(|cause| refusal(&self.path, &cause.to_string()))?;
        (self.last_id, self.last_header) = (last, header);
        Ok(batch)
    }
}

fn refusal(path: &Path, why: &str) -> Error {
    Error::Rasdaemon(path.to_owned(), why.replace(char::is_control, " "))
}

fn connect(path: &Path) -> Result<Connection, Error> {
    let opened = Connection::open_with_flags(path, READ_ONLY).and_then(|connection| {
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    });
    opened.map_err(|cause| refusal(path, &cause.to_string()))
}

/// Reads the part of the file that changes with every write
/// (<https://sqlite.org/fileformat2.html#file_change_counter>); `None` if it cannot be read, or if the file has a
/// write-ahead log, whose readers do not block writers.
fn header(path: &Path) -> Option<Header> {
    const WRITE_VERSION: usize = 18;
    let mut header = Header::default();
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    (header[WRITE_VERSION] == 1).then_some(header)
}

/// The highest row number; 0 if there are no rows.
fn highest_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(id), 0) FROM mc_event", [], |row| row.get(0))
}

/// Reads up to [`ROWS_PER_LOCK`] rows after the row `last`. Returns the number of the last one, or `None` if there are
/// no more. Row numbers must ascend: in a damaged file the same rows might repeat forever.
fn read_some(
    connection: &Connection,
    last: i64,
    since: Timestamp,
    batch: &mut ErrorBatch,
) -> rusqlite::Result<Option<i64>> {
    let mut read = None;
    let mut statement = connection.prepare_cached(QUERY)?;
    let mut rows = statement.query((last, ROWS_PER_LOCK))?;
    while let Some(row) = rows.next()? {
        let id = row.get("id")?;
        if id <= read.unwrap_or(last) {
            let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some("its rows are out of order".to_owned())));
        }
        read = Some(id);
        match decode(row) {
            Some(error) if error.at < since => {}
            Some(error) => batch.errors.push(error),
            None => batch.unreadable += 1,
        }
    }
    Ok(read)
}

/// Decodes the error in a row; `None` if the row holds values that rasdaemon never writes.
fn decode(row: &Row<'_>) -> Option<MemoryError> {
    let integer = |name| row.get::<_, i64>(name).ok();
    let layer = |name| integer(name).unwrap_or(-1);
    let event = McEvent {
        at: moment(&text(row, "timestamp")?)?,
        severity: Severity::of_kernel_word(&text(row, "err_type")?)?,
        count: integer("err_count")?.try_into().ok()?,
        label: text(row, "label").unwrap_or_default(),
        controller: integer("mc")?.try_into().ok()?,
        layers: [layer("top_layer"), layer("middle_layer"), layer("lower_layer")],
        // SQLite's integers are signed.
        address: integer("address")?.cast_unsigned(),
        // The column holds the logarithm (`grain_bits`), not the value that the kernel prints.
        grain: integer("grain").and_then(|bits| 1_u64.checked_shl(bits.try_into().ok()?)).map(Bytes::new),
        syndrome: integer("syndrome").map_or(0, i64::cast_unsigned),
    };
    Some(event.into())
}

/// A column's text; invalid UTF-8 (a firmware's DIMM label may be anything) is replaced.
fn text(row: &Row<'_>, name: &str) -> Option<String> {
    match row.get_ref(name).ok()? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Parses a timestamp of rasdaemon, such as `2024-05-01 12:00:00 +0200`.
fn moment(text: &str) -> Option<Timestamp> {
    let moment = jiff::Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text).ok()?;
    u64::try_from(moment.as_microsecond()).ok().map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// 2024-05-01 10:00:00 UTC.
    const TEN: u64 = 1_714_557_600_000_000;

    /// The table as rasdaemon creates it.
    const TABLE: &str =
        "CREATE TABLE mc_event (id INTEGER PRIMARY KEY, timestamp TEXT, err_count INTEGER, err_type TEXT,
        err_msg TEXT, label TEXT, mc INTEGER, top_layer INTEGER, middle_layer INTEGER, lower_layer INTEGER,
        address INTEGER, grain INTEGER, syndrome INTEGER, driver_detail TEXT)";

    /// A fake rasdaemon that records errors.
    struct Daemon {
        folder: tempfile::TempDir,
        connection: Connection,
    }

    fn daemon() -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("ras-mc_event.db")).unwrap();
        connection.execute_batch(TABLE).unwrap();
        Daemon { folder, connection }
    }

    impl Daemon {
        fn path(&self) -> PathBuf {
            self.folder.path().join("ras-mc_event.db")
        }

        fn record(&self, timestamp: &str, count: i64, kind: &str, address: i64) {
            self.connection
                .execute(
                    "INSERT INTO mc_event VALUES (NULL, ?1, ?2, ?3, 'read', 'DIMM_A1', 0, 1, 0, -1, ?4, 3, 90, '')",
                    (timestamp, count, kind, address),
                )
                .unwrap();
        }

        /// Records this many corrected errors at once, at 10:00 UTC.
        fn corrected(&self, count: i64) {
            self.record("2024-05-01 12:00:00 +0200", count, "Corrected", 0x1234_5040);
        }
    }

    fn open(daemon: &Daemon, since: u64) -> Rasdaemon {
        Rasdaemon::open(&daemon.path(), Timestamp::from_micros(since)).unwrap()
    }

    /// The counts of the new errors.
    fn counts(reader: &mut Rasdaemon) -> Vec<u32> {
        reader.poll().unwrap().errors.iter().map(|error| error.count).collect()
    }

    /// Damages the file: each interior page leads to one and the same child
    /// (<https://sqlite.org/fileformat2.html#b_tree_pages>).
    fn tangle(path: &Path, page_bytes: usize) {
        const INTERIOR: u8 = 5;
        const HEADER: usize = 12;
        let mut file = fs::read(path).unwrap();
        let pages = file.chunks_exact_mut(page_bytes).filter(|page| page[0] == INTERIOR);
        let tangled = pages.map(|page| {
            let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
            let places = page[HEADER..HEADER + 2 * cells].chunks_exact(2);
            let places: Vec<_> = places.map(|place| usize::from(u16::from_be_bytes([place[0], place[1]]))).collect();
            let child: [u8; 4] = page[places[0]..places[0] + 4].try_into().unwrap();
            places.iter().for_each(|&place| page[place..place + 4].copy_from_slice(&child));
            page[8..HEADER].copy_from_slice(&child);
        });
        assert!(tangled.count() > 0, "there are enough rows");
        fs::write(path, file).unwrap();
    }

    #[test]
    fn a_damaged_file_whose_rows_come_again_and_again_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon { connection: Connection::open(folder.path().join("ras-mc_event.db")).unwrap(), folder };
        daemon.connection.execute_batch("PRAGMA page_size = 512").unwrap();
        daemon.connection.execute_batch(TABLE).unwrap();
        (0..200).for_each(|_| daemon.corrected(1));
        assert_eq!(counts(&mut open(&daemon, 0)).len(), 200);
        tangle(&daemon.path(), 512);
        let refused = open(&daemon, 0).poll().unwrap_err().to_string();
        assert!(refused.contains("out of order"), "{refused}");
    }

    #[test]
    fn an_error_is_read_as_rasdaemon_writes_it() {
        let daemon = daemon();
        daemon.corrected(2);
        let error = open(&daemon, 0).poll().unwrap().errors.remove(0);
        assert_eq!((error.at.micros(), error.severity, error.count), (TEN, Severity::Corrected, 2));
        assert_eq!((error.frame.unwrap().number(), error.line), (0x1_2345, Some(1)));
        assert_eq!((error.grain, error.syndrome), (Some(Bytes::new(8)), Some(90)));
        let place = error.place.unwrap();
        assert_eq!((place.label.as_str(), place.controller), ("DIMM_A1", Some(0)));
        assert_eq!((place.top, place.middle, place.lower), (Some(1), Some(0), None));
    }

    #[test]
    fn what_a_memory_controller_does_not_know_is_not_known() {
        let daemon = daemon();
        daemon.corrected(1);
        let unknown = "UPDATE mc_event SET label = NULL, top_layer = NULL, middle_layer = NULL, lower_layer = NULL,
            grain = NULL, syndrome = NULL";
        daemon.connection.execute_batch(unknown).unwrap();
        let error = open(&daemon, 0).poll().unwrap().errors.remove(0);
        let place = error.place.unwrap();
        assert_eq!((place.label.as_str(), place.top, place.middle, place.lower), ("", None, None, None));
        assert_eq!((error.grain, error.syndrome), (None, None));
    }

    #[test]
    fn each_error_from_a_moment_on_is_told_once() {
        let daemon = daemon();
        daemon.record("2024-05-01 09:59:59 +0000", 1, "Corrected", 0);
        daemon.record("2024-05-01 05:00:00 -0500", 2, "Deferred", 0);
        daemon.record("2024-05-01 12:00:00 +0200", 3, "Fatal", 0);
        daemon.record("2024-05-01 12:00:00 +0200", 4, "Info", 0);
        let mut reader = open(&daemon, TEN);
        assert_eq!(counts(&mut reader), [2, 3]);
        assert_eq!(counts(&mut reader), [0; 0]);
        daemon.corrected(5);
        assert_eq!(counts(&mut reader), [5], "of the same second");
    }

    #[test]
    fn an_error_of_the_second_in_which_reading_begins_is_told() {
        let daemon = daemon();
        daemon.corrected(1);
        assert_eq!(counts(&mut open(&daemon, TEN + 700_000)), [1]);
        assert_eq!(counts(&mut open(&daemon, TEN + 1_000_000)), [0; 0]);
    }

    #[test]
    fn many_errors_come_whole_and_in_order() {
        let daemon = daemon();
        daemon.connection.execute_batch("BEGIN").unwrap();
        (1..=200).for_each(|count| daemon.corrected(count));
        daemon.connection.execute_batch("COMMIT").unwrap();
        assert_eq!(counts(&mut open(&daemon, 0)), (1..=200).collect::<Vec<_>>());
    }

    #[test]
    fn a_database_that_is_being_written_is_read_and_nothing_is_missed() {
        let daemon = daemon();
        daemon.corrected(1);
        let mut reader = open(&daemon, 0);
        daemon.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        daemon.corrected(2);
        assert_eq!(counts(&mut reader), [1], "what is not committed is not there");
        daemon.connection.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
        let error = reader.poll().unwrap_err().to_string();
        assert!(error.contains("locked") && error.lines().count() == 1, "{error}");
        daemon.connection.execute_batch("COMMIT").unwrap();
        assert_eq!(counts(&mut reader), [2]);
    }

    #[test]
    fn a_database_that_did_not_change_is_not_touched() {
        let daemon = daemon();
        daemon.corrected(1);
        let mut reader = open(&daemon, 0);
        assert_eq!(counts(&mut reader), [1]);
        daemon.connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert_eq!(counts(&mut reader), [0; 0], "nobody can take a lock now, and none is needed");
    }

    #[test]
    fn reading_writes_nothing_and_keeps_no_lock() {
        let daemon = daemon();
        daemon.corrected(1);
        let before = fs::read(daemon.path()).unwrap();
        let mut reader = open(&daemon, 0);
        assert_eq!(counts(&mut reader), [1]);
        assert_eq!(fs::read(daemon.path()).unwrap(), before);
        assert_eq!(fs::read_dir(daemon.folder.path()).unwrap().count(), 1, "no journal, no lock");
        // rasdaemon does not wait.
        daemon.connection.busy_timeout(Duration::ZERO).unwrap();
        daemon.corrected(2);
        assert_eq!(counts(&mut reader), [2]);
    }

    #[test]
    fn a_database_with_a_write_ahead_log_is_read_too() {
        let daemon = daemon();
        daemon.connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        let mut reader = open(&daemon, 0);
        for count in 1..4 {
            daemon.corrected(i64::from(count));
            assert_eq!(counts(&mut reader), [count]);
            assert_eq!(counts(&mut reader), [0; 0], "each error is told once");
        }
    }

    #[test]
    fn a_database_that_began_anew_is_read_from_its_start() {
        let daemon = daemon();
        (1..=3).for_each(|count| daemon.corrected(count));
        let mut reader = open(&daemon, 0);
        assert_eq!(counts(&mut reader), [1, 2, 3]);
        daemon.connection.execute_batch("DELETE FROM mc_event").unwrap();
        daemon.corrected(7);
        assert_eq!(counts(&mut reader), [7]);
    }

    #[test]
    fn rows_that_hold_something_else_are_counted() {
        let daemon = daemon();
        daemon.record("yesterday", 1, "Corrected", 0);
        daemon.record("2024-05-01 12:00:00 +0200", -1, "Corrected", 0);
        daemon.record("2024-05-01 12:00:00 +0200", 1, "Unheard-of", 0);
        daemon.connection.execute_batch("INSERT INTO mc_event (label) VALUES (x'00ff')").unwrap();
        daemon.corrected(1);
        let batch = open(&daemon, 0).poll().unwrap();
        assert_eq!((batch.errors.len(), batch.unreadable), (1, 4));
    }

    #[test]
    fn what_is_no_database_of_rasdaemon_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, garbage, other) =
            (folder.path().join("absent"), folder.path().join("garbage"), folder.path().join("other"));
        fs::write(&garbage, "no database\n".repeat(100)).unwrap();
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title)").unwrap();
        for path in [&absent, &garbage, &other] {
            let error = Rasdaemon::open(path, Timestamp::default()).unwrap_err();
            assert!(matches!(error, Error::Rasdaemon(..)));
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
        assert!(!absent.exists(), "nothing is made");
    }
}
