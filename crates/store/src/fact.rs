//! What every row of the database has in common.

use rusqlite::{Connection, Row};

use crate::Malformed;

/// Something that is one row of a table.
pub(crate) trait Fact: Sized {
    /// The table.
    const TABLE: &'static str;
    /// Its primary key.
    const KEY: &'static [&'static str];

    /// Checks a row of the table.
    fn decode(row: &Row<'_>) -> Result<Self, Malformed>;

    /// Writes the row, in place of one with the same key.
    fn write(&self, connection: &Connection) -> rusqlite::Result<()>;
}
