//! What replicas of MPI ranks had wrong, a row each, and when the memory of nodes was tested.
//!
//! Rows are added by `rampart mpirun` only, all of a job at once. The newest [`MOST_KEPT`] stay, so that a program
//! whose replicas differ by themselves cannot fill the disk.

use rampart_memory::{ReplicaError, ReplicaErrorOrigin, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::Malformed;
use crate::column::{column, integer, moment, natural, word};
use crate::fact::Fact;

/// So many rows are kept.
pub(crate) const MOST_KEPT: u32 = 100_000;

const ORIGINS: [ReplicaErrorOrigin; 3] =
    [ReplicaErrorOrigin::Real, ReplicaErrorOrigin::Injected, ReplicaErrorOrigin::Spread];

const fn origin_word(origin: ReplicaErrorOrigin) -> &'static str {
    match origin {
        ReplicaErrorOrigin::Real => "real",
        ReplicaErrorOrigin::Injected => "injected",
        ReplicaErrorOrigin::Spread => "spread",
    }
}

/// An error with its place in the order in which errors were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredReplicaError {
    /// `None` before it is written.
    pub id: Option<i64>,
    pub error: ReplicaError,
}

fn number(row: &Row<'_>, name: &'static str) -> Result<Option<u64>, Malformed> {
    column::<Option<i64>>(row, name)?.map(|value| natural(name, value)).transpose()
}

fn small(row: &Row<'_>, name: &'static str) -> Result<Option<u32>, Malformed> {
    let narrow = |value: u64| u32::try_from(value).map_err(|_| Malformed(name, value.to_string()));
    number(row, name)?.map(narrow).transpose()
}

impl Fact for StoredReplicaError {
    const TABLE: &'static str = "replica_error";
    const KEY: &'static [&'static str] = &["id"];

    fn decode(row: &Row<'_>) -> Result<Self, Malformed> {
        let origin: String = column(row, "origin")?;
        let error = ReplicaError {
            at: moment("at", column(row, "at")?)?,
            job: moment("job", column(row, "job")?)?,
            node: column(row, "node")?,
            rank: small(row, "rank")?,
            replica: small(row, "replica")?,
            wrong_replica: small(row, "wrong_replica")?,
            what: column(row, "what")?,
            peer: number(row, "peer")?,
            tag: number(row, "tag")?,
            bytes: number(row, "bytes")?,
            first_difference: number(row, "first_difference")?,
            origin: word("origin", &origin, ORIGINS, origin_word)?,
        };
        Ok(Self { id: Some(column(row, "id")?), error })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { id, error } = self;
        connection
            .prepare_cached("INSERT OR REPLACE INTO replica_error VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                integer(error.at.micros()),
                integer(error.job.micros()),
                error.node,
                error.rank,
                error.replica,
                error.wrong_replica,
                error.what,
                error.peer.map(integer),
                error.tag.map(integer),
                error.bytes.map(integer),
                error.first_difference.map(integer),
                origin_word(error.origin),
            ])
            .map(|_| ())
    }
}

/// Adds the errors of a job, and drops the oldest of all if there are too many.
pub(crate) fn add(connection: &Connection, errors: &[ReplicaError], most: u32) -> rusqlite::Result<()> {
    for error in errors {
        StoredReplicaError { id: None, error: error.clone() }.write(connection)?;
    }
    let old = "DELETE FROM replica_error WHERE id <= (SELECT max(id) FROM replica_error) - ?";
    connection.execute(old, [most]).map(|_| ())
}

/// The memory of a node was tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeTest {
    pub node: String,
    /// When the last complete test of it began.
    pub began: Timestamp,
}

impl Fact for NodeTest {
    const TABLE: &'static str = "node_test";
    const KEY: &'static [&'static str] = &["node"];

    fn decode(row: &Row<'_>) -> Result<Self, Malformed> {
        Ok(Self { node: column(row, "node")?, began: moment("began", column(row, "began")?)? })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR REPLACE INTO node_test VALUES (?, ?)")?
            .execute(params![self.node, integer(self.began.micros())])
            .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    fn error(at: u64) -> ReplicaError {
        ReplicaError {
            at: Timestamp::from_micros(at),
            job: Timestamp::from_micros(7),
            node: Some("n7".to_owned()),
            rank: Some(3),
            replica: None,
            wrong_replica: Some(2),
            what: "message".to_owned(),
            peer: Some(1),
            tag: None,
            bytes: Some(80),
            first_difference: Some(3),
            origin: ReplicaErrorOrigin::Real,
        }
    }

    #[test]
    fn errors_come_back_in_their_order_and_a_test_clears_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let (path, now) = (folder.path().join("r.db"), Timestamp::from_micros(99));
        let mut store = Store::open(&path, now).unwrap().store;
        let errors =
            [error(5), ReplicaError { node: None, origin: ReplicaErrorOrigin::Injected, ..error(4) }, error(9)];
        store.keep_replica_errors(&errors).unwrap();
        drop(store);
        let mut store = Store::open(&path, now).unwrap().store;
        assert_eq!(store.replica_errors().unwrap(), errors);
        assert_eq!(store.suspect_nodes(now).unwrap()[0].errors, 2);
        store.keep_node_test("n7", Timestamp::from_micros(8)).unwrap();
        assert_eq!(store.suspect_nodes(now).unwrap(), []);
        store.keep_node_test("n7", Timestamp::from_micros(3)).unwrap();
        assert_eq!(store.suspect_nodes(now).unwrap(), [], "an older test does not take back what a newer one showed");
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection, std::path::Path::new("m"), &crate::schema::MIGRATIONS).unwrap();
        add(&connection, &[error(1), error(2), error(3)], 4).unwrap();
        add(&connection, &[error(4), error(5), error(6)], 4).unwrap();
        let query = "SELECT count(*), min(at) FROM replica_error";
        let kept: (i64, i64) = connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(kept, (4, 3));
    }

    #[test]
    fn what_no_job_writes_is_damage() {
        let connection = Connection::open_in_memory().unwrap();
        let columns =
            "id, at, job, node, rank, replica, wrong_replica, what, peer, tag, bytes, first_difference, origin";
        connection.execute_batch(&format!("CREATE TABLE replica_error ({columns})")).unwrap();
        let decode =
            || connection.query_row("SELECT * FROM replica_error", [], |row| Ok(StoredReplicaError::decode(row)));
        for bad in ["at = -1", "job = 'x'", "rank = 1 << 33", "bytes = -2", "what = NULL", "origin = 'magic'"] {
            StoredReplicaError { id: Some(1), error: error(1) }.write(&connection).unwrap();
            assert_eq!(decode().unwrap().unwrap().error, error(1));
            connection.execute_batch(&format!("UPDATE replica_error SET {bad}")).unwrap();
            assert!(decode().unwrap().is_err(), "{bad}");
            connection.execute_batch("DELETE FROM replica_error").unwrap();
        }
    }
}
