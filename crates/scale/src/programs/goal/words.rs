//! The words of a GOAL text, with a look-ahead of one.

use std::str::FromStr;

use crate::error::Error;
use crate::time::Time;

/// A part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword, a label, a unit.
    Word(&'a str),
    /// Digits, perhaps with a point or a leading minus.
    Number(&'a str),
    /// A brace, a colon, or any other character.
    Sign(char),
    /// The end of a line, or `;`.
    End,
    /// The end of the text, or a comment without an end.
    Nothing,
}

/// A text, read from the start.
#[derive(Debug)]
pub struct TextCursor<'a> {
    rest: &'a str,
    next: Token<'a>,
    /// The line of `next`, and the line of the token taken last.
    lines: (usize, usize),
}

impl<'a> TextCursor<'a> {
    /// A text that begins in this line.
    pub fn new(text: &'a str, line: usize) -> Self {
        let mut words = Self { rest: text, next: Token::Nothing, lines: (line, line) };
        words.next = words.token();
        words
    }

    /// The line of the token taken last, counted from 1.
    pub fn line(&self) -> usize {
        self.lines.1
    }

    /// The line of the next token.
    pub fn next_line(&self) -> usize {
        self.lines.0
    }

    /// The next token.
    pub fn peek(&self) -> &Token<'a> {
        &self.next
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Token<'a> {
        let taken = self.next;
        self.lines.1 = self.lines.0;
        if taken == Token::End && self.ended_line() {
            self.lines.0 += 1;
        }
        self.next = self.token();
        taken
    }

    /// Takes ends of lines.
    pub fn skip_ends(&mut self) {
        while self.next == Token::End {
            self.next();
        }
    }

    /// Takes one end of line, unless a brace closes or the text is malformed here.
    pub fn expect_end(&mut self) -> Result<(), Error> {
        if self.next == Token::Sign('}') {
            return Ok(());
        }
        self.expect(&Token::End, "the end of the statement")
    }

    /// Takes this token; an error if another comes.
    pub fn expect(&mut self, token: &Token, expected: &'static str) -> Result<(), Error> {
        let found = self.next();
        if found == *token { Ok(()) } else { Err(self.refuse(expected, &found)) }
    }

    /// Takes a word.
    pub fn word(&mut self, expected: &'static str) -> Result<&'a str, Error> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(self.refuse(expected, &other)),
        }
    }

    /// Takes a number, which must be below the largest of its type.
    pub fn number<T: FromStr + PartialEq + Largest>(&mut self, expected: &'static str) -> Result<T, Error> {
        let found = self.next();
        let number = if let Token::Number(digits) = found { digits.parse().ok() } else { None };
        number.filter(|number| *number != T::LARGEST || !T::RESERVED).ok_or_else(|| self.refuse(expected, &found))
    }

    /// Takes a number, or `-1` for any.
    pub fn number_or_any(&mut self, expected: &'static str) -> Result<Option<u32>, Error> {
        if self.next == Token::Number("-1") {
            self.next();
            return Ok(None);
        }
        self.number(expected).map(Some)
    }

    /// Takes nanoseconds, with up to three decimals.
    pub fn time(&mut self) -> Result<Time, Error> {
        let found = self.next();
        let picos = if let Token::Number(digits) = found { picos(digits) } else { None };
        picos.map(Time::from_picos).ok_or_else(|| self.refuse("a time in nanoseconds", &found))
    }

    /// The error for an unexpected token.
    pub fn refuse(&self, expected: &'static str, found: &Token) -> Error {
        let found = match found {
            Token::Word(text) | Token::Number(text) => format!("{:?}", shortened(text)),
            Token::Sign(sign) => format!("{:?}", sign.to_string()),
            Token::End => "the end of the line".to_owned(),
            Token::Nothing => "the end".to_owned(),
        };
        Error::Syntax { line: self.line(), expected, found }
    }

    fn token(&mut self) -> Token<'a> {
        self.skip_blanks();
        let Some(first) = self.rest.chars().next() else { return Token::Nothing };
        match first {
            '\n' | ';' => {
                // The sign stays until it is taken: which of the two it is decides whether a line ended.
                Token::End
            }
            'a'..='z' | 'A'..='Z' => Token::Word(self.take(|c| c.is_ascii_alphanumeric() || c == '_')),
            '0'..='9' | '-' => Token::Number(self.take(|c| c.is_ascii_digit() || c == '.' || c == '-')),
            sign => {
                self.rest = &self.rest[sign.len_utf8()..];
                Token::Sign(sign)
            }
        }
    }

    /// Drops the sign of the end that is being taken; returns whether it ended a line.
    fn ended_line(&mut self) -> bool {
        let line = self.rest.starts_with('\n');
        self.rest = &self.rest[1..];
        line
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let length = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Skips blanks and comments. The end of the line after `//` stays; lines inside `/* */` are counted.
    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            if self.rest.starts_with("//") {
                self.take(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                let length = self.rest.find("*/").map_or(self.rest.len(), |end| end + 2);
                let (comment, rest) = self.rest.split_at(length);
                self.lines.0 += comment.matches('\n').count();
                self.rest = rest;
            } else {
                return;
            }
        }
    }
}

/// Number types whose largest value may be reserved.
pub trait Largest {
    /// It.
    const LARGEST: Self;
    /// Whether it is reserved: for ranks and tags it means "any"; for CPUs and NICs the count must fit the type too.
    const RESERVED: bool;
}

impl Largest for u8 {
    const LARGEST: Self = Self::MAX;
    const RESERVED: bool = true;
}

impl Largest for u32 {
    const LARGEST: Self = Self::MAX;
    const RESERVED: bool = true;
}

impl Largest for u64 {
    const LARGEST: Self = Self::MAX;
    const RESERVED: bool = false;
}

fn picos(digits: &str) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 3 || whole.starts_with('-') {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(fraction)
}

fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    if text.len() <= MOST { text.to_owned() } else { format!("{}…", &text[..MOST]) }
}
