//! The common interface of all rows of the database.

use rusqlite::{Connection, Row};

use crate::Malformed;

/// A fact that is one row of a table.
pub(crate) trait Fact: Sized {
    /// The table.
    const TABLE: &'static str;
    /// Its primary key.
    const KEY: &'static [&'static str];

    /// Checks and decodes a row of the table.
    fn decode(row: &Row<'_>) -> Result<Self, Malformed>;

    /// Writes the row, and replaces a row with the same key.
    fn write(&self, connection: &Connection) -> rusqlite::Result<()>;
}
