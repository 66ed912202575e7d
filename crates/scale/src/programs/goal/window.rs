//! What the operations in flight still wait for.
//!
//! **Problem.** A counter for each operation of each rank takes gigabytes when a trace runs on 16,384 ranks. **Idea.**
//! Keep counters only from the first operation that still waits to the last one that was counted down. Earlier
//! operations wait for nothing, and later ones have the graph's own counts. Where ranks use several CPUs, the end times
//! that operations wait for are kept beside the counters.

use std::collections::{HashMap, VecDeque};

use super::graph::RankGraph;
use crate::model::operation::{OpId, Operation};
use crate::time::Time;

/// The progress of one rank.
#[derive(Clone, Debug, Default)]
pub struct GraphWindow {
    /// The number of the first operation in the window.
    first: u32,
    /// What each operation in the window still waits for.
    left: VecDeque<u32>,
    /// The earliest start times of operations that still wait for something, or whose time was not asked for yet.
    ready: Option<Box<Ready>>,
}

/// By operation number. Boxed, since most ranks have none.
#[derive(Clone, Debug, Default)]
struct Ready(HashMap<u32, Time>);

impl GraphWindow {
    /// The operations in `waiting` cannot start before `end`.
    pub(super) fn wait_until(&mut self, waiting: &[u32], end: Time) {
        if waiting.is_empty() {
            return;
        }
        let ready = self.ready.get_or_insert_default();
        for number in waiting {
            let latest = ready.0.entry(*number).or_default();
            *latest = end.max(*latest);
        }
    }

    /// The time at which everything that an operation waited for is done. The time is then forgotten.
    pub(super) fn ready(&mut self, operation: OpId) -> Time {
        self.ready.as_mut().and_then(|ready| ready.0.remove(&operation.0)).unwrap_or_default()
    }

    /// Counts down each of these operations by one.
    pub(super) fn count_down(&mut self, graph: &RankGraph, waiting: &[u32], free: &mut Vec<Operation>) {
        for &number in waiting {
            let place = (number - self.first) as usize;
            while self.left.len() <= place {
                let next = self.first + u32::try_from(self.left.len()).expect("no more than operations");
                self.left.push_back(graph.waits(next));
            }
            self.left[place] -= 1;
            if self.left[place] == 0 {
                free.push(graph.operation(number));
            }
        }
        while self.left.front() == Some(&0) {
            self.left.pop_front();
            self.first += 1;
        }
    }
}
