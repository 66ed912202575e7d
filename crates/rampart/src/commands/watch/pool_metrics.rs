//! The pools of memory blocks as metrics. Their sizes are those of the machine, whoever made them; what was moved is
//! known only of the process that keeps pools now.

use std::path::Path;

use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use rampart_banks::{Pool, PoolSizes};
use rampart_linux::{MemoryBlocks, Roots};

use crate::inputs::pools::{self, FOLDER, PoolsState};

/// The pools at one moment.
#[derive(Debug, Default)]
pub struct PoolsShown {
    /// `None` on a machine without memory blocks.
    pub blocks: Option<MemoryBlocks>,
    /// The process that keeps pools, if one does.
    pub keeper: Option<PoolsState>,
}

impl PoolsShown {
    /// Those of this machine.
    pub fn read() -> Self {
        Self { blocks: MemoryBlocks::read(&Roots::default()).ok(), keeper: pools::read(Path::new(FOLDER)) }
    }

    /// Registers all metrics of the pools.
    pub fn register(&self, registry: &mut Registry) {
        if let Some(blocks) = &self.blocks {
            sizes(registry, blocks);
        }
        let running = ConstGauge::new(i64::from(self.keeper.is_some()));
        registry.register("running", "1 while a process keeps pools", running);
        if let Some(keeper) = &self.keeper {
            moves(registry, keeper);
        }
    }
}

/// A pool as a label.
const fn label(pool: Pool) -> &'static str {
    match pool {
        Pool::Kernel => "kernel",
        Pool::User => "user",
        Pool::Offline => "offline",
    }
}

fn sizes(registry: &mut Registry, blocks: &MemoryBlocks) {
    let memory = Family::<[(&str, String); 2], Gauge>::default();
    for (node, sizes) in PoolSizes::by_node(blocks) {
        for pool in [Pool::Kernel, Pool::User, Pool::Offline] {
            let labels = [("node", node.0.to_string()), ("pool", label(pool).to_owned())];
            memory.get_or_create(&labels).set(i64::try_from(sizes.get(pool).get()).unwrap_or(i64::MAX));
        }
    }
    registry.register_with_unit("memory", "Memory blocks of each pool", Unit::Bytes, memory);
}

fn moves(registry: &mut Registry, keeper: &PoolsState) {
    #[expect(clippy::cast_precision_loss, reason = "a count of bytes that is shown")]
    let reserve = ConstGauge::new(keeper.reserve.get() as f64);
    registry.register_with_unit("reserve", "Memory that the pools keep free", Unit::Bytes, reserve);
    let moves = Family::<[(&str, &str); 2], Counter>::default();
    for count in &keeper.moves {
        moves.get_or_create(&[("from", label(count.from)), ("to", label(count.to))]).inc_by(count.blocks);
    }
    registry.register("moves", "Blocks that went to another pool", moves);
    let failures = ConstCounter::new(keeper.failures);
    registry.register("failures", "Blocks that could not go to another pool", failures);
    let came_back = ConstCounter::new(keeper.came_back);
    registry.register("came_back", "Offline blocks that something else brought online", came_back);
}

#[cfg(test)]
pub mod tests {
    use super::*;

    use prometheus_client::encoding::text::encode;
    use rampart_banks::PoolMove;
    use rampart_linux::{BlockZones, HotplugState, MemoryBlock};
    use rampart_memory::{Bytes, HotplugBlock, Node};

    /// Three blocks on two nodes, one in each pool, and a process that has moved two.
    pub fn shown() -> PoolsShown {
        let block = |number, state, zones, node| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones,
            node: Some(Node(node)),
        };
        let blocks = vec![
            block(0, HotplugState::Online, BlockZones::Several, 0),
            block(1, HotplugState::Online, BlockZones::In("Movable".to_owned()), 0),
            block(9, HotplugState::Offline, BlockZones::Choices(vec!["Movable".to_owned()]), 1),
        ];
        let mut keeper = PoolsState::new(Bytes::from_mib(64));
        for _ in 0..2 {
            keeper.moved(Pool::Offline, PoolMove { block: HotplugBlock(1), to: Pool::User });
        }
        keeper.failures = 4;
        PoolsShown { blocks: Some(MemoryBlocks { size: Bytes::from_mib(128), blocks }), keeper: Some(keeper) }
    }

    fn text(shown: &PoolsShown) -> String {
        let mut registry = Registry::with_prefix("rampart_pools");
        shown.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn each_pool_of_each_node_has_its_blocks_and_each_move_its_count() {
        let text = text(&shown());
        for line in [
            "rampart_pools_memory_bytes{node=\"0\",pool=\"kernel\"} 134217728",
            "rampart_pools_memory_bytes{node=\"0\",pool=\"user\"} 134217728",
            "rampart_pools_memory_bytes{node=\"0\",pool=\"offline\"} 0",
            "rampart_pools_memory_bytes{node=\"1\",pool=\"user\"} 0",
            "rampart_pools_memory_bytes{node=\"1\",pool=\"offline\"} 134217728",
            "rampart_pools_running 1",
            "rampart_pools_reserve_bytes 67108864.0",
            "rampart_pools_moves_total{from=\"offline\",to=\"user\"} 2",
            "rampart_pools_failures_total 4",
            "rampart_pools_came_back_total 0",
        ] {
            assert!(text.lines().any(|served| served == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn without_a_process_that_keeps_pools_there_are_their_sizes_and_nothing_else() {
        let text = text(&PoolsShown { keeper: None, ..shown() });
        assert!(text.contains("rampart_pools_running 0\n") && text.contains("pool=\"offline\"} 134217728\n"), "{text}");
        assert!(!text.contains("moves") && !text.contains("failures") && !text.contains("reserve"), "{text}");
        let bare = self::text(&PoolsShown::default());
        assert!(bare.contains("rampart_pools_running 0\n") && !bare.contains("memory"), "{bare}");
    }
}
