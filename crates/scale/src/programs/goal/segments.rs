//! Cuts a GOAL text into its ranks.
//!
//! **Problem.** A text takes five times the memory of the schedule that it describes. **Idea.** The schedule of a rank
//! ends with a brace, and a brace is nothing else except in a comment; so the text is read from brace to brace.

use std::io::BufRead;

use super::unread;
use crate::error::Error;

/// A text, from one closing brace to the next.
#[derive(Debug)]
pub(super) struct Segments<R> {
    source: R,
    segment: Vec<u8>,
}

/// Where the text stands. The names of comments are their first signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Words,
    /// After a slash that may begin a comment.
    Slash,
    LineComment,
    BlockComment,
    /// After a star that may end a comment.
    Star,
    /// After the brace.
    End,
}

impl Place {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Slash, b'/') => Self::LineComment,
            (Self::Slash | Self::BlockComment | Self::Star, b'*') => Self::Star,
            (Self::Words | Self::Slash, b'}') => Self::End,
            (Self::Words, b'/') => Self::Slash,
            (Self::Words | Self::Slash, _) | (Self::LineComment, b'\n') | (Self::Star, b'/') => Self::Words,
            (Self::LineComment, _) => Self::LineComment,
            (Self::BlockComment | Self::Star, _) => Self::BlockComment,
            (Self::End, _) => Self::End,
        }
    }

    /// The place after these bytes, or after the brace that ends the segment, and how many bytes that is.
    fn through(mut self, bytes: &[u8]) -> (Self, usize) {
        let mut taken = 0;
        while let Some(byte) = bytes.get(taken) {
            if self == Self::Words {
                // Nearly all of a text; a search is faster than a step for each byte.
                let next = bytes[taken..].iter().position(|byte| matches!(byte, b'}' | b'/'));
                let Some(next) = next else { return (self, bytes.len()) };
                taken += next;
                self = self.after(bytes[taken]);
            } else {
                self = self.after(*byte);
            }
            taken += 1;
            if self == Self::End {
                break;
            }
        }
        (self, taken)
    }
}

impl<R: BufRead> Segments<R> {
    /// From the start of a text.
    pub fn new(source: R) -> Self {
        Self { source, segment: Vec::new() }
    }

    /// The text up to the next closing brace, or to its end; `None` after that.
    pub fn next(&mut self) -> Result<Option<&str>, Error> {
        self.segment.clear();
        let mut place = Place::Words;
        while place != Place::End {
            let bytes = self.source.fill_buf().map_err(|error| unread(&error))?;
            if bytes.is_empty() {
                break;
            }
            let (next, taken) = place.through(bytes);
            self.segment.extend_from_slice(&bytes[..taken]);
            self.source.consume(taken);
            place = next;
        }
        let text = std::str::from_utf8(&self.segment).map_err(|_| Error::NotGoal)?;
        Ok((!text.is_empty()).then_some(text))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_text_is_cut_at_braces_outside_of_comments() {
        let expected = ["a {b}", "//}\n/*}*/ }", "/ /}", "/*/}", "/**}**/c}", " /* } "];
        let text = expected.concat();
        for capacity in 1..=text.len() {
            let mut segments = Segments::new(BufReader::with_capacity(capacity, text.as_bytes()));
            for segment in expected {
                assert_eq!(segments.next(), Ok(Some(segment)));
            }
            assert_eq!(segments.next(), Ok(None));
        }
    }
}
