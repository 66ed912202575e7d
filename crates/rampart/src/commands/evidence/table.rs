//! The list as text of at most 100 columns.

use std::fmt::Write as _;

use super::exhibit::Exhibit;
use super::works::{CitedWork, ExhibitCounts};

/// The longest line.
pub const COLUMNS: usize = 100;

/// The width of each of the two columns before the text of a row.
const FIRST: usize = 13;

/// What the states mean.
const LEGEND: &str = "
regenerated: a command prints or draws it. in part: a command does so, but for what its row says.
missing: not written yet. not here: no machine at hand has what is absent. illustration: nothing was
measured, as in a drawing, an algorithm, or a list of settings. result: where this tree has ours.
";

/// The tables and figures of these works, or only those that are missing; then how many there are.
pub fn of(works: &[&CitedWork], only_missing: bool) -> String {
    let mut text = String::new();
    for work in works {
        // `WorkKey` prints as the variant is called.
        write_wrapped(&mut text, &format!("{:?}", work.key), "", &format!("{} ({})", work.title, work.author));
        let mut is_empty = true;
        for exhibit in work.exhibits(only_missing) {
            write_row(&mut text, exhibit);
            is_empty = false;
        }
        if is_empty {
            text.push_str("nothing is missing\n");
        }
        text.push('\n');
    }
    write_counts(&mut text, works);
    text.push_str(LEGEND);
    text
}

fn write_row(text: &mut String, exhibit: &Exhibit) {
    let (state, remark) = exhibit.state.names();
    write_wrapped(text, &format!("{} {}", exhibit.kind.name(), exhibit.number), state, exhibit.title);
    for command in exhibit.commands {
        write_command(text, command);
    }
    for result in exhibit.results {
        write_wrapped(text, "", "result", result);
    }
    if let Some(words) = exhibit.remark {
        write_wrapped(text, "", remark, words);
    }
}

fn write_counts(text: &mut String, works: &[&CitedWork]) {
    text.push_str("               all  regenerated  in part  missing  not here  illustrations\n");
    for work in works {
        ExhibitCounts::of(work.exhibits(false)).write(text, &format!("{:?}", work.key));
    }
    if works.len() > 1 {
        ExhibitCounts::of(works.iter().flat_map(|work| work.exhibits(false))).write(text, "all");
    }
}

/// Appends words in the third column, on as many lines as they take.
fn write_wrapped(text: &mut String, first: &str, second: &str, words: &str) {
    let (mut first, mut second) = (first, second);
    for line in wrapped(words, COLUMNS - 2 * FIRST) {
        let _ = writeln!(text, "{first:<FIRST$}{second:<FIRST$}{line}");
        (first, second) = ("", "");
    }
}

/// Appends a command line; where it is too long for one line, a shell joins its parts again.
fn write_command(text: &mut String, command: &str) {
    const GOES_ON: &str = " \\";
    let lines = wrapped(command, COLUMNS - 2 * FIRST - GOES_ON.len());
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { "command" } else { "" };
        let end = if i + 1 < lines.len() { GOES_ON } else { "" };
        let _ = writeln!(text, "{:<FIRST$}{label:<FIRST$}{line}{end}", "");
    }
}

/// Words in lines of at most so many characters; a longer word has a line of its own.
fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words_of(words) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The words of a text; those in quotation marks belong together.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |c| {
        is_quoted ^= c == '"';
        c == ' ' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::super::works::WORKS;
    use super::*;

    #[test]
    fn words_are_wrapped_and_quotations_are_not() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("zero A=\"one two\" three", 14), ["zero", "A=\"one two\"", "three"]);
        assert_eq!(wrapped("", 7), [""]);
    }

    #[test]
    fn no_line_is_longer_than_100_columns() {
        let works: Vec<&CitedWork> = WORKS.iter().collect();
        for line in of(&works, false).lines() {
            assert!(line.chars().count() <= COLUMNS && line.trim_end() == line, "{line:?}");
        }
    }
}
