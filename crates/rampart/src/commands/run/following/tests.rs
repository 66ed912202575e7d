//! From the files of guards to the map of bad frames.

use super::*;

use std::fs;

use rampart_memory::fault_map::Cause;

#[test]
fn a_bad_frame_is_on_the_map_before_it_is_said_and_one_that_was_made_up_never_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let zeros = [0; 8];
    let evidence = format!(
        "{{\"at\":7,\"line\":3,\"expected\":{zeros:?},\"found\":[1,0,0,0,0,0,0,2],\"reread\":{zeros:?},\"test\":\"{{⇕(w0)}}\",\"element\":0,\"background\":\"solid\"}}"
    );
    let failed =
        |name: &str, frame: u64| format!("{{\"event\":\"{name}\",\"frame\":{frame},\"evidence\":{evidence}}}\n");
    let injected =
        format!("{{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}}\n{}", failed("failed_emulated", 17));
    let follow = |injected, events: &str| {
        fs::write(folder.path().join("7.jsonl"), events).unwrap();
        Follower::new(folder.path(), Some(path.clone()), injected, None).unwrap().poll();
    };
    follow(true, &injected);
    assert!(!path.exists());
    let given_up = "{\"event\":\"given_up\",\"page\":4,\"frame\":19}\n";
    follow(true, given_up);
    follow(false, &(injected.clone() + &failed("failed", 18) + given_up));
    let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(MapOrigin::Real).unwrap();
    let known = |number: u64| map.get(Frame::new(number).unwrap()).map(|known| (known.cause, known.lines));
    let (guard, march) = ((Cause::Guard, u64::MAX), (Cause::MarchTest, 1 << 3));
    assert_eq!([16, 17, 18, 19].map(known), [Some(guard), None, Some(march), Some(guard)]);
}

#[test]
fn a_bad_frame_is_retired_once_its_process_has_ended_and_the_map_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (ended, lives) = (u32::MAX, std::process::id());
    let write = |process: u32, events: &str| {
        fs::write(folder.path().join(format!("{process}.jsonl")), events).unwrap();
    };
    write(ended, "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}\n{\"event\":\"erring\",\"frame\":18}\n");
    write(lives, "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":17}\n");
    let retire = |frame: Frame| match frame.number() {
        18 => Retirement::Refused("it is in use".to_owned()),
        _ => Retirement::Offlined,
    };
    let follower = Follower::new(folder.path(), Some(path.clone()), false, None).unwrap();
    let known = || {
        let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(MapOrigin::Real).unwrap();
        [16, 17, 18].map(|number| map.get(Frame::new(number).unwrap()).unwrap().retirement.clone())
    };
    let mut follower = follower.with_retirement(Box::new(retire));
    follower.poll();
    assert_eq!(known(), [Retirement::Offlined, Retirement::Pending, Retirement::Pending]);
    follower.end();
    assert_eq!(known(), [Retirement::Offlined, Retirement::Offlined, Retirement::Refused("it is in use".to_owned())]);
}

#[test]
fn a_frame_that_was_under_suspicion_when_its_process_ended_is_bad_and_one_that_was_cleared_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (ended, lives) = (u32::MAX, std::process::id());
    let event = |name: &str, frame: u64| format!("{{\"event\":\"{name}\",\"frame\":{frame}}}\n");
    let write = |process: u32, events: &[String]| {
        fs::write(folder.path().join(format!("{process}.jsonl")), events.concat()).unwrap();
    };
    let [first, last] = [event("suspect", 16), event("cleared", 16)];
    write(ended, &[first.clone(), event("suspect", 17), last.clone(), event("suspect", 20), event("erring", 20)]);
    write(lives, &[event("suspect", 18), event("suspect", 19)]);
    let mut follower = Follower::new(folder.path(), Some(path.clone()), false, None).unwrap();
    let bad = || {
        let map = store::open(Some(path.clone()), Timestamp::default()).unwrap().failures(MapOrigin::Real).unwrap();
        (16..21).filter(|&number| map.get(Frame::new(number).unwrap()).is_some()).collect::<Vec<_>>()
    };
    follower.poll();
    assert_eq!(bad(), [20], "a process that has just written may write more");
    follower.poll();
    assert_eq!(bad(), [17, 20]);
    write(lives, &[event("suspect", 18), event("suspect", 19), event("cleared", 19)]);
    follower.end();
    assert_eq!(bad(), [17, 18, 20], "nobody follows the process that runs on");
}

#[test]
fn what_was_made_up_is_never_retired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let events = "{\"event\":\"uncorrectable\",\"page\":3,\"frame\":16}\n{\"event\":\"erring\",\"frame\":18}\n";
    fs::write(folder.path().join(format!("{}.jsonl", u32::MAX)), events).unwrap();
    let follower = Follower::new(folder.path(), Some(path), true, None).unwrap();
    let mut follower = follower.with_retirement(Box::new(|frame| panic!("{frame} is retired")));
    follower.poll();
    follower.end();
}
