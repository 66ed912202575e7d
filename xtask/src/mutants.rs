//! Which mutations of the code no test notices.
//!
//! **Problem.** A test that passes may assert nothing about the line that it runs. **Idea.** cargo-mutants changes one
//! line after the other in the rooms that decide, and runs the tests of their package. What survives is a gap, unless
//! the changed program does the same; [`EQUIVALENT`] lists these, each with the reason. **Why rooms.** All of the tree
//! would take days; what only wires or shows is held by end-to-end tests.

use std::path::Path;

use crate::error::Error;
use crate::files;
use crate::process::{cargo, run_to_one_of};

/// Mutations that change nothing: `FILE: MUTATION -- REASON` in each line.
const EQUIVALENT: &str = "tests/mutants.txt";

/// A part of the tree: its package, the files in it, and the tests that hold it.
struct Room {
    name: &'static str,
    package: &'static str,
    files: &'static [&'static str],
    /// What `cargo test` gets: tests that take seconds, since they run once for each mutation.
    tests: &'static [&'static str],
}

/// A room that its package's unit tests hold.
const fn room(name: &'static str, package: &'static str, files: &'static [&'static str]) -> Room {
    Room { name, package, files, tests: &["--lib"] }
}

impl Room {
    const fn held_by(self, tests: &'static [&'static str]) -> Self {
        Self { tests, ..self }
    }
}

/// The unit tests of experiments, without four that simulate for minutes.
const QUICK_EXPERIMENTS: &[&str] = &[
    "--lib",
    "--",
    "--skip",
    "never_much_slower",
    "--skip",
    "one_tester_serves",
    "--skip",
    "each_class",
    "--skip",
    "each_call",
];

/// What compares the heap with a model of it, and the tests of what that leaves out, without the slowest.
const HEAP: &[&str] = &[
    "--lib",
    "--test",
    "against_a_model",
    "--test",
    "programs",
    "--test",
    "pages_below",
    "--",
    "--skip",
    "compensated",
];

/// What decides about memory.
const ROOMS: [Room; 11] = [
    room("session", "rampart-diagnostic", &["crates/diagnostic/src/testing/**", "crates/diagnostic/src/once/**"]),
    room("watch", "rampart-diagnostic", &["crates/diagnostic/src/daemon/**", "crates/diagnostic/src/control/**"]),
    room("guard", "rampart-guard", &["crates/guard/src/**"]),
    room("frames", "rampart-preload", &["crates/preload/src/frames/**"]),
    room("errors", "rampart-linux", &["crates/linux/src/errors/**"]),
    room("experiments", "rampart-studies", &["crates/studies/src/**"]).held_by(QUICK_EXPERIMENTS),
    room("codes", "rampart-codes", &["crates/codes/src/**"]).held_by(&["--lib", "--test", "promises"]),
    room("march", "rampart-march", &["crates/march/src/**"]),
    room("store", "rampart-store", &["crates/store/src/**"]),
    room(
        "heap",
        "rampart-heap",
        &[
            "crates/heap/src/space/**",
            "crates/heap/src/collector/**",
            "crates/heap/src/heap.rs",
            "crates/heap/src/pace.rs",
            "crates/heap/src/pools/**",
            "crates/heap/src/verify.rs",
        ],
    )
    .held_by(HEAP),
    room("wear", "rampart-heap", &["crates/heap/src/wear/**"]),
];

/// Files that are compiled for other processors only: no test here notices a change of them.
const ELSEWHERE: &[&str] =
    if cfg!(target_arch = "x86_64") { &["**/aarch64.rs"] } else { &["**/x86_64.rs", "**/x86_64/**"] };

/// The exit codes of cargo-mutants after a complete run: all were noticed; some were not; some tests never ended.
const COMPLETE: [i32; 3] = [0, 2, 3];

/// Prints the names of the rooms.
pub fn list() {
    ROOMS.iter().for_each(|room| println!("{:<12} {}", room.name, room.files.join(", ")));
}

/// Mutates one room, and fails if a mutation survives that is not listed as equivalent.
pub fn run_room(root: &Path, name: &str) -> Result<(), Error> {
    let room = ROOMS.iter().find(|room| room.name == name).ok_or_else(|| Error::NoRoom(name.to_owned()))?;
    let output = files::target(root).join("mutants").join(name);
    files::make(&output)?;
    let mut mutants = cargo(root);
    mutants.args(["mutants", "--package", room.package, "--no-shuffle", "--baseline", "skip", "--timeout", "60"]);
    mutants.args(["--jobs", "2"]);
    for files in room.files {
        mutants.args(["--file", files]);
    }
    for files in ELSEWHERE {
        mutants.args(["--exclude", files]);
    }
    mutants.arg("--output").arg(&output).arg("--").args(room.tests);
    run_to_one_of(&mut mutants, &COMPLETE)?;
    let read = |name: &str| files::read(&output.join("mutants.out").join(name));
    let accepted = files::read(&root.join(EQUIVALENT))?;
    let (caught, missed) =
        (read("caught.txt")?.lines().count() + read("timeout.txt")?.lines().count(), read("missed.txt")?);
    let left = unexplained(&missed, &accepted);
    left.iter().for_each(|line| println!("survived: {line}"));
    println!("{name}: {caught} noticed, {} equivalent, {} survived", missed.lines().count() - left.len(), left.len());
    if left.is_empty() { Ok(()) } else { Err(Error::Survived(left.len())) }
}

/// The survivors that no line of the list explains. Places in a file may move, so the list has none.
fn unexplained<'a>(missed: &'a str, accepted: &str) -> Vec<&'a str> {
    let explained: Vec<(&str, &str)> = accepted
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" -- "))
        .filter(|(_, reason)| !reason.trim().is_empty())
        .filter_map(|(mutation, _)| mutation.split_once(": "))
        .collect();
    let is_explained = |line: &str| {
        let mut parts = line.splitn(4, ':');
        let (file, mutation) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default().trim());
        explained.contains(&(file, mutation))
    };
    missed.lines().filter(|line| !is_explained(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_is_explained_by_its_file_and_mutation_and_a_reason() {
        let missed = "a/b.rs:12:5: replace + with * in sum\na/b.rs:13:5: replace f -> u32 with 0\nc.rs:1:1: delete !\n";
        let accepted =
            "# Why not\na/b.rs: replace + with * in sum -- both are 4 there\na/b.rs: replace f -> u32 with 0 -- \n";
        assert_eq!(unexplained(missed, accepted), ["a/b.rs:13:5: replace f -> u32 with 0", "c.rs:1:1: delete !"]);
        assert_eq!(unexplained("", accepted), [""; 0]);
    }

    #[test]
    fn the_rooms_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for room in ROOMS {
            for files in room.files {
                assert!(root.join(files.trim_end_matches("/**")).exists(), "{}: {files}", room.name);
            }
        }
        assert!(root.join(EQUIVALENT).is_file());
    }
}
