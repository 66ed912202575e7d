//! Colour for verdicts and messages. Only a terminal gets it: `anstream` decides, and heeds NO_COLOR, CLICOLOR and
//! CLICOLOR_FORCE. JSON never passes through here.

use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();

/// The words of verdicts, each in its colour.
const VERDICTS: [(&str, Style); 3] = [("PASS", GOOD), ("FAIL", BAD), ("INCOMPLETE", DOUBTFUL)];

/// A text of verdicts for standard output: the first verdict of each line is coloured.
pub fn verdicts(text: &str) -> String {
    painted_verdicts(text, AutoStream::choice(&io::stdout()))
}

/// A last line for standard output, all of it green if it is good news, else red.
pub fn outcome(line: &str, is_good: bool) -> String {
    painted(line, if is_good { GOOD } else { BAD }, AutoStream::choice(&io::stdout()))
}

/// A warning for standard error.
pub fn warning(message: &str) -> String {
    format!("{} {message}", painted("rampart:", DOUBTFUL, AutoStream::choice(&io::stderr())))
}

/// An error for standard error.
pub fn error(message: &str) -> String {
    format!("{} {message}", painted("rampart:", BAD, AutoStream::choice(&io::stderr())))
}

fn painted_verdicts(text: &str, choice: ColorChoice) -> String {
    text.split_inclusive('\n').map(|line| painted_verdict(line, choice)).collect()
}

fn painted_verdict(line: &str, choice: ColorChoice) -> String {
    let is_word = |at: usize, word: &str| {
        line[..at].chars().next_back().is_none_or(|before| before == ' ')
            && line[at + word.len()..].chars().next().is_none_or(|after| after == ':' || after == '\n')
    };
    let found = VERDICTS.iter().filter_map(|(word, style)| Some((line.find(word)?, *word, *style)));
    match found.filter(|(at, word, _)| is_word(*at, word)).min_by_key(|(at, ..)| *at) {
        Some((at, word, style)) => {
            format!("{}{}{}", &line[..at], painted(word, style, choice), &line[at + word.len()..])
        }
        None => line.to_owned(),
    }
}

fn painted(text: &str, style: Style, choice: ColorChoice) -> String {
    match choice {
        ColorChoice::Never => text.to_owned(),
        _ => format!("{style}{text}{style:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_its_colour_and_the_rest_of_the_line_has_none() {
        let red = |line| painted_verdicts(line, ColorChoice::Always);
        assert_eq!(red("PASS: 1 GiB\n"), "\u{1b}[1m\u{1b}[32mPASS\u{1b}[0m: 1 GiB\n");
        assert_eq!(red("FAIL: 2; INCOMPLETE: x\n"), "\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m: 2; INCOMPLETE: x\n");
        assert_eq!(red("tests  PASS\nok\n"), "tests  \u{1b}[1m\u{1b}[32mPASS\u{1b}[0m\nok\n");
        assert_eq!(red("BYPASS: 1, FAILED: 2, a.PASS\n"), "BYPASS: 1, FAILED: 2, a.PASS\n");
    }

    #[test]
    fn where_no_colour_is_wanted_there_is_none() {
        assert_eq!(painted_verdicts("PASS: 1 GiB\n", ColorChoice::Never), "PASS: 1 GiB\n");
        assert_eq!(painted("rampart:", BAD, ColorChoice::Never), "rampart:");
    }
}
