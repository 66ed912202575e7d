//! Each program, library or module in C under `mpi/` and `kernel/` is self-contained: the user's machine builds it from
//! one folder.

use super::Violation;
use crate::tree::Tree;

const NATIVE: [&str; 2] = ["mpi/", "kernel/"];

/// What is built into each library of `mpi/`.
const SHARED: &str = "mpi/fortran";

/// A file of `mpi/X` or `kernel` includes files of its own folder, those that libraries share, and headers of the
/// system only. What a patch includes
/// lies in the tree that it is for.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_native = |path: &str| NATIVE.iter().any(|native| path.starts_with(native)) && !path.ends_with(".patch");
    for (path, text) in tree.files().filter(|(path, _)| is_native(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(wrong) = included(line).and_then(|header| refusal(tree, folder, header)) {
                violations.push(Violation::new(format!("{path}:{number}"), wrong));
            }
        }
    }
    violations
}

/// What a line includes, with its quotes or brackets.
fn included(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim())
}

fn refusal(tree: &Tree, folder: &str, header: &str) -> Option<String> {
    if header.starts_with('<') {
        return None;
    }
    let Some(name) = header.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
        return Some(format!("{header} names no file: include it as <…> or \"…\""));
    };
    let is_ours = !name.contains('/') && [folder, SHARED].iter().any(|of| tree.text(&format!("{of}/{name}")).is_some());
    (!is_ours).then(|| format!("\"{name}\" is not a file of {folder}/: a folder in C includes its own files only"))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn check_line(line: &str) -> Vec<String> {
        lines(&check(&Tree::from([
            ("mpi/trace/life.c", format!("// first\n{line}\n").as_str()),
            ("mpi/trace/life.h", ""),
            ("mpi/calibrate/clock.h", ""),
            ("crates/linux/tests/probe.c", "#include \"elsewhere.h\""),
        ])))
    }

    #[test]
    fn own_files_and_headers_of_the_system_pass() {
        for line in ["#include <mpi.h>", "#include \"life.h\"", "  # include \"life.h\" // why", "int include;"] {
            assert_eq!(check_line(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_file_of_another_folder_fails() {
        for name in ["../calibrate/clock.h", "clock.h", "sub/life.h"] {
            assert_eq!(
                check_line(&format!("#include \"{name}\"")),
                [format!(
                    "mpi/trace/life.c:2: \"{name}\" is not a file of mpi/trace/: a folder in C includes its own files only"
                )]
            );
        }
        assert_eq!(check_line("#include HEADER").len(), 1);
    }

    #[test]
    fn the_kernel_module_is_such_a_folder() {
        let tree = Tree::from([
            ("kernel/main.c", "#include <linux/mm.h>\n#include \"abi.h\"\n#include \"life.h\"\n"),
            ("kernel/abi.h", ""),
            ("kernel/patches/first.patch", " #include \"internal.h\"\n"),
            ("mpi/trace/life.h", ""),
        ]);
        assert_eq!(
            lines(&check(&tree)),
            ["kernel/main.c:3: \"life.h\" is not a file of kernel/: a folder in C includes its own files only"]
        );
    }
}
