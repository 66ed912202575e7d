//! Few crates call Linux.
//!
//! The rule reads a manifest and the sources: a library of system calls among the dependencies, or a path of `/proc` or
//! `/sys` in the code. Files and programs through the standard library do not count. Proof may do anything.

use toml::Table;

use super::Violation;
use super::layers::{LAYERS, PROOF, dependencies, manifest_path, package};
use super::syntax::shipped_literals;
use crate::tree::Tree;

/// Crates that may call Linux, and the reason.
pub const MAY_CALL_LINUX: [(&str, &str); 4] = [
    ("crates/linux", "every call that the others need"),
    ("crates/preload", "the calls that it has in place of the C library's, and files that say what its process does"),
    ("crates/rampart", "its own signals, and files that say what the processes do that it started"),
    ("java/host", "its own signals, and how much memory it had"),
];

const LIBRARIES: [&str; 6] = ["io-uring", "libc", "linux-raw-sys", "nix", "rustix", "signal-hook"];

const FOLDERS: [&str; 2] = ["/proc", "/sys"];

/// No other crate of a layer depends on a library of system calls or names a path of the kernel's files.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let may = |folder: &str| MAY_CALL_LINUX.iter().any(|(may, _)| *may == folder) || is_proof(folder);
    let held = tree.crates().filter(|(folder, _)| !may(folder));
    held.flat_map(|(folder, manifest)| libraries(folder, manifest).into_iter().chain(kernel_paths(tree, folder)))
        .collect()
}

fn is_proof(folder: &str) -> bool {
    LAYERS.iter().any(|(layer, folders)| *layer == PROOF && folders.contains(&folder))
}

fn libraries(folder: &str, manifest: &str) -> Vec<Violation> {
    let Ok(manifest) = manifest.parse::<Table>() else { return Vec::new() };
    let named = dependencies(&manifest).map(|(key, value)| package(key, value, None));
    let refused = named.filter(|package| LIBRARIES.contains(package));
    refused
        .map(|package| {
            let what =
                format!("{package} calls Linux: this crate may not (MAY_CALL_LINUX in xtask/src/tidy/linux_calls.rs)");
            Violation::new(manifest_path(folder), what)
        })
        .collect()
}

fn kernel_paths(tree: &Tree, folder: &str) -> Vec<Violation> {
    let source = format!("{folder}/src/");
    let of_tests = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let files = tree.rust().filter(|(path, _)| path.starts_with(&source) && !of_tests(path));
    let mut violations = Vec::new();
    for (path, text) in files.filter(|(_, text)| FOLDERS.iter().any(|folder| text.contains(folder))) {
        for (number, line) in (1..).zip(shipped_literals(text).lines()) {
            let paths = FOLDERS.iter().filter(|folder| line.contains(&format!("\"{folder}")));
            violations.extend(paths.map(|folder| {
                let what =
                    format!("names a path below {folder}: only crates that may call Linux read the kernel's files");
                Violation::new(format!("{path}:{number}"), what)
            }));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn tree(folder: &str, manifest: &str, source: &str) -> Tree {
        Tree::from([(format!("{folder}/Cargo.toml"), manifest), (format!("{folder}/src/lib.rs"), source)])
    }

    #[test]
    fn crates_that_may_call_linux_and_proof_pass() {
        for folder in ["crates/linux", "crates/preload", "bench"] {
            assert_eq!(
                check(&tree(folder, "dependencies.libc = '1'", "const P: &str = \"/proc/self\";")),
                [],
                "{folder}"
            );
        }
    }

    #[test]
    fn comments_tests_and_names_within_a_path_pass() {
        let source =
            "// \"/proc/self\"\nconst P: &str = \"dir/proc\";\n#[cfg(test)] mod tests { const P: &str = \"/proc\"; }";
        assert_eq!(check(&tree("crates/guard", "dev-dependencies.libc = '1'", source)), []);
    }

    #[test]
    fn a_library_of_system_calls_fails() {
        for dependency in
            ["dependencies.libc = '1'", "dependencies.c = { package = 'libc' }", "build-dependencies.libc = '1'"]
        {
            assert_eq!(
                lines(&check(&tree("crates/guard", dependency, ""))),
                [
                    "crates/guard/Cargo.toml: libc calls Linux: this crate may not (MAY_CALL_LINUX in xtask/src/tidy/linux_calls.rs)"
                ]
            );
        }
    }

    #[test]
    fn a_path_of_the_kernel_s_files_fails() {
        for literal in ["\"/proc/self/maps\"", "r\"/sys/devices\"", "format!(\"/proc/{process}/stat\")"] {
            let lines = lines(&check(&tree("crates/guard", "", &format!("\nconst P: &str = {literal};"))));
            assert_eq!(lines.len(), 1, "{literal}");
            assert!(lines[0].starts_with("crates/guard/src/lib.rs:2: names a path below /"), "{lines:?}");
        }
    }
}
