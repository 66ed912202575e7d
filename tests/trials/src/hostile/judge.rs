//! Compares a program under guard with the same program without.

/// The observations of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The exit code; `None` if it still ran at its time limit.
    pub code: Option<i32>,
    /// The program's standard output.
    pub out: String,
    /// Standard error of the program and its guard.
    pub err: String,
    /// Files and folders in its folder of temporary files, after its end.
    pub left_files: Vec<String>,
    /// Its processes that still lived.
    pub left_processes: usize,
    /// Foreign content that the guard found in its own files.
    pub foreign: u64,
}

/// The allowed effects of a setting on a guarded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The program works as without a guard.
    Works,
    /// As [`Self::Works`], or the program is refused in one clear line.
    MayRefuse,
    /// As [`Self::MayRefuse`]; and since `rampart run` is killed, its files may stay behind.
    MayLeave,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same result as without a guard.
    Right,
    /// The same result, with a line that nothing was guarded.
    LeftAlone,
    /// Refused: a line gives the reason, and the exit code is 2 or 86.
    Refused(String),
    /// Any other result.
    Wrong(String),
}

/// The exit code of a script where this machine lacks what a setting needs.
pub const SKIPPED: i32 = 77;

/// Judges one run under guard.
pub fn judge(plain: &Run, guarded: &Run, allowance: Allowance) -> Verdict {
    let wrong = |what: &str| Verdict::Wrong(what.to_owned());
    let may_leave = allowance == Allowance::MayLeave;
    if guarded.out.contains("wrong") {
        return wrong("wrong data");
    }
    let Some(code) = guarded.code else { return wrong("hangs") };
    if guarded.left_processes > plain.left_processes {
        return wrong("leaves a process");
    }
    if guarded.left_files.len() > plain.left_files.len() && !may_leave {
        return Verdict::Wrong(format!("leaves {}", guarded.left_files.join(" ")));
    }
    if guarded.foreign > 0 {
        return wrong("a foreign write to the guard's files");
    }
    if (guarded.code, &guarded.out) == (plain.code, &plain.out) {
        let is_alone = guarded.err.contains("is not guarded") || guarded.err.contains("nothing was guarded");
        return if is_alone { Verdict::LeftAlone } else { Verdict::Right };
    }
    // The last line before the summary: a line about the engine may come first.
    let said = guarded.err.lines().rfind(|line| line.starts_with("rampart") && !line.starts_with("rampart: guarded "));
    match (code, said) {
        (2 | 86, Some(line)) if allowance == Allowance::Works => Verdict::Wrong(format!("refused: {line}")),
        (2 | 86, Some(line)) => Verdict::Refused(line.to_owned()),
        _ => Verdict::Wrong(difference(plain, guarded, code)),
    }
}

fn difference(plain: &Run, guarded: &Run, code: i32) -> String {
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let (out, err) = (last(&guarded.out), last(&guarded.err));
    format!("exit {code}, without a guard {}; {out:?} {err:?}", plain.code.unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: i32, out: &str, err: &str) -> Run {
        Run { code: Some(code), out: out.to_owned(), err: err.to_owned(), ..Run::default() }
    }

    #[test]
    fn what_is_as_without_a_guard_is_right() {
        for (code, out) in [(0, "right\n"), (137, ""), (7, ""), (4, "no memory\n")] {
            let plain = run(code, out, "");
            assert_eq!(judge(&plain, &run(code, out, "rampart: guarded 8 MiB"), Allowance::Works), Verdict::Right);
            let alone = run(code, out, "rampart: the program is not guarded: it is linked statically");
            assert_eq!(judge(&plain, &alone, Allowance::Works), Verdict::LeftAlone);
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_its_exit_code_where_it_is_allowed() {
        let (plain, refused) = (run(0, "right\n", ""), run(2, "", "rampart: no files: raise ulimit -n"));
        let line = "rampart: no files: raise ulimit -n".to_owned();
        assert_eq!(judge(&plain, &refused, Allowance::MayRefuse), Verdict::Refused(line));
        assert!(matches!(judge(&plain, &refused, Allowance::Works), Verdict::Wrong(_)));
        for silent in [run(2, "", ""), run(1, "", "rampart: no"), run(139, "", "rampart: no"), run(86, "", "bash: no")]
        {
            assert!(matches!(judge(&plain, &silent, Allowance::MayRefuse), Verdict::Wrong(_)), "{silent:?}");
        }
    }

    #[test]
    fn harm_is_wrong_whatever_is_allowed() {
        let plain = run(0, "right\n", "");
        let harmed = [
            ("hangs", Run { code: None, ..plain.clone() }),
            ("wrong data", run(3, "wrong\n", "")),
            ("wrong data", Run { code: None, out: "wrong\n".to_owned(), ..plain.clone() }),
            ("leaves a process", Run { left_processes: 1, ..plain.clone() }),
            ("a foreign write to the guard's files", Run { foreign: 1, ..plain.clone() }),
        ];
        for (what, harmed) in harmed {
            for allowance in [Allowance::Works, Allowance::MayRefuse, Allowance::MayLeave] {
                assert_eq!(judge(&plain, &harmed, allowance), Verdict::Wrong(what.to_owned()));
            }
        }
    }

    #[test]
    fn only_a_guard_that_is_killed_may_leave_files() {
        let plain = run(0, "right\n", "");
        let left = Run { left_files: vec!["rampart-1".to_owned()], ..plain.clone() };
        assert_eq!(judge(&plain, &left, Allowance::MayLeave), Verdict::Right);
        assert_eq!(judge(&plain, &left, Allowance::MayRefuse), Verdict::Wrong("leaves rampart-1".to_owned()));
        assert_eq!(judge(&left, &left, Allowance::Works), Verdict::Right);
    }
}
