//! Facts are read as they were written, from every process.

mod facts;

use facts::{any_evidence, any_failed, at, end, failed, folder, frame, open, start};
use proptest::collection::vec;
use proptest::prelude::*;
use rampart_memory::Bytes;
use rampart_memory::fault_map::{FailedFrame, FaultMap, MapOrigin, Retirement};
use rampart_store::{Durability, FactWriter, FailureRow, Forgotten, Store, TestEnd, TestEnding, TestRecord, TestStart};
use tempfile::TempDir;

/// A store, and the folder that it needs.
fn new_store() -> (TempDir, Store) {
    let folder = folder();
    let store = open(&folder.path().join("r.db"));
    (folder, store)
}

fn map_of(origin: MapOrigin, frames: impl IntoIterator<Item = FailedFrame>) -> FaultMap {
    let mut map = FaultMap::new(origin);
    frames.into_iter().for_each(|failed| map.insert(failed));
    map
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_failed_frames_come_back_as_they_were_kept(
        real in vec(any_failed(), 0..8),
        emulated in vec(any_failed(), 0..8),
    ) {
        let (folder, mut store) = new_store();
        let test = store.begin_test(&start(0)).unwrap();
        let (real, emulated) = (map_of(MapOrigin::Real, real), map_of(MapOrigin::Emulated, emulated));
        for map in [&real, &emulated] {
            store.keep_failures(Some(test), map.iter().map(|failed| (map.origin(), failed))).unwrap();
        }
        drop(store);
        let store = open(&folder.path().join("r.db"));
        prop_assert_eq!(store.failures(MapOrigin::Real).unwrap(), real);
        prop_assert_eq!(store.failures(MapOrigin::Emulated).unwrap(), emulated);
    }

    /// The reference model: one map with every mismatch of every test, in the order of the tests.
    #[test]
    fn what_several_tests_saw_adds_up(tests in vec(vec((0_u64..4, any_evidence()), 0..20), 1..4)) {
        let (_folder, mut store) = new_store();
        let mut all = FaultMap::new(MapOrigin::Real);
        for (number, seen) in (0..).zip(tests) {
            let test = store.begin_test(&start(number)).unwrap();
            let mut own = FaultMap::new(MapOrigin::Real);
            for (number, evidence) in seen {
                all.record(frame(number), evidence.clone());
                // Writes the frame again and again, with growing counts.
                let failed = own.record(frame(number), evidence);
                store.keep_failure(Some(test), MapOrigin::Real, failed).unwrap();
            }
        }
        prop_assert_eq!(store.failures(MapOrigin::Real).unwrap(), all);
    }
}

#[test]
fn two_processes_at_once_lose_nothing_of_each_other() {
    let (folder, mut one) = new_store();
    let mut two = open(&folder.path().join("r.db"));
    let tests = [one.begin_test(&start(0)).unwrap(), two.begin_test(&start(0)).unwrap()];
    assert_ne!(tests[0], tests[1], "two tests that begin in one microsecond are two");
    for count in 1..=10 {
        one.keep_failure(Some(tests[0]), MapOrigin::Real, &failed(7, count)).unwrap();
        two.keep_failure(Some(tests[1]), MapOrigin::Real, &failed(7, 2 * count)).unwrap();
        two.keep_failure(Some(tests[1]), MapOrigin::Real, &failed(u64::from(count) + 100, 1)).unwrap();
    }
    let map = one.failures(MapOrigin::Real).unwrap();
    assert_eq!(map.get(frame(7)).unwrap().mismatches, 10 + 20);
    assert_eq!(map.get(frame(7)).unwrap().evidence.len(), FailedFrame::EVIDENCE_KEPT);
    assert_eq!(map.len(), 11);
    assert_eq!(two.failures(MapOrigin::Real).unwrap(), map);
}

#[test]
fn two_threads_that_write_without_pause_wait_for_each_other() {
    let (folder, store) = new_store();
    let path = folder.path().join("r.db");
    std::thread::scope(|scope| {
        for base in [0, 1000] {
            let path = &path;
            scope.spawn(move || {
                let mut store = open(path);
                let test = store.begin_test(&start(base)).unwrap();
                for number in 0..50 {
                    store.keep_failure(Some(test), MapOrigin::Real, &failed(base + number, 1)).unwrap();
                }
            });
        }
    });
    assert_eq!(store.failures(MapOrigin::Real).unwrap().len(), 100);
}

#[test]
fn a_person_condemns_and_forgets_and_nothing_is_lost() {
    let (_folder, mut store) = new_store();
    let test = store.begin_test(&start(0)).unwrap();
    store.keep_failure(None, MapOrigin::Real, &FailedFrame::condemned(frame(9), at(5))).unwrap();
    store.keep_failure(Some(test), MapOrigin::Real, &failed(9, 3)).unwrap();
    store.keep_failure(Some(test), MapOrigin::Emulated, &failed(9, 1)).unwrap();

    let known = store.forget(frame(9), at(10)).unwrap().unwrap();
    assert_eq!((known.mismatches, known.lines), (3, u64::MAX));
    assert!(store.failures(MapOrigin::Real).unwrap().is_empty());
    assert_eq!(store.failures(MapOrigin::Emulated).unwrap().len(), 1, "only the real one is forgotten");
    assert_eq!(store.forget(frame(9), at(11)).unwrap(), None);
    assert_eq!(store.forgotten().unwrap(), [Forgotten { at: at(10), failed: known }]);

    // It fails again, and is forgotten again.
    store.keep_failure(Some(test), MapOrigin::Real, &failed(9, 4)).unwrap();
    assert_eq!(store.failures(MapOrigin::Real).unwrap().get(frame(9)), Some(&failed(9, 4)));
    store.forget(frame(9), at(20)).unwrap().unwrap();
    let when: Vec<_> = store.forgotten().unwrap().iter().map(|forgotten| forgotten.at).collect();
    assert_eq!(when, [at(10), at(20)]);
}

#[test]
fn a_retirement_holds_for_the_frame_whoever_saw_it() {
    let (_folder, mut store) = new_store();
    let tests = [0, 1].map(|when| store.begin_test(&start(when)).unwrap());
    for test in tests {
        store.keep_failure(Some(test), MapOrigin::Real, &failed(7, 2)).unwrap();
    }
    let retired = FailedFrame { retirement: Retirement::Offlined, ..failed(7, 2) };
    store.keep_failure(Some(tests[0]), MapOrigin::Real, &retired).unwrap();
    let state = |store: &Store| store.failures(MapOrigin::Real).unwrap().get(frame(7)).unwrap().retirement.clone();
    assert_eq!(state(&store), Retirement::Offlined);

    let refused = Retirement::Refused("busy".to_owned());
    let known = store.keep_retirement(frame(7), &refused).unwrap().unwrap();
    assert_eq!((known.mismatches, &known.retirement), (4, &refused));
    assert_eq!(state(&store), refused);
    assert_eq!(store.keep_retirement(frame(8), &refused).unwrap(), None);
}

#[test]
fn the_history_tells_ended_tests_from_interrupted_ones() {
    let (folder, mut store) = new_store();
    let free = TestStart { requested: None, injected: Some("stuck-at:1".to_owned()), ..start(3) };
    let starts = [start(1), start(2), free];
    let ids = starts.clone().map(|start| store.begin_test(&start).unwrap());
    let pass = TestEnd { outcome: TestEnding::Pass, shortfall: None, ..end(9) };
    store.finish_test(ids[0], &end(8)).unwrap();
    store.finish_test(ids[2], &pass).unwrap();
    drop(store);

    let store = open(&folder.path().join("r.db"));
    let ends = [Some(end(8)), None, Some(pass)];
    let records = ids.into_iter().zip(starts).zip(ends).map(|((id, start), end)| TestRecord { id, start, end });
    let newest_first: Vec<_> = records.rev().collect();
    assert_eq!(store.history(10).unwrap(), newest_first);
    assert_eq!(store.history(1).unwrap(), newest_first[..1]);
}

#[test]
fn numbers_beyond_63_bits_are_kept_as_the_largest() {
    let (_folder, mut store) = new_store();
    let mut endless = failed(1, 1);
    endless.mismatches = u64::MAX;
    let vast = TestStart { requested: Some(Bytes::new(u64::MAX)), ..start(0) };
    let test = store.begin_test(&vast).unwrap();
    store.keep_failure(Some(test), MapOrigin::Real, &endless).unwrap();
    store.keep_failure(None, MapOrigin::Real, &endless).unwrap();
    let largest = i64::MAX.unsigned_abs();
    assert_eq!(store.failures(MapOrigin::Real).unwrap().get(frame(1)).unwrap().mismatches, largest);
    assert_eq!(store.history(1).unwrap()[0].start.requested, Some(Bytes::new(largest)));
}

#[test]
fn a_store_of_an_earlier_build_is_still_read() {
    // As the first version wrote them: the words on the disk do not change with the names in other crates.
    let row = FailureRow {
        frame: 7,
        cause: "march-test".to_owned(),
        lines: 1 << 5,
        first_seen: 3,
        last_seen: 3,
        mismatches: 1,
        evidence: r#"[{"at":3,"line":5,"expected":[0,0,0,0,0,0,0,0],"found":[18446744073709551615,0,0,0,0,0,0,0],
            "reread":[0,0,0,0,0,0,0,1],"test":"{⇕(w0)}","element":2,"background":"solid"}]"#
            .replace("\n            ", ""),
        retirement: r#"{"state":"refused","detail":"busy"}"#.to_owned(),
    };
    let known = row.decode().unwrap();
    assert_eq!(known.retirement, Retirement::Refused("busy".to_owned()));
    assert_eq!((known.evidence[0].at.micros(), known.evidence[0].line), (3, 5));
    assert_eq!(known.evidence[0].bits().count(), 65);
    assert_eq!(FailureRow::encode(&known), row);
}

#[test]
fn a_keeper_may_move_to_another_thread() {
    let (folder, store) = new_store();
    let (mut writer, _) = FactWriter::begin(store, start(0));
    let kept = std::thread::spawn(move || writer.keep(MapOrigin::Real, &failed(7, 1), at(1))).join().unwrap();
    assert!(matches!(kept, Durability::Durable));
    assert_eq!(open(&folder.path().join("r.db")).failures(MapOrigin::Real).unwrap().len(), 1);
}
