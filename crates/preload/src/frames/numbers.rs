//! Which frame a page is on, or was on, where the kernel says.

use std::ptr::NonNull;

use rampart_linux::{FlagTable, FrameFlags, Pagemap, Roots};
use rampart_memory::Frame;

/// The frame that a lost page was on, where the kernel says.
pub fn frame_of_lost(pagemap: &Pagemap, page: NonNull<u8>) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).ok()?;
    pagemap.lost_frame(page, &flags).ok().flatten()
}

/// A frame that a page is on, unless it is the kernel's frame of zeros, which everybody has who has none of their own:
/// whatever becomes of a page there is no fault of that frame.
pub fn own(frame: Frame) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).and_then(|table| table.of(frame));
    let is_zeros = flags.ok().flatten().is_some_and(FrameFlags::is_zero_page);
    (!is_zeros).then_some(frame)
}
