//! The frames of a block before and after a test, and how they were pinned.

use rampart_linux::Pinning;
use rampart_memory::Frame;

/// The frame of each page that has not moved, `None` for the others.
pub fn stayed(before: &[Option<Frame>], now: &[Option<Frame>]) -> Vec<Option<Frame>> {
    before.iter().zip(now).map(|(before, now)| before.filter(|_| before == now)).collect()
}

/// Records how a block was pinned: keeps the weakest way.
pub fn note_pinning(weakest: &mut Option<Pinning>, pinning: Pinning) {
    let known = weakest.get_or_insert(pinning);
    if !pinning.holds_frames() {
        *known = pinning;
    }
}
