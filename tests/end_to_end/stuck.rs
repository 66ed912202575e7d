//! Stuck cells below a guarded program, which another program forces.

use std::process::{Command, Stdio};

use crate::guarded::{count, engines, installed, library, report, run};
use crate::harness::{CommandOutput, Rampart};

/// Fills memory, prints the place of one page, and, once that is locked, reads it again and again, and other memory in
/// between.
const READS: &str = "\
import ctypes, os, sys, time
PAGES = 4096
buffer = ctypes.create_string_buffer(PAGES * 4096 + 4096)
first = -(-ctypes.addressof(buffer) // 4096)
words = lambda page: (ctypes.c_uint64 * 512).from_address((first + page) * 4096)
for page in range(PAGES):
    words(page)[:] = [page * 7919 << 8] * 512
page = 2500
pagemap = os.open('/proc/self/pagemap', os.O_RDONLY)
entry = 0
while not entry >> 63:
    assert words(page)[0] == page * 7919 << 8
    entry = int.from_bytes(os.pread(pagemap, 8, (first + page) * 8), 'little')
print(os.getpid(), (first + page) * 4096, entry & (1 << 55) - 1, flush=True)
sweep = lambda: [words(other)[0] for other in range(1600)]
sweep()
open('locked', 'w').close()
end = time.monotonic() + 300
while not os.path.exists('forced'):
    assert time.monotonic() < end, 'nobody found the page'
    sweep()
    time.sleep(0.01)
wrong = 0
for turn in range(int(sys.argv[1])):
    for _ in range(20):
        wrong += words(page)[:] != [page * 7919 << 8] * 512
        time.sleep(0.001)
    sweep()
print('wrong' if wrong else 'right', flush=True)
";

/// Finds the frame of a page: by its address in the program, or by its offset in a large mapping.
const FINDS: &str = "\
import os, signal, sys, time
process, address, frame = map(int, sys.argv[1:4])
memory = os.open(f'/proc/{process}/mem', os.O_RDWR)
pagemap = os.open(f'/proc/{process}/pagemap', os.O_RDONLY)
def places():
    ranges = []
    for line in open(f'/proc/{process}/maps'):
        ends, rights, offset, *_ = line.split()
        start, end = (int(word, 16) for word in ends.split('-'))
        ranges.append((start, end, int(offset, 16), rights[3] == 's'))
    inside = [each for each in ranges if each[0] <= address < each[1]][0]
    if inside[3]:
        # A file that is mapped twice: the other place, since a touch of this one is the program's.
        at = inside[2] + address - inside[0]
        return [start + at - offset for start, end, offset, shared in ranges
                if shared and offset <= at < offset + end - start and end - start > 1 << 35]
    # A vault, which is as long as the range. Of the range parts have other flags, so where it starts is not known.
    starts = [inside[0]]
    for start, end, _, _ in reversed(ranges):
        if end == starts[-1]:
            starts.append(start)
    return [address] + [place for begin in starts for start, end, _, _ in ranges
                        if end - start > 1 << 35 and (place := start + address - begin) < end]
def state():
    return [open(f'/proc/{process}/task/{task}/stat').read().rsplit(') ')[1][0] for task in os.listdir(f'/proc/{process}/task')]
def entry(place):
    data = os.pread(pagemap, 8, place // 4096 * 8)
    return int.from_bytes(data, 'little')
def is_open():
    rights = [line.split()[1] for line in open(f'/proc/{process}/maps')
              if int(line.split('-')[0], 16) <= address < int(line.split('-')[1].split()[0], 16)][0]
    return entry(address) >> 63 and rights[0] == 'r'
";

/// Keeps bits of one frame stuck at 1 as long as the page is on it. It checks at intervals, while the program is
/// stopped.
const FORCES: &str = "\
def force():
    forced = 0
    for place in places():
        found = entry(place)
        # The first time while it is locked.
        if found >> 63 and found & (1 << 55) - 1 == frame and (begun or not is_open()):
            for byte in (8, 77 * 8):
                was = os.pread(memory, 1, place + byte)[0]
                if was != was | 0x80:
                    os.pwrite(memory, bytes([was | 0x80]), place + byte)
                    forced += 1
    return forced
forced, begun = 0, False
try:
    while not os.path.exists('locked'):
        time.sleep(0.01)
    while True:
        os.kill(process, signal.SIGSTOP)
        # A system call that waits for a locked page stops only once it has it.
        if any(not set(state()) - set('TtZ') for _ in range(20)):
            forced += force()
            begun = forced > 0
        os.kill(process, signal.SIGCONT)
        if forced and not os.path.exists('forced'):
            open('forced', 'w').close()
        time.sleep(0.005)
except (ProcessLookupError, FileNotFoundError, IndexError, OSError):
    pass
print(forced)
";

/// Flips a bit of a locked page once; from then on it flips the bit in the page's old frame, wherever that is mapped,
/// after the bit has held 0 for 30 ms.
const FORCES_LATE: &str = "\
def force():
    was = [place for place in places() if entry(place) >> 63 and entry(place) & (1 << 55) - 1 == frame and not is_open()]
    for place in was:
        byte = os.pread(memory, 1, place + 8)[0]
        os.pwrite(memory, bytes([byte | 0x80]), place + 8)
    return len(was)
def small():
    for line in open(f'/proc/{process}/maps'):
        start, end = (int(word, 16) for word in line.split()[0].split('-'))
        if end - start <= 1 << 22 and line.split()[1].startswith('rw'):
            yield from range(start, end, 4096)
def byte_in_frame():
    for place in small():
        found = entry(place)
        if found >> 63 and found & (1 << 55) - 1 == frame:
            return place + 8, os.pread(memory, 1, place + 8)[0]
forced = late = 0
try:
    while not os.path.exists('locked'):
        time.sleep(0.01)
    while not forced:
        os.kill(process, signal.SIGSTOP)
        if any(not set(state()) - set('TtZ') for _ in range(20)):
            forced = force()
        os.kill(process, signal.SIGCONT)
        time.sleep(0.005)
    open('forced', 'w').close()
    while True:
        before = byte_in_frame()
        time.sleep(0.03)
        if before and before == byte_in_frame() and not before[1] & 0x80:
            os.pwrite(memory, bytes([before[1] | 0x80]), before[0])
            late += 1
except (ProcessLookupError, FileNotFoundError, IndexError, OSError):
    pass
print(late)
";

/// Two stuck bits, in different lines of the page: `crc+secded` corrects both, `crc+pq` would correct one line only.
#[test]
fn a_program_never_reads_a_stuck_cell_below_a_locked_page() {
    let rampart = Rampart::new();
    if !rampart_skips::root("frame numbers are hidden from an ordinary user") {
        return;
    }
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        for name in ["locked", "forced"] {
            let _ = std::fs::remove_file(rampart.folder().join(name));
        }
        // Re-placement leaves pages alone that were tested before their first use.
        let options = ["--block", "64KiB", "--cap", "4MiB", "--codes", "crc+secded", "--untested", "wait"];
        let (output, forced) = run_forced(&rampart, &[&["--engine", engine], &options[..]].concat(), FORCES, "10");
        assert!(forced > 0, "{engine}: nothing was forced: {}", output.err);
        assert_eq!(output.code, Some(0), "{engine}: {}", output.err);
        assert!(output.out.ends_with("right\n"), "{engine}: {} {}", output.out, output.err);
        let report = report(&rampart);
        assert_eq!(count(&report, "uncorrectable"), 0, "{engine}: {report}");
        let frame: u64 = output.out.split_whitespace().nth(2).expect("a frame").parse().expect("a number");
        let events = report["events"].as_array().expect("events").iter();
        let mut corrected = events.filter(|event| event["event"] == "corrected");
        assert!(corrected.any(|event| event["frame"] == frame), "{engine}: {report}");
    }
}

/// Gives back pages of a locked heap by syscall(2), and reads them and their neighbours.
const GIVES_BACK: &str = "\
import ctypes, platform
PAGES = 4096
buffer = ctypes.create_string_buffer(PAGES * 4096 + 4096)
first = -(-ctypes.addressof(buffer) // 4096)
words = lambda page: (ctypes.c_uint64 * 512).from_address((first + page) * 4096)
for page in range(PAGES):
    words(page)[:] = [page * 7919 + 1] * 512
sweep = lambda: [words(other)[0] for other in range(0, 1600)]
sweep()
call = ctypes.CDLL(None).syscall
madvise = {'x86_64': 28, 'aarch64': 233}[platform.machine()]
for page in range(2500, 2600):
    assert call(madvise, ctypes.c_void_p((first + page) * 4096), ctypes.c_size_t(4096), 4) == 0
for turn in range(3):
    for page in range(2400, 2700):
        there = [0 if 2500 <= page < 2600 else page * 7919 + 1] * 512
        assert words(page)[:] == there, page
    sweep()
print('right')
";

#[test]
fn what_a_program_gives_back_by_itself_reads_as_zeros_and_is_no_error() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    for engine in engines(&rampart) {
        let arguments = ["--engine", engine, "--cap", "4MiB", "--block", "64KiB", "--report", "report.json"];
        let output = run(&rampart, &[&arguments[..], &["--", "python3", "-c", GIVES_BACK]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(0), "right\n"), "{engine}: {}", output.err);
        let report = report(&rampart);
        let wrong = ["corrected", "transient", "uncorrectable", "retired"].map(|name| count(&report, name));
        assert_eq!((wrong, report["events"].as_array().map(Vec::len)), ([0; 4], Some(0)), "{engine}: {report}");
        assert_eq!(rampart.json(&["map", "show", "--json"])["frames"].as_array().map(Vec::len), Some(0));
    }
}

/// A cell that is right for a while after each write passes a quick test. A replaced page of a shared file is out of
/// reach.
#[test]
fn a_frame_whose_cell_falls_only_some_time_after_a_write_is_not_given_back() {
    let rampart = Rampart::new();
    if !rampart_skips::root("only root writes to the memory of frames") || !installed("python3") {
        return;
    }
    for engine in engines(&rampart).filter(|engine| *engine != "minor") {
        for name in ["locked", "forced"] {
            let _ = std::fs::remove_file(rampart.folder().join(name));
        }
        let options = ["--engine", engine, "--block", "64KiB", "--cap", "4MiB", "--untested", "wait"];
        let (output, late) = run_forced(&rampart, &options, FORCES_LATE, "100");
        assert_eq!(output.code, Some(0), "{engine}: {}", output.err);
        assert!(output.out.ends_with("right\n"), "{engine}: {} {}", output.out, output.err);
        let frame: u64 = output.out.split_whitespace().nth(2).expect("a frame").parse().expect("a number");
        let report = report(&rampart);
        let told = |name: &str| {
            let events = report["events"].as_array().expect("events").iter();
            events.filter(|event| event["event"] == name && event["frame"] == frame).count()
        };
        assert_eq!((told("corrected"), told("failed"), told("cleared")), (1, 1, 0), "{engine} {late}: {report}");
        assert!(late > 0 || told("suspect") == 0, "{engine}: a test of a good frame failed: {report}");
        let map = rampart.json(&["map", "show", "--json"]);
        let known = map["frames"].as_array().expect("frames").iter().filter(|known| known["frame"] == frame).count();
        assert_eq!(known, 1, "{engine}: {map}");
    }
}

/// The program's output, and how often a bit of its page was forced.
fn run_forced(rampart: &Rampart, arguments: &[&str], forces: &str, turns: &str) -> (CommandOutput, u64) {
    use std::io::{BufRead, BufReader, Read};

    let mut command = rampart.command(&["run"]);
    command.args(arguments).args(["--report", "report.json", "--", "python3", "-c", READS, turns]);
    command.env("RAMPART_GUARD_LIBRARY", library()).current_dir(rampart.folder());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    out.read_line(&mut first).expect("UTF-8");
    let script = format!("{FINDS}{forces}");
    let mut forces = Command::new("python3");
    forces.args(["-c", &script]).args(first.split_whitespace()).current_dir(rampart.folder());
    let forces = forces.stdout(Stdio::piped()).spawn().expect("python3 runs");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("UTF-8");
    let mut output = CommandOutput::from(child.wait_with_output().expect("it ends"));
    output.out = first + &rest;
    let forced = CommandOutput::from(forces.wait_with_output().expect("it ends"));
    (output, forced.out.trim().parse().unwrap_or_else(|_| panic!("{forced:?}")))
}
