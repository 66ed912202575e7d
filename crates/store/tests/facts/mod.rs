//! Facts for the tests, fixed and random.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use rampart_memory::fault_map::{Cause, Evidence, FailedFrame, FaultMap, MapOrigin, Retirement};
use rampart_memory::{Bytes, Frame, LineData, ReplicaError, ReplicaErrorOrigin, Timestamp};
use rampart_store::{SetAside, Store, TestEnd, TestEnding, TestStart};
use tempfile::TempDir;

pub const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A temporary folder, in memory if possible: syncing a real disk takes time, and most tests do not need it.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn frame(number: u64) -> Frame {
    Frame::new(number).unwrap()
}

pub fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(NOW.micros() + micros)
}

pub fn evidence(line: u8, when: u64) -> Evidence {
    Evidence {
        at: at(when),
        line,
        expected: LineData::ZERO,
        found: LineData([u64::MAX, 0, 0, 0, 0, 0, 0, 1 << 63]),
        reread: LineData::ZERO,
        test: "{⇕(w0); ⇑(r0)}".to_owned(),
        element: 1,
        background: "solid".to_owned(),
    }
}

/// A frame that failed `count` times.
pub fn failed(number: u64, count: u8) -> FailedFrame {
    let mut map = FaultMap::new(MapOrigin::Real);
    for turn in 0..count {
        map.record(frame(number), evidence(turn % 64, turn.into()));
    }
    map.forget(frame(number)).unwrap()
}

/// A message that differed on a node.
pub fn replica_error(node: &str, when: u64) -> ReplicaError {
    ReplicaError {
        at: at(when),
        job: at(0),
        node: Some(node.to_owned()),
        rank: Some(3),
        replica: Some(1),
        wrong_replica: Some(1),
        what: "message".to_owned(),
        peer: Some(2),
        tag: None,
        bytes: Some(80),
        first_difference: Some(7),
        origin: ReplicaErrorOrigin::Real,
    }
}

pub fn start(when: u64) -> TestStart {
    TestStart {
        at: at(when),
        notation: "{⇕(w0); ⇑(r0,w1); ⇓(r1)}".to_owned(),
        fidelity: 8,
        sequences: vec!["sequential".to_owned(), "strided".to_owned()],
        requested: Some(Bytes::from_mib(64)),
        injected: None,
    }
}

pub fn end(when: u64) -> TestEnd {
    TestEnd {
        at: at(when),
        outcome: TestEnding::Fail,
        shortfall: Some("stopped".to_owned()),
        frames_tested: 1 << 14,
        bad_frames: 2,
        emulated_frames: 0,
        bytes_per_second: 12_400_000_000,
    }
}

/// A sound store.
pub fn open(path: &Path) -> Store {
    let opened = Store::open(path, NOW).unwrap();
    assert_eq!(opened.set_aside, None, "the store is sound");
    opened.store
}

/// Opens a store that was damaged, and returns what was set aside.
pub fn open_damaged(path: &Path) -> (Store, SetAside) {
    let opened = Store::open(path, NOW).unwrap();
    (opened.store, opened.set_aside.expect("the store is damaged"))
}

fn any_data() -> impl Strategy<Value = LineData> {
    any::<[u64; 8]>().prop_map(LineData)
}

pub fn any_evidence() -> impl Strategy<Value = Evidence> {
    let data = (any_data(), any_data(), any_data());
    (0..1_u64 << 63, 0_u8..64, data, any::<String>(), any::<u32>(), any::<String>()).prop_map(
        |(micros, line, (expected, found, reread), test, element, background)| Evidence {
            at: Timestamp::from_micros(micros),
            line,
            expected,
            found,
            reread,
            test,
            element,
            background,
        },
    )
}

pub fn any_frame() -> impl Strategy<Value = Frame> {
    (0..=Frame::MAX.number()).prop_map(frame)
}

fn any_retirement() -> impl Strategy<Value = Retirement> {
    prop_oneof![Just(Retirement::Pending), Just(Retirement::Offlined), any::<String>().prop_map(Retirement::Refused)]
}

/// Any frame that can be stored.
pub fn any_failed() -> impl Strategy<Value = FailedFrame> {
    let cause = prop_oneof![Just(Cause::MarchTest), Just(Cause::Operator), Just(Cause::Guard), Just(Cause::Hardware)];
    let times = (0..1_u64 << 63, 0..1_u64 << 63);
    let evidence = vec(any_evidence(), 0..=FailedFrame::EVIDENCE_KEPT);
    (any_frame(), cause, any::<u64>(), times, 0..1_u64 << 63, evidence, any_retirement()).prop_map(
        |(frame, cause, lines, (one, other), mismatches, evidence, retirement)| FailedFrame {
            frame,
            cause,
            lines,
            first_seen: Timestamp::from_micros(one.min(other)),
            last_seen: Timestamp::from_micros(one.max(other)),
            mismatches,
            evidence,
            retirement,
        },
    )
}
