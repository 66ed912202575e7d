//! Programs under guard, and the checks that hold for each engine and each kind of page.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rampart_skips::{Feature, granted};
use serde_json::Value;

use crate::harness::{CommandOutput, Rampart};

/// The library, which cargo builds with the tests and puts beside them.
pub fn library() -> PathBuf {
    let library = std::env::current_exe().expect("a test has a file").with_file_name("librampart_preload.so");
    assert!(library.exists(), "cargo built {}", library.display());
    library
}

/// All engines.
pub const ENGINES: [&str; 3] = ["move", "minor", "mprotect"];

/// Whether an engine can guard on this machine; if not, the test is skipped. What it says of itself is no excuse: where
/// the kernel has what it needs, it works.
pub fn works(rampart: &Rampart, engine: &str) -> bool {
    let needs: &[Feature] = match engine {
        "move" => &[Feature::UserfaultfdMove, Feature::UserfaultfdKernelFaults],
        "minor" => &[Feature::UserfaultfdMinor, Feature::UserfaultfdKernelFaults],
        _ => &[],
    };
    let output = run(rampart, &["--engine", engine, "--", "true"]);
    let works = output.code == Some(0) && !output.err.contains("is not guarded");
    granted(needs, if works { Ok(()) } else { Err(output.err) }).is_some()
}

/// The engines that work here.
pub fn engines(rampart: &Rampart) -> impl Iterator<Item = &'static str> {
    ENGINES.into_iter().filter(|engine| works(rampart, engine))
}

/// Whether any engine can guard on this machine.
pub fn can_guard(rampart: &Rampart) -> bool {
    works(rampart, "mprotect")
}

/// Seconds after which a program and its guard are killed: a program whose faults nobody serves would wait for ever.
const LIMIT: &str = "600";

pub fn run(rampart: &Rampart, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", LIMIT, env!("CARGO_BIN_EXE_rampart"), "run"]).args(arguments).stdin(Stdio::null());
    command.env("RAMPART_STORE", rampart.store()).env("RAMPART_GUARD_LIBRARY", library()).current_dir(rampart.folder());
    CommandOutput::from(command.output().expect("the binary runs"))
}

pub fn installed(program: &str) -> bool {
    rampart_skips::installed(program, Feature::of_program(program))
}

/// If set (at night), each trap runs in each kind of memory, with 64 MiB of it; otherwise in one kind, with 16 MiB.
const WHOLE: &str = "RAMPART_TEST_WHOLE";

pub fn is_whole() -> bool {
    std::env::var_os(WHOLE).is_some()
}

/// Pages that most victims fill.
pub fn filled() -> u64 {
    if is_whole() { 16_384 } else { 4096 }
}

/// The last output of a victim that found all pages as it filled them.
pub fn all_right() -> String {
    format!("{} pages are right\n", filled())
}

/// Compiles a victim; `None` without a C compiler.
pub fn victim(rampart: &Rampart, name: &str) -> Option<String> {
    victim_with(rampart, name, &[&format!("-DHEAP_PAGES={}", filled())])
}

/// The same, with other compiler options. Victims fill 64 MiB.
pub fn victim_with(rampart: &Rampart, name: &str, options: &[&str]) -> Option<String> {
    if !installed("cc") {
        return None;
    }
    let source =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end/victims").join(format!("{name}.c"));
    let program = rampart.folder().join(name);
    let arguments =
        [OsStr::new("-O3"), OsStr::new("-pthread"), OsStr::new("-o"), program.as_os_str(), source.as_os_str()];
    assert!(Command::new("cc").args(options).args(arguments).status().expect("cc runs").success());
    Some(program.to_str().expect("a temporary folder has a plain name").to_owned())
}

/// The report of the last run with `--report report.json`.
pub fn report(rampart: &Rampart) -> Value {
    let text = std::fs::read_to_string(rampart.folder().join("report.json")).expect("a report");
    serde_json::from_str(&text).expect("it is JSON")
}

pub fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().expect("a count")
}

/// Whether the kernel stopped the first writes to pages that were only read; if it cannot, the test is skipped.
pub fn stops_writes(report: &Value, output: &CommandOutput) -> bool {
    let stopped = if count(report, "unwritten") > 0 { Ok(()) } else { Err(&output.err) };
    granted(&[Feature::UserfaultfdProtectedContinue], stopped).is_some()
}

/// Runs a trap of the victim: it ends well, was guarded, and no page counted as wrong.
pub fn passes_trap(rampart: &Rampart, options: &[&str], trap: &[&str]) -> (CommandOutput, Value) {
    let output = run(rampart, &[options, &["--report", "report.json", "--"], trap].concat());
    let ended = (output.code, output.out.as_str());
    assert_eq!(ended, (Some(0), all_right().as_str()), "{trap:?} {options:?}: {}", output.err);
    let report = report(rampart);
    let guarded = ["locked", "verified"].iter().all(|name| count(&report, name) > 0);
    assert!(guarded, "{trap:?} {options:?}: {report}");
    let wrong = ["corrected", "codes_wrong", "uncorrectable"].map(|name| count(&report, name));
    assert_eq!(wrong, [0; 3], "{trap:?} {options:?}");
    (output, report)
}

/// Fills 32 MiB with known words, waits until they are locked, and sums them up, ten times.
pub const SUMS: &str = "\
import array, time
words = [array.array('q', range(i, i + 65536)) for i in range(64)]
for _ in range(10):
    time.sleep(0.1)
    assert sum(sum(part) for part in words) == 64 * sum(range(65536)) + 65536 * sum(range(64))
print('right')
";

/// At this rate, two flips may hit one page before it is verified, which is more than `crc+pq` corrects: then the
/// program stops. A wrong result never occurs.
pub fn flips_are_corrected_or_stop_the_program(rampart: &Rampart, engine: &str) {
    let mut corrected = 0;
    for codes in ["crc+pq", "crc+secded", "crc+hamming"] {
        let flips =
            ["--engine", engine, "--cap", "4MiB", "--codes", codes, "--inject", "flip:locked:rate=200/s,seed=7"];
        let output = run(rampart, &[&flips[..], &["--report", "report.json", "--", "python3", "-c", SUMS]].concat());
        let report = report(rampart);
        let count = |name: &str| count(&report, name);
        match (output.code, output.out.as_str()) {
            (Some(0), "right\n") => {}
            // The program may first touch the page at its end, as an interpreter does that clears its memory: its
            // output is right.
            (Some(86), "" | "right\n") => assert!(count("uncorrectable") > 0, "{engine} {codes}: {}", output.err),
            other => panic!("{engine} {codes}: {other:?}: {}", output.err),
        }
        assert!(count("injected") > 20 && count("corrected") <= count("injected"), "{engine} {codes}: {report}");
        corrected += count("corrected");
    }
    assert!(corrected > 20, "{engine}: {corrected}");
}

/// One flip in a page is more than `crc` corrects.
pub fn is_stopped_by_a_page_beyond_correction(rampart: &Rampart, engine: &str) {
    let flips = ["--engine", engine, "--cap", "4MiB", "--codes", "crc", "--inject", "flip:locked:rate=2000/s,seed=7"];
    let output = run(rampart, &[&flips[..], &["--", "python3", "-c", SUMS]].concat());
    assert_eq!((output.code, output.out.as_str()), (Some(86), ""), "{engine}: {}", output.err);
    assert!(output.err.contains("beyond correction: page ") && output.err.contains("stopped before"), "{}", output.err);
    let map = rampart.json(&["map", "show", "--json"]);
    assert_eq!(map["frames"].as_array().map(Vec::len), Some(0), "what was made up is not on the map");
}
