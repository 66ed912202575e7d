//! The march tests with names, and how a user selects one.
//!
//! **Problem.** The same name means different tests in different places, and people type it in many ways. **Idea.** One
//! table with each test in full and its publication. Names are compared without case, spaces or hyphens, except the
//! hyphen at the end of `March C-`, which is part of the name: March C is another test. **Why these.** They are the
//! field's range from the shortest test that finds stuck-at faults to those for dynamic, linked and retention faults;
//! [`crate::simulator`] computes what each finds.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::MarchTest;
use crate::notation::NotationError;

/// A march test with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamedTest {
    /// Its name, as its authors write it.
    pub name: &'static str,
    /// The test in full.
    pub notation: &'static str,
    /// Its publication.
    pub source: &'static str,
}

/// All named tests, by length.
pub const NAMED: [NamedTest; 14] = [
    NamedTest {
        name: "MATS",
        notation: "{⇕(w0); ⇕(r0,w1); ⇕(r1)}",
        source: "R. Nair, Comments on \"An optimal algorithm for testing stuck-at faults in random access memories\", \
                 IEEE Trans. Computers C-28(3), 1979",
    },
    NamedTest {
        name: "MATS+",
        notation: "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0)}",
        source: "M. S. Abadir, H. K. Reghbati, Functional testing of semiconductor random access memories, \
                 ACM Computing Surveys 15(3), 1983",
    },
    NamedTest {
        name: "MATS++",
        notation: "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0,r0)}",
        source: "A. J. van de Goor, Testing Semiconductor Memories: Theory and Practice, Wiley, 1991, chapter 4",
    },
    NamedTest {
        name: "March X",
        notation: "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0); ⇕(r0)}",
        source: "A. J. van de Goor, Testing Semiconductor Memories: Theory and Practice, Wiley, 1991, chapter 4",
    },
    NamedTest {
        name: "March Y",
        notation: "{⇕(w0); ⇑(r0,w1,r1); ⇓(r1,w0,r0); ⇕(r0)}",
        source: "A. J. van de Goor, Testing Semiconductor Memories: Theory and Practice, Wiley, 1991, chapter 4",
    },
    NamedTest {
        name: "March C-",
        notation: "{⇕(w0); ⇑(r0,w1); ⇑(r1,w0); ⇓(r0,w1); ⇓(r1,w0); ⇕(r0)}",
        source: "A. J. van de Goor, Testing Semiconductor Memories: Theory and Practice, Wiley, 1991, chapter 4, after \
                 M. Marinescu, Simple and efficient algorithms for functional RAM testing, ITC, 1982",
    },
    NamedTest {
        name: "March U",
        notation: "{⇕(w0); ⇑(r0,w1,r1,w0); ⇑(r0,w1); ⇓(r1,w0,r0,w1); ⇓(r1,w0)}",
        source: "A. J. van de Goor, G. N. Gaydadjiev, March U: a test for unlinked memory faults, \
                 IEE Proc. Circuits, Devices and Systems 144(3), 1997",
    },
    NamedTest {
        name: "March LR",
        notation: "{⇕(w0); ⇓(r0,w1); ⇑(r1,w0,r0,w1); ⇑(r1,w0); ⇑(r0,w1,r1,w0); ⇑(r0)}",
        source: "A. J. van de Goor, G. N. Gaydadjiev, V. G. Mikitjuk, V. N. Yarmolik, March LR: a test for realistic \
                 linked faults, IEEE VLSI Test Symposium, 1996",
    },
    NamedTest {
        name: "March A",
        notation: "{⇕(w0); ⇑(r0,w1,w0,w1); ⇑(r1,w0,w1); ⇓(r1,w0,w1,w0); ⇓(r0,w1,w0)}",
        source: "D. S. Suk, S. M. Reddy, A march test for functional faults in semiconductor random access memories, \
                 IEEE Trans. Computers C-30(12), 1981",
    },
    NamedTest {
        name: "March B",
        notation: "{⇕(w0); ⇑(r0,w1,r1,w0,r0,w1); ⇑(r1,w0,w1); ⇓(r1,w0,w1,w0); ⇓(r0,w1,w0)}",
        source: "D. S. Suk, S. M. Reddy, A march test for functional faults in semiconductor random access memories, \
                 IEEE Trans. Computers C-30(12), 1981",
    },
    NamedTest {
        name: "March SS",
        notation: "{⇕(w0); ⇑(r0,r0,w0,r0,w1); ⇑(r1,r1,w1,r1,w0); ⇓(r0,r0,w0,r0,w1); ⇓(r1,r1,w1,r1,w0); ⇕(r0)}",
        source: "S. Hamdioui, A. J. van de Goor, M. Rodgers, March SS: a test for all static simple RAM faults, \
                 IEEE Workshop on Memory Technology, Design and Testing, 2002",
    },
    NamedTest {
        name: "March G",
        notation: "{⇕(w0); ⇑(r0,w1,r1,w0,r0,w1); ⇑(r1,w0,w1); ⇓(r1,w0,w1,w0); ⇓(r0,w1,w0); \
                   Del; ⇕(r0,w1,r1); Del; ⇕(r1,w0,r0)}",
        source: "A. J. van de Goor, Using march tests to test SRAMs, IEEE Design & Test of Computers 10(1), 1993",
    },
    NamedTest {
        name: "March RAW",
        notation: "{⇕(w0); ⇑(r0,w0,r0,r0,w1,r1); ⇑(r1,w1,r1,r1,w0,r0); ⇓(r0,w0,r0,r0,w1,r1); ⇓(r1,w1,r1,r1,w0,r0); \
                   ⇕(r0)}",
        source: "S. Hamdioui, Z. Al-Ars, A. J. van de Goor, Testing static and dynamic faults in random access \
                 memories, IEEE VLSI Test Symposium, 2002",
    },
    NamedTest {
        name: "March SL",
        notation: "{⇕(w0); ⇑(r0,r0,w1,w1,r1,r1,w0,w0,r0,w1); ⇑(r1,r1,w0,w0,r0,r0,w1,w1,r1,w0); \
                   ⇓(r0,r0,w1,w1,r1,r1,w0,w0,r0,w1); ⇓(r1,r1,w0,w0,r0,r0,w1,w1,r1,w0)}",
        source: "S. Hamdioui, Z. Al-Ars, A. J. van de Goor, M. Rodgers, Linked faults in random access memories: \
                 concept, fault models, test algorithms, and industrial results, IEEE Trans. CAD 23(5), 2004",
    },
];

impl NamedTest {
    /// The test itself.
    #[must_use]
    pub fn test(&self) -> MarchTest {
        self.notation.parse().expect("the notation of every named test is read by a test")
    }
}

/// The test of this name. `March C-`, `marchc-`, `march_c−` and `c-` are one name.
#[must_use]
pub fn find(name: &str) -> Option<&'static NamedTest> {
    let wanted = essence(name);
    NAMED.iter().find(|named| essence(named.name) == wanted)
}

/// The part of a name that distinguishes it from others.
fn essence(name: &str) -> String {
    let is_hyphen = |c: char| matches!(c, '-' | '_' | '‐' | '‑' | '‒' | '–' | '−');
    let name = name.trim().to_lowercase();
    let mut essence: String = name.chars().filter(|&c| !c.is_whitespace() && !is_hyphen(c)).collect();
    if name.ends_with(is_hyphen) {
        essence.push('-');
    }
    match essence.strip_prefix("march") {
        Some(rest) => rest.to_owned(),
        None => essence,
    }
}

/// The march test that a user asked for, by name or by notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarchChoice {
    /// The named test, if a name was given.
    pub named: Option<&'static NamedTest>,
    /// The test.
    pub test: MarchTest,
}

/// Why a text selects no march test.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ChoiceError {
    /// no march test is called {name:?}: name one of {known}, or write one such as *(w0); ^(r0,w1); v(r1)
    UnknownName {
        /// The name given.
        name: String,
        /// All known names.
        known: String,
    },
    /// {0}
    Notation(NotationError),
}

impl FromStr for MarchChoice {
    type Err = ChoiceError;

    /// First as a name; otherwise a text with any sign of the notation is parsed as notation.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(named) = find(text) {
            return Ok(Self { named: Some(named), test: named.test() });
        }
        if text.contains(['(', ')', '{', '}', ';', '*', '^', '⇕', '⇑', '⇓', '↕', '↑', '↓']) {
            return text.parse().map(|test| Self { named: None, test }).map_err(ChoiceError::Notation);
        }
        let known = NAMED.map(|named| named.name).join(", ");
        Err(ChoiceError::UnknownName { name: text.to_owned(), known })
    }
}

impl fmt::Display for MarchChoice {
    /// The name, or the notation of a test without one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.named {
            Some(named) => f.write_str(named.name),
            None => fmt::Display::fmt(&self.test, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lengths as published; March SL and G: 41n, and 23n with two delays.
    #[test]
    fn every_named_test_has_its_published_length() {
        let lengths = NAMED.map(|named| (named.name, named.test().length(), named.test().delays()));
        let published = [
            ("MATS", 4, 0),
            ("MATS+", 5, 0),
            ("MATS++", 6, 0),
            ("March X", 6, 0),
            ("March Y", 8, 0),
            ("March C-", 10, 0),
            ("March U", 13, 0),
            ("March LR", 14, 0),
            ("March A", 15, 0),
            ("March B", 17, 0),
            ("March SS", 22, 0),
            ("March G", 23, 2),
            ("March RAW", 26, 0),
            ("March SL", 41, 0),
        ];
        assert_eq!(lengths, published);
    }

    #[test]
    fn named_tests_are_written_as_they_are_shown() {
        for named in NAMED {
            assert_eq!(named.test().to_string(), named.notation);
        }
    }

    #[test]
    fn a_name_is_found_however_it_is_typed() {
        for (typed, name) in [
            ("March C-", "March C-"),
            ("marchc-", "March C-"),
            ("march_c-", "March C-"),
            ("MARCH-C-", "March C-"),
            ("March C\u{2212}", "March C-"),
            (" c- ", "March C-"),
            ("mats++", "MATS++"),
            ("MATS +", "MATS+"),
            ("march ss", "March SS"),
            ("raw", "March RAW"),
        ] {
            assert_eq!(find(typed).map(|named| named.name), Some(name), "{typed:?}");
        }
        // March C is a test of its own, with one more element than March C-.
        for unknown in ["march c", "march", "", "-", "mats-", "C+"] {
            assert_eq!(find(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_choice_is_a_name_or_a_notation() {
        let by_name: MarchChoice = "march-c-".parse().unwrap();
        let by_notation: MarchChoice = "*(w0); ^(r0,w1); ^(r1,w0); v(r0,w1); v(r1,w0); *(r0)".parse().unwrap();
        assert_eq!(by_name.test, by_notation.test);
        assert_eq!(by_name.to_string(), "March C-");
        assert_eq!(by_notation.to_string(), by_name.test.to_string());
        assert!(matches!("*(w0); ^(r1)".parse::<MarchChoice>(), Err(ChoiceError::Notation(_))));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "march c".parse::<MarchChoice>().unwrap_err().to_string();
        assert!(error.contains("\"march c\"") && error.contains("MATS, MATS+, MATS++, March X"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_a_choice_or_one_line_of_error(text in any::<String>()) {
            if let Err(error) = text.parse::<MarchChoice>() {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }
}
