//! Services of `rampart run` for the guards of its program: it keeps bad frames from them, and they know whether it
//! lives.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};

use crate::guarded::{engines, installed, library, run, works};
use crate::harness::Rampart;

/// Reads the frames of its own buffer, puts one on the map, and uses the buffer until the page is on another frame. Its
/// last output is all frames that it had.
const MOVES_OUT: &str = "\
import ctypes, os, subprocess, sys, time
PAGES = 1024
buffer = ctypes.create_string_buffer(PAGES * 4096 + 4096)
first = -(-ctypes.addressof(buffer) // 4096)
at = lambda page: ctypes.c_uint64.from_address((first + page) * 4096)
pagemap = open('/proc/self/pagemap', 'rb', buffering=0)
def frame(page):
    assert at(page).value == page * 7919
    entry = int.from_bytes(os.pread(pagemap.fileno(), 8, (first + page) * 8), 'little')
    return entry & (1 << 55) - 1 if entry >> 63 else None
for page in range(PAGES):
    at(page).value = page * 7919
frames = {frame(page) for page in range(PAGES)} - {None}
if len(sys.argv) > 1:
    bad = None
    while bad is None:
        bad = frame(700)
    outside = {name: value for name, value in os.environ.items() if name != 'LD_PRELOAD'}
    subprocess.run([sys.argv[1], 'map', 'add', str(bad)], env=outside, stdout=2, check=True)
    begun = time.monotonic()
    while time.monotonic() < begun + 60 and frame(700) in (bad, None):
        time.sleep(0.3)
    assert frame(700) != bad, 'it is still there'
print(*frames)
";

#[test]
fn a_frame_that_goes_on_the_map_is_taken_from_under_its_page_and_never_used_again() {
    let rampart = Rampart::new();
    if !rampart_skips::root("frame numbers are hidden from an ordinary user") {
        return;
    }
    if !installed("python3") || !works(&rampart, "move") {
        return;
    }
    let frames = |arguments: &[&str]| -> BTreeSet<u64> {
        let output = run(&rampart, &[&["--engine", "move"], arguments].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.err);
        output.out.split_whitespace().map(|frame| frame.parse().expect("a frame")).collect()
    };
    // All its frames were tested just now, so only the map makes the guard move the page, once it has been locked.
    let add = env!("CARGO_BIN_EXE_rampart");
    assert!(!frames(&["--untested", "wait", "--interval", "100ms", "--", "python3", "-c", MOVES_OUT, add]).is_empty());
    let map = rampart.json(&["map", "show", "--json"]);
    let bad = map["frames"][0]["frame"].as_u64().expect("a bad frame");
    for test in ["none", "March C-"] {
        for block in ["2MiB", "64KiB"] {
            let used = frames(&["--test", test, "--block", block, "--cap", "64MiB", "--", "python3", "-c", MOVES_OUT]);
            assert!(!used.is_empty() && !used.contains(&bad), "{test}, {block}: {bad} is used");
        }
    }
}

/// Two processes that wait for a line, and print when they got it.
const WAIT: &str = "\
import os, sys
child = os.fork()
os.write(1, b'ready\\n')
sys.stdin.buffer.raw.read(1)
os.write(1, b'done\\n')
if child:
    os.wait()
";

/// A program whose `rampart run` was killed once both processes waited, and the pipe that they wait for.
fn orphans(rampart: &Rampart, arguments: &[&str]) -> (Child, ChildStdin) {
    let mut command = rampart.command(&["run"]);
    command.args(arguments).args(["--", "python3", "-c", WAIT]).env("RAMPART_GUARD_LIBRARY", library());
    // All leftovers go to the test's folder.
    command.env("TMPDIR", rampart.folder()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let out = child.stdout.as_mut().expect("a pipe");
    let mut heard = Vec::new();
    while heard.iter().filter(|&&letter| letter == b'\n').count() < 2 {
        let mut letter = [0];
        out.read_exact(&mut letter).expect("the program says that it waits");
        heard.push(letter[0]);
    }
    // Dropping it would close the pipe when the child has ended.
    let stdin = child.stdin.take().expect("a pipe");
    child.kill().expect("it is a child of ours");
    child.wait().expect("it was killed");
    (child, stdin)
}

fn rest(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("UTF-8");
    text
}

#[test]
fn without_its_server_a_program_goes_on_and_says_so() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        let (mut orphans, mut stdin) = orphans(&rampart, &["--engine", engine]);
        let mut err = BufReader::new(orphans.stderr.take().expect("a pipe"));
        let mut processes = BTreeSet::new();
        while processes.len() < 2 {
            let mut line = String::new();
            assert!(err.read_line(&mut line).expect("UTF-8") > 0, "{engine}: {processes:?}");
            if let Some((_, rest)) = line.split_once("`rampart run` has died: process ") {
                assert!(
                    rest.contains("goes on under guard") && rest.contains(rampart.folder().to_str().unwrap()),
                    "{line}"
                );
                processes.insert(rest.split(' ').next().map(str::to_owned));
            }
        }
        stdin.write_all(b"go").expect("they wait for it");
        assert_eq!(rest(&mut orphans.stdout.take().expect("a pipe")), "done\ndone\n", "{engine}: {}", rest(&mut err));
    }
}

#[test]
fn a_program_that_requires_its_server_is_stopped_when_that_dies() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        let (mut orphans, stdin) = orphans(&rampart, &["--engine", engine, "--require-server"]);
        let err = rest(&mut orphans.stderr.take().expect("a pipe"));
        assert!(err.matches("is stopped, since --require-server was given").count() >= 2, "{engine}: {err}");
        assert_eq!(rest(&mut orphans.stdout.take().expect("a pipe")), "", "{engine}: {err}");
        drop(stdin);
    }
}

#[test]
fn a_program_that_ends_in_time_notices_nothing_and_what_runs_on_is_counted() {
    let rampart = Rampart::new();
    for engine in engines(&rampart) {
        let output = run(&rampart, &["--engine", engine, "--require-server", "--", "sh", "-c", "echo fine"]);
        assert_eq!((output.code, output.out.as_str()), (Some(0), "fine\n"), "{}", output.err);
        assert!(!output.err.contains("still run") && !output.err.contains("is stopped"), "{}", output.err);
        let output =
            run(&rampart, &["--engine", engine, "--", "sh", "-c", "sleep 2 >/dev/null 2>&1 </dev/null & sleep 0.5"]);
        assert!(output.err.contains("1 process of the program runs on"), "{}", output.err);
    }
}
