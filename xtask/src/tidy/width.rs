//! Comments end where code ends, so that a window that shows one shows the other. `rustfmt` holds code.

use super::Violation;
use super::syntax::comments;
use crate::tree::Tree;

const WIDEST: usize = 120;

/// No line with a comment is longer than [`WIDEST`], except a line of a table and one with a single long word.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        let wide = |line: &&str| line.len() > WIDEST && line.chars().count() > WIDEST;
        if !text.lines().any(|line| wide(&line)) {
            continue;
        }
        let Some(comments) = comments_of(path, text) else { continue };
        let lines = text.lines().zip(comments.lines().chain(std::iter::repeat("")));
        for (number, (line, _)) in (1..).zip(lines).filter(|(_, (line, comment))| wide(line) && can_break(comment)) {
            let what = format!("{} columns: comments end at column {WIDEST}", line.chars().count());
            violations.push(Violation::new(format!("{path}:{number}"), what));
        }
    }
    violations
}

/// The comments of a source, on their lines; `None` for files that are not code.
fn comments_of(path: &str, text: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("rs" | "c" | "h") => Some(comments(text)),
        Some("sh" | "py" | "toml") => Some(after_hashes(text)),
        None if text.starts_with("#!") => Some(after_hashes(text)),
        _ => None,
    }
}

/// For each line, the text after a `#` that begins a word.
fn after_hashes(text: &str) -> String {
    let comment = |line: &str| {
        let start = line.match_indices('#').map(|(at, _)| at).find(|&at| at == 0 || line[..at].ends_with([' ', '\t']));
        start.map_or(String::new(), |at| line[at..].to_owned()) + "\n"
    };
    text.lines().map(comment).collect()
}

/// Whether there is a comment that could continue on another line: a row of a table could not.
fn can_break(comment: &str) -> bool {
    let words = comment.trim().trim_start_matches(['/', '!', '#', '*']).trim();
    words.contains(' ') && !words.starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn check_line(path: &str, line: &str) -> Vec<String> {
        lines(&check(&Tree::from([(path, format!("\n{line}\n"))])))
    }

    /// A text of words with this many columns.
    fn text(columns: usize) -> String {
        "é ".repeat(columns / 2)
    }

    #[test]
    fn comments_of_120_columns_and_what_is_no_comment_pass() {
        for (path, line) in [
            ("crates/a/src/lib.rs", format!("// {}é", text(116))),
            ("crates/a/src/lib.rs", format!("const TEXT: &str = \"// {}\";", text(200))),
            ("crates/a/src/lib.rs", format!("//! | {} |", text(200))),
            ("crates/a/src/lib.rs", format!("// {}", "x".repeat(200))),
            ("run.sh", format!("echo {}", text(200))),
            ("README.md", text(200)),
        ] {
            assert_eq!(check_line(path, &line), [""; 0], "{path}: {line}");
        }
    }

    #[test]
    fn longer_comments_fail_in_each_language() {
        for (path, begin) in [
            ("crates/a/src/lib.rs", "// "),
            ("crates/a/src/lib.rs", "    /// "),
            ("crates/a/src/lib.rs", "let x = 1; // "),
            ("mpi/a/a.c", "/* "),
            ("run.sh", "true # "),
            ("plot.py", "# "),
        ] {
            let line = format!("{begin}{}é", text(120));
            let columns = line.chars().count();
            assert_eq!(check_line(path, &line), [format!("{path}:2: {columns} columns: comments end at column 120")]);
        }
    }
}
