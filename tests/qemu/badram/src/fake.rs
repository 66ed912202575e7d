//! A RAM of a few words, for tests: the guest writes between two polls.

use std::cell::Cell;

use crate::effect::Words;

/// Words that nobody else writes.
pub struct Ram(Vec<Cell<u64>>);

impl Ram {
    /// So many zeroed frames.
    pub fn frames(count: usize) -> Self {
        Self(vec![Cell::new(0); count * 512])
    }
}

impl Words for Ram {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.0[word].get()
    }

    fn store(&self, word: usize, value: u64) {
        self.0[word].set(value);
    }

    fn set(&self, word: usize, mask: u64) {
        self.0[word].set(self.0[word].get() | mask);
    }

    fn clear(&self, word: usize, mask: u64) {
        self.0[word].set(self.0[word].get() & !mask);
    }

    fn invert(&self, word: usize, mask: u64) {
        self.0[word].set(self.0[word].get() ^ mask);
    }
}
