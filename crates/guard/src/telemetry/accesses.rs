//! What was unlocked when: the trace from which a program's accesses are drawn.
//!
//! **Problem.** A picture of a program's accesses [Fiala15, fig. 4.1, 4.2, 4.6] wants each unlocking, of which there
//! may be hundreds of thousands a second, from threads that the program waits for. **Idea.** They note two words in a
//! [`Buffer`] of a fixed size; the keeper takes them out and writes them down. **Why this way.** Who unlocks never
//! waits for a disk; what finds no room is counted, so a picture says how much of it is missing.

use std::sync::Mutex;

use rampart_memory::Timestamp;

use crate::state::layout::{PageIndex, PageSpan};

/// When, and what.
pub const WORDS: usize = 2;

/// Why a block was unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The program reads it.
    Read,
    /// The program writes it.
    Write,
    /// The program may want it soon; or it wants all, as before a fork.
    Ahead,
}

/// One unlocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockAccess {
    /// When.
    pub at: Timestamp,
    /// The first page that was unlocked.
    pub page: PageIndex,
    /// How many.
    pub pages: u16,
    /// Why.
    pub touch: Touch,
}

impl UnlockAccess {
    /// An unlocking of a span, which is at most a block.
    #[must_use]
    pub fn new(at: Timestamp, span: PageSpan, touch: Touch) -> Self {
        Self { at, page: span.first, pages: u16::try_from(span.count.get()).expect("a block is small"), touch }
    }

    /// As it stands in a journal: microseconds since 1970; and the first page times 2^16, plus why (0 a read, 1 a
    /// write, 2 ahead) times 2^12, plus the number of pages.
    #[must_use]
    pub fn to_words(self) -> [u64; WORDS] {
        let touch = match self.touch {
            Touch::Read => 0,
            Touch::Write => 1,
            Touch::Ahead => 2,
        };
        [self.at.micros(), self.page.0 << 16 | touch << 12 | u64::from(self.pages)]
    }

    /// As [`UnlockAccess::to_words`] wrote it; `None` if it is none.
    #[must_use]
    pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Self> {
        let (at, what) = (Timestamp::from_micros(words.next()?), words.next()?);
        let touch = match what >> 12 & 0xf {
            0 => Touch::Read,
            1 => Touch::Write,
            2 => Touch::Ahead,
            _ => return None,
        };
        let pages = u16::try_from(what & 0xfff).expect("twelve bits");
        Some(Self { at, page: PageIndex(what >> 16), pages, touch })
    }
}

/// Room for a number of accesses, between those who note them and the one who writes them down.
#[derive(Debug)]
pub struct Buffer(Mutex<Held>);

#[derive(Debug)]
struct Held {
    accesses: Vec<UnlockAccess>,
    lost: u64,
}

impl Buffer {
    /// Room for so many, all of it allocated now.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self(Mutex::new(Held { accesses: Vec::with_capacity(room), lost: 0 }))
    }

    /// Notes one, or counts it as lost where there is no room.
    pub fn note(&self, access: UnlockAccess) {
        let mut held = self.0.lock().expect("no panic");
        if held.accesses.len() < held.accesses.capacity() {
            held.accesses.push(access);
        } else {
            held.lost += 1;
        }
    }

    /// Whether a quarter of the room is taken: time to write it down.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        let held = self.0.lock().expect("no panic");
        4 * held.accesses.len() >= held.accesses.capacity()
    }

    /// Swaps those that were noted for `empty`, which becomes the room. Returns how many were lost since the last time.
    pub fn take(&self, empty: &mut Vec<UnlockAccess>) -> u64 {
        assert!(empty.is_empty(), "what was taken before was written down");
        let mut held = self.0.lock().expect("no panic");
        std::mem::swap(&mut held.accesses, empty);
        std::mem::take(&mut held.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(at: u64, page: u64) -> UnlockAccess {
        UnlockAccess { at: Timestamp::from_micros(at), page: PageIndex(page), pages: 512, touch: Touch::Write }
    }

    proptest! {
        #[test]
        fn an_access_is_read_back(at: u64, page in 0_u64..1 << 48, pages in 1_u16..=512, touch in 0_usize..3) {
            let touch = [Touch::Read, Touch::Write, Touch::Ahead][touch];
            let access = UnlockAccess { at: Timestamp::from_micros(at), page: PageIndex(page), pages, touch };
            prop_assert_eq!(UnlockAccess::from_words(access.to_words().into_iter()), Some(access));
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_never_written_over_another() {
        let buffer = Buffer::new(2);
        (0..5).for_each(|page| buffer.note(access(page, page)));
        let mut taken = Vec::with_capacity(2);
        assert_eq!(buffer.take(&mut taken), 3);
        assert_eq!(taken, [access(0, 0), access(1, 1)]);
        taken.clear();
        buffer.note(access(9, 9));
        assert_eq!((buffer.take(&mut taken), taken), (0, vec![access(9, 9)]));
    }

    #[test]
    fn what_no_access_is_is_refused() {
        assert_eq!(UnlockAccess::from_words([1, 3 << 12].into_iter()), None);
        assert_eq!(UnlockAccess::from_words([1].into_iter()), None);
    }
}
