//! The queue of events.
//!
//! **Problem.** A run of 16,384 ranks takes millions of events in order of time, and among equal times in the order in
//! which they were made. **Idea.** An event is made some delay before it is due, and few delays make up nearly all:
//! *o*, *o + L*, the bytes of a message, the computing of a step. Since time only increases, events made with the same
//! delay are due in the order in which they were made. A first-in-first-out queue per delay is therefore sorted without
//! any work, and the next event is the first of one of few queues. A postponed event keeps its number, so such events
//! have queues of their own. Only a delay that is frequent gets a queue; an event without one, or one that would be out
//! of order there, goes into a timing wheel. **Why this way.** An event is written
//! once and read once, in the order of memory; and where each computation takes another time, the queues are left to
//! the delays that the network decides.

use super::event::SimulationEvent;
use super::per_delay_queue::{ChunkPool, PerDelayQueue};
use super::timing_wheel::TimingWheel;
use crate::time::Time;

/// A power of two, so that a hash finds a queue; together with the wheel, each has a bit in one word.
const DELAYS: usize = 32;
const STRAYS: usize = DELAYS;

/// Queues examined for a delay.
const TRIES: usize = 4;

/// Delays that may be frequent; a power of two.
const CANDIDATES: usize = 64;

/// A delay is frequent if it leads by so many votes.
const FREQUENT: u8 = 4;

/// After the key of any event.
const NEVER: (Time, u64) = (Time::MAX, u64::MAX);

/// Events sorted by time, then by number.
#[derive(Debug)]
pub(super) struct EventQueue {
    /// The time of the last event taken.
    now: Time,
    /// The highest number so far.
    newest: u64,
    queues: [PerDelayQueue; DELAYS],
    /// The delay of each queue's events.
    delays: [Delay; DELAYS],
    /// For each hash, the delay that leads, and by how many votes (Boyer and Moore, MJRTY).
    candidates: [(Delay, u8); CANDIDATES],
    pool: ChunkPool,
    strays: TimingWheel,
    /// The time and the number of the first event of each queue and of the wheel; [`NEVER`] if there is none.
    due: [Time; DELAYS + 1],
    number: [u64; DELAYS + 1],
    /// Which of them have an event, and which have one that is due now: one bit each.
    used: u64,
    present: u64,
}

/// The delay of an event in picoseconds, and whether it was postponed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delay {
    ahead: u64,
    again: bool,
}

impl EventQueue {
    pub fn new() -> Self {
        Self {
            now: Time::ZERO,
            newest: 0,
            queues: std::array::from_fn(|_| PerDelayQueue::default()),
            delays: [Delay::default(); DELAYS],
            candidates: [(Delay::default(), 0); CANDIDATES],
            pool: ChunkPool::new(),
            strays: TimingWheel::new(),
            due: [NEVER.0; DELAYS + 1],
            number: [NEVER.1; DELAYS + 1],
            used: 0,
            present: 0,
        }
    }

    /// Adds an event, which must not be before the last one taken.
    pub fn push(&mut self, event: SimulationEvent) {
        debug_assert!(event.time >= self.now, "time goes on");
        let delay = Delay { ahead: event.time.since(self.now).picos(), again: event.number < self.newest };
        self.newest = self.newest.max(event.number);
        let Some(place) = self.queue(delay, &event) else {
            self.strays.push(event);
            return self.note_first_stray();
        };
        self.delays[place] = delay;
        self.queues[place].push(event, &mut self.pool);
        if self.number[place] == NEVER.1 {
            self.note_first(place, event.key());
        }
    }

    /// The queue for a delay, or an empty one; `None` if the event would be out of order there, or the delay is rare.
    fn queue(&mut self, delay: Delay, event: &SimulationEvent) -> Option<usize> {
        /// 2^64 by the golden ratio: spreads delays over the queues (Knuth, TAOCP 3, 6.4).
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = (delay.ahead << 1 | u64::from(delay.again)).wrapping_mul(SPREAD);
        let of = |count: usize| usize::try_from(hash >> (u64::BITS - count.ilog2())).expect("below the count");
        let home = of(DELAYS);
        for place in (home..home + TRIES).map(|place| place % DELAYS) {
            if self.delays[place] == delay && self.number[place] != NEVER.1 {
                return self.queues[place].last().is_none_or(|last| last < event).then_some(place);
            }
        }
        let mut places = (home..home + TRIES).map(|place| place % DELAYS);
        vote(&mut self.candidates[of(CANDIDATES)], delay)
            .then(|| places.find(|place| self.number[*place] == NEVER.1))
            .flatten()
    }

    /// The next event; `None` if nothing is due before [`Time::MAX`].
    pub fn pop(&mut self) -> Option<SimulationEvent> {
        if self.present == 0 {
            self.advance();
        }
        let place = self.next()?;
        if place == STRAYS {
            let event = self.strays.pop();
            self.note_first_stray();
            return event;
        }
        let event = self.queues[place].pop(&mut self.pool);
        let first = self.queues[place].first().map_or(NEVER, SimulationEvent::key);
        self.note_first(place, first);
        event
    }

    /// Whether there is an event that is never due.
    pub fn is_late(&self) -> bool {
        self.number.iter().any(|number| *number != NEVER.1)
    }

    /// Of the queues with an event due now, the one with the lowest number.
    fn next(&self) -> Option<usize> {
        let (mut next, mut left) = (None, self.present);
        let mut lowest = u64::MAX;
        while left != 0 {
            let queue = left.trailing_zeros() as usize;
            if self.number[queue] < lowest {
                (next, lowest) = (Some(queue), self.number[queue]);
            }
            left &= left - 1;
        }
        next
    }

    /// Advances to the next time at which an event is due.
    fn advance(&mut self) {
        let (mut earliest, mut left) = (Time::MAX, self.used);
        while left != 0 {
            let place = left.trailing_zeros();
            let due = self.due[place as usize];
            if due < earliest {
                (earliest, self.present) = (due, 0);
            }
            self.present |= u64::from(due == earliest) << place;
            left &= left - 1;
        }
        if earliest < Time::MAX {
            self.now = earliest;
        } else {
            self.present = 0;
        }
    }

    /// Records the first event of a queue.
    fn note_first(&mut self, place: usize, (due, number): (Time, u64)) {
        (self.due[place], self.number[place]) = (due, number);
        self.used = self.used & !(1 << place) | u64::from(number != NEVER.1) << place;
        self.present = self.present & !(1 << place) | u64::from(due == self.now) << place;
    }

    fn note_first_stray(&mut self) {
        let first = self.strays.first().map_or(NEVER, SimulationEvent::key);
        self.note_first(STRAYS, first);
    }
}

/// Counts a delay, and returns whether it is frequent.
fn vote((leading, votes): &mut (Delay, u8), delay: Delay) -> bool {
    if *leading == delay {
        *votes = (*votes + 1).min(2 * FREQUENT);
    } else if *votes == 0 {
        (*leading, *votes) = (delay, 1);
    } else {
        *votes -= 1;
    }
    *leading == delay && *votes >= FREQUENT
}

#[cfg(test)]
mod tests {
    use super::super::event::What;
    use super::*;
    use crate::model::operation::{Operation, Rank};
    use proptest::prelude::*;

    /// Pushes events with these delays and takes them, beside a list that is searched. Every third event taken is
    /// postponed, with its number.
    fn is_as_its_twin(steps: impl IntoIterator<Item = (u64, bool)>) -> Result<(), TestCaseError> {
        let (mut queue, mut model, mut now, mut number) = (EventQueue::new(), Vec::new(), 0, 0);
        for (ahead, taking) in steps {
            if taking {
                model.sort_by_key(|event: &SimulationEvent| (event.time, event.number));
                let due = if model.is_empty() { None } else { Some(model.remove(0)) };
                prop_assert_eq!(queue.pop(), due);
                now = due.map_or(now, |event| event.time.picos());
                if let Some(event) = due.filter(|event| event.number % 3 == 0) {
                    let put_off = SimulationEvent { time: Time::from_picos(now + ahead), ..event };
                    queue.push(put_off);
                    model.push(put_off);
                }
            } else {
                let time = Time::from_picos(now + ahead);
                let event = SimulationEvent {
                    time,
                    number,
                    operation: Operation::calc(time),
                    rank: Rank(0),
                    what: What::Start,
                };
                number += 1;
                queue.push(event);
                model.push(event);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn events_come_by_time_then_by_number(steps in proptest::collection::vec((0..4_u64, 0..3_u32, any::<bool>()), 1..300)) {
            is_as_its_twin(steps.into_iter().map(|(ahead, shift, taking)| (ahead << (20 * shift), taking)))?;
        }

        #[test]
        fn events_without_a_lane_come_in_order_too(steps in proptest::collection::vec((0..200_u64, any::<bool>()), 1..300)) {
            is_as_its_twin(steps)?;
        }
    }
}
