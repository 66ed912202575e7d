//! Locked pages that the hardware gave up.
//!
//! **Problem.** An error that the memory's own code cannot correct is reported by the hardware: the kernel takes the
//! frame away for good, and whoever reads the page next gets SIGBUS. Where 95 % of a heap are locked, that is the
//! guard, as it verifies. **Idea.** The page is put on another frame, of zeros, and the thread goes on reading: the
//! codes say what the zeros are worth. **Why this way.** A page of which at most a line was not zero is rebuilt even
//! so; any other is beyond correction, and told and treated like all that are.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rampart_memory::Frame;

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
