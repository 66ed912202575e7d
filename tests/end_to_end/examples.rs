//! The sample inputs of `examples/`: the command of each row of its table runs, and each file is in a row.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rampart_skips::{Feature, skip};

use crate::guarded::{can_guard, installed, library};
use crate::harness::{CommandOutput, Rampart};

/// Settings that Open MPI needs to run as root, and with more processes than CPUs (versions 4 and 5).
const SETTINGS: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// A command needs seconds; others may use the machine.
const MOST_SECONDS: &str = "300";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    file: String,
    command: String,
    needs: String,
}

/// The rows of a table of four columns, without its head.
fn rows(page: &str) -> Vec<Row> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let table = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let row = |line: &str| match <[String; 4]>::try_from(cells(line)) {
        Ok([file, _, command, needs]) => Row { file, command, needs },
        Err(cells) => panic!("four columns: {cells:?}"),
    };
    table.map(row).collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_row_has_a_file_a_command_and_what_it_needs() {
    let page = "text\n| file | what | command | needs |\n|---|---|---|---|\n| `a` | b, c | `d \"$e\"` | - |\n\nmore\n";
    let [file, command, needs] = ["a", "d \"$e\"", "-"].map(str::to_owned);
    assert_eq!(rows(page), [Row { file, command, needs }]);
}

#[test]
fn each_file_is_in_a_row_and_each_row_uses_its_file() {
    let rows = rows(&fs::read_to_string(examples().join("README.md")).unwrap());
    let mut files = files(&examples());
    assert!(files.remove("README.md"));
    let named: BTreeSet<String> = rows.iter().map(|row| row.file.clone()).collect();
    assert_eq!(named, files, "the files in the table of examples/README.md, and those in the folder");
    for row in rows {
        assert!(row.command.contains(&format!("examples/{}", row.file)) && row.command.contains("rampart "), "{row:?}");
        let size = fs::metadata(examples().join(&row.file)).unwrap().len();
        assert!(size < 200_000, "{row:?} has {size} bytes");
    }
}

/// Whether this machine has what a command needs; if not, the output says what is missing.
fn has(rampart: &Rampart, row: &Row) -> bool {
    let has_mpi = || installed("mpicc") && installed("mpirun");
    let is_open_mpi = || {
        let version = Command::new("mpirun").arg("--version").output().expect("it is installed");
        String::from_utf8_lossy(&version.stdout).contains("Open")
    };
    // `installed` itself records the skip of a program that is absent.
    let told = |is_there: bool, feature: Feature| {
        if !is_there {
            skip(feature, format!("{} needs {}", row.file, row.needs));
        }
        is_there
    };
    match row.needs.as_str() {
        "-" => true,
        "Python" => installed("python3") && can_guard(rampart),
        "MPI" => has_mpi(),
        "Open MPI" => has_mpi() && told(is_open_mpi(), Feature::OpenMpi),
        "kernel module" => told(Path::new("/dev/rampart").exists(), Feature::KernelModule),
        other => panic!("unknown: {other}"),
    }
}

/// Runs a command as a stranger would, in a folder that holds a copy of `examples/`.
fn run(rampart: &Rampart, command: &str) -> CommandOutput {
    // A daemon of this machine's whole memory would not be done in seconds.
    let limit = if command.starts_with("rampart watch") { "ulimit -v 2097152; " } else { "" };
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=20", MOST_SECONDS, "sh", "-c", &format!("{limit}{command}")]);
    // The system's python3 first: that of a version manager may be a script that starts dozens of processes.
    let (bin, path) = (rampart.folder().join("bin"), std::env::var("PATH").unwrap());
    shell.env("PATH", format!("{}:/usr/bin:{path}", bin.display())).envs(SETTINGS);
    shell.env("RAMPART_STORE", rampart.store()).env("RAMPART_GUARD_LIBRARY", library());
    shell.current_dir(rampart.folder()).stdin(Stdio::null());
    CommandOutput::from(shell.output().expect("timeout runs"))
}

#[test]
fn the_command_of_each_row_runs() {
    let rampart = Rampart::new();
    let (copy, bin) = (rampart.folder().join("examples"), rampart.folder().join("bin"));
    fs::create_dir(&copy).unwrap();
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_rampart"), bin.join("rampart")).unwrap();
    for name in files(&examples()) {
        fs::copy(examples().join(&name), copy.join(&name)).unwrap();
    }
    let rows = rows(&fs::read_to_string(copy.join("README.md")).unwrap());
    let mut ran = 0;
    for row in rows.iter().filter(|row| has(&rampart, row)) {
        let output = run(&rampart, &row.command);
        // As examples/README.md says: where programs need the machine, the daemon has tested nothing by then.
        let is_idle = || row.command.starts_with("rampart watch") && output.last_line().starts_with("INCOMPLETE: ");
        let expected = if row.command.starts_with("rampart errors") { 1 } else { 0 };
        assert!(output.code == Some(expected) || is_idle(), "{row:?}: {output:?}");
        assert!(!output.out.is_empty(), "{row:?}: {output:?}");
        ran += 1;
    }
    let unconditional = rows.iter().filter(|row| row.needs == "-").count();
    assert!(ran >= unconditional && unconditional >= 11, "{ran} commands ran");
    println!("{ran} of {} commands ran", rows.len());
}
