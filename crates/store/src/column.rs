//! Converts values to columns of a row and back.

use rampart_memory::Timestamp;
use rusqlite::Row;
use serde::de::DeserializeOwned;

/// column `{0}` holds {1}
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct Malformed(pub(crate) &'static str, pub(crate) String);

/// SQLite's integers have 63 bits and a sign. All real counts, sizes and timestamps fit (8 EiB, the year 294,000); a
/// larger value is stored as the largest that fits.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn natural(column: &'static str, value: i64) -> Result<u64, Malformed> {
    u64::try_from(value).map_err(|_| Malformed(column, value.to_string()))
}

pub(crate) fn moment(column: &'static str, value: i64) -> Result<Timestamp, Malformed> {
    natural(column, value).map(Timestamp::from_micros)
}

pub(crate) fn json<T: DeserializeOwned>(column: &'static str, text: &str) -> Result<T, Malformed> {
    serde_json::from_str(text).map_err(|error| Malformed(column, format!("invalid JSON: {error}")))
}

/// Returns the element of `all` whose spelling is `text`.
pub(crate) fn word<T: Copy, const N: usize>(
    column: &'static str,
    text: &str,
    all: [T; N],
    spelling: impl Fn(T) -> &'static str,
) -> Result<T, Malformed> {
    all.into_iter().find(|&one| spelling(one) == text).ok_or_else(|| Malformed(column, format!("{text:?}")))
}

/// Reads a column as the expected type.
pub(crate) fn column<T: rusqlite::types::FromSql>(row: &Row<'_>, name: &'static str) -> Result<T, Malformed> {
    row.get(name).map_err(|error| Malformed(name, error.to_string()))
}
