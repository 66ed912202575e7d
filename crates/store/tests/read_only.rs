//! A store that cannot be written is read, and nothing in it is lost. A read-only file system is a mount in a mount
//! namespace of its own (`tests/end_to_end/read_only.rs`); here missing permissions have the same effect.

mod facts;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use facts::{NOW, failed, folder, frame, open};
use rampart_memory::fault_map::{MapOrigin, Retirement};
use rampart_store::{Error, Store};
use rusqlite::Connection;

/// What a complete journal begins with: <https://sqlite.org/fileformat2.html#the_rollback_journal>.
const JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A store with one bad frame, whose lock no process can take, not even root: a folder has its name.
fn unwritable(path: &Path) {
    open(path).keep_failure(None, MapOrigin::Real, &failed(7, 1)).unwrap();
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
}

fn read(path: &Path) -> Store {
    assert!(matches!(Store::open(path, NOW), Err(Error::Unwritable(..))));
    Store::open_to_read(path, NOW).unwrap().store
}

fn frames(store: &Store) -> Vec<u64> {
    store.failures(MapOrigin::Real).unwrap().iter().map(|failed| failed.frame.number()).collect()
}

#[test]
fn a_store_that_cannot_be_written_is_read_and_takes_nothing() {
    let folder = folder();
    // Characters with another meaning in a URI.
    let path = folder.path().join("r%20?#.db");
    unwritable(&path);
    let before = fs::read(&path).unwrap();
    let mut store = read(&path);
    assert_eq!(frames(&store), [7]);
    assert!(matches!(store.read_only(), Some(Error::Unwritable(..))));
    let refused = store.keep_retirement(frame(7), &Retirement::Offlined).unwrap_err();
    assert!(matches!(refused, Error::Unwritable(..)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn one_that_can_be_written_is_opened_for_that() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let mut store = Store::open_to_read(&path, NOW).unwrap().store;
    assert!(store.read_only().is_none());
    store.keep_failure(None, MapOrigin::Real, &failed(9, 1)).unwrap();
}

#[test]
fn no_store_where_none_can_be_made_is_an_error_and_not_an_empty_map() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = Store::open_to_read(&file.path().join("r.db"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Unwritable(..)), "{refused}");
}

/// Copies the files that SQLite has on the disk in the middle of a change, as a crash would leave them.
fn crash(from: &Path, to: &Path) {
    for suffix in ["", "-journal", "-wal"] {
        let name = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            name
        };
        let _absent = fs::copy(name(from), name(to));
    }
}

#[test]
fn a_write_ahead_log_with_content_is_read_too() {
    let folder = folder();
    let (path, crashed) = (folder.path().join("r.db"), folder.path().join("crashed.db"));
    unwritable(&crashed);
    drop(open(&path));
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
    writer
        .execute(
            "INSERT INTO failure VALUES ('real', 11, 0, 0, 'operator', -1, 1, 1, 0, '[]', '{\"state\":\"pending\"}')",
            [],
        )
        .unwrap();
    crash(&path, &crashed);
    // The files that a reader of a write-ahead log needs beside it cannot be created.
    fs::create_dir(folder.path().join("crashed.db-shm")).unwrap();
    assert_eq!(frames(&read(&crashed)), [11]);
}

#[test]
fn a_change_that_was_cut_off_is_undone_and_not_half_read() {
    let folder = folder();
    let (path, crashed) = (folder.path().join("r.db"), folder.path().join("crashed.db"));
    unwritable(&crashed);
    open(&path).keep_failure(None, MapOrigin::Real, &failed(7, 1)).unwrap();
    let writer = Connection::open(&path).unwrap();
    // With a cache of few pages, the change reaches the file before it is committed.
    writer.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE").unwrap();
    for number in 100..4000 {
        let row =
            "INSERT INTO failure VALUES ('real', ?, 0, 0, 'operator', -1, 1, 1, 0, '[]', '{\"state\":\"pending\"}')";
        writer.execute(row, [number]).unwrap();
    }
    crash(&path, &crashed);
    let journal = folder.path().join("crashed.db-journal");
    assert!(fs::read(&journal).unwrap().starts_with(&JOURNAL), "SQLite must apply the journal");
    for file in [&crashed, &journal] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    let before = fs::read(&crashed).unwrap();
    let mut store = read(&crashed);
    assert_eq!(frames(&store), [7]);
    // What were written to the copy would be lost.
    assert!(store.keep_retirement(frame(7), &Retirement::Offlined).is_err());
    assert_eq!(fs::read(&crashed).unwrap(), before);
}
