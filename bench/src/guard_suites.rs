//! `guard-suites`: the test suites of real programs without and with the guard, test by test.
//!
//! **Problem.** A guard takes memory away from a program, which may notice nothing but time. **Idea.** Programs with
//! thousands of tests show whether they notice: each suite runs twice, and the bench names every test with a different
//! result. **Why this way.** Others wrote the tests, without guards in mind. The unlocked limit is small, so that the
//! small heaps of most tests are locked all the same.
//!
//! Python's and NumPy's suites come from the `python3` in PATH; those of redis and SQLite are built from source in the
//! named folder. If one is missing, a line says how to get it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::guard::build_library;
use crate::soak;

/// Seconds after which a run is ended; tests that did not run count as missing.
const LIMIT: &str = "1800";

/// Modules of CPython's own suite: its types, its memory, threads, processes, files and system calls.
const PYTHON: &str = "test_list test_dict test_set test_bytes test_unicode test_long test_float test_array \
    test_memoryview test_struct test_marshal test_pickle test_json test_re test_sort test_heapq test_collections \
    test_itertools test_functools test_generators test_exceptions test_gc test_weakref test_import test_capi \
    test_cmd_line test_fork1 test_subprocess test_popen test_pty test_wait3 test_wait4 test_threading test_thread \
    test_queue test_signal test_faulthandler test_mmap test_ctypes test_io test_fileio test_fcntl test_tempfile \
    test_os test_posix test_pwd test_resource test_select test_poll test_epoll test_selectors \
    test_sqlite3 test_zlib test_bz2 test_lzma test_hashlib test_decimal";

/// Folders of NumPy's.
const NUMPY: [&str; 4] = ["numpy._core", "numpy.lib", "numpy.linalg", "numpy.fft"];

/// Units of redis' suite, which start servers that fork to save.
const REDIS: [&str; 8] = [
    "unit/type/list",
    "unit/type/hash",
    "unit/type/zset",
    "unit/type/stream",
    "unit/scripting",
    "unit/aofrw",
    "unit/other",
    "integration/rdb",
];

/// Scripts of SQLite's suite.
const SQLITE: [&str; 16] = [
    "select1", "select2", "insert", "update", "delete", "index", "join", "trans", "trigger1", "vacuum", "wal",
    "malloc", "mmap1", "fts3aa", "rtree", "sort",
];

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Passed,
    Failed,
    Skipped,
}

/// Tests by name, with their results.
type Ends = BTreeMap<String, End>;

/// An installed suite.
struct Suite {
    folder: PathBuf,
    command: Vec<String>,
    /// Reads the results from a file that the command line named, or from the output.
    ends: fn(&str) -> Ends,
    /// The file; `None` for the output.
    file: Option<PathBuf>,
    /// The guard's options: little is left unlocked of a heap as large as these tests have.
    setting: &'static str,
}

/// Finds a suite in a folder, or says how to get it.
type Find = fn(&Path) -> Result<Suite, &'static str>;

/// Runs the suites.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let rampart = soak::build_rampart()?;
    let library = build_library()?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = arguments.first().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let suites: [(&str, Find); 4] = [("redis", redis), ("SQLite", sqlite), ("CPython", python), ("NumPy", numpy)];
    let wanted = |name: &str| arguments.len() < 2 || arguments[1..].iter().any(|wanted| wanted == name);
    let mut differences = 0;
    for (name, find) in suites.into_iter().filter(|(name, _)| wanted(name)) {
        match find(&folder) {
            Err(how) => println!("{name:<10}not found: {how}"),
            Ok(suite) => differences += compare(name, &suite, scratch.path(), &rampart, &library)?,
        }
    }
    if differences == 0 { Ok(()) } else { Err(format!("{differences} tests ended otherwise under guard")) }
}

/// Runs a suite without and with the guard, prints both, and returns how many tests differ.
fn compare(name: &str, suite: &Suite, scratch: &Path, rampart: &Path, library: &Path) -> Result<usize, String> {
    let report = scratch.join("report.json");
    let mut guarded = vec![rampart.display().to_string(), "run".to_owned()];
    guarded.extend(words(suite.setting));
    guarded.extend(["--report".to_owned(), report.display().to_string(), "--".to_owned()]);
    guarded.extend(suite.command.iter().cloned());
    let alone = ends(suite, &suite.command, scratch, library)?;
    let under = ends(suite, &guarded, scratch, library)?;
    let text = fs::read_to_string(&report).map_err(|error| format!("{name}: no report: {error}"))?;
    let seen: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let count = |name: &str| seen["counts"][name].as_u64().unwrap_or_default();
    println!("{name:<10}{:<16}{}", "without", counts(&alone));
    println!(
        "{:<10}{:<16}{}   {} processes, {} blocks locked, {} pages verified",
        "",
        "under guard",
        counts(&under),
        seen["processes"],
        count("locked"),
        count("verified")
    );
    let differ = otherwise(&alone, &under);
    for name in &differ {
        println!("{:<10}{name}: {:?} without, {:?} under guard", "", alone.get(*name), under.get(*name));
    }
    let more = under.keys().filter(|name| !alone.contains_key(*name)).count();
    if more > 0 {
        println!("{:<10}{more} of these tests were run under guard only", "");
    }
    Ok(differ.len())
}

/// Tests with another result, or none, under guard. A test that passed, and did not run without a guard, does not
/// count: SQLite's tests of failing allocations go on until none fails, so their number depends on how much an
/// allocator rounds up.
fn otherwise<'a>(alone: &'a Ends, under: &'a Ends) -> Vec<&'a String> {
    let lost = alone.iter().filter(|(name, end)| under.get(*name) != Some(*end));
    let new = under.iter().filter(|(name, end)| !alone.contains_key(*name) && **end == End::Failed);
    lost.chain(new).map(|(name, _)| name).collect()
}

/// Runs a suite once. It may fail: only the results of its tests count.
fn ends(suite: &Suite, command: &[String], scratch: &Path, library: &Path) -> Result<Ends, String> {
    let output = scratch.join("output");
    let file = fs::File::create(&output).map_err(|error| error.to_string())?;
    let other = file.try_clone().map_err(|error| error.to_string())?;
    if let Some(file) = &suite.file {
        let _none_yet = fs::remove_file(file);
    }
    Command::new("timeout")
        .args(["--kill-after=30", LIMIT])
        .args(command)
        .current_dir(&suite.folder)
        .env("RAMPART_GUARD_LIBRARY", library)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(other)
        .status()
        .map_err(|error| format!("timeout: {error}"))?;
    let path = suite.file.as_ref().unwrap_or(&output);
    let text = fs::read(path).map_err(|error| format!("{} left no results: {error}", command.join(" ")))?;
    Ok((suite.ends)(&String::from_utf8_lossy(&text)))
}

fn counts(ends: &Ends) -> String {
    let of = |end| ends.values().filter(|other| **other == end).count();
    format!("{:>6} passed {:>4} failed {:>5} skipped", of(End::Passed), of(End::Failed), of(End::Skipped))
}

fn redis(folder: &Path) -> Result<Suite, &'static str> {
    let how = "get its source (Debian: apt-get source redis) into the folder and `make MALLOC=libc` it";
    let folder = built(folder, "redis-", "src/redis-server").ok_or(how)?;
    let mut command = words("./runtest --clients 1");
    command.extend(REDIS.iter().flat_map(|unit| ["--single".to_owned(), (*unit).to_owned()]));
    Ok(Suite { folder, command, ends: of_redis, file: None, setting: "--cap 1MiB --block 4KiB --prefetch 16" })
}

fn sqlite(folder: &Path) -> Result<Suite, &'static str> {
    let how = "get its source (Debian: apt-get source sqlite3) into the folder; ./configure, `make testfixture` there";
    let folder = built(folder, "sqlite3-", "testfixture").ok_or(how)?;
    let mut command = words("./testfixture test/permutations.test veryquick");
    command.extend(SQLITE.iter().map(|script| format!("{script}.test")));
    Ok(Suite { folder, command, ends: of_sqlite, file: None, setting: "--cap 64KiB --block 4KiB" })
}

fn python(_folder: &Path) -> Result<Suite, &'static str> {
    asked("import test.support").ok_or("install CPython's own tests (Debian: libpython3.11-testsuite)")?;
    let file = std::env::temp_dir().join(format!("rampart-python-{}.xml", std::process::id()));
    let mut command = words("python3 -m test --timeout 300 --junit-xml");
    command.push(file.display().to_string());
    command.extend(words(PYTHON));
    Ok(Suite {
        folder: std::env::temp_dir(),
        command,
        ends: of_junit,
        file: Some(file),
        setting: "--cap 1MiB --block 4KiB --prefetch 16",
    })
}

fn numpy(_folder: &Path) -> Result<Suite, &'static str> {
    asked("import numpy, pytest, hypothesis")
        .ok_or("install it and what its tests want (pip install numpy pytest hypothesis)")?;
    let file = std::env::temp_dir().join(format!("rampart-numpy-{}.xml", std::process::id()));
    let mut command = words("python3 -m pytest -q -p no:cacheprovider -m");
    command.push("not slow".to_owned());
    command.push(format!("--junitxml={}", file.display()));
    command.push("--pyargs".to_owned());
    command.extend(NUMPY.map(str::to_owned));
    Ok(Suite {
        folder: std::env::temp_dir(),
        command,
        ends: of_junit,
        file: Some(file),
        setting: "--cap 4MiB --block 64KiB",
    })
}

/// Whether Python accepts this program.
fn asked(text: &str) -> Option<()> {
    let said = Command::new("python3").args(["-c", text]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    said.is_ok_and(|status| status.success()).then_some(())
}

/// The folder with this prefix and this file.
fn built(folder: &Path, name: &str, file: &str) -> Option<PathBuf> {
    let inside = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name));
    inside.filter(named).find(|path| path.join(file).is_file())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Records a test; a second one of the same name counts separately.
fn note(ends: &mut Ends, name: &str, end: End) {
    let name = (1..).map(|times| if times == 1 { name.to_owned() } else { format!("{name} #{times}") });
    let name = name.into_iter().find(|name| !ends.contains_key(name)).expect("numbers do not run out");
    ends.insert(name, end);
}

/// Reads JUnit XML: `<testcase ...>` with failures inside.
fn of_junit(text: &str) -> Ends {
    let mut ends = Ends::new();
    for case in text.split("<testcase ").skip(1) {
        let (tag, rest) = case.split_once('>').unwrap_or((case, ""));
        // One tag name ends like the other.
        let tag = format!(" {tag}");
        let of = |name: &str| tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value);
        let name = [of("classname"), of("name")].into_iter().flatten().collect::<Vec<_>>().join(".");
        let inside = if tag.ends_with('/') { "" } else { rest.split("</testcase>").next().unwrap_or("") };
        let end = match inside {
            inside if inside.contains("<failure") || inside.contains("<error") => End::Failed,
            inside if inside.contains("<skipped") => End::Skipped,
            _ => End::Passed,
        };
        note(&mut ends, &name, end);
    }
    ends
}

/// `[ok]: NAME (12 ms)`, with colours.
fn of_redis(text: &str) -> Ends {
    let mut ends = Ends::new();
    for line in text.lines() {
        // An escape starts a colour, up to its m.
        let mut parts = line.split('\u{1b}');
        let before = parts.next().unwrap_or("").to_owned();
        let plain = before + &parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest)).collect::<String>();
        let Some((end, name)) = plain.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) else { continue };
        let name = name.rsplit_once(" (").filter(|(_, time)| time.ends_with(" ms)")).map_or(name, |(name, _)| name);
        match end {
            "ok" => note(&mut ends, name, End::Passed),
            "err" | "exception" | "timeout" => {
                note(&mut ends, name.split(" in tests/").next().unwrap_or(name), End::Failed);
            }
            "skip" | "ignore" => note(&mut ends, name, End::Skipped),
            _ => {}
        }
    }
    ends
}

/// `NAME... Ok`, or the expected value.
fn of_sqlite(text: &str) -> Ends {
    let mut ends = Ends::new();
    for line in text.lines() {
        match line.split_once("... ") {
            Some((name, "Ok")) => note(&mut ends, name, End::Passed),
            Some((name, "Omitted")) => note(&mut ends, name, End::Skipped),
            _ => {
                if let Some(name) = line.strip_prefix("! ").and_then(|rest| rest.split_once(" expected")) {
                    note(&mut ends, name.0, End::Failed);
                }
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ends: &Ends) -> Vec<(&str, End)> {
        ends.iter().map(|(name, end)| (name.as_str(), *end)).collect()
    }

    #[test]
    fn what_test_runners_write_as_xml_is_read() {
        let text = "<testsuite><testcase classname=\"a.B\" name=\"one\" time=\"0.1\" /><testcase name=\"two\" time=\"1\">\
            <failure>no</failure></testcase><testcase classname=\"a\" name=\"three\"><skipped>so</skipped></testcase>";
        let wanted = [("a.B.one", End::Passed), ("a.three", End::Skipped), ("two", End::Failed)];
        assert_eq!(all(&of_junit(text)), wanted);
    }

    #[test]
    fn a_test_that_ended_otherwise_is_told_and_one_that_passed_where_it_was_not_run_before_is_not() {
        let of = |text: &str| of_sqlite(text);
        let alone = of("a... Ok\nb... Ok\nc... Omitted\n! d expected: [1]\n");
        let under = of("a... Ok\n! b expected: [1]\n! d expected: [1]\ne... Ok\n! f expected: [1]\n");
        assert_eq!(otherwise(&alone, &under), ["b", "c", "f"]);
        assert!(otherwise(&alone, &alone).is_empty());
    }

    #[test]
    fn what_redis_prints_is_read_with_and_without_colours() {
        let text = "[\u{1b}[0;32;49mok\u{1b}[0m]: SORT BY (7 ms)\n[ok]: SORT BY (8 ms)\n\
            [\u{1b}[0;31;49merr\u{1b}[0m]: LRANGE in tests/unit/a.tcl\n[1/2 done]: unit/x (3 seconds)\nnoise\n";
        let wanted = [("LRANGE", End::Failed), ("SORT BY", End::Passed), ("SORT BY #2", End::Passed)];
        assert_eq!(all(&of_redis(text)), wanted);
    }

    #[test]
    fn what_sqlite_prints_is_read() {
        let text = "select1-1.1... Ok\nselect1-1.2...\n! select1-1.2 expected: [1]\n! select1-1.2 got:      [2]\nx-2... Omitted\n";
        let wanted = [("select1-1.1", End::Passed), ("select1-1.2", End::Failed), ("x-2", End::Skipped)];
        assert_eq!(all(&of_sqlite(text)), wanted);
    }
}
