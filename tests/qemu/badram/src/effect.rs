//! The effect of a fault on the words that it watches.
//!
//! A fault outside of the machine sees no access, only the content of words. So a *write* here is a change of content:
//! it misses a write of the same value, and the first of two writes between two polls. Faults that show only in reads
//! (state coupling, stuck-open) cannot be forced this way, and are not offered.

use std::ops::Range;
use std::time::Duration;

use rampart_memory::fault::{
    AddressFault, Coupling, Effect, FaultCell, FaultKind, Persistence, PlacedFault, TransitionDirection,
};
use rampart_memory::{LINE_WORDS, RegionLine};
use rand::{Rng, RngExt};

/// Memory that other processes write meanwhile, in words of 64 bits; each call is one atomic operation.
pub trait Words {
    /// The numbers of its words: their physical addresses, divided by 8.
    fn range(&self) -> Range<usize>;
    /// The content of a word.
    fn load(&self, word: usize) -> u64;
    /// Sets a word to `value`.
    fn store(&self, word: usize, value: u64);
    /// Sets the bits of `mask`.
    fn set(&self, word: usize, mask: u64);
    /// Clears the bits of `mask`.
    fn clear(&self, word: usize, mask: u64);
    /// Inverts the bits of `mask`.
    fn invert(&self, word: usize, mask: u64);
}

/// A cell, as a word and a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WordBit {
    word: usize,
    mask: u64,
}

impl WordBit {
    fn of(cell: FaultCell) -> Self {
        Self { word: first_word(cell.line) + cell.bit.word(), mask: 1 << (cell.bit.index() % 64) }
    }

    fn is_set(self, words: &impl Words) -> bool {
        words.load(self.word) & self.mask != 0
    }

    fn force(self, words: &impl Words, value: bool) {
        if value { words.set(self.word, self.mask) } else { words.clear(self.word, self.mask) }
    }
}

/// One active fault, with its memory of its words.
#[derive(Debug)]
pub struct Watcher {
    persistence: Persistence,
    watched: Watched,
}

#[derive(Debug)]
enum Watched {
    /// `spared` is the word's content when an intermittent fault did not act: the fault leaves it alone until the next
    /// write.
    Stuck {
        bit: WordBit,
        value: bool,
        spared: Option<u64>,
    },
    Transition {
        bit: WordBit,
        blocked: TransitionDirection,
        last: bool,
    },
    Coupled {
        aggressor: WordBit,
        on: TransitionDirection,
        victim: WordBit,
        effect: Effect,
        last: bool,
    },
    Alias {
        first: [usize; 2],
        last: [[u64; LINE_WORDS]; 2],
    },
    Leaking {
        bit: WordBit,
        loses: bool,
        after: Duration,
        last: [u64; LINE_WORDS],
        since: Duration,
    },
}

impl Watcher {
    /// Starts a fault; `None` if it cannot be forced from outside, or lies outside the RAM.
    pub fn new(fault: &PlacedFault, words: &impl Words, now: Duration) -> Option<Self> {
        let ram = words.range();
        let is_inside = fault
            .lines()
            .into_iter()
            .map(first_word)
            .all(|first| ram.contains(&first) && first + LINE_WORDS <= ram.end);
        let is_forced = !matches!(fault.persistence, Persistence::PatternSensitive { .. });
        let watched = (is_inside && is_forced).then(|| Watched::new(&fault.kind, words, now))??;
        Some(Self { persistence: fault.persistence, watched })
    }

    /// Polls once and applies the fault. Returns whether it changed something.
    pub fn act(&mut self, words: &impl Words, now: Duration, chance: &mut impl Rng) -> bool {
        let persistence = &self.persistence;
        self.watched.act(words, now, || match persistence {
            Persistence::Intermittent { probability } => chance.random_bool(probability.get()),
            _ => true,
        })
    }
}

impl Watched {
    fn new(kind: &FaultKind, words: &impl Words, now: Duration) -> Option<Self> {
        Some(match *kind {
            FaultKind::StuckAt { cell, value } => Self::Stuck { bit: WordBit::of(cell), value, spared: None },
            FaultKind::Transition { cell, blocked } => {
                let bit = WordBit::of(cell);
                Self::Transition { bit, blocked, last: bit.is_set(words) }
            }
            FaultKind::Inversion { .. } | FaultKind::Idempotent(_) => {
                let Coupling { aggressor, on, victim, effect } = kind.couplings().next()?;
                let aggressor = WordBit::of(aggressor);
                Self::Coupled { aggressor, on, victim: WordBit::of(victim), effect, last: aggressor.is_set(words) }
            }
            FaultKind::Address(AddressFault::Instead { line, other }) => {
                let first = [first_word(line), first_word(other)];
                // The cells of `other` count as just written: the address of `line` shows them from the start.
                let last = [line_words(words, first[0]), line_words(words, first[1]).map(|word| !word)];
                Self::Alias { first, last }
            }
            FaultKind::Retention { cell, loses, after } => {
                let last = line_words(words, first_word(cell.line));
                Self::Leaking { bit: WordBit::of(cell), loses, after, last, since: now }
            }
            _ => return None,
        })
    }

    fn act(&mut self, words: &impl Words, now: Duration, draw: impl FnMut() -> bool) -> bool {
        match self {
            Self::Stuck { bit, value, spared } => stick(*bit, *value, spared, words, draw),
            Self::Transition { bit, blocked, last } => {
                let holds = bit.is_set(words);
                let acts = TransitionDirection::of(*last, holds) == Some(*blocked) && { draw }();
                if acts {
                    bit.force(words, *last);
                } else {
                    *last = holds;
                }
                acts
            }
            Self::Coupled { aggressor, on, victim, effect, last } => {
                let holds = aggressor.is_set(words);
                let before = std::mem::replace(last, holds);
                TransitionDirection::of(before, holds) == Some(*on) && couple(*victim, *effect, words, draw)
            }
            Self::Alias { first, last } => alias(*first, last, words, draw),
            Self::Leaking { bit, loses, after, last, since } => {
                let held = line_words(words, bit.word - bit.word % LINE_WORDS);
                if held != *last {
                    (*last, *since) = (held, now);
                }
                let expired = now.saturating_sub(*since) >= *after && bit.is_set(words) == *loses;
                let acts = expired && { draw }();
                if acts {
                    bit.force(words, !*loses);
                } else if expired {
                    *since = now;
                }
                acts
            }
        }
    }
}

fn stick(
    bit: WordBit,
    value: bool,
    spared: &mut Option<u64>,
    words: &impl Words,
    mut draw: impl FnMut() -> bool,
) -> bool {
    let held = words.load(bit.word);
    if (held & bit.mask != 0) == value {
        *spared = None;
        return false;
    }
    if *spared == Some(held) {
        return false;
    }
    let acts = draw();
    if acts {
        bit.force(words, value);
    } else {
        *spared = Some(held);
    }
    acts
}

fn couple(victim: WordBit, effect: Effect, words: &impl Words, mut draw: impl FnMut() -> bool) -> bool {
    let acts = match effect {
        Effect::Invert => draw(),
        Effect::Force(value) => victim.is_set(words) != value && draw(),
    };
    match effect {
        Effect::Invert if acts => words.invert(victim.word, victim.mask),
        Effect::Force(value) if acts => victim.force(words, value),
        _ => {}
    }
    acts
}

/// Copies a write at one of two addresses to the other.
fn alias(
    first: [usize; 2],
    last: &mut [[u64; LINE_WORDS]; 2],
    words: &impl Words,
    mut draw: impl FnMut() -> bool,
) -> bool {
    let mut word = |word: usize| {
        let held = first.map(|line| words.load(line + word));
        let Some(written) = (0..2).find(|&side| held[side] != last[side][word]) else { return false };
        let other = 1 - written;
        last[written][word] = held[written];
        let acts = held[other] != held[written] && draw();
        if acts {
            words.store(first[other] + word, held[written]);
            last[other][word] = held[written];
        }
        acts
    };
    (0..LINE_WORDS).filter(|&place| word(place)).count() > 0
}

fn first_word(line: RegionLine) -> usize {
    usize::try_from(line.0).map_or(usize::MAX / 2, |line| line.saturating_mul(LINE_WORDS))
}

fn line_words(words: &impl Words, first: usize) -> [u64; LINE_WORDS] {
    std::array::from_fn(|word| words.load(first + word))
}

#[cfg(test)]
mod tests;
