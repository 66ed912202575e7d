//! Events by time slot.
//!
//! **Problem.** Where each computation takes another time, ten thousand events wait in an order that nothing foretells;
//! a binary heap of them moves each one through a dozen levels. **Idea.** A hierarchical timing wheel (Varghese and
//! Lauck, SOSP 1987): times are numbers of eleven digits in base 64, and the highest digit in which a time differs from
//! the present decides the level and the slot of its event. When the first slot in use holds few events, a small heap
//! sorts them; otherwise its events go down to lower levels. **Why this way.** Most events are moved twice and sorted
//! among some dozens, whatever the distribution of the times; and since a slot is a list, memory grows with the number
//! of events only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::SimulationEvent;

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// A slot with at most so many events is sorted.
const FEW: u32 = 8;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Events sorted by time, then by number. None may be before the last one taken.
#[derive(Debug)]
pub(super) struct TimingWheel {
    /// Events until `until`, in picoseconds.
    near: BinaryHeap<Reverse<SimulationEvent>>,
    until: u64,
    levels: [Level; LEVELS],
    /// Which levels have events: one bit each.
    used: u32,
    /// The events of all slots.
    nodes: Vec<Node>,
    /// The first unused node.
    unused: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// Which slots have events.
    used: u64,
    slots: [Slot; SLOTS],
}

/// A list of events, in no order.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    event: SimulationEvent,
    next: u32,
}

impl TimingWheel {
    pub fn new() -> Self {
        let level = Level { used: 0, slots: [Slot { first: NONE, count: 0 }; SLOTS] };
        Self { near: BinaryHeap::new(), until: 0, levels: [level; LEVELS], used: 0, nodes: Vec::new(), unused: NONE }
    }

    pub fn push(&mut self, event: SimulationEvent) {
        let time = event.time.picos();
        if time <= self.until {
            self.near.push(Reverse(event));
            return;
        }
        let place = self.node(event);
        self.put(place, time);
        if self.near.is_empty() {
            self.advance();
        }
    }

    pub fn pop(&mut self) -> Option<SimulationEvent> {
        let Reverse(event) = self.near.pop()?;
        if self.near.is_empty() {
            self.advance();
        }
        Some(event)
    }

    /// The first event.
    pub fn first(&self) -> Option<&SimulationEvent> {
        self.near.peek().map(|Reverse(event)| event)
    }

    fn node(&mut self, event: SimulationEvent) -> u32 {
        let place = self.unused;
        match self.nodes.get_mut(place as usize) {
            Some(node) => {
                self.unused = node.next;
                node.event = event;
                place
            }
            None => {
                self.nodes.push(Node { event, next: NONE });
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 events")
            }
        }
    }

    /// Puts a node into the slot of its time, which is after `until`.
    fn put(&mut self, place: u32, time: u64) {
        let level = (time ^ self.until).ilog2() / DIGIT;
        let digit = usize::from((time >> (DIGIT * level)).to_le_bytes()[0]) % SLOTS;
        let Level { used, slots } = &mut self.levels[level as usize];
        let slot = &mut slots[digit];
        self.nodes[place as usize].next = slot.first;
        *slot = Slot { first: place, count: slot.count + 1 };
        *used |= 1 << digit;
        self.used |= 1 << level;
    }

    /// Brings the first events near, if there are any.
    fn advance(&mut self) {
        while self.near.is_empty() && self.used != 0 {
            let level = self.used.trailing_zeros();
            let Level { used, slots } = &mut self.levels[level as usize];
            let digit = used.trailing_zeros();
            let Slot { first, count } = std::mem::replace(&mut slots[digit as usize], Slot { first: NONE, count: 0 });
            *used &= *used - 1;
            self.used &= !(u32::from(*used == 0) << level);
            // The times of a slot begin as `until` above this level's digit, and go on with this digit. If the events
            // are sorted, later ones that come before the last of them are near, too.
            let shift = DIGIT * level;
            let above = self.until.checked_shr(shift + DIGIT).unwrap_or(0).checked_shl(shift + DIGIT).unwrap_or(0);
            let is_sorted = count <= FEW || level == 0;
            self.until = if is_sorted { self.last_time(first) } else { above | u64::from(digit) << shift };
            self.move_down(first);
        }
    }

    /// The latest time of a list.
    fn last_time(&self, first: u32) -> u64 {
        let (mut place, mut last) = (first, 0);
        while let Some(node) = self.nodes.get(place as usize) {
            last = node.event.time.picos().max(last);
            place = node.next;
        }
        last
    }

    /// Moves each event of a list to where it belongs now.
    fn move_down(&mut self, first: u32) {
        let mut place = first;
        while let Some(&Node { event, next }) = self.nodes.get(place as usize) {
            let time = event.time.picos();
            if time > self.until {
                self.put(place, time);
            } else {
                self.near.push(Reverse(event));
                self.nodes[place as usize].next = self.unused;
                self.unused = place;
            }
            place = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::operation::{Operation, Rank};
    use crate::simulator::engine::event::What;
    use crate::time::Time;

    fn event(picos: u64, number: u64) -> SimulationEvent {
        let (time, operation) = (Time::from_picos(picos), Operation::calc(Time::ZERO));
        SimulationEvent { time, number, operation, rank: Rank(0), what: What::Start }
    }

    proptest! {
        /// Delays of all magnitudes, and so many events that slots go down level by level.
        #[test]
        fn events_come_as_from_a_heap(
            steps in proptest::collection::vec((any::<u64>(), 0..64_u32, 0..200_u32, 0..200_u32), 1..20)
        ) {
            let (mut wheel, mut heap, mut now, mut number) = (TimingWheel::new(), BinaryHeap::new(), 0_u64, 0);
            for (draw, shift, pushes, pops) in steps {
                for push in 0..u64::from(pushes) {
                    let delay = draw.wrapping_mul(2 * push + 1) >> shift;
                    let event = event(now.saturating_add(delay), number);
                    number += 1;
                    wheel.push(event);
                    heap.push(Reverse(event));
                }
                for _ in 0..pops {
                    prop_assert_eq!(wheel.first(), heap.peek().map(|Reverse(event)| event));
                    let event = heap.pop().map(|Reverse(event)| event);
                    prop_assert_eq!(wheel.pop(), event);
                    now = event.map_or(now, |event| event.time.picos());
                }
            }
        }

        #[test]
        fn nodes_are_used_again(delays in proptest::collection::vec(1..u64::MAX >> 10, 1000)) {
            let (mut wheel, mut now) = (TimingWheel::new(), 0);
            for (number, delay) in (0..).zip(delays) {
                wheel.push(event(now + delay, number));
                now = wheel.pop().map_or(now, |event| event.time.picos());
            }
            prop_assert_eq!(wheel.nodes.len(), 1);
        }
    }
}
