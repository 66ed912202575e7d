//! Counts of work, and of its time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::engine::{FrameHistory, GuardEngine};
use crate::state::layout::BlockIndex;
use crate::state::table::{BlockState, GuardBlock};
use crate::telemetry::counts::Counter;

use super::Guard;

/// A longer request was preempted: it counts as no more than this.
const LONGEST_INTERRUPT: Duration = Duration::from_micros(100);

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// The time since the stopwatch read `began`.
    pub(crate) fn took(&self, began: Duration) -> Duration {
        self.clock.stopwatch().saturating_sub(began)
    }

    /// The program waited for so long.
    pub fn waited(&self, time: Duration) {
        self.counts.add_time(Counter::ServeNanos, time);
    }

    /// The kernel moved pages while the program ran, since the stopwatch read `began`: it interrupted the program, and
    /// the caller waited about as long.
    pub(crate) fn interrupted(&self, began: Duration) {
        let time = self.took(began).min(LONGEST_INTERRUPT);
        self.counts.add_time(Counter::InterruptNanos, time);
        self.unlocked_queue().interrupted(time);
    }

    /// Adds the time since the last call to the sums behind averages.
    pub(crate) fn average(&self, now: Timestamp) {
        let mut last = self.averaged.lock().expect("no panic");
        let micros = u64::try_from(now.since(*last).as_micros()).unwrap_or(0);
        *last = now;
        self.counts.add(Counter::Micros, micros);
        self.counts.add(Counter::PageMicros, micros.saturating_mul(self.counts.get(Counter::Pages)));
        self.counts.add(Counter::UnlockedMicros, micros.saturating_mul(self.counts.get(Counter::Unlocked)));
    }

    /// A block with a page on an untested frame counts as untested.
    pub(crate) fn note_frames(&self, known: &mut GuardBlock, frames: FrameHistory) {
        let (counter, tested) = match frames {
            FrameHistory::Same => return,
            FrameHistory::Untested => (Counter::Untested, None),
            FrameHistory::Tested(at) => (Counter::Supplied, Some(at)),
        };
        if known.state == BlockState::Untouched {
            self.counts.add(counter, u64::from(self.layout().block_pages()));
        }
        known.tested = tested;
    }

    /// Counts a block that is newly in use.
    pub(crate) fn count_pages(&self, block: BlockIndex) {
        let more = u64::from(self.layout().block_pages());
        self.reach.fetch_max(block.0 + 1, Ordering::Relaxed);
        self.counts.add(Counter::Pages, more);
        let pages = self.counts.get(Counter::Pages);
        self.counts.set(Counter::MostPages, pages.max(self.counts.get(Counter::MostPages)));
        let units = usize::try_from(pages / u64::from(self.layout().unit_pages())).expect("units have addresses");
        self.unlocked_queue().uses(units);
    }
}
