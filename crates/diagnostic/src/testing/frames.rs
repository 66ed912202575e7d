//! The frames of a block before and after a test, and the way it was pinned.

use rampart_linux::Pinning;
use rampart_memory::Frame;

/// The frame of each page that stayed in place, `None` for the others.
pub fn stayed(before: &[Option<Frame>], now: &[Option<Frame>]) -> Vec<Option<Frame>> {
    before.iter().zip(now).map(|(before, now)| before.filter(|_| before == now)).collect()
}

/// Records how a block was pinned: of several ways, the weakest is kept.
pub fn note_pinning(weakest: &mut Option<Pinning>, pinning: Pinning) {
    let known = weakest.get_or_insert(pinning);
    if !pinning.holds_frames() {
        *known = pinning;
    }
}
