//! `rampart java` with a toolchain of scripts, which print their arguments: `cargo xtask java` runs the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::harness::{CommandOutput, Rampart, end, signal};

/// Stands for the JVM that compiles: it counts its calls.
const COMPILER: &str = "echo called >> calls; [ -z \"$REFUSE\" ] || { echo \"Class x.Y was not found\"; exit 1; }
[ -z \"$HANG\" ] || exec sleep 1000; cp a.jar \"$6/$7\"";

/// Stands for Node with binaryen: `node TRANSLATOR LEGACY OPTION... -o MODULE`.
const TRANSLATOR: &str = "legacy=$2; for word; do module=$word; done; cp \"$legacy\" \"$module\"";

/// Stands for the host.
const HOST: &str = "echo \"$@\"; while [ \"$1\" != -- ]; do [ \"$1\" != --report ] || report=$2; shift; done
[ -z \"$report\" ] || echo '{\"collections\":[{\"kind\":\"full\",\"pause_ns\":2000000}],\"objects_moved\":7,\"bytes_moved\":8,
\"perfect_pages_requested\":3,\"perfect_pages_borrowed\":2,\"most_pages_borrowed_at_once\":1,\"table_bytes\":1024,
\"cards_found_dirty\":5}' > $report
exit 7";

struct Kit {
    rampart: Rampart,
}

impl Kit {
    fn new() -> Self {
        let kit = Self { rampart: Rampart::new() };
        let binaryen = kit.at("kit/npm/node_modules/binaryen");
        for folder in ["kit/build/release", "kit/classes", "kit/jars", "kit/library", "bin"] {
            fs::create_dir_all(kit.at(folder)).unwrap();
        }
        fs::create_dir_all(binaryen.join("bin")).unwrap();
        for file in ["kit/classes/Compile.class", "kit/npm/node_modules/binaryen/bin/wasm-opt"] {
            fs::write(kit.at(file), "").unwrap();
        }
        fs::write(binaryen.join("package.json"), "{}").unwrap();
        let answer = "[ \"$1\" != --version ] || exit 0\n";
        kit.script("bin/java", &format!("{answer}{COMPILER}"));
        kit.script("bin/node", &format!("{answer}{TRANSLATOR}"));
        kit.script("kit/build/release/rampart-java", HOST);
        fs::write(kit.at("a.jar"), "classes").unwrap();
        kit
    }

    fn at(&self, name: &str) -> PathBuf {
        self.rampart.folder().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.at(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.rampart.command(&[&["java", "--kit", "kit"], words].concat());
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        command.current_dir(self.rampart.folder()).env("PATH", path).env("XDG_CACHE_HOME", self.at("cache"));
        command.env("TMPDIR", self.rampart.folder()).env_remove("CLASSPATH");
        command
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(words).output().expect("the binary runs"))
    }

    fn run_rampart(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from(self.rampart.command(words).output().expect("the binary runs"))
    }

    fn calls_of_the_compiler(&self) -> usize {
        fs::read_to_string(self.at("calls")).map_or(0, |calls| calls.lines().count())
    }

    fn nothing_is_left(&self) {
        let left = |name: &str| name.starts_with("rampart-java-");
        let names = fs::read_dir(self.rampart.folder()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.filter(|name| left(&name.to_string_lossy())).count(), 0);
    }
}

#[test]
fn a_program_is_compiled_once_and_the_host_learns_what_the_user_wants() {
    let kit = Kit::new();
    let words = [
        "--holes",
        "25%",
        "--cluster",
        "2",
        "--line",
        "128",
        "--seed",
        "9",
        "--failures-per-second",
        "0.5",
        "--",
        "-Xmx16m",
        "-cp",
        "a.jar",
        "Main",
        "-x",
    ];
    let first = kit.run(&words);
    assert_eq!((first.code, first.err.as_str()), (Some(7), ""), "{first:?}");
    let options = "--heap 16384 --holes 25% --cluster 2 --seed 9 --failures-per-second 0.5 --line 128 --cache ";
    assert!(first.out.starts_with(options), "{first:?}");
    assert!(first.out.trim_end().ends_with("program.wasm -x"), "{first:?}");
    assert_eq!((kit.run(&words).code, kit.calls_of_the_compiler()), (Some(7), 1), "what is compiled is kept");
    fs::write(kit.at("a.jar"), "other classes").unwrap();
    assert_eq!((kit.run(&words).code, kit.calls_of_the_compiler()), (Some(7), 2));
    kit.nothing_is_left();
}

#[test]
fn the_host_learns_which_lines_of_which_frames_are_on_the_map() {
    let kit = Kit::new();
    kit.script("kit/build/release/rampart-java", "shift 2; [ \"$1\" = --frames ] && cat \"$2\"; shift 2; echo \"$@\"");
    let words = ["--map", "--", "-cp", "a.jar", "Main"];
    assert!(kit.run(&words).out.starts_with("--line 256 --cache "), "no frame is bad");
    // Beyond the memory of any machine that runs this: nothing is retired.
    assert_ne!(kit.run_rampart(&["map", "add", "0x7ffffffff"]).code, None);
    let known = kit.run(&words).out;
    assert!(known.starts_with("7ffffffff ffffffffffffffff\n--line 256 --cache "), "{known}");
    // As a test of memory leaves it that has seen errors in two lines of the frame.
    let store = Connection::open(kit.rampart.store()).unwrap();
    assert_eq!(store.execute("UPDATE failure SET lines = 5 WHERE frame = 0x7ffffffff", ()).unwrap(), 1);
    let known = kit.run(&words).out;
    assert!(known.starts_with("7ffffffff 5\n--line 256 --cache "), "{known}");
    let refused = kit.run(&["--map", "--holes", "10%", "--", "Main"]);
    assert_eq!(refused.code, Some(2), "failures are simulated or real");
    kit.nothing_is_left();
}

#[test]
fn what_the_collections_did_is_told_on_request() {
    let kit = Kit::new();
    let log = kit.run(&["--gc-log", "--", "-cp", "a.jar", "Main"]);
    assert!(log.err.contains("full              1     2.000     2.000     2.000     2.000  of all objects"), "{log:?}");
    assert!(log.err.contains("3 perfect pages asked for, 2 of them borrowed, at most 1 at a time"), "{log:?}");
    let json = kit.run(&["--json", "--", "-cp", "a.jar", "Main"]);
    let document: serde_json::Value = serde_json::from_str(&json.err).expect("one document");
    assert_eq!((document["objects_moved"].as_u64(), json.code), (Some(7), Some(7)));
}

#[test]
fn whatever_is_wrong_is_said_in_one_line() {
    let kit = Kit::new();
    let refused = |words: &[&str], said: &str| {
        let output = kit.run(words);
        assert_eq!((output.code, output.err.lines().count()), (Some(2), 1), "{output:?}");
        assert!(output.err.contains(said), "{said}: {output:?}");
    };
    refused(&["--", "-jar", "none.jar"], "none.jar cannot be read");
    refused(&["--", "-jar", "a.jar"], "a.jar is no jar");
    refused(&["--", "-cp", "none", "Main"], "none cannot be read");
    refused(&["--", "-Da=b", "Main"], "-Da=b is not supported");
    refused(&["--holes", "91%", "--", "Main"], "give a share from 0% to 90%, or 100%");
    refused(&["--failures-per-second", "0", "--", "Main"], "give a number above 0");
    refused(&["--heap", "2GiB", "--", "Main"], "give from 1MiB to 1GiB");
    let failed = kit.command(&["--", "-cp", "a.jar", "Main"]).env("REFUSE", "1").output().unwrap();
    let failed = CommandOutput::from(failed);
    assert_eq!(failed.err, "rampart: Main cannot be compiled: Class x.Y was not found\n");
    fs::remove_dir(kit.at("kit/jars")).unwrap();
    refused(&["--", "-cp", "a.jar", "Main"], "build it with java/build");
    let without_java = kit.command(&["--", "-cp", "a.jar", "Main"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(without_java.status.code(), Some(2));
    kit.nothing_is_left();
}

#[test]
fn it_can_be_stopped_while_it_compiles() {
    let kit = Kit::new();
    let mut command = kit.command(&["--", "-cp", "a.jar", "Main"]);
    command.env("HANG", "1").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for(&kit.at("calls"));
    // Unlike SIGINT, it is not ignored by whatever a shell starts in the background.
    signal(&child, "TERM");
    let output = end(child);
    assert_eq!((output.code, output.err.as_str()), (Some(2), "rampart: interrupted while compiling the program\n"));
    kit.nothing_is_left();
}

/// The test's own limit of time ends a wait that is in vain.
fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
