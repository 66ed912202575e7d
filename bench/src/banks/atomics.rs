//! What an operation of `FullestBank` costs on any machine: atomic operations, and cache lines written.
//!
//! A test of `rampart-buddy` counts them in the loops that are timed here, with one thread. The atomics of that crate
//! count only in tests, so the program that is timed cannot do it.

use std::process::Command;

/// The beginning of the test's name.
const TEST: &str = "a_usual_operation_changes";

/// The mean over operations of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct AtomicsPerOperation {
    pub order: u8,
    /// `allocate` or `free`.
    pub operation: String,
    pub atomics: f64,
    pub lines: f64,
}

/// Runs the test, and returns what it counted.
pub fn count() -> Result<Vec<AtomicsPerOperation>, String> {
    let test = ["test", "--release", "--package", "rampart-buddy", "--lib", TEST, "--", "--nocapture"];
    let output = Command::new("cargo").args(test).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.map_err(|error| error.to_string())?;
    let counted: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(parse).collect();
    if output.status.success() && !counted.is_empty() {
        return Ok(counted);
    }
    Err(format!("the test {TEST}… failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Reads a line like `order 0: free: 1.094 atomic operations, 2.069 cache lines written`. Before the first stands the
/// name of the test.
fn parse(line: &str) -> Option<AtomicsPerOperation> {
    let (_, line) = line.split_once("order ")?;
    let (order, line) = line.split_once(": ")?;
    let (operation, line) = line.split_once(": ")?;
    let (atomics, line) = line.split_once(" atomic operations, ")?;
    let (lines, _) = line.split_once(" cache lines")?;
    Some(AtomicsPerOperation {
        order: order.parse().ok()?,
        operation: operation.to_owned(),
        atomics: atomics.parse().ok()?,
        lines: lines.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_test_are_read() {
        let first = "test fullest::step_tests::a_usual ... order 0: allocate: 1.09 atomic operations, 2.07 cache lines";
        let next = "order 9: free: 1.160 atomic operations, 2.242 cache lines written";
        let of = |order, operation: &str, atomics, lines| AtomicsPerOperation {
            order,
            operation: operation.to_owned(),
            atomics,
            lines,
        };
        assert_eq!(parse(first), Some(of(0, "allocate", 1.09, 2.07)));
        assert_eq!(parse(next), Some(of(9, "free", 1.16, 2.242)));
        assert_eq!(parse("test result: ok. 1 passed"), None);
    }
}
