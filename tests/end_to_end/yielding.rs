//! Tests beside the machine's work: no program is disturbed or killed.

use std::process::Command;

use crate::harness::{Rampart, end};

/// A short form of an hour beside a compiler: the same source gives the same bytes, alone and beside a test.
#[test]
fn programs_beside_a_test_get_the_same_results_and_no_alarm_is_raised() {
    let rampart = Rampart::new();
    let source = rampart.folder().join("program.rs");
    let body: String =
        (0..400).map(|i| format!("fn f{i}(x: u64) -> u64 {{ x.rotate_left({}) ^ {i} }}\n", i % 64)).collect();
    let calls: String = (0..400).map(|i| format!("x = f{i}(x);")).collect();
    std::fs::write(&source, format!("{body}fn main() {{ let mut x = 1; {calls} println!(\"{{x}}\"); }}")).unwrap();
    let compile = |name: &str| {
        let output = rampart.folder().join(name);
        let done = Command::new("rustc").arg("-O").arg("-o").arg(&output).arg(&source).status().unwrap();
        assert!(done.success());
        std::fs::read(output).unwrap()
    };
    let alone = compile("program");
    let test = rampart.start(&["test", "--memory", "64MiB", "--passes", "5", "--json"]);
    let beside = compile("program");
    let output = end(test);
    assert_eq!(alone, beside);
    assert_eq!(output.json()["verdict"], "pass", "{output:?}");
}
