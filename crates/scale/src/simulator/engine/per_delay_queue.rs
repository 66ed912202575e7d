//! Events that come out in the order in which they went in.
//!
//! **Problem.** A queue may hold a hundred thousand events at one time of a run and none at another, when other queues
//! are full. **Idea.** Keep the events in chunks from a pool that all queues share. **Why this way.** Memory grows only
//! with the number of events, and the chunk taken next is the one used last, so it is still in the cache.

use std::collections::VecDeque;

use super::event::SimulationEvent;

/// Events per chunk: 3 KiB of them.
const CHUNK: usize = 64;

/// Chunks without events.
pub(super) type ChunkPool = Vec<Vec<SimulationEvent>>;

/// A queue of events.
#[derive(Debug, Default)]
pub(super) struct PerDelayQueue {
    chunks: VecDeque<Vec<SimulationEvent>>,
    /// The number of events taken from the first chunk: never all.
    taken: usize,
}

impl PerDelayQueue {
    pub fn push(&mut self, event: SimulationEvent, pool: &mut ChunkPool) {
        match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(event),
            None => {
                let mut chunk = pool.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
                chunk.push(event);
                self.chunks.push_back(chunk);
            }
        }
    }

    pub fn pop(&mut self, pool: &mut ChunkPool) -> Option<SimulationEvent> {
        let chunk = self.chunks.front_mut()?;
        let event = chunk[self.taken];
        self.taken += 1;
        if self.taken == chunk.len() {
            chunk.clear();
            self.taken = 0;
            pool.extend(self.chunks.pop_front());
        }
        Some(event)
    }

    pub fn first(&self) -> Option<&SimulationEvent> {
        self.chunks.front()?.get(self.taken)
    }

    pub fn last(&self) -> Option<&SimulationEvent> {
        self.chunks.back()?.last()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::operation::{Operation, Rank};
    use crate::simulator::engine::event::What;
    use crate::time::Time;

    proptest! {
        #[test]
        fn events_come_out_as_they_went_in(steps in proptest::collection::vec((0..4_usize, 0..100_u64), 1..30)) {
            let (mut queues, mut models, mut pool) = ([PerDelayQueue::default(), PerDelayQueue::default()], [VecDeque::new(), VecDeque::new()], ChunkPool::new());
            let mut number = 0;
            for (action, times) in steps {
                let (queue, model) = (&mut queues[action % 2], &mut models[action % 2]);
                for _ in 0..times {
                    if action < 2 {
                        number += 1;
                        let operation = Operation::calc(Time::ZERO);
                        let event = SimulationEvent { time: Time::ZERO, number, operation, rank: Rank(0), what: What::Start };
                        queue.push(event, &mut pool);
                        model.push_back(event);
                    } else {
                        prop_assert_eq!(queue.pop(&mut pool), model.pop_front());
                    }
                    prop_assert_eq!((queue.first(), queue.last()), (model.front(), model.back()));
                }
            }
        }
    }
}
