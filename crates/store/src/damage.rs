//! Replaces a damaged store.
//!
//! **Problem.** Rampart runs on machines with bad memory, where files rot. A damaged store may hold the only trace of a
//! bad frame. **Idea.** A new store is built beside the damaged one from every readable row, then takes its place; the
//! damaged file keeps its bytes under another name, for ever. **Why in this order.** Up to the last step the store's
//! name still leads to the damaged file, so a crash, or a full disk, at any instant leaves the old state, or one copy
//! too many.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rampart_memory::Timestamp;
use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::connection::connect;
use crate::error::At;
use crate::fact::Fact;
use crate::history::TestRecord;
use crate::place::{COMPANIONS, beside, sync};
use crate::sighting::Sighting;

/// A damaged store that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its present path.
    pub path: PathBuf,
    /// Its damage.
    pub why: String,
    /// Facts (sightings of bad frames, tests) that the new store took over.
    pub salvaged: u64,
    /// Facts that were found and could not be read. Unreadable pages may hold more.
    pub unreadable: u64,
}

/// Replaces a damaged store by a sound one. No other process may have it open.
pub(crate) fn replace(path: &Path, why: String, now: Timestamp) -> Result<SetAside, Error> {
    let aside = free_name(path, now);
    for companion in COMPANIONS {
        present(fs::rename(beside(path, companion), beside(&aside, companion))).at(path)?;
    }
    let fresh = beside(path, ".new");
    for suffix in [""].into_iter().chain(COMPANIONS) {
        present(fs::remove_file(beside(&fresh, suffix))).at(path)?;
    }
    let (salvaged, unreadable) = rebuild(path, &fresh)?;
    // Where a file cannot have a second name, there is an instant without a store; the next start would create an empty
    // one.
    fs::hard_link(path, &aside).or_else(|_| fs::rename(path, &aside)).at(path)?;
    fs::rename(&fresh, path).at(path)?;
    sync(path.parent().expect("a file lies in a folder")).at(path)?;
    Ok(SetAside { path: aside, why, salvaged, unreadable })
}

/// `NAME.corrupt-MICROSECONDS`, with a number at its end if that is taken.
fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let first = beside(path, format!(".corrupt-{}", now.micros()));
    let next = (2_u64..).map(|number| beside(&first, format!("-{number}")));
    let free = |name: &PathBuf| {
        let mut all = [""].into_iter().chain(COMPANIONS);
        all.all(|suffix| beside(name, suffix).symlink_metadata().is_err())
    };
    std::iter::once(first.clone()).chain(next).find(free).expect("some number is free")
}

/// Treats a missing file as success.
fn present(outcome: io::Result<()>) -> io::Result<()> {
    outcome.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Builds a new store from the readable parts of a damaged one. Returns how many facts could be read, and how many
/// could not.
fn rebuild(damaged: &Path, fresh: &Path) -> Result<(u64, u64), Error> {
    let mut new = connect(fresh)?;
    let transaction = new.transaction().at(fresh)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut unreadable = 0;
    if let Ok(old) = Connection::open_with_flags(damaged, flags) {
        unreadable += salvage::<Sighting>(&old, &transaction).at(fresh)?;
        unreadable += salvage::<TestRecord>(&old, &transaction).at(fresh)?;
    }
    let count = "SELECT (SELECT count(*) FROM failure) + (SELECT count(*) FROM test)";
    let salvaged: i64 = transaction.query_row(count, [], |row| row.get(0)).at(fresh)?;
    transaction.commit().at(fresh)?;
    Ok((salvaged.unsigned_abs(), unreadable))
}

/// Copies the readable rows of one table. Returns how many could not be read.
///
/// An unreadable page ends a scan, so a second scan comes from the other end.
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
