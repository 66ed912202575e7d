//! Replaces a damaged store.
//!
//! **Problem.** Rampart runs on machines whose memory may be bad, so files get damaged. A damaged store may still hold
//! the only record of a bad frame. **Idea.** A new store is built beside the damaged one from every readable row, then
//! takes its place; the damaged file keeps its bytes under another name, for ever. **Why in this order.** Up to the
//! last step the store's name refers to the damaged file, so that a crash, or a full disk, at any instant leaves
//! everything unchanged, or leaves an extra copy.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rampart_memory::Timestamp;
use rusqlite::Connection;

use crate::Error;
use crate::connection::{READ_ONLY, connect};
use crate::error::At;
use crate::fact::Fact;
use crate::history::TestRecord;
use crate::location::{COMPANIONS, beside, sync};
use crate::replica_errors::{NodeTest, StoredReplicaError};
use crate::sighting::Sighting;

/// A damaged store that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new path.
    pub path: PathBuf,
    /// The damage.
    pub why: String,
    /// Facts (sightings of bad frames, tests, errors of replicas) copied to the new store.
    pub salvaged: u64,
    /// Facts that were found but could not be read. There may be more on pages that could not be read at all.
    pub unreadable: u64,
}

/// Replaces a damaged store by a sound one. No other process may have it open.
pub(crate) fn replace(path: &Path, why: String, now: Timestamp) -> Result<SetAside, Error> {
    let aside = free_name(path, now);
    for companion in COMPANIONS {
        if_present(fs::rename(beside(path, companion), beside(&aside, companion))).at(path)?;
    }
    let new_path = beside(path, ".new");
    for suffix in [""].into_iter().chain(COMPANIONS) {
        if_present(fs::remove_file(beside(&new_path, suffix))).at(path)?;
    }
    let (salvaged, unreadable) = rebuild(path, &new_path)?;
    // If a file cannot have a second name, there is an instant without a store; a start at that instant would create an
    // empty one.
    fs::hard_link(path, &aside).or_else(|_| fs::rename(path, &aside)).at(path)?;
    fs::rename(&new_path, path).at(path)?;
    sync(path.parent().expect("a file lies in a folder")).at(path)?;
    Ok(SetAside { path: aside, why, salvaged, unreadable })
}

/// `NAME.corrupt-MICROSECONDS`, with a number appended if that name is taken.
fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let first = beside(path, format!(".corrupt-{}", now.micros()));
    let next = (2_u64..).map(|number| beside(&first, format!("-{number}")));
    let free = |name: &PathBuf| {
        let mut all = [""].into_iter().chain(COMPANIONS);
        all.all(|suffix| beside(name, suffix).symlink_metadata().is_err())
    };
    std::iter::once(first.clone()).chain(next).find(free).expect("some number is free")
}

/// Ignores the error that a file does not exist.
fn if_present(outcome: io::Result<()>) -> io::Result<()> {
    outcome.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes a new store from the readable facts of a damaged one. Returns how many facts were readable, and how many were
/// not.
fn rebuild(damaged: &Path, new_path: &Path) -> Result<(u64, u64), Error> {
    let mut new = connect(new_path)?;
    let transaction = new.transaction().at(new_path)?;
    let unreadable = match Connection::open_with_flags(damaged, READ_ONLY) {
        Ok(old) => salvage_all(&old, &transaction).at(new_path)?,
        Err(_) => 0,
    };
    let count = "SELECT (SELECT count(*) FROM failure) + (SELECT count(*) FROM test)
        + (SELECT count(*) FROM replica_error) + (SELECT count(*) FROM node_test)";
    let salvaged: i64 = transaction.query_row(count, [], |row| row.get(0)).at(new_path)?;
    transaction.commit().at(new_path)?;
    Ok((salvaged.unsigned_abs(), unreadable))
}

/// Copies the readable rows of all tables. Returns how many were unreadable.
fn salvage_all(old: &Connection, new: &Connection) -> rusqlite::Result<u64> {
    let unreadable = [
        salvage::<Sighting>(old, new)?,
        salvage::<TestRecord>(old, new)?,
        salvage::<StoredReplicaError>(old, new)?,
        salvage::<NodeTest>(old, new)?,
    ];
    Ok(unreadable.into_iter().sum())
}

/// Copies the readable rows of one table. Returns how many were unreadable.
///
/// An unreadable page ends a scan; so a second scan starts from the other end.
fn salvage<T: Fact>(old: &Connection, new: &Connection) -> rusqlite::Result<u64> {
    let mut bad = BTreeSet::new();
    for direction in ["ASC", "DESC"] {
        let order: Vec<_> = T::KEY.iter().map(|column| format!("{column} {direction}")).collect();
        let query = format!("SELECT * FROM {} ORDER BY {}", T::TABLE, order.join(", "));
        let Ok(mut statement) = old.prepare(&query) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            match T::decode(row) {
                Ok(fact) => fact.write(new)?,
                Err(_) => {
                    bad.insert(T::KEY.iter().map(|&column| format!("{:?}", row.get_ref(column))).collect::<Vec<_>>());
                }
            }
        }
    }
    Ok(u64::try_from(bad.len()).expect("a count in memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_does_not_exist_need_not_be_moved() {
        let failed = |kind| if_present(Err(io::Error::from(kind))).map_err(|error| error.kind());
        assert_eq!(failed(io::ErrorKind::NotFound), Ok(()));
        assert_eq!(failed(io::ErrorKind::PermissionDenied), Err(io::ErrorKind::PermissionDenied));
    }
}
