//! A RAM of a few words, for tests: the guest writes between two polls.

use std::cell::Cell;
use std::ops::Range;

use crate::effect::Words;

/// Words that nobody else writes, from a first one on.
pub struct Ram {
    first: usize,
    words: Vec<Cell<u64>>,
}

impl Ram {
    /// So many zeroed frames, from address 0 on.
    pub fn frames(count: usize) -> Self {
        Self::frames_from(0, count)
    }

    /// So many zeroed frames, from this one on.
    pub fn frames_from(first: usize, count: usize) -> Self {
        Self { first: first * 512, words: vec![Cell::new(0); count * 512] }
    }

    fn word(&self, word: usize) -> &Cell<u64> {
        &self.words[word - self.first]
    }
}

impl Words for Ram {
    fn range(&self) -> Range<usize> {
        self.first..self.first + self.words.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.word(word).get()
    }

    fn store(&self, word: usize, value: u64) {
        self.word(word).set(value);
    }

    fn set(&self, word: usize, mask: u64) {
        self.word(word).set(self.word(word).get() | mask);
    }

    fn clear(&self, word: usize, mask: u64) {
        self.word(word).set(self.word(word).get() & !mask);
    }

    fn invert(&self, word: usize, mask: u64) {
        self.word(word).set(self.word(word).get() ^ mask);
    }
}
