//! Core dumps of guarded programs.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rampart_skips::{Feature, skip};

use crate::guarded::{engines, installed, library, victim};
use crate::harness::{CommandOutput, Rampart};

/// The parts of the victim's heap, 256 KiB each. Each word is as `sums.c` computes it.
const PARTS: u64 = 32;
const WORDS: usize = (256 << 10) / 8;

/// Far less than the reserved addresses, and far more than the used memory.
const MOST_BYTES: u64 = 4 << 30;

fn content(part: u64, word: u64) -> u64 {
    (part << 32 | word).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1)
}

/// The parts that are in the dump whole and in one piece.
fn whole_parts(dump: &[u8]) -> Vec<u64> {
    let (words, _) = dump.as_chunks::<8>();
    let firsts: HashMap<u64, u64> = (0..PARTS).map(|part| (content(part, 0), part)).collect();
    let is_whole = |(at, part): &(usize, u64)| {
        let found = words[*at..].iter().map(|word| u64::from_le_bytes(*word));
        found.take(WORDS).eq((0..WORDS as u64).map(|word| content(*part, word)))
    };
    let begun = words.iter().enumerate().filter_map(|(at, word)| Some((at, *firsts.get(&u64::from_le_bytes(*word))?)));
    let mut parts: Vec<u64> = begun.filter(is_whole).map(|(_, part)| part).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// Whether the kernel writes dumps into the program's folder, without a limit on their size.
fn has_dumps() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_here = !pattern.starts_with('|') && !pattern.contains('/');
    if !is_here {
        skip(Feature::CoreDumps, format!("core dumps go elsewhere: {pattern}"));
    }
    is_here && installed("bash")
}

fn dump(rampart: &Rampart) -> Option<PathBuf> {
    let entries = fs::read_dir(rampart.folder()).expect("a folder").flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")))
}

#[test]
fn a_core_dump_has_what_is_locked_and_nothing_that_is_only_reserved() {
    let rampart = Rampart::new();
    let Some(sums) = victim(&rampart, "sums").filter(|_| has_dumps()) else { return };
    for engine in engines(&rampart) {
        for way in ["aborts", "crashes"] {
            let options = "--test none --cap 1MiB --block 64KiB --interval 10ms";
            let script =
                format!("ulimit -c unlimited && exec timeout 120 $0 run --engine {engine} {options} -- {sums} {way}");
            let mut bash = Command::new("bash");
            bash.args(["-c", &script, env!("CARGO_BIN_EXE_rampart")])
                .stdin(Stdio::null())
                .current_dir(rampart.folder());
            bash.env("RAMPART_STORE", rampart.store()).env("RAMPART_GUARD_LIBRARY", library());
            let output = CommandOutput::from(bash.output().expect("bash runs"));
            let signal = if way == "aborts" { 6 } else { 11 };
            assert_eq!(output.code, Some(128 + signal), "{engine} {way}: {}", output.err);
            let Some(path) = dump(&rampart) else {
                return skip(Feature::CoreDumps, "no core dump may be written here");
            };
            let bytes = fs::metadata(&path).expect("it is there").len();
            assert!(bytes < MOST_BYTES, "{engine} {way}: {bytes}");
            let parts = whole_parts(&fs::read(&path).expect("a file"));
            assert_eq!(parts, (0..PARTS).collect::<Vec<_>>(), "{engine} {way}: {}", output.err);
            fs::remove_file(path).expect("it is ours");
        }
    }
}

#[test]
fn actions_of_signals_are_to_a_program_as_it_has_set_them() {
    let rampart = Rampart::new();
    if !installed("python3") {
        return;
    }
    let script = "\
import signal
dumping = [signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGFPE, signal.SIGSYS, signal.SIGXCPU]
for number in dumping:
    assert signal.getsignal(number) == signal.SIG_DFL, number
    assert signal.signal(number, signal.SIG_IGN) == signal.SIG_DFL, number
    signal.raise_signal(number)
    assert signal.signal(number, lambda *seen: heard.append(seen[0])) == signal.SIG_IGN, number
    heard = []
    signal.raise_signal(number)
    assert heard == [number], number
    signal.signal(number, signal.SIG_DFL)
    assert signal.getsignal(number) == signal.SIG_DFL, number
import os
assert os.WTERMSIG(os.system('kill -QUIT $$')) == signal.SIGQUIT
signal.raise_signal(signal.SIGXCPU)
";
    for engine in engines(&rampart) {
        let output =
            crate::guarded::run(&rampart, &["--engine", engine, "--test", "none", "--", "python3", "-c", script]);
        assert_eq!(output.code, Some(128 + 24), "{engine}: {}", output.err);
    }
}
