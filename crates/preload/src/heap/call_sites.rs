//! The call sites of large allocations.
//!
//! **Problem.** A person understands a page beyond correction only by its content. jemalloc answers only for addresses
//! that it gave out, and walking a stack at each allocation costs more than the allocation. **Idea.** An allocation of
//! [`LARGE`] or more has its pages for itself; its caller is recorded once for each of them. **Why this way.** It costs
//! one word per page, written a moment before the page's first touch, which costs a thousand times as much; smaller
//! allocations cost a comparison.
//!
//! Records are never removed: the last large allocation of a page is known.

#![allow(unsafe_code, reason = "maps memory for the table")]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// From this size on, in bytes, jemalloc shares no page among allocations (its manual, "size classes": the smallest of
/// the large ones).
pub const LARGE: usize = 16 << 10;

/// Pages of a piece of the table: those of a GiB.
const PIECE: usize = 1 << 18;
const PIECE_BYTES: usize = PIECE * size_of::<AtomicUsize>();

/// The number of pieces. Pages beyond 4 TiB of a heap have no record.
const PIECES: usize = 4096;

/// Return addresses of callers of large allocations, by the pages of the heap's range.
pub struct Sites {
    /// Null until a large allocation is there.
    pieces: [AtomicPtr<AtomicUsize>; PIECES],
}

/// The call sites of this process.
pub static SITES: Sites = Sites::new();

impl Sites {
    const fn new() -> Self {
        Self { pieces: [const { AtomicPtr::new(ptr::null_mut()) }; PIECES] }
    }

    /// Records an allocation in the pages from `first` to `last` whose caller goes on at this address; 0: unknown.
    pub fn note(&self, first: usize, last: usize, caller: usize) {
        for page in first..=last {
            if let Some(place) = self.place(page, Self::make) {
                place.store(caller, Ordering::Relaxed);
            }
        }
    }

    /// The address where the caller of the last allocation in a page went on.
    pub fn of(&self, page: usize) -> Option<usize> {
        self.place(page, |_| None).map(|place| place.load(Ordering::Relaxed)).filter(|&caller| caller != 0)
    }

    /// The word of a page; `make` creates its piece if needed.
    fn place(
        &self,
        page: usize,
        make: impl FnOnce(&AtomicPtr<AtomicUsize>) -> Option<NonNull<AtomicUsize>>,
    ) -> Option<&AtomicUsize> {
        let piece = self.pieces.get(page / PIECE)?;
        let words = NonNull::new(piece.load(Ordering::Acquire)).or_else(|| make(piece))?;
        // SAFETY: the piece has `PIECE` words, which are zeros at first, good words, and are never unmapped.
        Some(unsafe { words.add(page % PIECE).as_ref() })
    }

    /// Maps a piece, which takes memory as it is written. `None`: there is no room for it.
    fn make(piece: &AtomicPtr<AtomicUsize>) -> Option<NonNull<AtomicUsize>> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping where the kernel chooses.
        let made = unsafe { mmap_anonymous(ptr::null_mut(), PIECE_BYTES, protection, flags) }.ok()?;
        let taken = match piece.compare_exchange(ptr::null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made.cast(),
            Err(others) => {
                // SAFETY: it was mapped just above, and nobody saw it.
                let _ = unsafe { munmap(made, PIECE_BYTES) };
                others
            }
        };
        NonNull::new(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static HERE: Sites = Sites::new();

    #[test]
    fn the_last_large_allocation_in_a_page_is_known() {
        assert_eq!([0, PIECE, PIECE * PIECES].map(|page| HERE.of(page)), [None; 3]);
        HERE.note(PIECE - 2, PIECE + 1, 7);
        HERE.note(PIECE, PIECE, 8);
        HERE.note(PIECE * PIECES, PIECE * PIECES, 9);
        let known = [PIECE - 3, PIECE - 2, PIECE - 1, PIECE, PIECE + 1, PIECE + 2].map(|page| HERE.of(page));
        assert_eq!(known, [None, Some(7), Some(7), Some(8), Some(7), None]);
        HERE.note(PIECE, PIECE, 0);
        assert_eq!(HERE.of(PIECE), None);
    }

    #[test]
    fn threads_that_begin_a_piece_at_once_use_the_same() {
        static SITES: Sites = Sites::new();
        std::thread::scope(|scope| {
            for thread in 1..=8 {
                scope.spawn(move || SITES.note(thread, thread, thread));
            }
        });
        assert!((1..=8).all(|page| SITES.of(page) == Some(page)));
    }
}
