//! The memory of one node's pools, and its thresholds.

use rampart_linux::memory_state::ZoneMemory;
use rampart_memory::{Bytes, Node};

/// The memory of the two pools that are online.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// The kernel core.
    pub kernel: PoolMemory,
    /// The user pool.
    pub user: PoolMemory,
}

/// The memory of a pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// All that the kernel gives out.
    pub managed: u64,
    /// Free.
    pub free: u64,
    /// Below this, the kernel reclaims.
    pub high: u64,
    /// Free memory that the kernel gives to programs when their pool is full.
    pub open: u64,
    /// Memory of programs and of files.
    pub lru: u64,
}

impl NodeMemory {
    /// Sums a node's zones. `DMA` is left out: the kernel keeps most of it back for old devices. So is `Device`.
    pub fn of(node: Node, zones: &[ZoneMemory]) -> Self {
        let mut memory = Self::default();
        for zone in zones.iter().filter(|zone| zone.node == node) {
            match zone.name.as_str() {
                "Movable" => memory.user.add(zone),
                "DMA" | "Device" => {}
                _ => memory.kernel.add(zone),
            }
        }
        memory
    }

    /// Free memory that programs can get: that of their pool, and what the kernel core can spare.
    pub fn room(&self, reserve: Bytes) -> u64 {
        self.user.free + self.kernel.open.min(self.kernel.free.saturating_sub(self.kernel.floor(reserve)))
    }

    /// What the kernel uses for itself. In the user pool it uses nothing.
    pub const fn used_by_kernel(&self) -> u64 {
        self.kernel.used().saturating_sub(self.kernel.lru)
    }

    /// What programs use, in both pools.
    pub const fn used_by_programs(&self) -> u64 {
        (self.kernel.used() + self.user.used()).saturating_sub(self.used_by_kernel())
    }

    /// All free memory.
    pub const fn free(&self) -> u64 {
        self.kernel.free + self.user.free
    }
}

impl PoolMemory {
    fn add(&mut self, zone: &ZoneMemory) {
        self.managed += zone.managed.get();
        self.free += zone.free.get();
        self.high += zone.high.get();
        self.open += zone.open().get();
        self.lru += zone.lru.get();
    }

    const fn used(&self) -> u64 {
        self.managed.saturating_sub(self.free)
    }

    /// With less free memory than this, the pool grows: an eighth of the reserve above the kernel's own threshold.
    pub const fn low(&self, reserve: Bytes) -> u64 {
        self.high + reserve.get() / 8
    }

    /// So much stays free in the pool when a block leaves it: twice as much above the kernel's threshold. On a small
    /// machine that threshold is a third of the reserve, so a multiple of it would keep more than the reserve free.
    pub const fn floor(&self, reserve: Bytes) -> u64 {
        self.high + reserve.get() / 4
    }
}
