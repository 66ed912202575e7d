//! What was done is counted, and how long it took.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::engine::{FrameHistory, GuardEngine};
use crate::state::layout::BlockIndex;
use crate::state::table::{BlockState, GuardBlock};
use crate::telemetry::counts::Counter;

use super::Guard;

/// Who asked the kernel for longer than this was kept from running meanwhile: it counts as no more.
const LONGEST_INTERRUPT: Duration = Duration::from_micros(100);

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// How long it is since the stopwatch read `began`.
    pub(crate) fn took(&self, began: Duration) -> Duration {
        self.clock.stopwatch().saturating_sub(began)
    }

    /// The program waited for so long.
    pub fn waited(&self, time: Duration) {
        self.counts.add_time(Counter::ServeNanos, time);
    }

    /// The kernel moved pages while the program ran, since the stopwatch read `began`: it interrupted the program, and
    /// whoever asked waited for that about as long.
    pub(crate) fn interrupted(&self, began: Duration) {
        let time = self.took(began).min(LONGEST_INTERRUPT);
        self.counts.add_time(Counter::InterruptNanos, time);
        self.openings().interrupted(time);
    }

    /// Adds the time since it was last done to the sums that averages are taken from.
    pub(crate) fn average(&self, now: Timestamp) {
        let mut last = self.averaged.lock().expect("no panic");
        let micros = u64::try_from(now.since(*last).as_micros()).unwrap_or(0);
        *last = now;
        self.counts.add(Counter::Micros, micros);
        self.counts.add(Counter::PageMicros, micros.saturating_mul(self.counts.get(Counter::Pages)));
        self.counts.add(Counter::OpenMicros, micros.saturating_mul(self.counts.get(Counter::Open)));
    }

    /// A block of which a page is on a frame that was not tested counts as not tested.
    pub(crate) fn note_frames(&self, known: &mut GuardBlock, frames: FrameHistory) {
        let (counter, tested) = match frames {
            FrameHistory::Same => return,
            FrameHistory::Untested => (Counter::Untested, None),
            FrameHistory::Tested(at) => (Counter::Supplied, Some(at)),
        };
        if known.state == BlockState::Fresh {
            self.counts.add(counter, u64::from(self.layout().block_pages()));
        }
        known.tested = tested;
    }

    /// A block is in use that was not.
    pub(crate) fn count_pages(&self, block: BlockIndex) {
        let more = u64::from(self.layout().block_pages());
        self.reach.fetch_max(block.0 + 1, Ordering::Relaxed);
        self.counts.add(Counter::Pages, more);
        let pages = self.counts.get(Counter::Pages);
        self.counts.set(Counter::MostPages, pages.max(self.counts.get(Counter::MostPages)));
        let units = usize::try_from(pages / u64::from(self.layout().unit_pages())).expect("units have addresses");
        self.openings().uses(units);
    }
}
