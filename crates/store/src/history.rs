//! The history of tests: the parameters, the start and the end of each.
//!
//! A test is written when it begins, and again when it ends; a test without an end was interrupted, or still runs. Its
//! number is the time of its start in microseconds, or the next free number: so tests sort by age, and no number is
//! used twice, even if the test's row was lost to damage and only its sightings remain.

use std::fmt;

use rampart_memory::{Bytes, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Malformed;
use crate::column::{column, integer, json, moment, natural, word};
use crate::fact::Fact;

/// The number of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TestId(i64);

impl TestId {
    pub(crate) const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The start of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestStart {
    /// When.
    pub at: Timestamp,
    /// The march test in its notation.
    pub notation: String,
    /// Half the number of patterns.
    pub fidelity: u32,
    /// The address sequences.
    pub sequences: Vec<String>,
    /// The requested amount of memory; `None`: all free memory.
    pub requested: Option<Bytes>,
    /// The notation of the injected faults, if any.
    pub injected: Option<String>,
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEnding {
    /// The whole request was tested; no bad frame was found.
    Pass,
    /// Bad frames were found.
    Fail,
    /// No bad frame was found, but a part of the request was not tested.
    Incomplete,
}

/// The end of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestEnd {
    /// When.
    pub at: Timestamp,
    /// The outcome.
    pub outcome: TestEnding,
    /// Why a part of the request was not tested, if so.
    pub shortfall: Option<String>,
    /// Different frames tested completely at least once.
    pub frames_tested: u64,
    /// Bad frames found.
    pub bad_frames: u64,
    /// Frames found with injected faults only.
    pub emulated_frames: u64,
    /// Memory tested, each pass counted, per second.
    pub bytes_per_second: u64,
}

/// A test in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRecord {
    /// Its number.
    pub id: TestId,
    /// How it began.
    pub start: TestStart,
    /// How it ended; `None` if it was interrupted, or still runs.
    pub end: Option<TestEnd>,
}

const fn outcome_word(outcome: TestEnding) -> &'static str {
    match outcome {
        TestEnding::Pass => "pass",
        TestEnding::Fail => "fail",
        TestEnding::Incomplete => "incomplete",
    }
}

impl Fact for TestRecord {
    const TABLE: &'static str = "test";
    const KEY: &'static [&'static str] = &["id"];

    fn decode(row: &Row<'_>) -> Result<Self, Malformed> {
        let id = column(row, "id")?;
        if id < 1 {
            return Err(Malformed("id", format!("{id}")));
        }
        let requested: Option<i64> = column(row, "wanted")?;
        let start = TestStart {
            at: moment("started", column(row, "started")?)?,
            notation: column(row, "notation")?,
            fidelity: column(row, "fidelity")?,
            sequences: json("orders", &column::<String>(row, "orders")?)?,
            requested: requested.map(|bytes| natural("wanted", bytes)).transpose()?.map(Bytes::new),
            injected: column(row, "injected")?,
        };
        let ended: Option<i64> = column(row, "ended")?;
        let end = ended.map(|at| decode_end(moment("ended", at)?, row)).transpose()?;
        Ok(Self { id: TestId(id), start, end })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute("DELETE FROM test WHERE id = ?", [self.id.get()])?;
        insert(connection, self.id, &self.start)?;
        self.end.as_ref().map_or(Ok(()), |end| finish(connection, self.id, end).map(|_| ()))
    }
}

fn decode_end(at: Timestamp, row: &Row<'_>) -> Result<TestEnd, Malformed> {
    let text: String = column(row, "outcome")?;
    let count = |name| natural(name, column(row, name)?);
    Ok(TestEnd {
        at,
        outcome: word("outcome", &text, [TestEnding::Pass, TestEnding::Fail, TestEnding::Incomplete], outcome_word)?,
        shortfall: column(row, "shortfall")?,
        frames_tested: count("frames_tested")?,
        bad_frames: count("bad_frames")?,
        emulated_frames: count("emulated_frames")?,
        bytes_per_second: count("bytes_per_second")?,
    })
}

/// Writes the start of a test under the first free number from its start time on.
pub(crate) fn begin(connection: &Connection, start: &TestStart) -> rusqlite::Result<TestId> {
    let mut id = TestId(integer(start.at.micros()).max(1));
    while is_taken(connection, id)? {
        id.0 += 1;
    }
    insert(connection, id, start)?;
    Ok(id)
}

/// Whether a test has the number, or a sighting of a lost test.
fn is_taken(connection: &Connection, id: TestId) -> rusqlite::Result<bool> {
    let query = "SELECT 1 FROM test WHERE id = ?1 UNION ALL SELECT 1 FROM failure WHERE test = ?1";
    connection.query_row(query, [id.get()], |_| Ok(())).optional().map(|found| found.is_some())
}

/// Writes the start of a test under its number, unless it is there already.
pub(crate) fn insert(connection: &Connection, id: TestId, start: &TestStart) -> rusqlite::Result<()> {
    let orders = serde_json::to_string(&start.sequences).expect("names are plain data");
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO test (id, started, notation, fidelity, orders, wanted, injected)
            VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            id.get(),
            integer(start.at.micros()),
            start.notation,
            start.fidelity,
            orders,
            start.requested.map(|bytes| integer(bytes.get())),
            start.injected,
        ])
        .map(|_| ())
}

/// Writes the end of a test. Returns whether its start was there.
pub(crate) fn finish(connection: &Connection, id: TestId, end: &TestEnd) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE test SET ended = ?, outcome = ?, shortfall = ?, frames_tested = ?, bad_frames = ?,
                emulated_frames = ?, bytes_per_second = ? WHERE id = ?",
        )?
        .execute(params![
            integer(end.at.micros()),
            outcome_word(end.outcome),
            end.shortfall,
            integer(end.frames_tested),
            integer(end.bad_frames),
            integer(end.emulated_frames),
            integer(end.bytes_per_second),
            id.get(),
        ])?;
    Ok(changed > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Store};

    fn start(micros: u64) -> TestStart {
        TestStart {
            at: Timestamp::from_micros(micros),
            notation: "^(r0)".to_owned(),
            fidelity: 1,
            sequences: Vec::new(),
            requested: None,
            injected: None,
        }
    }

    fn end() -> TestEnd {
        TestEnd {
            at: Timestamp::from_micros(9),
            outcome: TestEnding::Pass,
            shortfall: None,
            frames_tested: 1,
            bad_frames: 0,
            emulated_frames: 0,
            bytes_per_second: 1,
        }
    }

    #[test]
    fn a_test_is_numbered_by_its_start_or_the_next_free_number_from_1_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let mut store = Store::open(&path, Timestamp::default()).unwrap().store;
        let numbers = [0, 1, 700, 700].map(|micros| store.begin_test(&start(micros)).unwrap().to_string());
        assert_eq!(numbers, ["1", "2", "700", "701"]);
        drop(store);
        let opened = Store::open(&path, Timestamp::default()).unwrap();
        assert_eq!((opened.store.history(9).unwrap().len(), opened.set_aside), (4, None));
    }

    #[test]
    fn the_end_of_a_test_without_a_start_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("r.db"), Timestamp::default()).unwrap().store;
        let test = store.begin_test(&start(700)).unwrap();
        store.finish_test(test, &end()).unwrap();
        let missing = store.finish_test(TestId(701), &end()).unwrap_err();
        assert!(matches!(&missing, Error::Damaged(_, why) if why.contains("test 701")), "{missing}");
    }
}
