//! The frame of a page, or its old frame, if the kernel shows it.

use std::ptr::NonNull;

use rampart_linux::{FlagTable, FrameFlags, Pagemap, Roots};
use rampart_memory::Frame;

/// The old frame of a lost page, if the kernel shows it.
pub fn frame_of_lost(pagemap: &Pagemap, page: NonNull<u8>, roots: &Roots) -> Option<Frame> {
    let flags = FlagTable::open(roots).ok()?;
    pagemap.lost_frame(page, &flags).ok().flatten()
}

/// The frame of a page, unless it is the kernel's frame of zeros, which all processes share: an error in such a page is
/// no error of that frame.
pub fn own(frame: Frame) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).and_then(|table| table.of(frame));
    unless_zeros(frame, flags.ok().flatten())
}

fn unless_zeros(frame: Frame, flags: Option<FrameFlags>) -> Option<Frame> {
    (!flags.is_some_and(FrameFlags::is_zero_page)).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::fake_frames::FakeFrames;

    #[test]
    fn a_lost_page_names_its_old_frame_if_that_is_marked() {
        let kernel = FakeFrames::new();
        let page = NonNull::without_provenance(std::num::NonZero::new(0x7000).unwrap());
        kernel.lose(page, 0, 5);
        let lost = || frame_of_lost(&kernel.pagemap(), page, &kernel.roots());
        assert_eq!(lost(), None);
        let frame = Frame::new(5).unwrap();
        kernel.mark(frame);
        assert_eq!(lost(), Some(frame));
    }

    #[test]
    fn a_frame_is_a_page_s_own_unless_the_kernel_marks_it_as_that_of_zeros() {
        let frame = Frame::new(1).unwrap();
        assert_eq!(unless_zeros(frame, Some(FrameFlags::from_bits(1 << 24))), None);
        assert_eq!(unless_zeros(frame, Some(FrameFlags::from_bits(1 << 12))), Some(frame), "an anonymous page's");
        assert_eq!(unless_zeros(frame, None), Some(frame), "where the kernel hides the mark");
        assert_eq!(own(frame), Some(frame), "the firmware's, in any machine");
    }
}
