//! The frames of each DIMM, in a TOML file that a person writes: a line for each name, with ranges of frames.

use std::collections::BTreeMap;
use std::path::Path;

use rampart_memory::{Bytes, FrameRange};
use toml::Spanned;

use crate::error::Error;
use crate::inputs::files;

/// The longest file: some thousand DIMMs with many ranges.
const LONGEST: Bytes = Bytes::new(1 << 20);

/// Reads a file: each name with each of its ranges.
pub fn read(path: &Path) -> Result<Vec<(String, FrameRange)>, Error> {
    let refused = |why| Error::DimmMap { path: path.to_owned(), why };
    parse(&files::read_text(path, LONGEST).map_err(refused)?).map_err(refused)
}

/// Parses a file. An error is one line: the line number, and what is wrong there.
fn parse(text: &str) -> Result<Vec<(String, FrameRange)>, String> {
    let at = |offset: usize, what: &str| {
        let line = 1 + text[..offset.min(text.len())].matches('\n').count();
        format!("line {line}: {}", what.replace('\n', " "))
    };
    let listed: BTreeMap<String, Vec<Spanned<String>>> =
        toml::from_str(text).map_err(|error| at(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut ranges = Vec::new();
    for (name, texts) in listed {
        if texts.is_empty() || name.is_empty() || name.contains(char::is_control) {
            return Err(format!("{name:?} needs a name and a range: write such as A1 = [\"0x40000..0x80000\"]"));
        }
        for range in texts {
            let frames = range.get_ref().parse().map_err(|error| at(range.span().start, &format!("{error}")))?;
            ranges.push((name.clone(), frames));
        }
    }
    if ranges.is_empty() {
        return Err("it names no DIMM: write such as A1 = [\"0x40000..0x80000\"]".to_owned());
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Result<Vec<(String, u64, u64)>, String> {
        let plain = |(name, range): (String, FrameRange)| (name, range.start().number(), range.count());
        parse(text).map(|ranges| ranges.into_iter().map(plain).collect())
    }

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let docs = include_str!("../../../../docs/test.md");
        let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let listed = plain(example).unwrap();
        let row = |name: &str, first, count| (name.to_owned(), first, count);
        let (b1, a1, a1_end) =
            (row("CHANNEL B/DIMM 0", 0x18_0000, 0x10_0000), row("A1", 0, 0xc_0000), row("A1", 0x10_0000, 0x8_0000));
        assert_eq!(listed, [a1, a1_end, b1]);
    }

    #[test]
    fn what_is_no_map_is_refused_in_one_line_with_its_place() {
        for (text, says) in [
            ("", "it names no DIMM: write such as A1 = [\"0x40000..0x80000\"]"),
            ("A1 = []", "needs a name and a range"),
            ("\"\" = [\"1..2\"]", "needs a name and a range"),
            ("\"a\\nb\" = [\"1..2\"]", "\"a\\nb\" needs a name"),
            ("# one\nA1 = [\"1..2\", \"7\"]", "line 2: \"7\" is no range of frames"),
            ("A1 = [\"1..2\"]\nA1 = [\"2..3\"]", "line 2: "),
            ("A1 = 7", "line 1: "),
            ("A1", "line 1: "),
            ("\n\nA1 = [\n7]", "line 4: "),
        ] {
            let refused = plain(text).unwrap_err();
            assert!(refused.contains(says) && refused.lines().count() == 1, "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn only_a_file_of_a_reasonable_length_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dimms.toml");
        std::fs::write(&path, "A1 = [\"1..2\"]").unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        let refused = read(folder.path()).unwrap_err().to_string();
        assert!(refused.ends_with("is no map of DIMMs: it is a directory: name a file"), "{refused}");
        std::fs::write(&path, vec![b'\n'; (1 << 20) + 1]).unwrap();
        assert!(read(&path).is_err());
    }
}
