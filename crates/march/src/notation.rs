//! The field's notation for march tests: `{⇕(w0); ⇑(r0,w1); ⇓(r1)}`, or in ASCII `*(w0); ^(r0,w1); v(r1)`.
//!
//! **Problem.** Users bring tests from papers, where every author writes them a little differently, and one slip makes
//! a test that fails on good memory. **Idea.** Accept every way of writing with one clear meaning, and refuse a test
//! without a meaning: one that reads what was never written, or a value other than the last one written. **Why here.**
//! Every cell sees the same operations, so one walk over the text decides both; every [`MarchTest`] is therefore sound.
//!
//! ```text
//! test      = [ "{" ] element { ";" element } [ ";" ] [ "}" ]
//! element   = direction "(" operation { [ "," ] operation } ")" | "Del" | "D" | "Delay"
//! direction = "⇕" | "↕" | "*"   either     | "⇑" | "↑" | "^"   ascending     | "⇓" | "↓" | "v"   descending
//! operation = ( "r" | "w" ) ( "0" | "1" )
//! ```
//!
//! Spaces may stand between any two of these, letters may have either case, and braces come in pairs.

use std::fmt;
use std::iter::Peekable;
use std::str::{Chars, FromStr};

use crate::{Direction, Element, MarchTest, Op};

/// The most operations and delays in one test. The longest of the field's tests have fewer than 100.
pub const MAX_LENGTH: usize = 1000;

/// Why a text is not a march test, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// The wrong character, counted from 0; the text's length in characters where it ends too early.
    pub at: usize,
    /// The problem.
    pub problem: NotationProblem,
}

/// What is wrong with the notation of a march test.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum NotationProblem {
    /// a test needs an element that reads or writes, such as *(w0)
    EmptyTest,
    /// an element needs an operation: r0, r1, w0 or w1
    EmptyElement,
    /// expected {expected}, found {found:?}
    Unexpected {
        /// What is allowed here.
        expected: &'static str,
        /// What is here.
        found: char,
    },
    /// expected {expected}, but the text ends
    EndsEarly {
        /// What is missing.
        expected: &'static str,
    },
    /// {read} reads a cell that nothing has written before
    ReadBeforeWrite {
        /// The read.
        read: Op,
    },
    /// the test contradicts itself: {read} after {write} (character {written_at}) fails on good memory
    Contradiction {
        /// The read.
        read: Op,
        /// The last write before it.
        write: Op,
        /// The position of the write, counted from 1.
        written_at: usize,
    },
    /// the test has more than 1000 operations and delays; shorten it
    TooLong,
}

impl fmt::Display for NotationError {
    /// One line; characters are counted from 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "march test, character {}: {}", self.at + 1, self.problem)
    }
}

impl std::error::Error for NotationError {}

impl NotationError {
    /// Two lines: the refused text, and a caret under the wrong character. Characters that a terminal does not show as
    /// one column (tabs, line ends) become spaces.
    #[must_use]
    pub fn pointing_at(&self, text: &str) -> String {
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let indent = " ".repeat(self.at.min(text.chars().count()));
        format!("{shown}\n{indent}^")
    }
}

impl FromStr for MarchTest {
    type Err = NotationError;

    /// Parses the notation, in Unicode or ASCII. Both forms of `Display` parse to the same test.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser::new(text);
        let braced = parser.accept(&['{']).is_some();
        let mut elements = Vec::new();
        while !parser.at_end(braced) {
            elements.push(parser.element()?);
            if !parser.at_end(braced) {
                parser.expect(&[';'], if braced { "`;` or `}`" } else { "`;`" })?;
            }
        }
        if parser.last_write.is_none() {
            return Err(parser.error_here(NotationProblem::EmptyTest));
        }
        if braced {
            parser.expect(&['}'], "`}`")?;
        }
        match parser.peek() {
            Some(found) => {
                Err(parser.error_here(NotationProblem::Unexpected { expected: "the end of the test", found }))
            }
            None => Ok(Self::from_elements(elements)),
        }
    }
}

/// The position of the parser, and its knowledge of the cells.
struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    at: usize,
    /// The last write, and its position.
    last_write: Option<(bool, usize)>,
    length: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), at: 0, last_write: None, length: 0 }
    }

    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {
            self.at += 1;
        }
        self.rest.peek().copied()
    }

    /// Takes the next character if it is one of these, in lower case.
    fn accept(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek()?.to_ascii_lowercase();
        wanted.contains(&next).then(|| {
            self.rest.next();
            self.at += 1;
            next
        })
    }

    /// Takes the next character, which must be one of these.
    fn expect(&mut self, wanted: &[char], expected: &'static str) -> Result<char, NotationError> {
        if let Some(taken) = self.accept(wanted) {
            return Ok(taken);
        }
        let problem = match self.peek() {
            Some(found) => NotationProblem::Unexpected { expected, found },
            None => NotationProblem::EndsEarly { expected },
        };
        Err(self.error_here(problem))
    }

    fn error_here(&self, problem: NotationProblem) -> NotationError {
        NotationError { at: self.at, problem }
    }

    /// Whether there are no more elements: at the end of the text, or at the closing brace.
    fn at_end(&mut self, braced: bool) -> bool {
        match self.peek() {
            Some(next) => braced && next == '}',
            None => true,
        }
    }

    fn element(&mut self) -> Result<Element, NotationError> {
        const STARTS: [char; 10] = ['⇕', '↕', '*', '⇑', '↑', '^', '⇓', '↓', 'v', 'd'];
        let start = self.expect(&STARTS, "an element: *(..), ^(..), v(..) or Del")?;
        let direction = match start {
            '⇕' | '↕' | '*' => Direction::Any,
            '⇑' | '↑' | '^' => Direction::Up,
            '⇓' | '↓' | 'v' => Direction::Down,
            _ => return self.delay(),
        };
        self.expect(&['('], "`(`")?;
        Ok(Element::Sweep { direction, ops: self.operations()? })
    }

    /// The rest of `D`, `Del` or `Delay`.
    fn delay(&mut self) -> Result<Element, NotationError> {
        self.count(self.at - 1)?;
        if self.accept(&['e']).is_some() {
            self.expect(&['l'], "`Del`")?;
            if self.accept(&['a']).is_some() {
                self.expect(&['y'], "`Delay`")?;
            }
        }
        Ok(Element::Delay)
    }

    /// The operations of one element, and the parenthesis that closes it.
    fn operations(&mut self) -> Result<Vec<Op>, NotationError> {
        if self.peek() == Some(')') {
            return Err(self.error_here(NotationProblem::EmptyElement));
        }
        let mut ops = vec![self.operation("r0, r1, w0 or w1")?];
        while self.accept(&[')']).is_none() {
            let expected =
                if self.accept(&[',']).is_some() { "r0, r1, w0 or w1" } else { "`,`, `)` or another operation" };
            ops.push(self.operation(expected)?);
        }
        Ok(ops)
    }

    fn operation(&mut self, expected: &'static str) -> Result<Op, NotationError> {
        let letter = self.expect(&['r', 'w'], expected)?;
        let at = self.at - 1;
        let value = self.expect(&['0', '1'], "0 or 1")? == '1';
        self.count(at)?;
        if letter == 'w' {
            self.last_write = Some((value, at));
            return Ok(Op::Write(value));
        }
        self.check_read(value).map_err(|problem| NotationError { at, problem })?;
        Ok(Op::Read(value))
    }

    /// Refuses a read that good memory would fail.
    fn check_read(&self, value: bool) -> Result<(), NotationProblem> {
        let read = Op::Read(value);
        match self.last_write {
            None => Err(NotationProblem::ReadBeforeWrite { read }),
            Some((written, _)) if written == value => Ok(()),
            Some((written, at)) => {
                Err(NotationProblem::Contradiction { read, write: Op::Write(written), written_at: at + 1 })
            }
        }
    }

    /// Counts one more operation or delay, which starts at this character.
    fn count(&mut self, at: usize) -> Result<(), NotationError> {
        self.length += 1;
        if self.length > MAX_LENGTH { Err(NotationError { at, problem: NotationProblem::TooLong }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::arbitrary::any_test;
    use proptest::prelude::*;

    fn refused(text: &str) -> (usize, String) {
        let error = text.parse::<MarchTest>().expect_err(text);
        (error.at, error.problem.to_string())
    }

    #[test]
    fn the_ways_in_which_papers_write_a_test_are_one_test() {
        let expected = "{⇕(w0); ⇑(r0,w1); Del; ⇓(r1)}";
        for text in [
            expected,
            "{↕(w0); ↑(r0,w1); Del; ↓(r1)}",
            "*(w0);^(r0,w1);Del;v(r1)",
            "  * ( w0 ) ;\n^(r0w1)\t; D; V(R1) ; ",
            "{ ⇕(W0);⇑(R0,W1);DELAY;⇓(r1); }",
            "*(w0); ^(r0 w1); delay; v(r1);",
        ] {
            assert_eq!(text.parse::<MarchTest>().map(|test| test.to_string()), Ok(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_march_test_is_refused_where_it_goes_wrong() {
        for (text, at, problem) in [
            ("", 0, "a test needs an element"),
            (" {} ", 2, "a test needs an element"),
            ("Del;", 4, "a test needs an element"),
            ("*()", 2, "an element needs an operation"),
            ("*(w0); ^(", 9, "expected r0, r1, w0 or w1, but the text ends"),
            ("*(w0); x(r0)", 7, "expected an element: *(..), ^(..), v(..) or Del, found 'x'"),
            ("*(w0);; ^(r0)", 6, "expected an element: *(..), ^(..), v(..) or Del, found ';'"),
            ("*(w0) ^(r0)", 6, "expected `;`, found '^'"),
            ("{*(w0) ^(r0)}", 7, "expected `;` or `}`, found '^'"),
            ("*(w2)", 3, "expected 0 or 1, found '2'"),
            ("*(w0,)", 5, "expected r0, r1, w0 or w1, found ')'"),
            ("*(w0.r0)", 4, "expected `,`, `)` or another operation, found '.'"),
            ("*w0", 1, "expected `(`, found 'w'"),
            ("{*(w0)", 6, "expected `}`, but the text ends"),
            ("*(w0)}", 5, "expected `;`, found '}'"),
            ("{*(w0)} again", 8, "expected the end of the test, found 'a'"),
            ("*(w0); Dex; *(r0)", 9, "expected `Del`, found 'x'"),
            ("*(r0)", 2, "r0 reads a cell that nothing has written before"),
            ("Del; ^(r1,w1)", 7, "r1 reads a cell that nothing has written before"),
            ("*(w0); ^(r0,w1); v(r0)", 19, "the test contradicts itself: r0 after w1 (character 13) fails"),
            ("*(w0,r1)", 5, "the test contradicts itself: r1 after w0 (character 3) fails"),
        ] {
            let (found_at, found) = refused(text);
            assert!(found.starts_with(problem), "{text:?}: {found}");
            assert_eq!(found_at, at, "{text:?}: {found}");
        }
    }

    #[test]
    fn a_test_of_more_than_1000_operations_is_refused_at_the_first_too_many() {
        let longest = format!("*({})", "w0".repeat(MAX_LENGTH));
        assert_eq!(longest.parse::<MarchTest>().map(|test| test.length()), Ok(MAX_LENGTH));
        for one_more in [longest.replace(')', "w0)"), longest.replace(')', "); Del")] {
            let error = one_more.parse::<MarchTest>().unwrap_err();
            assert_eq!(error.problem, NotationProblem::TooLong);
        }
        let end = 2 + 2 * MAX_LENGTH;
        assert_eq!(refused(&longest.replace(')', "w0)")).0, end);
        assert_eq!(refused(&longest.replace(')', "); Del")).0, end + ") ;".len());
    }

    #[test]
    fn the_caret_stands_under_the_character_that_is_wrong() {
        let text = "{⇕(w0);\t⇑(r1,w1)}";
        let error = text.parse::<MarchTest>().unwrap_err();
        assert_eq!(error.pointing_at(text), "{⇕(w0); ⇑(r1,w1)}\n          ^");
        let says =
            "march test, character 11: the test contradicts itself: r1 after w0 (character 4) fails on good memory";
        assert_eq!(error.to_string(), says);
    }

    /// Texts that are nearly tests, and so reach deep into the parser.
    fn almost_a_test() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{", "}", ";", "(", ")", ",", " ", "*", "^", "v", "⇕", "⇑", "⇓", "r0", "r1", "w0", "w1", "Del", "D",
            "*(w0);", "(r0,w1)",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(test in any_test()) {
            prop_assert_eq!(test.to_string().parse(), Ok(test.clone()));
            prop_assert_eq!(format!("{test:#}").parse(), Ok(test));
        }

        #[test]
        fn any_text_is_a_sound_test_or_an_error_inside_it(text in prop_oneof![any::<String>(), almost_a_test()]) {
            match text.parse::<MarchTest>() {
                Ok(test) => prop_assert_eq!(test.to_string().parse(), Ok(test)),
                Err(error) => {
                    prop_assert!(error.at <= text.chars().count());
                    prop_assert_eq!(error.to_string().lines().count(), 1);
                    prop_assert_eq!(error.pointing_at(&text).matches('\n').count(), 1);
                }
            }
        }
    }
}
