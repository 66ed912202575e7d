//! `kill -9` at any moment: no reported bad frame is missing afterwards.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use crate::harness::Rampart;

const ROUNDS: u64 = 200;

fn frames_reported(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("found")?.trim().strip_prefix("frame "))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn frames_kept(rampart: &Rampart) -> BTreeSet<String> {
    let map = rampart.json(&["map", "show", "--emulated", "--json"]);
    map["frames"].as_array().unwrap().iter().map(|f| format!("{:#x}", f["frame"].as_u64().unwrap())).collect()
}

#[test]
fn no_reported_frame_is_missing_after_200_kills() {
    if !rampart_skips::root("without frame numbers nothing is kept") {
        return;
    }
    let rampart = Rampart::new();
    let mut reported = BTreeSet::new();
    let mut killed_in_the_act = 0;
    for round in 0..ROUNDS {
        let spec = format!("stuck-at:60,multi-bit:20,seed={round}");
        let mut child = rampart.start(&["test", "--verbose", "--memory", "8MiB", "--for", "1h", "--inject", &spec]);
        // Kills at a random moment relative to the writes: after so many lines, and a little later.
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        for _ in 0..=round * 7919 % 60 {
            if out.read_line(&mut text).unwrap() == 0 {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(round * 104_729 % 3000));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        out.read_to_string(&mut text).unwrap();
        // The kill cut off a line without its end.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let seen = frames_reported(whole);
        killed_in_the_act += u64::from(!seen.is_empty());
        reported.extend(seen);
        if round % 20 == 19 {
            let kept = frames_kept(&rampart);
            let missing: Vec<_> = reported.difference(&kept).collect();
            assert!(missing.is_empty(), "after kill {round}: {missing:?}");
        }
    }
    assert!(killed_in_the_act > ROUNDS / 2, "{killed_in_the_act} runs were killed after a report");
}
