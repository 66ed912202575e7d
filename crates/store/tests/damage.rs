//! Whatever a file holds, opening it never panics, never loses a byte of it, and saves all readable facts.

mod facts;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use facts::{NOW, any_evidence, at, end, failed, folder, frame, open, open_damaged, replica_error, start};
use proptest::collection::vec;
use proptest::prelude::*;
use rampart_memory::fault_map::{FaultMap, MapOrigin};
use rampart_store::{Error, FailureRow, Store};
use rusqlite::Connection;

/// The bytes of a store with some pages of facts, and these facts.
static SAMPLE: LazyLock<(Vec<u8>, FaultMap)> = LazyLock::new(|| {
    let folder = folder();
    let path = folder.path().join("r.db");
    let mut store = open(&path);
    for number in 0..3 {
        let test = store.begin_test(&start(number)).unwrap();
        let seen: Vec<_> = (0..8).map(|which| failed(10 * number + which, 3)).collect();
        store.keep_failures(Some(test), seen.iter().map(|failed| (MapOrigin::Real, failed))).unwrap();
        store.finish_test(test, &end(number)).unwrap();
    }
    let map = store.failures(MapOrigin::Real).unwrap();
    (fs::read(&path).unwrap(), map)
});

/// Makes a store at `path` with one frame that one test saw, and a second connection to it.
fn small(path: &Path) -> Connection {
    let mut store = open(path);
    let test = store.begin_test(&start(0)).unwrap();
    store.keep_failure(Some(test), MapOrigin::Real, &failed(7, 2)).unwrap();
    store.finish_test(test, &end(1)).unwrap();
    Connection::open(path).unwrap()
}

fn set_aside_files(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut aside: Vec<_> = names.filter(|path| path.to_str().unwrap().contains(".corrupt-")).collect();
    aside.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    aside
}

/// Opens a store that holds `bytes`. Every fact must be there, or the bytes set aside untouched, or both; a sound store
/// takes its place. Returns how many frames there are.
fn open_bytes(path: &Path, bytes: &[u8]) -> Result<usize, Error> {
    fs::write(path, bytes).unwrap();
    let opened = match Store::open(path, NOW) {
        Ok(opened) => opened,
        Err(refusal) => {
            assert_eq!(fs::read(path).unwrap(), bytes, "a refusal leaves the file as it is");
            return Err(refusal);
        }
    };
    let found = opened.store.failures(MapOrigin::Real).unwrap().len();
    drop(opened.store);
    if let Some(aside) = opened.set_aside {
        assert_eq!(fs::read(&aside.path).unwrap(), bytes);
        fs::remove_file(aside.path).unwrap();
    }
    assert_eq!(open(path).failures(MapOrigin::Real).unwrap().len(), found);
    Ok(found)
}

#[test]
fn a_store_cut_off_anywhere_is_set_aside_with_its_bytes() {
    let (bytes, map) = &*SAMPLE;
    let folder = folder();
    let path = folder.path().join("r.db");
    let cuts = (0..bytes.len()).step_by(512).chain([1, 15, 16, 99, 100, 101, 511, bytes.len() - 1]);
    let mut salvaged = 0;
    for cut in cuts {
        let found = open_bytes(&path, &bytes[..cut]).unwrap();
        assert!(found < map.len(), "{cut} of {} bytes do not hold all", bytes.len());
        salvaged = salvaged.max(found);
    }
    assert!(salvaged >= map.len() / 2, "{salvaged} of {} salvaged at best", map.len());
    assert_eq!(open_bytes(&path, bytes).unwrap(), map.len());
    assert_eq!(set_aside_files(folder.path()).len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn flipped_bytes_never_panic_and_never_lose_the_file(
        flips in vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
        in_header in any::<bool>(),
    ) {
        let (sample, _) = &*SAMPLE;
        let mut bytes = sample.clone();
        for (place, flip) in flips {
            let place = place.index(if in_header { 100 } else { bytes.len() });
            bytes[place] ^= flip;
        }
        let folder = folder();
        let path = folder.path().join("r.db");
        match open_bytes(&path, &bytes) {
            // The bytes of the application ID and of the schema version may be among the flipped ones.
            Ok(_) | Err(Error::Foreign(_) | Error::Newer(..)) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn a_file_of_garbage_is_set_aside(bytes in vec(any::<u8>(), 1..5000)) {
        let folder = folder();
        prop_assert_eq!(open_bytes(&folder.path().join("r.db"), &bytes).unwrap(), 0);
    }

    /// The same property as the fuzz target of the stored map.
    #[test]
    fn any_columns_decode_or_are_refused(
        frame in any::<i64>(), cause in "march-test|operator|.*", lines in any::<i64>(),
        seen in any::<(i64, i64)>(), mismatches in any::<i64>(),
        evidence in prop_oneof![
            any::<String>(),
            Just("[".repeat(100_000)),
            vec(any_evidence(), 0..12).prop_map(|list| serde_json::to_string(&list).unwrap()),
        ],
        retirement in r#"\{"state":"(pending|offlined|refused)"\}|.*"#,
    ) {
        let (first_seen, last_seen) = seen;
        let row = FailureRow { frame, cause, lines, first_seen, last_seen, mismatches, evidence, retirement };
        match row.decode() {
            Ok(failed) => prop_assert_eq!(FailureRow::encode(&failed).decode().unwrap(), failed),
            Err(refusal) => prop_assert_eq!(refusal.to_string().lines().count(), 1),
        }
    }
}

#[test]
fn a_row_that_no_rampart_wrote_is_left_behind_and_the_others_saved() {
    let spoilt = [
        "frame = -1",
        "frame = 1 << 40",
        "frame = 9223372036854775807",
        "forgotten = -1",
        "cause = 'nobody'",
        "first_seen = -5",
        "last_seen = first_seen - 1",
        "mismatches = -1",
        "evidence = 'garbage'",
        "evidence = '{}'",
        "evidence = '[null]'",
        "evidence = CAST(x'ff00fe' AS TEXT)",
        "evidence = json_set(evidence, '$[0].line', 64)",
        "evidence = json_set(evidence, '$[0].line', -1)",
        "evidence = json_set(evidence, '$[0].expected', json('[0]'))",
        "evidence = json_array(json_extract(evidence, '$[0]')) || 'x'",
        "retirement = 'gone'",
        "retirement = ''",
    ];
    for change in spoilt {
        let folder = folder();
        let path = folder.path().join("r.db");
        let other = small(&path);
        open(&path).keep_failure(None, MapOrigin::Real, &failed(8, 1)).unwrap();
        assert_eq!(other.execute(&format!("UPDATE failure SET {change} WHERE frame = 7"), []).unwrap(), 1);
        drop(other);
        let before = fs::read(&path).unwrap();

        let (store, aside) = open_damaged(&path);
        let map = store.failures(MapOrigin::Real).unwrap();
        assert_eq!(map.iter().collect::<Vec<_>>(), [&failed(8, 1)], "{change}");
        assert_eq!(store.history(9).unwrap().len(), 1, "{change}");
        assert_eq!((aside.salvaged, aside.unreadable), (2, 1), "{change}: {}", aside.why);
        assert_eq!(fs::read(aside.path).unwrap(), before, "{change}");
    }
}

#[test]
fn a_spoilt_history_is_left_behind_and_the_frames_saved() {
    for change in ["id = -1", "orders = '[1]'", "outcome = 'draw'", "outcome = NULL", "bad_frames = -1", "wanted = -1"]
    {
        let folder = folder();
        let path = folder.path().join("r.db");
        small(&path).execute(&format!("UPDATE test SET {change}"), []).unwrap();
        let (store, aside) = open_damaged(&path);
        assert_eq!(store.failures(MapOrigin::Real).unwrap().len(), 1, "{change}");
        assert_eq!((aside.salvaged, aside.unreadable), (1, 1), "{change}: {}", aside.why);
    }
}

#[test]
fn spoilt_errors_of_replicas_and_tests_of_nodes_are_left_behind_and_the_others_saved() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let other = small(&path);
    let mut store = open(&path);
    store.keep_replica_errors(&["n5", "n6", "n7"].map(|node| replica_error(node, 3))).unwrap();
    for node in ["n5", "n6"] {
        store.keep_node_test(node, at(4)).unwrap();
    }
    drop(store);
    other
        .execute_batch(
            "UPDATE replica_error SET job = -1 WHERE node != 'n7';
            UPDATE node_test SET began = -1 WHERE node = 'n6'",
        )
        .unwrap();
    drop(other);
    let (store, aside) = open_damaged(&path);
    assert_eq!(store.replica_errors().unwrap(), [replica_error("n7", 3)]);
    assert_eq!((aside.salvaged, aside.unreadable), (2 + 1 + 1, 2 + 1), "{}", aside.why);
}

#[test]
fn columns_of_the_wrong_type_are_refused() {
    let folder = folder();
    let path = folder.path().join("r.db");
    let other = small(&path);
    other
        .execute_batch(
            "CREATE TABLE loose AS SELECT * FROM failure;
            DROP TABLE failure;
            ALTER TABLE loose RENAME TO failure;
            INSERT INTO failure VALUES (x'00', 'seven', NULL, 1.5, 2, 'all', '', '', x'ff', 17, 0.5);
            INSERT INTO failure SELECT 'imagined', frame, 0, 1, cause, 0, 0, 0, 0, '[]', retirement FROM failure;",
        )
        .unwrap();
    drop(other);
    let (store, aside) = open_damaged(&path);
    assert_eq!(store.failures(MapOrigin::Real).unwrap().len(), 1);
    assert_eq!((aside.salvaged, aside.unreadable), (2, 3), "{}", aside.why);
}

#[test]
fn a_missing_table_is_damage_too() {
    let folder = folder();
    let path = folder.path().join("r.db");
    small(&path).execute_batch("DROP TABLE test").unwrap();
    let (store, aside) = open_damaged(&path);
    assert_eq!(store.failures(MapOrigin::Real).unwrap().len(), 1);
    assert_eq!((aside.salvaged, aside.unreadable), (1, 0), "{}", aside.why);
}

#[test]
fn a_number_whose_test_was_lost_is_not_given_out_again() {
    let folder = folder();
    let path = folder.path().join("r.db");
    small(&path).execute_batch("DROP TABLE test").unwrap();
    let (mut store, _) = open_damaged(&path);
    let test = store.begin_test(&start(0)).unwrap();
    store.keep_failure(Some(test), MapOrigin::Real, &failed(7, 1)).unwrap();
    assert_eq!(store.failures(MapOrigin::Real).unwrap().get(frame(7)).unwrap().mismatches, 2 + 1);
}

#[test]
fn every_damaged_store_keeps_a_name_of_its_own_and_what_lies_beside_goes_with_it() {
    let folder = folder();
    let path = folder.path().join("r.db");
    for garbage in ["one", "two", "three"] {
        fs::write(&path, garbage).unwrap();
        fs::write(folder.path().join("r.db-shm"), format!("index of {garbage}")).unwrap();
        // A crash during a rebuild may have left these files.
        fs::write(folder.path().join("r.db.new"), "half a store").unwrap();
        fs::write(folder.path().join("r.db.new-journal"), "half a journal").unwrap();
        let (mut store, aside) = open_damaged(&path);
        assert_eq!((aside.salvaged, aside.unreadable), (0, 0));
        store.begin_test(&start(0)).unwrap();
    }
    let found = set_aside_files(folder.path()).into_iter().map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(found.collect::<Vec<_>>(), ["one", "two", "three", "index of one", "index of two", "index of three"]);
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| !name.to_str().unwrap().contains("corrupt"));
    left.sort();
    assert_eq!(left, ["r.db", "r.db.lock"]);
}
