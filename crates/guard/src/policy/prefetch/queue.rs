//! The prefetch queue.

use std::collections::VecDeque;

use super::Want;

/// The most requests for the next moments: a later maintenance thread would unlock memory that the program has passed.
const MOST_SOON: usize = 64;

/// The most requests for the next round.
const MOST_LATER: usize = 4096;

/// Two queues.
#[derive(Clone, Debug, Default)]
pub struct PrefetchQueue {
    soon: VecDeque<Want>,
    later: VecDeque<Want>,
}

impl PrefetchQueue {
    /// The program may need these in a moment.
    pub fn soon(&mut self, wants: impl Iterator<Item = Want>) {
        push(&mut self.soon, wants, MOST_SOON);
    }

    /// The program may need these when it comes back.
    pub fn later(&mut self, wants: impl Iterator<Item = Want>) {
        push(&mut self.later, wants, MOST_LATER);
    }

    /// The most urgent request.
    pub fn next_soon(&mut self) -> Option<Want> {
        self.soon.pop_front()
    }

    /// A request for idle times.
    pub fn next_later(&mut self) -> Option<Want> {
        self.later.pop_front()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.soon.is_empty() && self.later.is_empty()
    }
}

fn push(queue: &mut VecDeque<Want>, wants: impl Iterator<Item = Want>, most: usize) {
    queue.extend(wants);
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
        let open = |block| Want::Open(BlockPart::Block(BlockIndex(block)));
        let mut wanted = PrefetchQueue::default();
        wanted.later([open(1000)].into_iter());
        wanted.soon((0..70).map(open));
        assert_eq!(wanted.next_soon(), Some(open(6)));
        let soon: Vec<_> = std::iter::from_fn(|| wanted.next_soon()).collect();
        assert_eq!(soon, (7..70).map(open).collect::<Vec<_>>());
        assert!(!wanted.is_empty() && wanted.next_later() == Some(open(1000)) && wanted.is_empty());
    }
}
