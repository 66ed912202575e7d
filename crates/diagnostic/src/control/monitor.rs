//! The monitor: reads the demand on each free list since the last reading ([Rahman16, 5.2.4.2 and A.1.3], *Event
//! Reader*).

use rampart_memory::{FrameDemand, FrameSource, FreeList};

/// The demand on one list between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The list.
    pub list: FreeList,
    /// The demand since the previous reading, in blocks.
    pub since: FrameDemand,
}

impl Reading {
    /// Frames that programs took: the demand on the list of single frames.
    ///
    /// Blocks that leave larger lists are split for this one. They show which list runs dry, and are not additional
    /// demand: a block of order 10 that is used up frame by frame would count more than six times, as 1,024 frames of
    /// its own list and 512 of each list from order 9 down to 1.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        if self.list.order.number() == 0 { self.since.allocated() } else { 0 }
    }
}

/// Reads the demand counters and keeps their previous values.
#[derive(Clone, Debug)]
pub struct Monitor {
    known: Vec<(FreeList, FrameDemand)>,
}

impl Monitor {
    /// Makes a monitor that has read all counters.
    pub fn new(source: &impl FrameSource) -> Self {
        Self { known: source.lists().into_iter().map(|list| (list, source.demand(list))).collect() }
    }

    /// The lists, in the order of each call of [`Monitor::read`].
    pub fn lists(&self) -> impl ExactSizeIterator<Item = FreeList> {
        self.known.iter().map(|&(list, _)| list)
    }

    /// Reads the demand on each list since the previous reading.
    pub fn read(&mut self, source: &impl FrameSource, readings: &mut Vec<Reading>) {
        readings.clear();
        for (list, before) in &mut self.known {
            let now = source.demand(*list);
            readings.push(Reading { list: *list, since: now - *before });
            *before = now;
        }
    }
}
