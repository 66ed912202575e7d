//! Searches for a block that can go offline, and when the next one is worth its cost.
//!
//! A search reads the use of every frame. While nothing changes it finds nothing again, so after each search in vain
//! the next one waits twice as long, until half a block more is free than at the last one, or until a block moves.

use std::collections::BTreeMap;
use std::time::Duration;

use rampart_memory::{Bytes, Node};

/// Searches that find nothing take at most this part of the time: one in so many.
pub const SEARCH_SHARE: u32 = 20;

/// The rest doubles so often at most.
const MOST_DOUBLINGS: u32 = 5;

/// The searches in vain of each node.
#[derive(Clone, Debug, Default)]
pub struct VainSearches(BTreeMap<Node, VainSearch>);

#[derive(Clone, Copy, Debug, Default)]
struct VainSearch {
    /// Free memory at the last look, in bytes.
    free: u64,
    /// Free memory at the last search.
    free_then: u64,
    count: u32,
}

impl VainSearches {
    /// Notes how much is free. Returns whether another search is worth its cost now, whatever was found before.
    pub fn note(&mut self, node: Node, free: u64, block: Bytes) -> bool {
        let search = self.0.entry(node).or_default();
        search.free = free;
        let has_grown = search.count > 0 && free >= search.free_then + block.get() / 2;
        if has_grown {
            search.count = 0;
        }
        has_grown
    }

    /// Notes a search in vain, which took so long. Returns how long the next one waits, at least for the dwell.
    pub fn found_nothing(&mut self, node: Node, took: Duration, dwell: Duration) -> Duration {
        let search = self.0.entry(node).or_default();
        let rest = dwell.max(took * SEARCH_SHARE) * (1 << search.count.min(MOST_DOUBLINGS));
        search.count += 1;
        search.free_then = search.free;
        rest
    }

    /// Notes that a block of the node moved.
    pub fn moved(&mut self, node: Node) {
        self.0.entry(node).or_default().count = 0;
    }
}
