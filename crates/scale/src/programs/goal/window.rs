//! What is still waited for, of the operations in flight.
//!
//! **Problem.** A count for each operation of each rank is gigabytes where a trace is run on 16,384 ranks. **Idea.**
//! Counts are kept from the first operation that still waits to the last that something was counted for; before that
//! nothing waits, and behind it the graph's own counts hold. Where ranks use several CPUs, the ends that operations
//! wait for are kept beside the counts.

use std::collections::{HashMap, VecDeque};

use super::graph::RankGraph;
use crate::model::operation::{OpId, Operation};
use crate::time::Time;

/// How far one rank is.
#[derive(Clone, Debug, Default)]
pub struct GraphWindow {
    /// The number of the first operation in the window.
    first: u32,
    /// What each operation in the window still waits for.
    left: VecDeque<u32>,
    /// Before when operations cannot start that still wait for something, or were not asked about yet.
    ready: Option<Box<Ready>>,
}

/// By the numbers of operations. It is boxed, since most ranks have none.
#[derive(Clone, Debug, Default)]
struct Ready(HashMap<u32, Time>);

impl GraphWindow {
    /// What these wait for ends then.
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

    /// When all is done that an operation waited for. It is forgotten then.
    pub(super) fn ready(&mut self, operation: OpId) -> Time {
        self.ready.as_mut().and_then(|ready| ready.0.remove(&operation.0)).unwrap_or_default()
    }

    /// One thing less to wait for, for each of these.
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
