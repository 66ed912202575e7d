//! Locked pages that the hardware lost.
//!
//! **Problem.** The hardware reports an error that the memory's own code cannot correct: the kernel takes the frame
//! away for good, and the next reader of the page gets SIGBUS. With 95 % of a heap locked, that is usually the guard,
//! while it verifies. **Idea.** The page moves to another frame, of zeros, and the thread goes on reading: the codes
//! judge the zeros. **Why this way.** A page with at most one nonzero line is even rebuilt; any other is beyond
//! correction, and is reported and treated like all such pages.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rampart_memory::Frame;

/// Pages that were replaced and not asked about since, with their old frames, if the kernel shows them.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Vec<(u64, Option<Frame>)>>);

impl Lost {
    /// Records that a page is on another frame now.
    pub fn note(&self, page: u64, frame: Option<Frame>) {
        self.pages().push((page, frame));
    }

    /// The old frame of a page, if it was lost: it explains why the content is wrong, and is returned once.
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
