//! Three pools of memory blocks on a stock kernel: which block moves from one to another, and when [Panwar15, 4.2].
//!
//! **Problem.** One page of the kernel keeps a whole block online. If the kernel may allocate everywhere, after some
//! hours such a page lies in most blocks. **Idea.** Linux has a zone that takes no memory of the kernel
//! (`ZONE_MOVABLE`). So the kernel gets a *core* of blocks, programs get blocks of that zone (the *user* pool), and the
//! rest is *offline*. Blocks move between the pools as memory is needed, or lies idle for a while. **Why this way.** It
//! is Adaptive-Buddy by hotplug, without a change to the kernel. All decisions are pure functions of what was seen and
//! of the time.
//!
//! Each node has pools of its own. Three thresholds of free memory, as parts of the reserve of a node: a pool grows if
//! less than an eighth is free for it, or less than half in both; a block goes offline only if a quarter stays free for
//! its pool, and the whole reserve in both. What is free for a pool is what it has above the threshold at which the
//! kernel reclaims. The distance between these, and a time for which memory must lie idle, keep blocks from going back
//! and forth. A pool whose memory is used up fast grows earlier ([`rates`]). Where no block is offline, the kernel gets
//! a block of programs, and gets it early too if they can spare one that is free. Programs may also use free memory of
//! the core, as far as the kernel lets them: it keeps a part back for itself. What they have there stays there until
//! they free it.

mod node;
mod rates;
mod searches;
mod sizes;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rampart_linux::HotplugState;
use rampart_linux::memory_state::ZoneMemory;
use rampart_memory::{Bytes, HotplugBlock, Node};
use serde::{Deserialize, Serialize};

use self::node::NodeMemory;
use self::rates::{MemoryUser, USERS, UseRates};
use self::searches::{SEARCH_SHARE, VainSearches};
pub use self::sizes::PoolSizes;
use crate::attempts::FailedAttempts;
use crate::costs::BankCosts;
use crate::survey::{BlockSurvey, MemorySurvey};

/// A demand that was given up, or that no block meets, is not looked at again for this time at most.
const REST: Duration = Duration::from_secs(1);

/// The time between two looks at the zones: while memory is used up slowly, and at least.
const CALM: Duration = Duration::from_millis(50);
const HASTE: Duration = Duration::from_millis(10);

/// Between two looks, at most this part of the memory above a threshold is used up: one in so many.
const LOOKS_BEFORE_GROWTH: u32 = 4;

/// How the pools are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// This share of each node's memory stays free, in per cent.
    pub reserve_percent: u32,
    /// At least this share of each node's memory stays with the kernel, in per cent.
    pub core_percent: u32,
    /// Memory must lie idle so long before a block goes offline.
    pub dwell: Duration,
}

/// A pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// kernel core
    Kernel,
    /// user pool
    User,
    /// offline
    Offline,
}

/// What a node needs, by its free memory alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolDemand {
    /// A pool needs another block.
    Grow(Pool, Node),
    /// Memory lies idle.
    Shrink(Node),
}

impl PoolDemand {
    const fn node(self) -> Node {
        match self {
            Self::Grow(_, node) | Self::Shrink(node) => node,
        }
    }

    const fn grown(self) -> Option<Pool> {
        match self {
            Self::Grow(pool, _) => Some(pool),
            Self::Shrink(_) => None,
        }
    }
}

/// How the use of frames is read, to find the block that meets a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSearch {
    /// A few frames of each block: it shows which blocks of programs are nearly free, within milliseconds.
    Sampled,
    /// All frames: it shows which blocks can be emptied at all.
    Full,
}

/// A block that is being emptied, as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptiedBlock {
    /// What it is emptied for.
    pub demand: PoolDemand,
    /// Its pool.
    pub pool: Pool,
    /// Its free memory.
    pub free: Bytes,
    /// Its memory of programs and of files.
    pub movable: Bytes,
}

impl EmptiedBlock {
    /// How much more each user seems to use while the block is being emptied, in bytes: nobody can get its free memory,
    /// and in the core, what is about to move counts neither as free nor as that of programs.
    const fn isolated(self) -> [u64; 2] {
        match self.pool {
            Pool::Kernel => [self.free.get() + self.movable.get(), 0],
            Pool::User => [0, self.free.get()],
            Pool::Offline => [0, 0],
        }
    }
}

/// A block that goes to another pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMove {
    /// The block.
    pub block: HotplugBlock,
    /// Where it goes.
    pub to: Pool,
}

/// The pools of all nodes.
#[derive(Clone, Debug)]
pub struct Pools {
    settings: PoolSettings,
    /// The size of a block.
    block: Bytes,
    /// All memory of each node, online or not.
    nodes: BTreeMap<Node, Bytes>,
    phase: Phase,
    rates: UseRates,
    searches: VainSearches,
    /// No block of a node goes offline before this time.
    waits_until: BTreeMap<Node, Duration>,
    /// No demand is looked at again before this time.
    rests_until: BTreeMap<PoolDemand, Duration>,
    failed: FailedAttempts,
    /// Offline blocks that somebody else brought online: each time they rest longer.
    returned: FailedAttempts,
    /// Blocks with retired frames go offline first and come back last.
    bad: BTreeSet<HotplugBlock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The pools are made: idle memory goes at once.
    Building,
    /// They exist: memory must lie idle for a while.
    Keeping,
}

/// A machine's memory at one moment, without its blocks: quick to read.
#[derive(Clone, Copy, Debug)]
pub struct PoolsSeen<'a> {
    /// All zones.
    pub zones: &'a [ZoneMemory],
    /// Whether programs wait for memory.
    pub pressed: bool,
}

impl Pools {
    /// The pools of a machine with these blocks; the use of their frames need not be known.
    #[must_use]
    pub fn new(settings: PoolSettings, survey: &MemorySurvey) -> Self {
        Self {
            settings,
            block: survey.block,
            nodes: memory_of_nodes(survey),
            phase: Phase::Building,
            rates: UseRates::default(),
            searches: VainSearches::default(),
            waits_until: BTreeMap::new(),
            rests_until: BTreeMap::new(),
            failed: FailedAttempts::default(),
            returned: FailedAttempts::default(),
            bad: BTreeSet::new(),
        }
    }

    /// Notes how much memory each node has now: the host of a virtual machine gives some, or takes it back. A node that
    /// has no block left keeps what it had.
    pub fn resized(&mut self, survey: &MemorySurvey) {
        self.nodes.extend(memory_of_nodes(survey));
    }

    /// Decides what is needed most: memory for the kernel, then for programs, then less memory.
    pub fn demand(&mut self, seen: PoolsSeen<'_>, now: Duration) -> Option<PoolDemand> {
        let nodes = self.memory_by_node(seen.zones);
        self.note_rates(&nodes, now);
        for (node, memory) in &nodes {
            if self.searches.note(*node, memory.free(), self.block) {
                // What programs have just given back they may take again at once: it must lie idle first.
                self.rests_until.insert(PoolDemand::Shrink(*node), now + self.settings.dwell);
            }
        }
        let demands = nodes.iter().flat_map(|node| self.demands_of(node, seen.pressed, now)).collect::<Vec<_>>();
        let rests = |demand: &PoolDemand| self.rests_until.get(demand).is_some_and(|until| now < *until);
        demands.into_iter().filter(|demand| !rests(demand)).min()
    }

    /// The memory of each node.
    fn memory_by_node(&self, zones: &[ZoneMemory]) -> Vec<(Node, NodeMemory)> {
        self.nodes.keys().map(|node| (*node, NodeMemory::of(*node, zones))).collect()
    }

    fn note_rates(&mut self, nodes: &[(Node, NodeMemory)], now: Duration) {
        for (node, memory) in nodes {
            self.rates.note(*node, memory, now);
        }
    }

    fn demands_of(&mut self, seen: &(Node, NodeMemory), pressed: bool, now: Duration) -> Vec<PoolDemand> {
        let (node, memory) = *seen;
        let reserve = self.reserve(node);
        let mut demands = self.growth(seen, pressed);
        let soon = self.soon(node, MemoryUser::Kernel) + self.soon(node, MemoryUser::Programs);
        // Without one more block, a pool would have to grow.
        if pressed || memory.free() < self.block.get() + reserve.get() / 2 + soon {
            self.waits_until.insert(node, now + self.settings.dwell);
        } else if self.phase == Phase::Building || now >= self.waits_until.get(&node).copied().unwrap_or_default() {
            demands.push(PoolDemand::Shrink(node));
        }
        demands
    }

    /// The growth that a node needs.
    fn growth(&self, seen: &(Node, NodeMemory), pressed: bool) -> Vec<PoolDemand> {
        let (node, memory) = *seen;
        let [kernel, user] = USERS.map(|user| {
            let margin = self.margin(seen, user);
            margin.is_none_or(|margin| margin < self.soon(node, user))
        });
        // A control group that waits at its own limit has no use for more memory.
        let pressed = pressed && memory.free() < self.reserve(node).get();
        let grow = |pool, wanted: bool| wanted.then_some(PoolDemand::Grow(pool, node));
        [grow(Pool::Kernel, kernel), grow(Pool::User, user || pressed)].into_iter().flatten().collect()
    }

    /// How much more a user can take until its pool must grow, in bytes; `None` if it already must.
    fn margin(&self, (node, memory): &(Node, NodeMemory), user: MemoryUser) -> Option<u64> {
        let reserve = self.reserve(*node);
        match user {
            // A node may have no memory for the kernel at all, such as one of CXL memory: its owner wants that.
            MemoryUser::Kernel if memory.kernel.managed == 0 => Some(u64::MAX),
            MemoryUser::Kernel => memory.kernel.free.checked_sub(memory.kernel.low(reserve)),
            MemoryUser::Programs => {
                let here = memory.room(reserve).checked_sub(memory.user.low(reserve))?;
                Some(here.min(memory.free().checked_sub(reserve.get() / 2)?))
            }
        }
    }

    /// How long nobody needs to look at the zones again.
    #[must_use]
    pub fn next_look(&self, zones: &[ZoneMemory]) -> Duration {
        let lasts = |seen: &(Node, NodeMemory), user| {
            let margin = self.margin(seen, user).unwrap_or_default();
            self.rates.lasts(seen.0, user, margin, CALM * LOOKS_BEFORE_GROWTH)
        };
        let nodes = self.memory_by_node(zones);
        let all = nodes.iter().flat_map(|seen| USERS.map(|user| lasts(seen, user)));
        all.min().map_or(CALM, |lasts| (lasts / LOOKS_BEFORE_GROWTH).max(HASTE))
    }

    /// How much a user will take before a block is online. A fast moment counts for no more than a quarter of the
    /// reserve, else it could bring all memory online.
    fn soon(&self, node: Node, user: MemoryUser) -> u64 {
        self.rates.soon(node, user).min(self.reserve(node).get() / 4)
    }

    /// The pool that needs to grow more urgently, on any node, than what a block is being emptied for.
    pub fn lacks_memory(&mut self, seen: PoolsSeen<'_>, meanwhile: EmptiedBlock, now: Duration) -> Option<Pool> {
        let nodes = self.memory_by_node(seen.zones);
        for (node, memory) in &nodes {
            if *node == meanwhile.demand.node() {
                self.rates.note_while_emptying(*node, memory, meanwhile.isolated(), now);
            } else {
                self.rates.note(*node, memory, now);
            }
        }
        let demands = nodes.iter().flat_map(|node| self.growth(node, seen.pressed));
        demands.filter(|demand| *demand < meanwhile.demand).min().and_then(PoolDemand::grown)
    }

    /// The search that a demand is worth if no offline block meets it. The kernel gets a block of programs ahead of its
    /// need only if they have one to spare.
    #[must_use]
    pub fn search(&self, demand: PoolDemand, zones: &[ZoneMemory]) -> Option<FrameSearch> {
        match demand {
            PoolDemand::Shrink(_) => Some(FrameSearch::Full),
            PoolDemand::Grow(Pool::Kernel, node) => {
                let seen = (node, NodeMemory::of(node, zones));
                let is_short = self.margin(&seen, MemoryUser::Kernel).is_none();
                (is_short || self.has_spare_block(&seen)).then_some(FrameSearch::Sampled)
            }
            PoolDemand::Grow(..) => None,
        }
    }

    /// Whether programs would have enough free memory in their pool without a block of it that is free.
    fn has_spare_block(&self, (node, memory): &(Node, NodeMemory)) -> bool {
        let floor = memory.user.floor(self.reserve(*node));
        memory.user.free >= self.block.get() + floor + self.soon(*node, MemoryUser::Programs)
    }

    /// Decides which block meets a demand; `None` if none does. Whether a block can be emptied is known only if the
    /// survey knows the use of frames.
    #[must_use]
    pub fn step(
        &self,
        demand: PoolDemand,
        zones: &[ZoneMemory],
        survey: &MemorySurvey,
        now: Duration,
    ) -> Option<PoolMove> {
        match demand {
            PoolDemand::Grow(pool, node) => {
                let block = self.offline_block((pool, node), zones, survey, now);
                let stolen = || if pool == Pool::Kernel { self.stolen(node, zones, survey, now) } else { None };
                block.or_else(stolen).map(|block| PoolMove { block, to: pool })
            }
            PoolDemand::Shrink(node) => self.shrink(node, zones, survey, now),
        }
    }

    /// Notes that a block went to its pool.
    pub fn moved(&mut self, moved: PoolMove, survey: &MemorySurvey, now: Duration) {
        self.failed.forget(moved.block);
        let Some(block) = survey.find(moved.block) else { return };
        if block.uses.retired > Bytes::ZERO {
            self.bad.insert(moved.block);
        }
        let node = node_of(block);
        self.searches.moved(node);
        self.rests_until.remove(&PoolDemand::Shrink(node));
        if moved.to == Pool::Offline {
            // A pool that could not grow now can.
            for pool in [Pool::Kernel, Pool::User] {
                self.rests_until.remove(&PoolDemand::Grow(pool, node));
            }
        } else {
            self.waits_until.insert(node, now + self.settings.dwell);
        }
    }

    /// Notes that a block did not go.
    pub fn failed(&mut self, block: HotplugBlock, now: Duration) {
        self.failed.note(block, now);
    }

    /// Notes that somebody else brought an offline block online.
    pub fn came_back(&mut self, block: HotplugBlock, now: Duration) {
        self.returned.note(block, now);
    }

    /// Notes that an attempt to meet a demand was given up for something more urgent.
    pub fn interrupted(&mut self, demand: PoolDemand, now: Duration) {
        self.rests_until.insert(demand, now + REST);
    }

    /// Notes that no block meets a demand, after a search of this length.
    pub fn unmet(&mut self, demand: PoolDemand, search: Duration, now: Duration) {
        let rest = match demand {
            PoolDemand::Grow(..) => (search * SEARCH_SHARE).clamp(CALM, REST),
            PoolDemand::Shrink(node) => self.searches.found_nothing(node, search, self.settings.dwell),
        };
        self.rests_until.insert(demand, now + rest);
        if matches!(demand, PoolDemand::Shrink(_)) {
            self.phase = Phase::Keeping;
        }
    }

    /// Memory that stays free, of all nodes together.
    #[must_use]
    pub fn whole_reserve(&self) -> Bytes {
        Bytes::new(self.nodes.keys().map(|node| self.reserve(*node).get()).sum())
    }

    fn reserve(&self, node: Node) -> Bytes {
        self.part(node, self.settings.reserve_percent)
    }

    fn part(&self, node: Node, percent: u32) -> Bytes {
        Bytes::new(self.nodes[&node].get() / 100 * u64::from(percent))
    }

    fn of_node<'a>(
        &'a self,
        node: Node,
        survey: &'a MemorySurvey,
        now: Duration,
    ) -> impl Iterator<Item = &'a BlockSurvey> {
        let rests = move |block: HotplugBlock| self.failed.next(block).max(self.returned.next(block)) > now;
        survey.blocks.iter().filter(move |block| node_of(block) == node && !rests(block.number))
    }

    /// An offline block: for the kernel the lowest, for programs the highest, so that each pool stays together. Bad
    /// memory comes back only where little else is free, and what the host can have back comes after the machine's own.
    fn offline_block(
        &self,
        (pool, node): (Pool, Node),
        zones: &[ZoneMemory],
        survey: &MemorySurvey,
        now: Duration,
    ) -> Option<HotplugBlock> {
        let is_short = NodeMemory::of(node, zones).free() < self.reserve(node).get() / 2;
        let offline = self.of_node(node, survey, now).filter(|block| block.state == HotplugState::Offline);
        let good = offline.filter(|block| is_short || !self.bad.contains(&block.number));
        let place = |number: HotplugBlock| if pool == Pool::Kernel { number.0 } else { u32::MAX - number.0 };
        let rank =
            |block: &&BlockSurvey| (self.bad.contains(&block.number), block.is_of_virtio_mem(), place(block.number));
        good.min_by_key(rank).map(|block| block.number)
    }

    /// The block of the user pool with most free memory [Panwar15, 4.2].
    fn stolen(&self, node: Node, zones: &[ZoneMemory], survey: &MemorySurvey, now: Duration) -> Option<HotplugBlock> {
        let free = NodeMemory::of(node, zones).user.free;
        let fits = |block: &&BlockSurvey| free >= block.uses.free.get() + block.uses.movable.get();
        let users = self.of_node(node, survey, now).filter(|block| block.obstacle.is_none() && block.is_movable_only());
        users
            .filter(fits)
            .min_by_key(|block| (self.failed.count(block.number), Reverse(block.uses.free), block.number))
            .map(|block| block.number)
    }

    /// A block that goes offline, of the kernel core if that may shrink. It goes to the user pool instead if too little
    /// would stay free.
    fn shrink(&self, node: Node, zones: &[ZoneMemory], survey: &MemorySurvey, now: Duration) -> Option<PoolMove> {
        let memory = NodeMemory::of(node, zones);
        let costs = BankCosts::of(survey);
        let free_after = |block: &BlockSurvey| memory.free().saturating_sub(self.taken(block));
        let candidates = self.of_node(node, survey, now).filter(|block| block.obstacle.is_none());
        let best = candidates
            .filter(|block| self.spares(node, &memory, block))
            .filter(|block| !block.is_movable_only() || free_after(block) >= self.reserve(node).get())
            .min_by_key(|block| {
                let is_good = block.uses.retired == Bytes::ZERO;
                let stays_here = !block.is_of_virtio_mem();
                let rank = (is_good, stays_here, block.is_movable_only(), costs.of_block(block), Reverse(block.number));
                // A block with a pinned page fails each time, and must not keep others waiting.
                (self.failed.count(block.number), rank)
            })?;
        let to = if free_after(best) >= self.reserve(node).get() { Pool::Offline } else { Pool::User };
        Some(PoolMove { block: best.number, to })
    }

    /// Free memory that a block takes with it: its own, and as much as moves out of it.
    fn taken(&self, block: &BlockSurvey) -> u64 {
        block.uses.free.get() + block.uses.movable.get()
    }

    /// Whether enough stays free in its pool and in both without this block.
    fn spares(&self, node: Node, memory: &NodeMemory, block: &BlockSurvey) -> bool {
        let reserve = self.reserve(node);
        let (user_floor, kernel_floor) = (memory.user.floor(reserve), memory.kernel.floor(reserve));
        if block.is_movable_only() {
            return memory.room(reserve) >= user_floor + self.taken(block);
        }
        // What moves out of a block of the core stays in the core: Linux moves nothing from another zone into
        // `ZONE_MOVABLE` (`alloc_migration_target`).
        memory.kernel.managed >= self.block.get() + self.part(node, self.settings.core_percent).get()
            && memory.kernel.free >= kernel_floor + self.taken(block)
            && memory.free() >= reserve.get() / 2 + self.taken(block)
    }
}

/// All memory of each node, online or not.
fn memory_of_nodes(survey: &MemorySurvey) -> BTreeMap<Node, Bytes> {
    let mut nodes = BTreeMap::new();
    for block in &survey.blocks {
        let memory = nodes.entry(node_of(block)).or_insert(Bytes::ZERO);
        *memory = Bytes::new(memory.get() + survey.block.get());
    }
    nodes
}

/// The node of a block; a kernel without NUMA has one.
fn node_of(block: &BlockSurvey) -> Node {
    block.node.unwrap_or(Node(0))
}
