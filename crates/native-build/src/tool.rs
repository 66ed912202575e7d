//! Programs that a build runs, and what they say when they fail.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

/// Whether a program of this name can be started.
pub(crate) fn runs(tool: &OsStr) -> bool {
    let tried = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    !matches!(tried, Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied))
}

/// The first error among the messages of a compiler or of `make`, else the first message.
pub(crate) fn first_error(messages: &str) -> String {
    let says = |sign: &str| messages.lines().find(|line| !line.trim().is_empty() && line.contains(sign));
    // A compiler says `error:`, `make` itself `***`.
    let first = ["error:", "error", "***", ""].into_iter().find_map(says);
    first.unwrap_or("it printed no error").trim().to_owned()
}

/// The last program that a shell or `make` did not find.
///
/// dash says `/bin/sh: 1: gcc-12: not found`, bash `bash: line 1: gcc-12: command not found`, and `make`, which starts
/// simple commands itself, `make[2]: gcc-12: No such file or directory`.
pub(crate) fn missing(messages: &str) -> Option<&str> {
    messages.lines().rev().find_map(|line| missing_in(line.trim_end()))
}

fn missing_in(line: &str) -> Option<&str> {
    let of_shell = line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"));
    let of_make = || line.strip_suffix(": No such file or directory").filter(|line| line.starts_with("make"));
    let name = of_shell.or_else(of_make)?.rsplit_once(": ")?.1;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_as_each_shell_and_make_say_it() {
        for line in [
            "/bin/sh: 1: gcc-12: not found",
            "bash: line 1: gcc-12: command not found",
            "make[2]: gcc-12: No such file or directory",
        ] {
            assert_eq!(missing(&format!("  CC [M]  main.o\n{line}\nmake: *** Error 127\n")), Some("gcc-12"), "{line}");
        }
        for line in [
            "main.c:3:10: fatal error: none.h: No such file or directory",
            "make[1]: *** /usr/src/linux: No such file or directory.  Stop.",
            "sh: cannot open x: not found here",
            "",
        ] {
            assert_eq!(missing(line), None, "{line}");
        }
        assert_eq!(missing("sh: 1: pahole: not found\nsh: 1: gcc: not found\n"), Some("gcc"), "the last one");
    }

    #[test]
    fn the_first_error_is_shown_and_else_the_first_line() {
        assert_eq!(first_error("warning: a\n x.c: error: b\nerror: c\n"), "x.c: error: b");
        assert_eq!(first_error("  CC errors.o\nx.c: error: b\n"), "x.c: error: b");
        assert_eq!(
            first_error("\nmake: Entering directory\nMakefile:1: *** spaces.  Stop.\n"),
            "Makefile:1: *** spaces.  Stop."
        );
        assert_eq!(first_error("\nnothing\nto do\n"), "nothing");
        assert_eq!(first_error(""), "it printed no error");
    }

    #[test]
    fn a_program_runs_or_is_not_there() {
        assert!(runs(OsStr::new("sh")) && !runs(OsStr::new("no-such-program")));
    }
}
