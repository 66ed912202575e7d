//! How much memory each pool has: from the states and zones of the blocks alone, so also when nobody keeps the pools.

use std::collections::BTreeMap;

use rampart_linux::{BlockZones, HotplugState, MemoryBlocks};
use rampart_memory::{Bytes, Node};
use serde::{Deserialize, Serialize};

use super::Pool;

/// The memory of each pool, as whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSizes {
    /// Blocks in which the kernel may allocate.
    pub kernel: Bytes,
    /// Blocks that take only memory which can move.
    pub user: Bytes,
    /// Blocks that are offline.
    pub offline: Bytes,
}

impl PoolSizes {
    /// The pools of each node. A kernel without NUMA has one node.
    #[must_use]
    pub fn by_node(blocks: &MemoryBlocks) -> BTreeMap<Node, Self> {
        let mut nodes = BTreeMap::<Node, Self>::new();
        for block in &blocks.blocks {
            nodes
                .entry(block.node.unwrap_or(Node(0)))
                .or_default()
                .add(Pool::of(block.state, &block.zones), blocks.size);
        }
        nodes
    }

    /// The pools of blocks of one size.
    #[must_use]
    pub fn sum(block: Bytes, pools: impl Iterator<Item = Pool>) -> Self {
        let mut sizes = Self::default();
        pools.for_each(|pool| sizes.add(pool, block));
        sizes
    }

    /// The memory of one pool.
    #[must_use]
    pub const fn get(&self, pool: Pool) -> Bytes {
        match pool {
            Pool::Kernel => self.kernel,
            Pool::User => self.user,
            Pool::Offline => self.offline,
        }
    }

    fn add(&mut self, pool: Pool, more: Bytes) {
        let size = match pool {
            Pool::Kernel => &mut self.kernel,
            Pool::User => &mut self.user,
            Pool::Offline => &mut self.offline,
        };
        *size = Bytes::new(size.get() + more.get());
    }
}

impl Pool {
    /// The pool of a block in this state and these zones. A block that is going offline still has its pool's memory.
    #[must_use]
    pub fn of(state: HotplugState, zones: &BlockZones) -> Self {
        match (state, zones) {
            (HotplugState::Offline, _) => Self::Offline,
            (_, BlockZones::In(zone)) if zone == "Movable" => Self::User,
            _ => Self::Kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_linux::MemoryBlock;
    use rampart_memory::HotplugBlock;

    fn block(number: u32, state: HotplugState, zone: &str, node: Option<u32>) -> MemoryBlock {
        let zones = match (state, zone) {
            (HotplugState::Offline, _) => BlockZones::Choices(vec!["Normal".to_owned(), "Movable".to_owned()]),
            (_, "none") => BlockZones::Several,
            (_, zone) => BlockZones::In(zone.to_owned()),
        };
        MemoryBlock { number: HotplugBlock(number), state, zones, node: node.map(Node) }
    }

    #[test]
    fn each_block_counts_once_in_the_pool_of_its_node() {
        let blocks = MemoryBlocks {
            size: Bytes::from_mib(128),
            blocks: vec![
                block(0, HotplugState::Online, "none", Some(0)),
                block(1, HotplugState::Online, "Normal", None),
                block(2, HotplugState::GoingOffline, "Movable", Some(0)),
                block(3, HotplugState::Offline, "", Some(0)),
                block(4, HotplugState::Online, "Movable", Some(1)),
                block(5, HotplugState::Offline, "", Some(1)),
                block(6, HotplugState::Offline, "", Some(1)),
            ],
        };
        let sizes = |kernel, user, offline| {
            let [kernel, user, offline] = [kernel, user, offline].map(|count: u64| Bytes::from_mib(128 * count));
            PoolSizes { kernel, user, offline }
        };
        let nodes = PoolSizes::by_node(&blocks);
        assert_eq!(nodes, BTreeMap::from([(Node(0), sizes(2, 1, 1)), (Node(1), sizes(0, 1, 2))]));
        let pools = blocks.blocks.iter().map(|block| Pool::of(block.state, &block.zones));
        let all = PoolSizes::sum(blocks.size, pools);
        assert_eq!(all, sizes(2, 2, 3));
        let by_pool = [Pool::Kernel, Pool::User, Pool::Offline].map(|pool| all.get(pool));
        assert_eq!(by_pool, [all.kernel, all.user, all.offline]);
    }
}
