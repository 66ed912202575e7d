//! The prefetch queue.

use std::collections::VecDeque;

use super::PrefetchRequest;

/// The most requests for the next moments: a later maintenance thread would unlock memory that the program has passed.
const MOST_SOON: usize = 64;

/// The most requests for the next round.
const MOST_LATER: usize = 4096;

/// Two queues.
#[derive(Clone, Debug, Default)]
pub struct PrefetchQueue {
    soon: VecDeque<PrefetchRequest>,
    later: VecDeque<PrefetchRequest>,
}

impl PrefetchQueue {
    /// The program may need these in a moment.
    pub fn soon(&mut self, requests: impl Iterator<Item = PrefetchRequest>) {
        push(&mut self.soon, requests, MOST_SOON);
    }

    /// The program may need these when it comes back.
    pub fn later(&mut self, requests: impl Iterator<Item = PrefetchRequest>) {
        push(&mut self.later, requests, MOST_LATER);
    }

    /// The most urgent request.
    pub fn next_soon(&mut self) -> Option<PrefetchRequest> {
        self.soon.pop_front()
    }

    /// A request for idle times.
    pub fn next_later(&mut self) -> Option<PrefetchRequest> {
        self.later.pop_front()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.soon.is_empty() && self.later.is_empty()
    }
}

fn push(queue: &mut VecDeque<PrefetchRequest>, requests: impl Iterator<Item = PrefetchRequest>, most: usize) {
    queue.extend(requests);
    let late = queue.len().saturating_sub(most);
    queue.drain(..late);
}

#[cfg(test)]
mod tests {
    use super::super::BlockPart;
    use super::*;
    use crate::state::layout::BlockIndex;

    #[test]
    fn the_next_moments_come_first_and_who_is_late_forgets_what_is_oldest() {
        let open = |block| PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(block)));
        let mut queue = PrefetchQueue::default();
        queue.later([open(1000)].into_iter());
        queue.soon((0..70).map(open));
        assert_eq!(queue.next_soon(), Some(open(6)));
        let soon: Vec<_> = std::iter::from_fn(|| queue.next_soon()).collect();
        assert_eq!(soon, (7..70).map(open).collect::<Vec<_>>());
        assert!(!queue.is_empty() && queue.next_later() == Some(open(1000)) && queue.is_empty());
    }
}
