//! The frames of a block before and after a test, and how they were pinned.

use rampart_linux::Pinning;
use rampart_memory::Frame;

/// The frame of each page that has not moved, `None` for the others.
pub fn stayed(before: &[Option<Frame>], now: &[Option<Frame>]) -> Vec<Option<Frame>> {
    before.iter().zip(now).map(|(before, now)| before.filter(|_| before == now)).collect()
}

/// Records how a block was pinned: keeps the weakest way.
pub fn note_pinning(weakest: &mut Option<Pinning>, pinning: Pinning) {
    *weakest = Some(weakest.map_or(pinning, |known| known.min(pinning)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weakest_way_in_which_a_block_was_pinned_counts() {
        let weakest = |ways: &[Pinning]| {
            let mut weakest = None;
            ways.iter().for_each(|&way| note_pinning(&mut weakest, way));
            weakest
        };
        let (none, locked, registered) = (Pinning::None, Pinning::Locked, Pinning::Registered);
        assert_eq!(weakest(&[]), None);
        assert_eq!(weakest(&[registered]), Some(registered));
        assert_eq!(weakest(&[registered, locked, registered]), Some(locked));
        assert_eq!(weakest(&[none, locked]), Some(none));
        assert_eq!(weakest(&[locked, none]), Some(none));
    }

    #[test]
    fn a_page_stayed_if_it_is_in_the_frame_where_it_was() {
        let frame = Frame::new;
        let before = [frame(1), frame(2), None, frame(4), None];
        let now = [frame(1), frame(3), frame(3), None, None];
        assert_eq!(stayed(&before, &now), [frame(1), None, None, None, None]);
    }
}
