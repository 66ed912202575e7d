//! The kernel's free lists, from which single blocks are claimed.

use std::time::Duration;

use rampart_memory::{BlockOrder, Node};
use rustix::io::Errno;

use super::abi;

/// One of the kernel's free lists: the free blocks of one order and migratetype in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelFreeList {
    /// The node of the zone.
    pub node: Node,
    /// The zone.
    pub zone: KernelZone,
    /// The migratetype.
    pub migratetype: KernelMigratetype,
    /// The order, below that of a pageblock: 0 to 8 where a pageblock is 2 MiB.
    pub order: BlockOrder,
}

/// A part of a node's memory, by what it can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelZone {
    /// Below 16 MiB (`RAMPART_ZONE_DMA`).
    Dma,
    /// Below 4 GiB (`RAMPART_ZONE_DMA32`).
    Dma32,
    /// The rest (`RAMPART_ZONE_NORMAL`).
    Normal,
}

/// What of a free list is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListPart {
    /// All of it; before that, what is at hand for a CPU without a valid test.
    Whole,
    /// Only what is at hand for a CPU, without a valid test or with one older than this, in whole seconds.
    AtHand {
        /// At least a second.
        older: Duration,
    },
}

/// For which allocations a pageblock is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelMigratetype {
    /// The kernel's own, which stay where they are (`RAMPART_TYPE_UNMOVABLE`).
    Unmovable,
    /// Those of programs and files (`RAMPART_TYPE_MOVABLE`).
    Movable,
    /// Caches that can be given up (`RAMPART_TYPE_RECLAIMABLE`).
    Reclaimable,
}

impl KernelMigratetype {
    /// The type that the kernel calls so, as the module does; `None` for one whose lists are not claimed.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "Unmovable" => Some(Self::Unmovable),
            "Movable" => Some(Self::Movable),
            "Reclaimable" => Some(Self::Reclaimable),
            _ => None,
        }
    }
}

/// Why there is no block of a free list, or of memory that came online.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ListRefusal {
    /// there is none
    Empty,
    /// the machine has no such node or zone
    NotThere,
    /// its memory block goes offline
    Leaving,
    /// too little memory is free
    MemoryShort,
    /// the loaded module hands out no such blocks: it is older than this program
    NotOffered,
    /// the module refused a block: {0}
    Unexpected(Errno),
}

impl KernelFreeList {
    /// The largest order of a list, where a pageblock is 2 MiB.
    const LARGEST: u8 = 8;

    /// The largest order of blocks that the kernel keeps at hand for a CPU, but for huge pages
    /// (`PAGE_ALLOC_COSTLY_ORDER`).
    const LARGEST_AT_HAND: u8 = 3;

    /// The lists of its zone and migratetype of which the kernel keeps blocks at hand for each CPU.
    pub fn kept_at_hand(self) -> impl Iterator<Item = Self> {
        let orders = BlockOrder::all().filter(|order| order.number() <= Self::LARGEST_AT_HAND);
        orders.map(move |order| Self { order, ..self })
    }

    /// The lists of a node, also of zones that it does not have, in the order in which their blocks are best claimed:
    /// those of the kernel's own memory first, and the largest blocks first.
    pub fn of_node(node: Node) -> impl Iterator<Item = Self> {
        let zones = [KernelZone::Dma, KernelZone::Dma32, KernelZone::Normal];
        let types = [KernelMigratetype::Unmovable, KernelMigratetype::Reclaimable, KernelMigratetype::Movable];
        let orders = || BlockOrder::all().filter(|order| order.number() <= Self::LARGEST).rev();
        let of = move |zone, migratetype| orders().map(move |order| Self { node, zone, migratetype, order });
        zones.into_iter().flat_map(move |zone| types.into_iter().flat_map(move |migratetype| of(zone, migratetype)))
    }

    /// What to ask the module for.
    pub(super) fn request(self, part: ListPart) -> abi::Listed {
        abi::Listed {
            node: self.node.0,
            zone: match self.zone {
                KernelZone::Dma => abi::ZONE_DMA,
                KernelZone::Dma32 => abi::ZONE_DMA32,
                KernelZone::Normal => abi::ZONE_NORMAL,
            },
            migratetype: match self.migratetype {
                KernelMigratetype::Unmovable => abi::TYPE_UNMOVABLE,
                KernelMigratetype::Movable => abi::TYPE_MOVABLE,
                KernelMigratetype::Reclaimable => abi::TYPE_RECLAIMABLE,
            },
            order: self.order.number().into(),
            older: match part {
                ListPart::Whole => 0,
                ListPart::AtHand { older } => u32::try_from(older.as_secs()).unwrap_or(u32::MAX).max(1),
            },
            ..abi::Listed::default()
        }
    }
}

impl ListRefusal {
    /// What the module's error means.
    pub(super) const fn of(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Empty,
            Errno::NXIO => Self::NotThere,
            Errno::BUSY => Self::Leaving,
            Errno::NOMEM => Self::MemoryShort,
            Errno::NOTTY => Self::NotOffered,
            other => Self::Unexpected(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_lists_of_the_kernel_s_own_memory_first_and_of_large_blocks_first() {
        let asked: Vec<_> = KernelFreeList::of_node(Node(3)).map(|list| list.request(ListPart::Whole)).collect();
        assert!(asked.iter().all(|list| list.node == 3 && list.older == 0));
        let lists: Vec<_> = asked.iter().map(|list| (list.zone, list.migratetype, list.order)).collect();
        assert_eq!(lists.len(), 3 * 3 * 9);
        assert_eq!(lists[..2], [(0, 0, 8), (0, 0, 7)]);
        assert_eq!(lists[8..10], [(0, 0, 0), (0, 2, 8)]);
        assert_eq!(lists[17..19], [(0, 2, 0), (0, 1, 8)]);
        assert_eq!(lists[26..28], [(0, 1, 0), (1, 0, 8)]);
    }

    #[test]
    fn what_is_at_hand_is_asked_for_by_an_age_of_a_second_or_more() {
        let list = KernelFreeList::of_node(Node(0)).last().expect("a node has lists");
        let older = |millis| list.request(ListPart::AtHand { older: Duration::from_millis(millis) }).older;
        assert_eq!([older(0), older(999), older(41_250)], [1, 1, 41]);
        assert_eq!(list.kept_at_hand().map(|list| list.order.number()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(list.kept_at_hand().all(|low| low == KernelFreeList { order: low.order, ..list }));
    }

    #[test]
    fn an_older_module_is_told_from_an_empty_list() {
        assert_eq!(ListRefusal::of(Errno::NOENT), ListRefusal::Empty);
        assert_eq!(ListRefusal::of(Errno::NOTTY), ListRefusal::NotOffered);
        assert_eq!(ListRefusal::of(Errno::INVAL), ListRefusal::Unexpected(Errno::INVAL));
    }
}
