//! The hash of messages is XXH3 with 128 bits, whichever instructions the CPU has: replicas may run on different ones.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_hash_is_that_of_xxhash_with_any_instructions() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(env!("RAMPART_XXHASH"), folder.path().join("xxhash.h")).expect("xxHash is here");
    let (here, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.path().join("hash"));
    let sources = here.join("../../mpi/redmpi");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-o"]).arg(&program).arg("-I").arg(folder.path()).arg("-I").arg(&sources);
    compiler.arg(here.join("tests/hash.c"));
    compiler.args(["hash.c", "hash_avx2.c", "hash_avx512.c"].map(|name| sources.join(name)));
    assert!(compiler.status().expect("a C compiler is here").success());
    let output = Command::new(&program).output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let kinds = 1 + usize::from(has_instructions("avx2")) + usize::from(has_instructions("avx512f"));
    assert_eq!(printed.trim(), format!("{kinds} kinds"));
}

/// What the kernel says of the CPU.
fn has_instructions(name: &str) -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").expect("Linux says what the CPU has");
    text.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == name))
}
