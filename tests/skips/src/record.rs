//! The file of skips: a line for each, `feature<TAB>test<TAB>why`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::{env, thread};

use crate::Feature;

/// The environment variable that names the file.
pub const VARIABLE: &str = "RAMPART_SKIPS";

/// One skip.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// What was lacking.
    pub feature: Feature,
    /// The test that lacked it.
    pub test: String,
    /// Why, in one line.
    pub why: String,
}

impl Skip {
    /// A skip; what would break its line becomes blanks.
    #[must_use]
    pub fn new(feature: Feature, test: &str, why: &str) -> Self {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { feature, test: one_line(test), why: one_line(why) }
    }

    /// The skip that a line of the file means.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let (feature, rest) = line.split_once('\t')?;
        let (test, why) = rest.split_once('\t')?;
        Some(Self::new(Feature::named(feature)?, test, why))
    }

    /// Appends its line in one write, so that lines of processes that run at once do not mix.
    ///
    /// # Errors
    /// Those of the system.
    pub fn append_to(&self, file: &Path) -> io::Result<()> {
        let line = format!("{}\t{}\t{}\n", self.feature, self.test, self.why);
        OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())
    }
}

/// The name of the running test: that of its program, without the hash that cargo adds, and that of its thread.
pub fn this_test() -> String {
    let program = env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let program = program.unwrap_or_default();
    let is_hash = |end: &str| end.len() == 16 && end.chars().all(|digit| digit.is_ascii_hexdigit());
    let name = program.rsplit_once('-').filter(|(_, end)| is_hash(end)).map_or(program.as_str(), |(name, _)| name);
    format!("{name}::{}", thread::current().name().unwrap_or("a thread of a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_that_is_read_back() {
        let folder = env::temp_dir().join(format!("rampart-skips-{}", std::process::id()));
        let skips = [Skip::new(Feature::Qemu, "a::b", "no\tQEMU\nhere"), Skip::new(Feature::Root, "a::c", "é")];
        let _ = std::fs::remove_file(&folder);
        skips.iter().for_each(|skip| skip.append_to(&folder).unwrap());
        let text = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(text, "qemu\ta::b\tno QEMU here\nroot\ta::c\té\n");
        assert_eq!(text.lines().filter_map(Skip::read).collect::<Vec<_>>(), skips);
        for other in ["", "qemu", "qemu\ta", "no-such-feature\ta\tb"] {
            assert_eq!(Skip::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_test_is_named_by_its_program_and_its_thread() {
        let thread = thread::current();
        assert_eq!(this_test(), format!("rampart_skips::{}", thread.name().unwrap()));
    }
}
