//! `kill -9` at any instant loses no fact that was reported as written.
//!
//! This test runs itself again as two children at once, which write facts to one store without pause and print each
//! frame only after the store has reported it as written. The parent kills them at random instants and looks for every
//! printed frame.

mod facts;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use facts::{failed, folder, frame, open, start};
use rampart_memory::fault_map::MapOrigin;
use rampart_store::{Durability, Error, FactWriter};

const STORE: &str = "RAMPART_STORE_OF_CHILD";
const FIRST: &str = "RAMPART_FIRST_FRAME_OF_CHILD";
const SIGKILL: i32 = 9;

#[test]
fn no_fact_that_was_kept_is_missing_after_kill_9() {
    if let Some(store) = env::var_os(STORE) {
        keep_without_pause(Path::new(&store), env::var(FIRST).unwrap().parse().unwrap());
    }
    let mut chance = Chance(42);
    let kept: usize = (0..5).map(|_| rounds(&mut chance)).sum();
    assert!(kept > 200, "only {kept} frames were kept");
}

/// Twelve times, starts and kills two children that write facts to one store. Returns how many frames they printed.
fn rounds(chance: &mut Chance) -> usize {
    let folder = folder();
    let path = folder.path().join("r.db");
    let mut named = BTreeMap::new();
    for round in 0..12_u64 {
        let children = [0, 1].map(|child| spawn(&path, (2 * round + child) << 16));
        // Some die while they create or check the store, some after many facts.
        let frames = chance.below(4) * chance.below(10);
        let pause = Duration::from_micros(chance.below(6000));
        for (frame, count) in children.map(|child| kill_after(child, frames, pause)).into_iter().flatten() {
            named.insert(frame, count);
        }
        let map = open(&path).failures(MapOrigin::Real).unwrap();
        for (&number, &count) in &named {
            let kept = map.get(frame(number)).map(|failed| failed.mismatches);
            assert!(kept >= Some(count), "round {round}: frame {number} kept {count} times, found {kept:?}");
        }
    }
    let history = open(&path).history(usize::MAX).unwrap();
    assert!(!history.is_empty() && history.iter().all(|record| record.end.is_none()), "all were interrupted");
    named.len()
}

/// Runs in a child until it is killed: writes each frame twice, with a growing count.
fn keep_without_pause(path: &Path, first: u64) -> ! {
    let (mut writer, _) = FactWriter::begin(open(path), start(first));
    for number in first.. {
        for count in 1..=2 {
            match writer.keep(MapOrigin::Real, &failed(number, count), facts::at(0)) {
                // One write call, which the test harness does not capture.
                Durability::Durable => {
                    std::io::stdout().write_all(format!("kept {number} {count}\n").as_bytes()).unwrap();
                }
                // The other child hardly leaves a gap between its writes.
                Durability::Pending(Error::Busy(_)) => {}
                Durability::Pending(other) => panic!("{other}"),
            }
        }
    }
    unreachable!("a child is killed");
}

fn spawn(path: &Path, first: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "no_fact_that_was_kept_is_missing_after_kill_9", "--nocapture"])
        .env(STORE, path)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a child after it printed `frames` frames, and a pause. Returns all frames that it printed.
fn kill_after(mut child: Child, frames: u64, pause: Duration) -> Vec<(u64, u64)> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut named = Vec::new();
    while (named.len() as u64) < frames {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended by itself after {named:?}");
        named.extend(parse(&line));
    }
    thread::sleep(pause);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL), "the child ended by itself");
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    named.extend(rest.split_inclusive('\n').filter_map(parse));
    named
}

/// A line that the child wrote to its end.
fn parse(line: &str) -> Option<(u64, u64)> {
    let (frame, count) = line.strip_suffix('\n')?.strip_prefix("kept ")?.split_once(' ')?;
    Some((frame.parse().ok()?, count.parse().ok()?))
}

/// The linear congruential generator of Knuth's MMIX.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
