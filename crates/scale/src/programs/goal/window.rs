//! What the operations in flight still wait for.
//!
//! **Problem.** A counter for each operation of each rank takes gigabytes when a trace runs on 16,384 ranks. **Idea.**
//! Keep counters only of operations that wait for several others and have met some of them. Four are kept in place, and
//! further ones in a window, from the first such operation to the last. Where ranks use several CPUs, the end times
//! that operations wait for are kept, too. **Why this way.** Few ranks ever have more than four, and the progress of a
//! rank is then one line of the cache.

use std::collections::{HashMap, VecDeque};

use super::compact::CompactGraphs;
use crate::model::operation::{OpId, Operation, Rank};
use crate::time::Time;

/// Counters kept in place.
const FEW: usize = 4;

/// The progress of one rank.
#[derive(Clone, Debug, Default)]
pub struct GraphWindow {
    /// Operations, and what each still waits for; 0 if the place is free.
    numbers: [u32; FEW],
    left: [u32; FEW],
    /// Boxed, since most ranks have none.
    more: Option<Box<Window>>,
    /// The earliest start times of operations that still wait for something, or whose time was not asked for yet.
    ready: Option<Box<Ready>>,
}

/// By operation number.
#[derive(Clone, Debug, Default)]
struct Ready(HashMap<u32, Time>);

/// Counters by operation number; 0 if an operation has none here. The first and the last are not 0.
#[derive(Clone, Debug, Default)]
struct Window {
    first: u32,
    left: VecDeque<u32>,
}

impl GraphWindow {
    /// An operation cannot start before `end`.
    pub(super) fn wait_until(&mut self, number: u32, end: Time) {
        let latest = self.ready.get_or_insert_default().0.entry(number).or_default();
        *latest = end.max(*latest);
    }

    /// The time at which everything that an operation waited for is done. The time is then forgotten.
    pub(super) fn ready(&mut self, operation: OpId) -> Time {
        self.ready.as_mut().and_then(|ready| ready.0.remove(&operation.0)).unwrap_or_default()
    }

    /// Counts down operations by one, which are as far from operation `from` as said.
    #[inline]
    pub(super) fn count_down(
        &mut self,
        (graphs, rank): (&CompactGraphs, Rank),
        from: OpId,
        distances: &[u32],
        free: &mut Vec<Operation>,
    ) {
        for distance in distances {
            let number = from.0.wrapping_add(*distance);
            let waits = graphs.waits(rank, number);
            if waits == 1 || self.is_last(number, waits) {
                free.push(graphs.operation(rank, number));
            }
        }
    }

    /// Counts down one operation, which has this many edges in all; whether it waits for nothing more.
    fn is_last(&mut self, number: u32, waits: u32) -> bool {
        let mut empty = None;
        for place in 0..FEW {
            if self.left[place] == 0 {
                empty = Some(place);
            } else if self.numbers[place] == number {
                self.left[place] -= 1;
                return self.left[place] == 0;
            }
        }
        let left = self.more.as_mut().and_then(|more| more.take(number)).unwrap_or(waits) - 1;
        match empty {
            _ if left == 0 => return true,
            Some(place) => (self.numbers[place], self.left[place]) = (number, left),
            None => self.more.get_or_insert_default().put(number, left),
        }
        false
    }
}

impl Window {
    /// Removes a counter.
    fn take(&mut self, number: u32) -> Option<u32> {
        let place = number.checked_sub(self.first)? as usize;
        let left = std::mem::take(self.left.get_mut(place)?);
        while self.left.front() == Some(&0) {
            self.left.pop_front();
            self.first += 1;
        }
        while self.left.back() == Some(&0) {
            self.left.pop_back();
        }
        (left > 0).then_some(left)
    }

    /// Adds a counter that is not 0.
    fn put(&mut self, number: u32, left: u32) {
        if self.left.is_empty() {
            self.first = number;
        }
        while number < self.first {
            self.left.push_front(0);
            self.first -= 1;
        }
        let place = (number - self.first) as usize;
        while self.left.len() <= place {
            self.left.push_back(0);
        }
        self.left[place] = left;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn operations_are_counted_down_in_any_order(
            waits in proptest::collection::vec(2..5_u32, 1..20),
            draws in proptest::collection::vec(any::<usize>(), 100),
        ) {
            let (mut window, mut left) = (GraphWindow::default(), waits.clone());
            for draw in draws {
                let number = draw % waits.len();
                if left[number] > 0 {
                    left[number] -= 1;
                    let last = window.is_last(u32::try_from(number).unwrap(), waits[number]);
                    prop_assert_eq!(last, left[number] == 0);
                }
            }
            let more = window.more.iter().flat_map(|more| &more.left);
            let counters = window.left.iter().chain(more).filter(|left| **left > 0).count();
            let counted = left.iter().zip(&waits).filter(|(left, waits)| **left > 0 && left < waits).count();
            prop_assert_eq!(counters, counted);
        }
    }
}
