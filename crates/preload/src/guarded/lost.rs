//! Locked pages that the hardware gave up.
//!
//! **Problem.** An error that the memory's own code cannot correct is reported by the hardware: the kernel takes the frame away for
//! good, and whoever reads the page next gets SIGBUS. Where 95 % of a heap are locked, that is the guard, as it verifies. **Idea.** The
//! page is put on another frame, of zeros, and the thread goes on reading: the codes say what the zeros are worth. **Why this way.** A page
//! of which at most a line was not zero is rebuilt even so; any other is beyond correction, and told and treated like all that are.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rampart_linux::{FlagTable, FrameFlags, Pagemap, Roots};
use rampart_memory::Frame;

/// The frame that a lost page was on, where the kernel says.
pub fn frame_of(pagemap: &Pagemap, page: NonNull<u8>) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).ok()?;
    pagemap.lost_frame(page, &flags).ok().flatten()
}

/// A frame that a page is on, unless it is the kernel's frame of zeros, which everybody has who has none of their own: whatever becomes of
/// a page there is no fault of that frame.
pub fn own(frame: Frame) -> Option<Frame> {
    let flags = FlagTable::open(&Roots::default()).and_then(|table| table.of(frame));
    let is_zeros = flags.ok().flatten().is_some_and(FrameFlags::is_zero_page);
    (!is_zeros).then_some(frame)
}

/// Those that were replaced and not asked about since, and the frames that they were on, where the kernel says.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Vec<(u64, Option<Frame>)>>);

impl Lost {
    /// A page is on another frame now.
    pub fn note(&self, page: u64, frame: Option<Frame>) {
        self.pages().push((page, frame));
    }

    /// The frame of which a page was lost, if it was: what is asked is why its content is wrong, and only once.
    pub fn take(&self, page: u64) -> Option<Option<Frame>> {
        let mut pages = self.pages();
        let place = pages.iter().position(|(lost, _)| *lost == page)?;
        Some(pages.swap_remove(place).1)
    }

    fn pages(&self) -> MutexGuard<'_, Vec<(u64, Option<Frame>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_page_is_asked_about_once() {
        let lost = Lost::default();
        lost.note(3, Frame::new(7));
        lost.note(4, None);
        assert_eq!(
            [lost.take(3), lost.take(3), lost.take(4), lost.take(5)],
            [Some(Frame::new(7)), None, Some(None), None]
        );
    }
}
