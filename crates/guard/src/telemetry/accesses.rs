//! The trace of unlocks, which shows a program's accesses.
//!
//! **Problem.** A picture of a program's accesses [Fiala15, fig. 4.1, 4.2, 4.6] needs each unlock, of which there may
//! be hundreds of thousands per second, from threads that the program waits for. **Idea.** They put two words into a
//! [`Buffer`] of a fixed size; the maintenance thread empties it and writes the file. **Why this way.** A thread that
//! unlocks never waits for a disk; records without room are counted, so a picture states how much of it is missing.

use std::sync::Mutex;

use rampart_memory::Timestamp;

use crate::state::layout::{PageIndex, PageSpan};

/// The time, and the access.
pub const WORDS: usize = 2;

/// Why a block was unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The program reads it.
    Read,
    /// The program writes it.
    Write,
    /// The prefetcher; or everything, as before a fork.
    Prefetch,
}

/// One unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlockAccess {
    /// When.
    pub at: Timestamp,
    /// The first page that was unlocked.
    pub page: PageIndex,
    /// The number of pages.
    pub pages: u16,
    /// Why.
    pub touch: Touch,
}

impl UnlockAccess {
    /// The unlock of a span of at most a block.
    #[must_use]
    pub fn new(at: Timestamp, span: PageSpan, touch: Touch) -> Self {
        Self { at, page: span.first, pages: u16::try_from(span.count.get()).expect("a block is small"), touch }
    }

    /// In the form of a journal: microseconds since 1970; and the first page times 2^16, plus the reason (0 a read, 1 a
    /// write, 2 ahead) times 2^12, plus the number of pages.
    #[must_use]
    pub fn to_words(self) -> [u64; WORDS] {
        let touch = match self.touch {
            Touch::Read => 0,
            Touch::Write => 1,
            Touch::Prefetch => 2,
        };
        [self.at.micros(), (self.page.0 << 16) + (touch << 12) + u64::from(self.pages)]
    }

    /// As [`UnlockAccess::to_words`] wrote it; `None` if the words are no access.
    #[must_use]
    pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Self> {
        let (at, what) = (Timestamp::from_micros(words.next()?), words.next()?);
        let touch = match what >> 12 & 0xf {
            0 => Touch::Read,
            1 => Touch::Write,
            2 => Touch::Prefetch,
            _ => return None,
        };
        let pages = u16::try_from(what & 0xfff).expect("twelve bits");
        Some(Self { at, page: PageIndex(what >> 16), pages, touch })
    }
}

/// A buffer of accesses, between the threads that record them and the one that writes them.
#[derive(Debug)]
pub struct Buffer(Mutex<Held>);

#[derive(Debug)]
struct Held {
    accesses: Vec<UnlockAccess>,
    lost: u64,
}

impl Buffer {
    /// Room for so many, allocated now.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self(Mutex::new(Held { accesses: Vec::with_capacity(room), lost: 0 }))
    }

    /// Records an access, or counts it as lost without room.
    pub fn note(&self, access: UnlockAccess) {
        let mut held = self.0.lock().expect("no panic");
        if held.accesses.len() < held.accesses.capacity() {
            held.accesses.push(access);
        } else {
            held.lost += 1;
        }
    }

    /// Whether a quarter of the buffer is in use: time to write it.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        let held = self.0.lock().expect("no panic");
        4 * held.accesses.len() >= held.accesses.capacity()
    }

    /// Swaps the recorded accesses for `empty`, which becomes the buffer. Returns the number of lost ones since the
    /// last call.
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
            let touch = [Touch::Read, Touch::Write, Touch::Prefetch][touch];
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
    fn it_is_time_to_write_when_a_quarter_is_in_use() {
        let buffer = Buffer::new(8);
        let filling: Vec<_> = (0..3).map(|page| (buffer.note(access(page, page)), buffer.is_filling()).1).collect();
        assert_eq!(filling, [false, true, true]);
    }

    #[test]
    fn what_no_access_is_is_refused() {
        assert_eq!(UnlockAccess::from_words([1, 3 << 12].into_iter()), None);
        assert_eq!(UnlockAccess::from_words([1].into_iter()), None);
    }
}
