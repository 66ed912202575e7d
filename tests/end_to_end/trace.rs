//! A real MPI program, traced and simulated, for each MPI that is installed.

use std::process::Command;

use rampart_skips::{Feature, skip};
use serde_json::Value;

use crate::harness::{CommandOutput, Rampart};

const IN_C: &str = include_str!("victims/messages.c");
const IN_FORTRAN: &str = include_str!("victims/ring.f90");
const IN_FORTRAN_2008: &str = include_str!("victims/ring08.f90");
const THAT_LOOKS: &str = include_str!("victims/looks.c");

/// C and Fortran compilers and launchers of the two libraries, as Debian names them.
const LIBRARIES: [([&str; 2], &[&str]); 2] = [
    (["mpicc.openmpi", "mpif90.openmpi"], &["mpirun.openmpi", "--oversubscribe"]),
    (["mpicc.mpich", "mpif90.mpich"], &["mpirun.mpich"]),
];

/// Settings that a library needs to run as root, beside other tests, on few CPUs.
const SETTINGS: [(&str, &str); 3] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"), ("OMPI_MCA_mpi_yield_when_idle", "1")];

/// An MPI library and the program that was built with it.
struct Library {
    rampart: Rampart,
    launcher: &'static [&'static str],
}

fn libraries(program: &str) -> Vec<Library> {
    let build = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-w"];
    let found: Vec<Library> = LIBRARIES
        .iter()
        .filter_map(|([compiler, _], launcher)| built(compiler, launcher, &build, "program.c", program))
        .collect();
    if found.is_empty() {
        skip(Feature::Mpi, "neither mpicc.openmpi nor mpicc.mpich works");
    }
    found
}

/// Whether a compiler of an MPI works, by itself; if not, the test is skipped. The wrapper for Fortran comes with the
/// MPI, and the compiler that it calls does not.
pub fn compiles(compiler: &str) -> bool {
    let works = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|told| told.status.success());
    if works(compiler) {
        return true;
    }
    let feature = match compiler.rsplit_once('.') {
        Some(("mpif90", mpi)) if works(&format!("mpicc.{mpi}")) => Feature::Gfortran,
        Some((_, mpi)) => Feature::named(mpi).unwrap_or(Feature::Mpi),
        None => Feature::Mpi,
    };
    skip(feature, format!("{compiler} does not work"));
    false
}

fn built(
    compiler: &str,
    launcher: &'static [&'static str],
    how: &[&str],
    name: &str,
    program: &str,
) -> Option<Library> {
    if !compiles(compiler) {
        return None;
    }
    let rampart = Rampart::new();
    let source = rampart.folder().join(name);
    std::fs::write(&source, program).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(rampart.folder());
    let built = command.args(how).arg("-o").arg(rampart.folder().join("program")).arg(&source).status();
    assert!(built.is_ok_and(|built| built.success()), "{compiler} builds the program");
    Some(Library { rampart, launcher })
}

impl Library {
    /// Traces the program on four ranks.
    fn trace(&self, arguments: &[&str]) -> CommandOutput {
        self.trace_on("4", arguments)
    }

    fn trace_on(&self, ranks: &str, arguments: &[&str]) -> CommandOutput {
        let (output, program) = (self.file("out.trace"), self.file("program"));
        let goal = self.file("out.goal");
        let head = ["trace", "--json", "-o", &output, "--goal", &goal, "--"];
        let words = [&head, self.launcher, &["-n", ranks, &program], arguments].concat();
        let mut command = self.rampart.command(&words);
        CommandOutput::from(command.envs(SETTINGS).output().expect("the binary runs"))
    }

    fn file(&self, name: &str) -> String {
        self.rampart.folder().join(name).to_str().unwrap().to_owned()
    }

    fn project(&self, more: &[&str]) -> Value {
        self.rampart.json(&[&["project", "--json", "--trace", &self.file("out.trace")], more].concat())
    }
}

/// The JSON document among other output of launchers.
fn document(output: &CommandOutput) -> Value {
    let (begin, end) = (output.err.find("{\n").expect("a document"), output.err.rfind("\n}").expect("a document"));
    serde_json::from_str(&output.err[begin..end + 2]).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_real_program_is_traced_simulated_and_put_on_more_nodes() {
    let mut records = Vec::new();
    for library in libraries(IN_C) {
        let output = library.trace(&[]);
        assert_eq!((output.code, output.out.as_str()), (Some(0), ""), "{output:?}");
        let document = document(&output);
        assert_eq!((&document["ranks"], &document["complete"]), (&4.into(), &true.into()), "{output:?}");
        assert_eq!(document["not_simulated"], serde_json::json!([]), "{output:?}");
        records.push(document["records"].clone());
        let own = library.project(&[]);
        assert_eq!(own["nodes"], 4);
        // Messages alone: each rank sends and receives some dozens per round.
        assert!(own["seconds"].as_f64().unwrap() > 3.0 * 60.0 * 400e-9, "{own}");
        let goal =
            library.rampart.json(&["project", "--json", "--goal", &library.file("out.goal"), "--mtbce", "9000s"]);
        assert_eq!(goal["seconds"], own["seconds"], "the schedule is the same");
        let many = library.project(&["--nodes", "64"]);
        assert!(many["events"].as_u64().unwrap() > 16 * own["events"].as_u64().unwrap(), "collectives grow: {many}");
        let disturbed = library.project(&["--nodes", "64", "--mtbce", "5ms", "--cost", "775us", "--seeds", "2"]);
        assert!(disturbed["slowdown"].as_f64().unwrap() > 0.0, "{disturbed}");
        let system = library.project(&["--system", "google", "--seeds", "2"]);
        let of_table = (&system["nodes"], &system["mtbce_seconds"]);
        assert_eq!(of_table, (&4.into(), &1368.0.into()), "the table has errors of it, and no nodes: {system}");
        let refused = library.rampart.run(&["project", "--trace", &library.file("out.trace"), "--nodes", "7"]);
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
        assert!(refused.err.contains("name 4 or 8"), "{refused:?}");
    }
    assert!(records.windows(2).all(|pair| pair[0] == pair[1]), "libraries are recorded alike: {records:?}");
}

/// Two ranks that test for messages as often as they can: while both work, or each while the other works.
#[test]
fn looking_takes_as_long_as_it_took() {
    for library in libraries(THAT_LOOKS) {
        for how in ["work", "turns"] {
            // Beside other tests, a rank may lose its CPU in a call, which counts as waiting for the other rank.
            let near = |_| {
                let output = library.trace_on("2", &[how]);
                assert_eq!(output.code, Some(0), "{output:?}");
                let traced = library.project(&[])["traced"].clone();
                let shared = !traced["ranks_sharing_cpus"].is_null();
                shared || traced["deviation"].as_f64().unwrap().abs() < 0.25
            };
            assert!((0..4).any(near), "{how}: a quarter off, four times");
        }
    }
}

/// Ten rounds of ten records, three communicators, a barrier and the end: each call once, though one library forwards
/// Fortran's calls to C and the other does not. In Fortran 2008, both forward some.
#[test]
fn a_program_in_fortran_is_recorded_as_one_in_c() {
    for ([_, compiler], launcher) in LIBRARIES {
        let Some(library) = built(compiler, launcher, &["-w"], "program.f90", IN_FORTRAN) else { continue };
        let output = library.trace(&[]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(document(&output)["records"], 4 * (10 * 10 + 3 + 2), "{output:?}");
        assert!(library.project(&[])["seconds"].as_f64().unwrap() > 0.0);
        let of_2008 = built(compiler, launcher, &["-w"], "program.f90", IN_FORTRAN_2008).unwrap();
        let output = of_2008.trace(&[]);
        assert_eq!(output.code, Some(0), "{output:?}");
        // Four more in each round where sections can be received later.
        let in_round = if compiler.contains("mpich") { 18 } else { 14 };
        assert_eq!(document(&output)["records"], 4 * (10 * in_round + 9), "{output:?}");
    }
}

#[test]
fn a_program_that_is_killed_leaves_a_trace_that_can_be_simulated() {
    for library in libraries(IN_C) {
        let output = library.trace(&["killed"]);
        assert_ne!(output.code, Some(0), "{output:?}");
        let document = document(&output);
        assert_eq!((&document["complete"], &document["seconds"]), (&false.into(), &Value::Null), "{output:?}");
        let own = library.project(&[]);
        assert!(own["traced"]["measured_seconds"].is_null() && own["seconds"].as_f64().unwrap() > 0.0, "{own}");
        assert!(own["events"].as_u64().unwrap() > 500, "the first blocks are there: {own}");
    }
}

#[test]
fn what_cannot_be_traced_is_refused_in_one_line() {
    let rampart = Rampart::new();
    let output = rampart.folder().join("out.trace");
    let output = output.to_str().unwrap();
    let refused = rampart.run(&["trace", "-o", output, "--mpicc", "no-such-mpicc", "--", "true"]);
    assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
    assert!(refused.err.contains("--mpicc"), "{refused:?}");
    std::fs::write(output, "RAMPTRAC\u{2}").unwrap();
    for (arguments, why) in [
        (vec!["project", "--trace", output], "this is no trace of a program"),
        (vec!["project", "--trace", output, "--network", "none"], "there is no network"),
        (vec!["project", "--trace", "/none/such"], "No such file"),
    ] {
        let refused = rampart.run(&arguments);
        assert_eq!((refused.code, refused.err.lines().count()), (Some(2), 1), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
}
