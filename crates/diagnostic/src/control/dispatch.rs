//! The test dispatcher: decides which tester gets a block [Rahman16, 5.2.2].
//!
//! A block goes to a tester on its own node, because remote memory is slower to test [Rahman16, fig. 32], and there to
//! the tester whose queue has the fewest frames. Blocks are not split: they go back to the allocator whole. An urgent
//! block goes first, such as few frames that are used again within moments.

use std::collections::VecDeque;

use rampart_memory::Node;

/// A tester, by its number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tester(pub usize);

/// A queue for each tester.
#[derive(Debug)]
pub struct Dispatcher<B> {
    queues: Vec<Queue<B>>,
    node_local: bool,
}

#[derive(Debug)]
struct Queue<B> {
    node: Node,
    blocks: VecDeque<(B, u64)>,
    frames: u64,
}

impl<B> Dispatcher<B> {
    /// Makes a dispatcher for testers on these nodes; the first testers are used first.
    #[must_use]
    pub fn new(nodes: &[Node], node_local: bool) -> Self {
        assert!(!nodes.is_empty(), "somebody must test");
        let queue = |&node| Queue { node, blocks: VecDeque::new(), frames: 0 };
        Self { queues: nodes.iter().map(queue).collect(), node_local }
    }

    /// Queues a block of `frames` frames for one of the first `threads` testers.
    pub fn dispatch(&mut self, block: B, node: Node, frames: u64, threads: u32) {
        let queue = self.queue(node, frames, threads);
        queue.blocks.push_back((block, frames));
    }

    /// The same, before all that waits there.
    pub fn dispatch_first(&mut self, block: B, node: Node, frames: u64, threads: u32) {
        let queue = self.queue(node, frames, threads);
        queue.blocks.push_front((block, frames));
    }

    /// The queue that gets so many frames more.
    fn queue(&mut self, node: Node, frames: u64, threads: u32) -> &mut Queue<B> {
        let active = usize::try_from(threads).unwrap_or(usize::MAX).clamp(1, self.queues.len());
        let node_local = self.node_local;
        let queue = self.queues[..active]
            .iter_mut()
            .min_by_key(|queue| (node_local && queue.node != node, queue.frames))
            .expect("one tester at least is active");
        queue.frames += frames;
        queue
    }

    /// The number of frames that may still be queued for a node, if each of the first `threads` testers may have `each`
    /// frames waiting. Each node has its own room, so that the demand on one node does not keep the testers of another
    /// from work.
    #[must_use]
    pub fn room(&self, node: Node, threads: u32, each: u64) -> u64 {
        let active = usize::try_from(threads).unwrap_or(usize::MAX).clamp(1, self.queues.len());
        let active = &self.queues[..active];
        let has_own = self.node_local && active.iter().any(|queue| queue.node == node);
        let theirs = active.iter().filter(|queue| !has_own || queue.node == node);
        theirs.map(|queue| each.saturating_sub(queue.frames)).sum()
    }

    /// The next block for a tester.
    pub fn next(&mut self, tester: Tester) -> Option<B> {
        let queue = &mut self.queues[tester.0];
        let (block, frames) = queue.blocks.pop_front()?;
        queue.frames -= frames;
        Some(block)
    }

    /// Frames that wait for a tester.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.queues.iter().map(|queue| queue.frames).sum()
    }

    /// Takes all waiting blocks out of the queues.
    pub fn drain(&mut self) -> Vec<B> {
        let mut blocks = Vec::new();
        for queue in &mut self.queues {
            queue.frames = 0;
            blocks.extend(queue.blocks.drain(..).map(|(block, _)| block));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const NODES: [Node; 4] = [Node(0), Node(1), Node(0), Node(1)];

    #[test]
    fn a_block_goes_to_the_least_occupied_tester_of_its_node() {
        let mut dispatcher = Dispatcher::new(&NODES, true);
        for (block, node, frames) in [('a', 1, 8), ('b', 1, 2), ('c', 1, 1), ('d', 0, 4)] {
            dispatcher.dispatch(block, Node(node), frames, 4);
        }
        assert_eq!(dispatcher.next(Tester(1)), Some('a'));
        assert_eq!(dispatcher.next(Tester(3)), Some('b'));
        assert_eq!(dispatcher.next(Tester(3)), Some('c'), "b's 2 frames were fewer than a's 8");
        assert_eq!(dispatcher.next(Tester(0)), Some('d'));
        assert_eq!(dispatcher.waiting(), 0);
    }

    #[test]
    fn an_urgent_block_goes_first() {
        let mut dispatcher = Dispatcher::new(&NODES[..1], true);
        dispatcher.dispatch('a', Node(0), 8, 1);
        dispatcher.dispatch_first('b', Node(0), 1, 1);
        dispatcher.dispatch('c', Node(0), 8, 1);
        let order: String = std::iter::from_fn(|| dispatcher.next(Tester(0))).collect();
        assert_eq!((order.as_str(), dispatcher.waiting()), ("bac", 0));
    }

    #[test]
    fn without_a_tester_on_its_node_a_block_is_tested_remotely() {
        let mut dispatcher = Dispatcher::new(&NODES, true);
        dispatcher.dispatch('a', Node(1), 1, 1);
        assert_eq!(dispatcher.next(Tester(0)), Some('a'));
    }

    #[test]
    fn without_node_locality_occupancy_alone_counts() {
        let mut dispatcher = Dispatcher::new(&NODES, false);
        (0..4).for_each(|block| dispatcher.dispatch(block, Node(1), 1, 4));
        assert!((0..4).all(|tester| dispatcher.next(Tester(tester)).is_some()));
    }

    #[test]
    fn a_node_with_much_demand_leaves_room_for_another() {
        let mut dispatcher = Dispatcher::new(&NODES, true);
        (0..20).for_each(|block| dispatcher.dispatch(block, Node(0), 100, 4));
        assert_eq!(dispatcher.room(Node(0), 4, 1_000), 0);
        assert_eq!(dispatcher.room(Node(1), 4, 1_000), 2_000);
        assert_eq!(dispatcher.room(Node(1), 1, 1_000), 0, "the one tester tests for all");
        assert_eq!(dispatcher.room(Node(1), 1, 1_500), 500, "and has room for all");
        dispatcher.node_local = false;
        assert_eq!(dispatcher.room(Node(1), 4, 1_500), 4_000, "all testers test for each node");
    }

    proptest! {
        /// No block is lost, and the queues of a node never differ by more than the largest block.
        #[test]
        fn work_is_balanced_within_a_node(blocks in proptest::collection::vec((0_u32..2, 0_u32..11), 1..200)) {
            let mut dispatcher = Dispatcher::new(&NODES, true);
            for &(node, order) in &blocks {
                dispatcher.dispatch(1 << order, Node(node), 1 << order, 4);
            }
            let frames: Vec<u64> = dispatcher.queues.iter().map(|queue| queue.frames).collect();
            prop_assert!(frames[0].abs_diff(frames[2]) <= 1024 && frames[1].abs_diff(frames[3]) <= 1024);
            let all: u64 = blocks.iter().map(|&(_, order)| 1_u64 << order).sum();
            prop_assert_eq!(dispatcher.waiting(), all);
            prop_assert_eq!(dispatcher.drain().into_iter().sum::<u64>(), all);
            prop_assert_eq!(dispatcher.waiting(), 0);
        }
    }
}
