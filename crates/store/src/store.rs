//! The store: opens the database, writes facts and reads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rampart_memory::fault_map::{FailedFrame, FaultMap, MapOrigin, Retirement};
use rampart_memory::{Frame, ReplicaError, SuspectNode, Timestamp, suspect_nodes};
use rusqlite::{Connection, Params, Transaction, TransactionBehavior, params};

use crate::ages::{self, Age};
use crate::column::integer;
use crate::connection::{PATIENCE, connect, waiting};
use crate::error::At;
use crate::fact::Fact;
use crate::history::{self, TestEnd, TestId, TestRecord, TestStart};
use crate::location::{self, Lock};
use crate::replica_errors::{self, MOST_KEPT, NodeTest, StoredReplicaError};
use crate::schema;
use crate::sighting::{Sighting, origin_word, retirement_text, together};
use crate::{Error, SetAside, damage, reading};

/// Facts on the disk. Facts that a call has written when it returns survive `kill -9` and power loss. Several processes
/// may have one store open; each waits up to 5 s for the others.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    // Both are dropped after the connection is.
    _lock: Option<Lock>,
    _copy: Option<reading::Copy>,
    /// Why the store cannot be written, if it is read-only.
    read_only: Option<Box<Error>>,
}

/// An opened store.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// The damaged store that was set aside, if there was one.
    pub set_aside: Option<SetAside>,
}

/// A frame that a person declared good again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// When.
    pub at: Timestamp,
    /// The facts that were known about it.
    pub failed: FailedFrame,
}

impl Store {
    /// Opens a store, and creates it and its folders (mode 0755) if it does not exist. A damaged store is set aside as
    /// `NAME.corrupt-MICROSECONDS`, named after `now`, with its bytes untouched; its readable facts are copied to the
    /// new store. A file of unknown content counts as a damaged store only if its name ends in `.db`.
    ///
    /// # Errors
    /// If there cannot be a store at `path`: it is not a regular file, cannot be written, has a newer schema, belongs
    /// to another program, or is busy with another process. An existing file is left unchanged.
    pub fn open(path: &Path, now: Timestamp) -> Result<Opened, Error> {
        Self::open_within(path, now, PATIENCE)
    }

    pub(crate) fn open_within(path: &Path, now: Timestamp, patience: Duration) -> Result<Opened, Error> {
        let path = location::prepare(path)?;
        let lock = Lock::shared(&path, patience)?;
        match open_sound(&path) {
            Ok(connection) => {
                let store = Self::to_write(connection, path, lock);
                return Ok(Opened { store, set_aside: None });
            }
            Err(Error::Damaged(..)) => drop(lock),
            Err(other) => return Err(other),
        }
        let set_aside = repair(&path, now, patience)?;
        let lock = Lock::shared(&path, patience)?;
        let store = Self::to_write(open_sound(&path)?, path, lock);
        Ok(Opened { store, set_aside })
    }

    fn to_write(connection: Connection, path: PathBuf, lock: Lock) -> Self {
        Self { connection, path, _lock: Some(lock), _copy: None, read_only: None }
    }

    /// Opens a store as [`Store::open`] does; an existing store that cannot be written is opened read-only. No fact in
    /// it is lost: an interrupted change is completed in a copy.
    ///
    /// # Errors
    /// As [`Store::open`]; also if there is no store and none can be created, or if there is no space to complete a
    /// change.
    pub fn open_to_read(path: &Path, now: Timestamp) -> Result<Opened, Error> {
        let why = match Self::open(path, now) {
            Err(why @ (Error::Unwritable(..) | Error::Full(_))) => why,
            other => return other,
        };
        let Ok(path) = path.canonicalize() else { return Err(why) };
        if !path.is_file() {
            return Err(why);
        }
        let (connection, copy) = reading::open(&path)?;
        let store = Self { connection, path, _lock: None, _copy: copy, read_only: Some(Box::new(why)) };
        Ok(Opened { store, set_aside: None })
    }

    /// Why the store cannot be written, if it was opened read-only.
    #[must_use]
    pub fn read_only(&self) -> Option<&Error> {
        self.read_only.as_deref()
    }

    /// The absolute path of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets how long calls wait for other processes.
    pub(crate) fn wait_at_most(&mut self, patience: Duration) -> Result<(), Error> {
        self.connection.busy_handler(Some(waiting(patience))).at(&self.path)
    }

    /// Limits the database to this many pages, as a disk of that size would.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u32) {
        let limit = |pages| self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        limit(pages).unwrap();
    }

    /// Writes one test's findings on a frame, in place of the same test's earlier findings. See
    /// [`Store::keep_failures`].
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn keep_failure(&mut self, test: Option<TestId>, origin: MapOrigin, failed: &FailedFrame) -> Result<(), Error> {
        self.keep_failures(test, [(origin, failed)])
    }

    /// Writes one test's findings on some frames, all or none: `failed` holds all findings of *this test* since its
    /// beginning and no others, so a test's `FaultMap` starts empty. The counts of different tests are added when read.
    /// `test` is `None` if a person condemned the frames. The frames' retirement applies to the findings of all tests.
    ///
    /// Costs five syncs of the disk, however many frames there are.
    ///
    /// # Errors
    /// If the facts are not on the disk.
    pub fn keep_failures<'a>(
        &mut self,
        test: Option<TestId>,
        failed: impl IntoIterator<Item = (MapOrigin, &'a FailedFrame)>,
    ) -> Result<(), Error> {
        let test = test.map_or(0, TestId::get);
        self.write(|transaction| {
            for (origin, failed) in failed {
                Sighting { origin, test, forgotten: Timestamp::default(), failed: failed.clone() }
                    .write(transaction)?;
                retire(transaction, origin, failed.frame, &failed.retirement)?;
            }
            Ok(())
        })
    }

    /// Writes the retirement of a bad frame. Returns all known facts about it, or `None` if it is not bad.
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn keep_retirement(&mut self, frame: Frame, retirement: &Retirement) -> Result<Option<FailedFrame>, Error> {
        self.write(|transaction| retire(transaction, MapOrigin::Real, frame, retirement))?;
        self.failure(frame)
    }

    /// Reads all bad frames of one origin.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn failures(&self, origin: MapOrigin) -> Result<FaultMap, Error> {
        let query = "SELECT * FROM failure WHERE origin = ? AND forgotten = 0 ORDER BY frame, test";
        let mut map = FaultMap::new(origin);
        for sighting in self.read::<Sighting>(query, [origin_word(origin)])? {
            let known = map.forget(sighting.failed.frame);
            map.insert(add(known, sighting.failed));
        }
        Ok(map)
    }

    /// Reads the known facts about a frame with real errors, if it is bad.
    fn failure(&self, frame: Frame) -> Result<Option<FailedFrame>, Error> {
        let query = "SELECT * FROM failure WHERE origin = 'real' AND forgotten = 0 AND frame = ? ORDER BY test";
        let sightings = self.read::<Sighting>(query, [integer(frame.number())])?;
        Ok(sightings.into_iter().fold(None, |known, sighting| Some(add(known, sighting.failed))))
    }

    /// Forgets a frame with real errors, because a person declared at `at` that it is good again. Returns the facts
    /// that were known about it, if it was bad; these stay in the store, see [`Store::forgotten`].
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn forget(&mut self, frame: Frame, at: Timestamp) -> Result<Option<FailedFrame>, Error> {
        let known = self.failure(frame)?;
        let update = "UPDATE OR REPLACE failure SET forgotten = ?
            WHERE origin = 'real' AND frame = ? AND forgotten = 0";
        let at = integer(at.micros()).max(1);
        self.write(|transaction| transaction.execute(update, params![at, integer(frame.number())]))?;
        Ok(known)
    }

    /// Reads the forgotten frames, in the order in which they were forgotten.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn forgotten(&self) -> Result<Vec<Forgotten>, Error> {
        let query = "SELECT * FROM failure WHERE forgotten != 0 ORDER BY test";
        let mut known = BTreeMap::new();
        for sighting in self.read::<Sighting>(query, [])? {
            let key = (sighting.forgotten, sighting.failed.frame);
            let before = known.remove(&key);
            known.insert(key, add(before, sighting.failed));
        }
        Ok(known.into_iter().map(|((at, _), failed)| Forgotten { at, failed }).collect())
    }

    /// Writes the start of a test. Returns its number.
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn begin_test(&mut self, start: &TestStart) -> Result<TestId, Error> {
        self.write(|transaction| history::begin(transaction, start))
    }

    /// Writes the start of a test whose number comes from the previous store at this path.
    pub(crate) fn resume_test(&mut self, test: TestId, start: &TestStart) -> Result<(), Error> {
        self.write(|transaction| history::insert(transaction, test, start))
    }

    /// Writes the end of a test.
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn finish_test(&mut self, test: TestId, end: &TestEnd) -> Result<(), Error> {
        if self.write(|transaction| history::finish(transaction, test, end))? {
            return Ok(());
        }
        Err(Error::damaged(&self.path, &format!("the start of test {test} is missing")))
    }

    /// Reads the last tests, the newest first, at most `limit`.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn history(&self, limit: usize) -> Result<Vec<TestRecord>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read("SELECT * FROM test ORDER BY id DESC LIMIT ?", [limit])
    }

    /// Reads the stored times of the last tests of frames.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn ages(&self) -> Result<Vec<Age>, Error> {
        self.read("SELECT * FROM age ORDER BY first", [])
    }

    /// Replaces all stored times of the last tests of frames.
    pub(crate) fn keep_ages(&mut self, ages: &[Age]) -> Result<(), Error> {
        self.write(|transaction| ages::replace(transaction, ages))
    }

    /// Writes what replicas had wrong in a job, all or nothing.
    ///
    /// # Errors
    /// If the facts are not on the disk.
    pub fn keep_replica_errors(&mut self, errors: &[ReplicaError]) -> Result<(), Error> {
        self.write(|transaction| replica_errors::add(transaction, errors, MOST_KEPT))
    }

    /// Reads what replicas had wrong, in the order in which it was written.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn replica_errors(&self) -> Result<Vec<ReplicaError>, Error> {
        let stored = self.read::<StoredReplicaError>("SELECT * FROM replica_error ORDER BY id", [])?;
        Ok(stored.into_iter().map(|stored| stored.error).collect())
    }

    /// Writes that a complete test of a node's memory, which began at `began`, has ended.
    ///
    /// # Errors
    /// If the fact is not on the disk.
    pub fn keep_node_test(&mut self, node: &str, began: Timestamp) -> Result<(), Error> {
        let earlier = self.node_tests()?.get(node).copied();
        let began = earlier.map_or(began, |earlier| earlier.max(began));
        self.write(|transaction| NodeTest { node: node.to_owned(), began }.write(transaction))
    }

    fn node_tests(&self) -> Result<BTreeMap<String, Timestamp>, Error> {
        let tests = self.read::<NodeTest>("SELECT * FROM node_test", [])?;
        Ok(tests.into_iter().map(|test| (test.node, test.began)).collect())
    }

    /// The nodes that are suspect now.
    ///
    /// # Errors
    /// If the facts cannot be read.
    pub fn suspect_nodes(&self, now: Timestamp) -> Result<Vec<SuspectNode>, Error> {
        Ok(suspect_nodes(&self.replica_errors()?, &self.node_tests()?, now))
    }

    /// Runs `change` and makes it durable, completely or not at all.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        // Immediate: otherwise two writers that both began by reading would block each other.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).at(&self.path)?;
        let outcome = change(&transaction).at(&self.path)?;
        transaction.commit().at(&self.path)?;
        Ok(outcome)
    }

    fn read<T: Fact>(&self, query: &str, parameters: impl Params) -> Result<Vec<T>, Error> {
        let mut statement = self.connection.prepare_cached(query).at(&self.path)?;
        let mut rows = statement.query(parameters).at(&self.path)?;
        let mut facts = Vec::new();
        while let Some(row) = rows.next().at(&self.path)? {
            facts.push(T::decode(row).at(&self.path)?);
        }
        Ok(facts)
    }
}

fn add(known: Option<FailedFrame>, more: FailedFrame) -> FailedFrame {
    match known {
        Some(known) => together(known, more),
        None => more,
    }
}

/// Sets the last known retirement in all sightings of a frame that is not forgotten.
fn retire(
    transaction: &Transaction<'_>,
    origin: MapOrigin,
    frame: Frame,
    retirement: &Retirement,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE failure SET retirement = ? WHERE origin = ? AND frame = ? AND forgotten = 0")?
        .execute(params![retirement_text(retirement), origin_word(origin), integer(frame.number())])
        .map(|_| ())
}

/// Replaces a damaged store, unless another process has already done so.
fn repair(path: &Path, now: Timestamp, patience: Duration) -> Result<Option<SetAside>, Error> {
    let _alone = Lock::exclusive(path, patience)?;
    match open_sound(path) {
        // The user may have given another file by mistake, such as a shell history or /etc/passwd.
        Err(Error::Damaged(..)) if path.extension().is_none_or(|extension| extension != "db") => {
            Err(Error::Foreign(path.to_owned()))
        }
        Err(Error::Damaged(_, why)) => damage::replace(path, why, now).map(Some),
        other => other.map(|_| None),
    }
}

/// Opens a connection to a store, checks it, and brings it to the newest schema.
fn open_sound(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path)?;
    schema::check(&connection, path)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::config::DbConfig;
    use std::sync::mpsc;

    #[test]
    fn a_fact_is_synced_before_it_counts_as_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("r.db"), Timestamp::from_micros(1)).unwrap().store;
        let setting = |pragma| {
            let value =
                store.connection.pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0));
            value.unwrap()
        };
        assert_eq!(setting("synchronous"), 3.into(), "EXTRA");
        assert_eq!(setting("journal_mode"), "delete".to_owned().into());
    }

    /// <https://sqlite.org/security.html>, 1.2.
    #[test]
    fn a_forged_file_is_read_with_care() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("r.db"), Timestamp::from_micros(1)).unwrap().store;
        let is_on = |option| store.connection.db_config(option).unwrap();
        assert!(is_on(DbConfig::SQLITE_DBCONFIG_DEFENSIVE) && !is_on(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
        let checks_cells = store.connection.pragma_query_value(None, "cell_size_check", |row| row.get(0));
        assert_eq!(checks_cells, Ok(true));
    }

    #[test]
    fn who_has_no_patience_does_not_wait_for_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let mut store = Store::open(&path, Timestamp::from_micros(1)).unwrap().store;
        store.wait_at_most(Duration::ZERO).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let (returned, is_over) = mpsc::channel();
        std::thread::scope(|scope| {
            // A call that waited would succeed in the end.
            scope.spawn(move || {
                let _ = is_over.recv_timeout(PATIENCE / 2);
                other.execute_batch("COMMIT").unwrap();
            });
            let refused = store.keep_node_test("n7", Timestamp::from_micros(2));
            returned.send(()).unwrap();
            assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
        });
    }
}
