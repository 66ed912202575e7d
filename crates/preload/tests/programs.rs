//! Real programs with the library preloaded: their results are the same as without it, and their heap is in the range.
//!
//! Missing programs are skipped, and counted (`rampart-skips`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The library, which cargo builds before its package's tests and beside them. (One level up is that of the last `cargo
/// build`.)
fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("librampart_preload.so");
    assert!(library.exists(), "cargo built {}", library.display());
    library
}

fn installed(program: &str) -> bool {
    rampart_skips::installed(program, rampart_skips::Feature::of_program(program))
}

/// The report of one process.
#[derive(Debug)]
struct Line {
    range: u64,
    cut: u64,
    outside: u64,
}

/// A folder for the reports of the processes that a test starts.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command with the library preloaded, and its report here.
    fn guarded(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", library()).env("RAMPART_GUARD_REPORT", self.file("report"));
        command
    }

    fn lines(&self) -> Vec<Line> {
        let report = fs::read_to_string(self.file("report")).unwrap_or_default();
        report
            .lines()
            .map(|line| Line::read(line).unwrap_or_else(|| panic!("not a line of a report: {line:?}")))
            .collect()
    }

    /// A program of `tests/programs`, built here.
    fn build(&self, compiler: &str, source: &str) -> PathBuf {
        let program = self.file("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let quiet = ["-O1", "-pthread", "-fno-builtin", "-Wno-alloc-size-larger-than", "-Wno-unused-result"];
        let built =
            Command::new(compiler).args(quiet).arg(source).arg("-o").arg(&program).arg("-ldl").status().unwrap();
        assert!(built.success(), "{compiler} builds it");
        program
    }
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let number = |name: &str| {
            let rest = line.split_once(&format!("\"{name}\":"))?.1;
            rest[..rest.find([',', '}'])?].parse().ok()
        };
        Some(Self { range: number("range_bytes")?, cut: number("cut_bytes")?, outside: number("outside")? })
    }
}

fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said} {}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

/// Runs a program with and without the library; `arguments` go to both.
fn same_with_and_without(program: &str, arguments: &[&str]) {
    if !installed(program) {
        return;
    }
    let place = Place::new();
    let without = Command::new(program).args(arguments).output().unwrap();
    let with = place.guarded(program).args(arguments).output().unwrap();
    assert_eq!(succeeded(&with), succeeded(&without), "{program}");
    assert_eq!(String::from_utf8_lossy(&with.stderr), String::from_utf8_lossy(&without.stderr), "{program}");
    let lines = place.lines();
    assert!(!lines.is_empty(), "{program} ran with the library");
    for line in lines {
        assert!(line.cut > 0 && line.cut <= line.range && line.outside == 0, "{program}: {line:?}");
    }
}

#[test]
fn python_has_the_same_results() {
    let script = "
import json, threading, subprocess, random, collections, os, re
r = random.Random(7)
words = [''.join(r.choice('abcde') for _ in range(r.randrange(9))) for _ in range(50000)]
print(sorted(collections.Counter(words).items())[:20])
text = json.dumps({w: i for i, w in enumerate(words)}, sort_keys=True)
print(len(text), json.loads(text)['abc'], len(re.findall('a+b', text)))
sums = []
ts = [threading.Thread(target=lambda i=i: sums.append(sum(len(w) * i for w in words))) for i in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(sums))
print(subprocess.run(['echo', 'child'], capture_output=True).stdout)
pid = os.fork()
if pid == 0: os._exit(len(bytes(1 << 20)) % 7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), hash(2 ** 100000))
";
    same_with_and_without("python3", &["-c", script]);
}

#[test]
fn perl_has_the_same_results() {
    let script = "my %h; $h{$_ % 1000} .= chr(65 + $_ % 26) for 1..200000; \
                  print join(',', map { \"$_=\" . length $h{$_} } sort keys %h), \"\\n\"; \
                  my $pid = fork; if (!$pid) { my @a = (1) x 100000; exit @a % 7 } \
                  waitpid $pid, 0; print $? >> 8, \"\\n\";";
    same_with_and_without("perl", &["-e", script]);
}

#[test]
fn the_shell_and_what_it_starts_have_the_same_results() {
    let script = "for i in $(seq 300); do echo $((i * 7919 % 1000)) word$i; done | sort -n |
                  awk '{ s += $1 } END { print s, NR }';
                  x=$(ls /; (exit 3)); echo \"$x $?\"; printf '%s\\n' {1..2000} | sort -r | head -n 3; wait";
    same_with_and_without("bash", &["-c", script]);
}

#[test]
fn sorting_with_threads_has_the_same_results() {
    let place = Place::new();
    let input = place.file("input");
    let numbers: Vec<String> = (0..200_000_u64).map(|i| (i * 2_654_435_761 % 1_000_003).to_string()).collect();
    fs::write(&input, numbers.join("\n")).unwrap();
    same_with_and_without("sort", &["--parallel=4", "-n", input.to_str().unwrap()]);
}

#[test]
fn a_database_has_the_same_results() {
    let script = "create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
        insert into t select i, hex(i * 7919) from n;
        create index u on t(b); select count(*), sum(length(b)), max(b) from t;
        select b, a from t where b > 'F' order by b desc limit 5; pragma integrity_check;";
    same_with_and_without("sqlite3", &[":memory:", script]);
}

#[test]
fn a_compiler_has_the_same_results() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/same.c");
    same_with_and_without("cc", &["-O2", "-w", "-S", "-o", "-", source]);
}

#[test]
fn what_the_manuals_promise_is_kept() {
    if !installed("cc") {
        return;
    }
    let place = Place::new();
    let program = place.build("cc", "same.c");
    let without = succeeded(&Command::new(&program).output().unwrap());
    assert_eq!(succeeded(&place.guarded(&program).output().unwrap()), without);
    assert!(without.ends_with("a gibibyte: ll\n") && without.contains("children that were right: 100"), "{without}");
}

#[test]
fn every_allocation_of_a_program_is_in_the_range() {
    if !installed("cc") {
        return;
    }
    let place = Place::new();
    let program = place.build("cc", "inside.c");
    let said = succeeded(&place.guarded(&program).output().unwrap());
    let late = said.strip_prefix("late and outside: ").unwrap_or_else(|| panic!("{said}"));
    let [line] = &place.lines()[..] else { panic!("one process made a report") };
    assert_eq!(
        line.outside,
        late.trim().parse().unwrap(),
        "the report counts what a thread's last destructors allocate"
    );
}

#[test]
fn what_cpp_allocates_is_in_the_range() {
    if !installed("c++") {
        return;
    }
    let place = Place::new();
    let program = place.build("c++", "operators.cc");
    assert_eq!(succeeded(&place.guarded(&program).output().unwrap()), "refused\noutside: 0\n");
}

#[test]
fn programs_that_a_program_executes_are_preloaded_too_unless_they_shall_not() {
    if !installed("bash") {
        return;
    }
    let place = Place::new();
    let script = "sort /dev/null; sort /dev/null; exec sort /dev/null";
    succeeded(&place.guarded("bash").args(["-c", script]).output().unwrap());
    assert_eq!(place.lines().len(), 3, "the shell itself does not end but becomes the last one");

    let alone = Place::new();
    let script = "sort /dev/null; echo $LD_PRELOAD";
    let output = alone.guarded("bash").args(["-c", script]).env("RAMPART_GUARD_CHILDREN", "no").output().unwrap();
    assert_eq!(succeeded(&output), "\n");
    assert_eq!(alone.lines().len(), 1, "the shell's own");
}

#[test]
fn a_vfork_child_leaves_the_heap_alone_and_its_program_has_one_of_its_own() {
    if !installed("cc") {
        return;
    }
    let place = Place::new();
    let program = place.build("cc", "vfork.c");
    let output = place.guarded(&program).args(["sort", "/dev/null"]).output().unwrap();
    assert_eq!(succeeded(&output), "mine\n");
    assert_eq!(place.lines().len(), 21);
}

#[test]
fn a_limit_on_addresses_makes_the_range_smaller() {
    let place = Place::new();
    let script = "ulimit -v 2000000; exec sort /dev/null";
    succeeded(&place.guarded("sh").args(["-c", script]).output().unwrap());
    let lines = place.lines();
    let limit = 2_000_000 << 10;
    assert!(
        matches!(lines[..], [Line { range, outside: 0, .. }] if range >= limit / 4 && range <= limit / 2),
        "{lines:?}"
    );
}

#[test]
fn a_range_that_cannot_be_is_said_and_the_program_goes_on() {
    for size in ["much", "1MiB"] {
        let place = Place::new();
        let output = place.guarded("sort").arg("/dev/null").env("RAMPART_GUARD_RANGE", size).output().unwrap();
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("rampart: the heap is not guarded: RAMPART_GUARD_RANGE is not a size"), "{said}");
        let lines = place.lines();
        assert!(matches!(lines[..], [Line { range: 0, cut: 0, outside: 1.. }]), "{lines:?}");
    }
}

#[test]
fn a_program_that_wants_more_than_the_range_hears_that_memory_is_out() {
    if !installed("python3") {
        return;
    }
    let place = Place::new();
    let script = "
try: bytearray(1 << 28); print('served')
except MemoryError: print('refused', len(bytearray(1 << 20)))";
    let output = place.guarded("python3").args(["-c", script]).env("RAMPART_GUARD_RANGE", "128MiB").output().unwrap();
    assert_eq!(succeeded(&output), "refused 1048576\n");
    assert!(place.lines().iter().all(|line| line.range == 128 << 20 && line.outside == 0));
}
