//! The frame of a page, or its old frame, if the kernel shows it.

use std::ptr::NonNull;

use rampart_linux::{FlagTable, FrameFlags, Pagemap, Roots};
use rampart_memory::Frame;

/// The old frame of a lost page, if the kernel shows it.
pub fn frame_of_lost(pagemap: &Pagemap, page: NonNull<u8>) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).ok()?;
    pagemap.lost_frame(page, &flags).ok().flatten()
}

/// The frame of a page, unless it is the kernel's frame of zeros, which all processes share: an error in such a page is
/// no error of that frame.
pub fn own(frame: Frame) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).and_then(|table| table.of(frame));
    let is_zeros = flags.ok().flatten().is_some_and(FrameFlags::is_zero_page);
    (!is_zeros).then_some(frame)
}
