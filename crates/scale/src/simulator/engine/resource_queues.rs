//! Events that wait until a CPU or a NIC is free.
//!
//! **Problem.** A thousand messages that reach a rank at once take its CPU one after the other; to examine all of them
//! whenever the CPU becomes free makes a million events. **Idea.** The events that wait for the same CPU and NIC form a
//! resource queue, in order of their numbers. Only its head is in the event queue; when the head starts, the next one
//! becomes the head. **Why this way.** All events of a resource queue wait for the same moment and start in order of
//! their numbers, so none can start before the head: the order is that of a simulator that examines all of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::SimulationEvent;

const NONE: u32 = u32::MAX;

/// Resource queues, by number.
#[derive(Debug)]
pub(super) struct ResourceQueues {
    /// The index in `used` of the queue with this number, or [`NONE`]: few are in use at a time.
    of: Vec<u32>,
    used: Vec<ResourceQueue>,
    unused: Vec<u32>,
}

#[derive(Debug, Default)]
struct ResourceQueue {
    /// The number of the head, the only one in the event queue.
    head: u64,
    behind: BinaryHeap<Reverse<ByNumber>>,
}

/// An event, ordered by its number.
#[derive(Debug)]
struct ByNumber(SimulationEvent);

impl PartialEq for ByNumber {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for ByNumber {}

impl PartialOrd for ByNumber {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByNumber {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

impl ResourceQueues {
    pub fn new(count: usize) -> Self {
        Self { of: vec![NONE; count], used: Vec::new(), unused: Vec::new() }
    }

    /// An event could not start. Returns whether to put it into the event queue, at the time that its resource queue
    /// waits for.
    pub fn wait(&mut self, line: usize, event: &SimulationEvent) -> bool {
        if !self.is_used(line) {
            let place = self.unused.pop().unwrap_or_else(|| {
                self.used.push(ResourceQueue::default());
                u32::try_from(self.used.len() - 1).expect("fewer than 2^32 lines")
            });
            self.of[line] = place;
            self.used[place as usize].head = event.number;
            return true;
        }
        let line = &mut self.used[self.of[line] as usize];
        if event.number > line.head {
            line.behind.push(Reverse(ByNumber(*event)));
            return false;
        }
        // The head again, or an event before it: the old head then joins the resource queue when it is examined next.
        line.head = event.number;
        true
    }

    /// Whether anything waits in a resource queue.
    fn is_used(&self, line: usize) -> bool {
        self.of[line] != NONE
    }

    /// An event started. Returns the next one of its resource queue if it should go into the event queue.
    pub fn went(&mut self, line: usize, event: &SimulationEvent) -> Option<SimulationEvent> {
        if !self.is_used(line) {
            return None;
        }
        let place = self.of[line];
        let waiting = &mut self.used[place as usize];
        if waiting.head != event.number {
            return None;
        }
        if let Some(Reverse(ByNumber(next))) = waiting.behind.pop() {
            waiting.head = next.number;
            return Some(next);
        }
        self.of[line] = NONE;
        self.unused.push(place);
        None
    }
}
