//! What happens next.
//!
//! **Problem.** A run of 16,384 ranks takes millions of events in order of time, and among equal times in order of their making.
//! **Idea.** Time only goes on, so a radix heap serves: events lie in buckets by the highest byte in which their time differs from
//! the time last taken, and by what that byte is; when there is nothing of the present left, the next bucket is dealt out over those
//! before it. **Why this way.** An event moves at most eight times, mostly two or three, always through memory in order; a binary
//! heap misses the cache at every level. Events of one time are common (ranks in step), and are sorted once, by their numbers.
//! Buckets are made of chunks that go back to one pool, so memory is that of the events there are.

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

/// Values of a byte, and bytes of a time.
const DIGITS: usize = 256;
const LEVELS: usize = 8;

/// Events in a chunk: 3 KiB of them.
const CHUNK: usize = 64;

/// Events by time, then by number.
#[derive(Debug)]
pub(super) struct Queue {
    /// Of the time last taken, in order of their numbers.
    now: VecDeque<Event>,
    /// Those later: a level for each byte, the lowest first, and there a bucket for each digit.
    later: Vec<Vec<Vec<Event>>>,
    /// Which buckets of a level have events: a bit for each digit.
    used: [[u64; DIGITS / 64]; LEVELS],
    /// Empty chunks.
    pool: Vec<Vec<Event>>,
    last: u64,
}

impl Queue {
    pub fn new() -> Self {
        Self {
            now: VecDeque::new(),
            later: vec![Vec::new(); LEVELS * DIGITS],
            used: [[0; DIGITS / 64]; LEVELS],
            pool: Vec::new(),
            last: 0,
        }
    }

    /// Adds an event, which is not before the last that was taken.
    pub fn push(&mut self, event: Event) {
        debug_assert!(event.time.picos() >= self.last, "time goes on");
        if event.time.picos() != self.last {
            self.put(event);
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

    /// Adds an event that is later than the last that was taken.
    fn put(&mut self, event: Event) {
        let (level, digit) = place(event.time.picos(), self.last);
        self.used[level][digit / 64] |= 1 << (digit % 64);
        let bucket = &mut self.later[level * DIGITS + digit];
        match bucket.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(event),
            None => {
                let mut chunk = self.pool.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
                chunk.push(event);
                bucket.push(chunk);
            }
        }
    }

    /// Moves on to the next time at which there is something.
    fn deal(&mut self) {
        let Some((level, digit)) = self.next_bucket() else { return };
        self.used[level][digit / 64] &= !(1 << (digit % 64));
        let mut bucket = std::mem::take(&mut self.later[level * DIGITS + digit]);
        self.last = bucket.iter().flatten().map(|event| event.time.picos()).min().expect("not empty");
        for mut chunk in bucket.drain(..) {
            for event in chunk.drain(..) {
                if event.time.picos() == self.last {
                    self.now.push_back(event);
                } else {
                    self.put(event);
                }
            }
            self.pool.push(chunk);
        }
        // Its list of chunks serves the next: a bucket is emptied every few events.
        self.later[level * DIGITS + digit] = bucket;
        // Mostly in order already, and such a sort is one pass then.
        self.now.make_contiguous().sort_by_key(|event| event.number);
    }

    /// The bucket with the earliest events: all in a lower level are earlier than those in a higher.
    fn next_bucket(&self) -> Option<(usize, usize)> {
        self.used.iter().enumerate().find_map(|(level, used)| {
            let (word, bits) = used.iter().enumerate().find(|(_, bits)| **bits != 0)?;
            Some((level, word * 64 + bits.trailing_zeros() as usize))
        })
    }
}

/// The highest byte in which a time differs from an earlier one, and what it is.
fn place(time: u64, last: u64) -> (usize, usize) {
    let level = ((u64::BITS - 1 - (time ^ last).leading_zeros()) / 8) as usize;
    (level, usize::from(time.to_le_bytes()[level]))
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
