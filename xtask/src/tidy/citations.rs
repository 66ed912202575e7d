//! A work is cited by its key, such as `[Rahman16, 4.1.2]`: a reader finds the key in docs/references.md, and the work
//! in a library.
//!
//! A private file name tells a reader nothing; nor does "thesis" where two of the works are theses.

use std::collections::BTreeSet;

use super::Violation;
use super::syntax::comments;
use crate::tree::Tree;

const REFERENCES: &str = "docs/references.md";

/// Files in which the refused words are intended.
const EXEMPT: [&str; 2] = [REFERENCES, "xtask/src/tidy/citations.rs"];

/// Comments and documents cite only by listed keys.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let keys: BTreeSet<&str> = tree.text(REFERENCES).unwrap_or_default().lines().filter_map(listed_key).collect();
    let documents: BTreeSet<&str> = tree.files().filter_map(|(path, _)| name_of(path).strip_suffix(".md")).collect();
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| !EXEMPT.contains(path)) {
        let prose = match path.rsplit('.').next() {
            Some("rs") => comments(text),
            Some("md") => text.to_owned(),
            _ => continue,
        };
        let mut before = "";
        for (number, line) in (1..).zip(prose.lines()) {
            let mut refuse = |what: String| violations.push(Violation::new(format!("{path}:{number}"), what));
            cited_keys(line).filter(|key| !keys.contains(key)).for_each(|key| refuse(unlisted(key)));
            for word in words(line) {
                refusal(before, word, &documents).into_iter().for_each(&mut refuse);
                before = word;
            }
        }
    }
    violations
}

fn unlisted(key: &str) -> String {
    format!("[{key}] is not in {REFERENCES}: add the work there")
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The key in the first cell of a row.
fn listed_key(line: &str) -> Option<&str> {
    line.strip_prefix("| ")?.split(" |").next().filter(|cell| is_key(cell))
}

/// Keys in brackets, alone or before a comma.
fn cited_keys(line: &str) -> impl Iterator<Item = &str> {
    line.split('[').skip(1).filter_map(|rest| rest.split([',', ']']).next()).filter(|key| is_key(key))
}

/// A name and the last two digits of a year.
fn is_key(text: &str) -> bool {
    let Some((name, year)) = text.split_at_checked(text.len().saturating_sub(2)) else { return false };
    name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphabetic())
        && year.chars().all(|c| c.is_ascii_digit())
}

/// The words of a line; a path or a name of code is one word.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() || "_-./'’".contains(c);
    line.split(move |c| !joins(c)).map(|word| word.trim_matches(['.', '/', '-', '\''])).filter(|word| !word.is_empty())
}

/// The problem with a word, given the word before it.
fn refusal(before: &str, word: &str, documents: &BTreeSet<&str>) -> Option<String> {
    let lower = word.to_lowercase();
    let base = lower.trim_end_matches("'s").trim_end_matches('\'');
    if base == "thesis" || (base == "paper" && before.eq_ignore_ascii_case("the")) {
        return Some(format!("`{word}` could be any work: cite it by its key in {REFERENCES}, or name the system"));
    }
    if is_numbered_file(word) {
        return Some(format!("{word} is a file that readers do not have: cite the work by its key in {REFERENCES}"));
    }
    let document = name_of(word).strip_suffix(".md").filter(|name| !documents.contains(name));
    document.map(|_| format!("{word} is no document of this tree"))
}

/// A name like those of the papers' files: three digits, an underscore and more.
fn is_numbered_file(word: &str) -> bool {
    let name = name_of(word);
    let digits = name.chars().take_while(char::is_ascii_digit).count();
    digits == 3 && name[digits..].starts_with('_') && name.len() > 8
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// A tree with a list of works, and a line in one file.
    fn check_in(path: &str, line: &str) -> Vec<String> {
        let references = "# Works\n\n| key | work |\n|---|---|\n| Rahman16 | a PhD thesis |\n| Fiala15 | another |\n";
        let tree = Tree::from([(REFERENCES, references), ("docs/run.md", ""), (path, &format!("\n{line}\n"))]);
        lines(&check(&tree))
    }

    #[test]
    fn keys_that_are_listed_and_documents_of_the_tree_pass() {
        for line in [
            "// As in [Rahman16, 4.1.2] and [Fiala15, fig. 4.6].",
            "//! [Rahman16], [`Guard16`], [Frame] and [u16, x].",
            "// See docs/run.md and `run.md`; worked out on paper; tests from papers; hypothesis.",
            "let files = [Unlisted99, 1]; let the_thesis = \"the paper\"; // the_best_thesis",
        ] {
            assert_eq!(check_in("crates/a/src/lib.rs", line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_key_that_is_not_listed_fails_in_comments_and_in_documents() {
        for (path, line) in [("crates/a/src/lib.rs", "/// [Nobody99, 1.2]"), ("README.md", "It is so [Nobody99].")] {
            assert_eq!(
                check_in(path, line),
                [format!("{path}:2: [Nobody99] is not in docs/references.md: add the work there")]
            );
        }
    }

    #[test]
    fn a_work_without_a_name_fails() {
        for line in
            ["// The thesis does so.", "// the thesis' way", "// as the paper's own", "// as the\n// paper does"]
        {
            let lines = check_in("crates/a/src/lib.rs", line);
            assert_eq!(lines.len(), 1, "{line}: {lines:?}");
            assert!(lines[0].contains("could be any work"), "{lines:?}");
        }
    }

    #[test]
    fn a_file_that_readers_do_not_have_fails() {
        for word in ["007_0123456789abcdef.txt", "papers/007_0123456789abcdef.txt", "design/vault.md", "`vault.md`"] {
            assert_eq!(check_in("docs/page.md", &format!("As in {word}, 4.1.")).len(), 1, "{word}");
        }
    }
}
