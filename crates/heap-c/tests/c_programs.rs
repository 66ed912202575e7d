//! A runtime in C, compiled with the header and linked with the library.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rampart_skips::{Feature, installed};

/// The folder in which cargo puts the library beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

fn compile(to: &Path) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-g"]);
    compiler.arg("-I").arg(folder.join("include")).arg(folder.join("tests/words.c"));
    compiler.arg(libraries().join("librampart_heap_c.a")).args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"]).arg(to);
    let Output { status, stderr, .. } = compiler.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

/// What the program prints, and how many collections there were.
fn run(program: &Path, failed: &str, stress: &str) -> (String, u64) {
    let Output { status, stdout, stderr } = Command::new(program).args([failed, stress]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{failed} failed: {status}: {stdout}{stderr}");
    (stdout, stderr.trim().parse().unwrap())
}

#[test]
fn a_runtime_in_c_keeps_its_objects_whatever_has_failed_and_whenever_collections_come() {
    if !installed("cc", Feature::CCompiler) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("words");
    compile(&program);
    let (expected, few) = run(&program, "0", "0");
    assert!(expected.ends_with("3000 in all\n256 objects\n"), "{expected}");
    for (failed, stress) in [("0.25", "0"), ("0", "1"), ("0.25", "1"), ("0.5", "1")] {
        let (output, collections) = run(&program, failed, stress);
        assert_eq!(output, expected, "{failed} failed, stress {stress}");
        let least = if stress == "1" { few + 200 } else { few };
        assert!(collections >= least, "{collections} collections after {few}");
    }
}
