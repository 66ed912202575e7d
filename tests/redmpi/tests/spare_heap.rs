//! The heap of a process that has crashed: pieces of all sizes and alignments come and go, and each holds what was
//! written into it.

use rampart_redmpi::SparePiece;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pieces at a time, and how long they are at most.
const PIECES: usize = 100;
const MOST_BYTES: usize = 20_000;

#[test]
fn pieces_are_zeroed_aligned_and_apart_and_those_that_are_freed_are_used_again() {
    let mut dice = ChaCha8Rng::seed_from_u64(3);
    let mut pieces: Vec<(SparePiece, u8)> = Vec::new();
    let (mut lowest, mut highest) = (usize::MAX, 0);
    for _ in 0..50_000 {
        if pieces.len() == PIECES || (!pieces.is_empty() && dice.random_bool(0.5)) {
            let (piece, value) = pieces.swap_remove(dice.random_range(0..pieces.len()));
            assert!(piece.is_all(value), "nobody else has written into it");
            continue;
        }
        let alignment = 1 << dice.random_range(0..13);
        let size = dice.random_range(0..MOST_BYTES) >> dice.random_range(0..14);
        let mut piece = SparePiece::new(alignment, size).expect("there is room");
        let (begin, end) = piece.place();
        assert!(begin.is_multiple_of(alignment.max(16)) && piece.is_all(0), "{alignment} {size}");
        let value = dice.random_range(1..=255);
        piece.fill(value);
        (lowest, highest) = (lowest.min(begin), highest.max(end));
        pieces.push((piece, value));
    }
    // A block has room for its head and for the alignment, and is twice as long at most.
    let most = 13 * PIECES * 2 * (MOST_BYTES + 4096 + 16);
    assert!(highest - lowest < most, "{} bytes were used", highest - lowest);
}

#[test]
fn what_is_too_large_is_refused() {
    assert!(SparePiece::new(1, usize::MAX).is_none());
    assert!(SparePiece::new(1 << 40, 1).is_none());
    assert!(SparePiece::new(1, 1 << 35).is_none());
}
