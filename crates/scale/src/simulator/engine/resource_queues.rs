//! What waits until a CPU or a NIC is free.
//!
//! **Problem.** Of a thousand messages that reach a rank at once, each takes its CPU in turn; to look at all that wait
//! whenever the CPU is free is a million events. **Idea.** What waits for the same CPU and NIC is a line, in order of
//! the events' numbers, and only its head is in the event queue; when the head has its turn, the next becomes the head.
//! **Why this way.** All of a line wait for the same moment and go in order of their numbers, so none can go before the
//! head: the order is that of a simulator that looks at all of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::SimulationEvent;

const NONE: u32 = u32::MAX;

/// Lines of waiting events, by number.
#[derive(Debug)]
pub(super) struct ResourceQueues {
    /// Which of `used` is the line of this number, or [`NONE`]: few lines are in use at a time.
    of: Vec<u32>,
    used: Vec<ResourceQueue>,
    unused: Vec<u32>,
}

#[derive(Debug, Default)]
struct ResourceQueue {
    /// The number of the event that is in the queue for all of them.
    head: u64,
    behind: BinaryHeap<Reverse<ByNumber>>,
}

/// An event, in order of its number.
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

    /// An event could not go. Whether it is to be put into the queue, at the time that its line waits for.
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
        // The head again, or one that goes before it: then the old head joins the line when it is looked at next.
        line.head = event.number;
        true
    }

    /// Whether something waits in a line.
    fn is_used(&self, line: usize) -> bool {
        self.of[line] != NONE
    }

    /// An event went. The next of its line is given back if it is to be put into the queue.
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
