//! What happens next.
//!
//! **Problem.** A run of 16,384 ranks takes millions of events in order of time, and among equal times in order of their making.
//! **Idea.** Time only goes on, so a radix heap serves: events lie in buckets by the highest bit in which their time differs from
//! the time last taken; when the first bucket is empty, the next one that is not is dealt out over those before it. **Why this
//! way.** An event moves at most 64 times, mostly some few, always through memory in order; a binary heap misses the cache
//! at every level. Events of one time are common (ranks in step), and are sorted once, by their numbers.

use std::collections::VecDeque;

use crate::operation::{Operation, Rank};
use crate::time::Time;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An operation of the rank is to start.
    Start,
    /// The first byte of a message reached the rank: `operation` is the send, its peer is the sender.
    Arrive,
    /// The operation is done: said by an event of its own where another CPU of the rank may wait for it.
    Finish,
}

/// Something that happens to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub time: Time,
    /// In which order events were made; kept when one is put off.
    pub number: u64,
    pub operation: Operation,
    pub rank: Rank,
    pub what: What,
}

/// A bucket for each bit, and one for the time itself.
const BUCKETS: usize = 65;

/// Events by time, then by number.
#[derive(Debug)]
pub(super) struct Queue {
    /// Of the time last taken, in order of their numbers.
    now: VecDeque<Event>,
    /// Those later, by the highest bit that differs from `last`; the first is never used.
    later: [Vec<Event>; BUCKETS],
    last: u64,
}

impl Queue {
    pub fn new() -> Self {
        Self { now: VecDeque::new(), later: [const { Vec::new() }; BUCKETS], last: 0 }
    }

    /// Adds an event, which is not before the last that was taken.
    pub fn push(&mut self, event: Event) {
        debug_assert!(event.time.picos() >= self.last, "time goes on");
        let bucket = bucket(event.time.picos(), self.last);
        if bucket > 0 {
            self.later[bucket].push(event);
        } else if self.now.back().is_none_or(|last| last.number < event.number) {
            self.now.push_back(event);
        } else {
            // One that was put off, but to the present: rare.
            let place = self.now.partition_point(|other| other.number < event.number);
            self.now.insert(place, event);
        }
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<Event> {
        if self.now.is_empty() {
            self.deal();
        }
        self.now.pop_front()
    }

    /// Moves on to the next time at which there is something.
    fn deal(&mut self) {
        let Some(first) = self.later.iter().position(|bucket| !bucket.is_empty()) else { return };
        let mut bucket_of_next = std::mem::take(&mut self.later[first]);
        self.last = bucket_of_next.iter().map(|event| event.time.picos()).min().expect("not empty");
        for event in bucket_of_next.drain(..) {
            match bucket(event.time.picos(), self.last) {
                0 => self.now.push_back(event),
                nearer => self.later[nearer].push(event),
            }
        }
        // Its memory serves the next that fall into it.
        self.later[first] = bucket_of_next;
        // Mostly in order already, and such a sort is one pass then.
        self.now.make_contiguous().sort_by_key(|event| event.number);
    }
}

/// 0 if equal, else one more than the highest bit that differs.
fn bucket(time: u64, last: u64) -> usize {
    (u64::BITS - (time ^ last).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin: a list that is searched.
        #[test]
        fn events_come_by_time_then_by_number(steps in proptest::collection::vec((0..4_u64, 0..3_u32, any::<bool>()), 1..300)) {
            let (mut queue, mut twin, mut now, mut number) = (Queue::new(), Vec::new(), 0, 0);
            for (ahead, shift, taking) in steps {
                if taking {
                    twin.sort_by_key(|event: &Event| (event.time, event.number));
                    let due = if twin.is_empty() { None } else { Some(twin.remove(0)) };
                    prop_assert_eq!(queue.pop(), due);
                    now = due.map_or(now, |event| event.time.picos());
                    // Every third that is taken is put off, with its number.
                    if let Some(event) = due.filter(|event| event.number % 3 == 0) {
                        let put_off = Event { time: Time::from_picos(now + ahead), ..event };
                        queue.push(put_off);
                        twin.push(put_off);
                    }
                } else {
                    let time = Time::from_picos(now + (ahead << (20 * shift)));
                    let event =
                        Event { time, number, operation: Operation::calc(time), rank: Rank(0), what: What::Start };
                    number += 1;
                    queue.push(event);
                    twin.push(event);
                }
            }
        }
    }
}
