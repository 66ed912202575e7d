//! The times of the last tests of frames, stored so that a restart need not test them again.
//!
//! **Problem.** There are as many ages as frames. **Idea.** Neighbouring frames were tested together, so a row is a run
//! of frames; all rows are replaced together. **Why no salvage.** A lost age costs only an unnecessary test: the ages
//! in a damaged store are not copied.

use rampart_memory::{Frame, FrameRange, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::Malformed;
use crate::column::{column, integer, moment, natural};
use crate::fact::Fact;

/// Frames that were tested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// The frames.
    pub frames: FrameRange,
    /// The time of the oldest of their last tests.
    pub tested: Timestamp,
}

impl Fact for Age {
    const TABLE: &'static str = "age";
    const KEY: &'static [&'static str] = &["first"];

    fn decode(row: &Row<'_>) -> Result<Self, Malformed> {
        let count = |name| natural(name, column(row, name)?);
        let (first, frames) = (count("first")?, count("frames")?);
        let range = Frame::new(first).and_then(|first| FrameRange::new(first, frames));
        let frames = range.ok_or_else(|| Malformed("frames", format!("{frames} from {first} on")))?;
        Ok(Self { frames, tested: moment("tested", column(row, "tested")?)? })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT OR REPLACE INTO age (first, frames, tested) VALUES (?, ?, ?)")?
            .execute(params![
                integer(self.frames.start().number()),
                integer(self.frames.count()),
                integer(self.tested.micros()),
            ])
            .map(|_| ())
    }
}

/// Replaces all stored ages.
pub(crate) fn replace(connection: &Connection, ages: &[Age]) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM age", [])?;
    ages.iter().try_for_each(|age| age.write(connection))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, FactWriter, Store, TestStart};

    fn age(first: u64, count: u64, tested: u64) -> Age {
        let frames = FrameRange::new(Frame::new(first).unwrap(), count).unwrap();
        Age { frames, tested: Timestamp::from_micros(tested) }
    }

    fn start() -> TestStart {
        TestStart {
            at: Timestamp::from_micros(1),
            notation: "^(r0)".to_owned(),
            fidelity: 1,
            sequences: Vec::new(),
            requested: None,
            injected: None,
        }
    }

    #[test]
    fn the_ages_kept_last_are_those_that_are_read_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let now = Timestamp::from_micros(9);
        let (mut writer, _) = FactWriter::begin(Store::open(&path, now).unwrap().store, start());
        assert!(matches!(writer.keep_ages(&[age(0, 512, 3), age(1024, 1, 5)], now), Durability::Durable));
        assert!(matches!(writer.keep_ages(&[age(7, 9, 8)], now), Durability::Durable));
        drop(writer);
        assert_eq!(Store::open(&path, now).unwrap().store.ages().unwrap(), [age(7, 9, 8)]);
    }

    #[test]
    fn a_run_beyond_the_last_frame_is_damage() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE age (first, frames, tested)").unwrap();
        age(3, 2, 1).write(&connection).unwrap();
        let decode = || connection.query_row("SELECT * FROM age", [], |row| Ok(Age::decode(row))).unwrap();
        assert_eq!(decode().unwrap(), age(3, 2, 1));
        for bad in ["frames = 0", "frames = 1 << 41", "first = -1", "tested = -5", "tested = 'x'"] {
            connection
                .execute_batch(&format!("UPDATE age SET first = 3, frames = 2, tested = 1; UPDATE age SET {bad}"))
                .unwrap();
            assert!(decode().is_err(), "{bad}");
        }
    }
}
