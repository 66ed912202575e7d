//! The survey of all memory blocks: the use of their frames, and whether each can be emptied.
//!
//! **Problem.** A block goes offline only if everything in it can move elsewhere; the kernel answers that only by an
//! attempt, which takes seconds and moves pages in vain. **Idea.** The kernel shows the use of each frame
//! (`/proc/kpageflags`): memory of programs and of cached files can move, the kernel's own cannot. A block that the
//! kernel would refuse in any case, because it lies in two zones or has a hole, is told by its zones. **Why this way.**
//! A pure function of blocks and counts. It errs on one side only: frames that lie ready for one CPU look like the
//! kernel's, so a block may be called unmovable that a moment later can be emptied. In `ZONE_MOVABLE` the kernel has
//! none, so there they are not in the way.

use std::collections::BTreeSet;
use std::ops::{Add, RangeInclusive};

use rampart_linux::memory_state::ZoneMemory;
use rampart_linux::{
    BlockZones, Census, FrameClass, HotplugState, MemoryBlock, MemoryBlocks, MemoryOrigin, MemoryOrigins,
};
use rampart_memory::{Bank, Bytes, FRAME_BYTES, HotplugBlock, Node};
use serde::Serialize;

use crate::{BankLayout, NamedBank};

/// All blocks and their totals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemorySurvey {
    /// The size of each block.
    pub block: Bytes,
    /// The banks.
    pub banks: BankLayout,
    /// Whether the use of frames is known (needs root).
    pub uses_known: bool,
    /// The blocks, ascending.
    pub blocks: Vec<BlockSurvey>,
    /// The totals of all blocks.
    pub totals: MemoryTotals,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockSurvey {
    /// The kernel's number.
    pub number: HotplugBlock,
    /// Its physical addresses, the last one included.
    pub addresses: (u64, u64),
    /// Its state.
    pub state: HotplugState,
    /// Its zone; for an offline block, those that it may go to.
    pub zones: BlockZones,
    /// Its node; `None` if the kernel has no NUMA.
    pub node: Option<Node>,
    /// Where its memory comes from.
    pub origin: MemoryOrigin,
    /// The first and the last bank in which it lies.
    pub banks: (Bank, Bank),
    /// The lowest bank of the set of the first of them that is in one; `None` if all are alone.
    pub set: Option<Bank>,
    /// The use of its frames; zero where it is unknown or the block is offline.
    #[serde(flatten)]
    pub uses: FrameUseBytes,
    /// What prevents that it is emptied; `None` if nothing does.
    pub obstacle: Option<BlockObstacle>,
}

/// Memory by use. The sum is the block. Reports have [`Self::used`] too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "ReportedUses")]
pub struct FrameUseBytes {
    /// Free.
    pub free: Bytes,
    /// In use, and the kernel can move it: memory of programs, cached files, huge pages.
    pub movable: Bytes,
    /// In use, and the kernel cannot move it, or reserved.
    pub unmovable: Bytes,
    /// Retired for errors.
    pub retired: Bytes,
    /// The host has it: virtio-mem took it out of an online block.
    pub unplugged: Bytes,
    /// No memory: a hole in the block.
    pub hole: Bytes,
}

/// [`FrameUseBytes`] as reports have it.
#[derive(Serialize)]
struct ReportedUses {
    used: Bytes,
    movable: Bytes,
    unmovable: Bytes,
    free: Bytes,
    retired: Bytes,
    unplugged: Bytes,
    hole: Bytes,
}

impl From<FrameUseBytes> for ReportedUses {
    fn from(uses: FrameUseBytes) -> Self {
        let used = uses.used();
        let FrameUseBytes { free, movable, unmovable, retired, unplugged, hole } = uses;
        Self { used, movable, unmovable, free, retired, unplugged, hole }
    }
}

/// What prevents that a block is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum BlockObstacle {
    /// offline
    Offline,
    /// going offline
    GoingOffline,
    /// it has a hole
    Hole,
    /// several zones
    SeveralZones,
    /// kernel memory
    Unmovable,
    /// use unknown
    Unknown,
}

/// Totals of a survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryTotals {
    /// Memory of online blocks.
    pub online: Bytes,
    /// Memory of offline blocks.
    pub offline: Bytes,
    /// Memory of blocks that can be emptied.
    pub can_be_emptied: Bytes,
    /// What must move for that.
    pub to_move: Bytes,
    /// Banks that lie only in blocks that are offline or can be emptied, with all other banks of their set.
    pub removable_banks: u64,
    /// All banks in which there is a block.
    pub banks: u64,
    /// What the host gave by virtio-mem.
    pub virtio_mem: VirtioMemTotals,
}

/// Memory that the host gave by virtio-mem, and what it can have back. All sums are of whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VirtioMemTotals {
    /// All of it.
    pub plugged: Bytes,
    /// Of this, what is offline: the host can have it at once.
    pub offline: Bytes,
    /// Of this, what is online and can be emptied.
    pub can_be_emptied: Bytes,
}

impl FrameUseBytes {
    /// In a block that takes only memory which can move, frames without a known use lie ready for one CPU, or are such
    /// memory.
    fn of(census: &Census, origin: MemoryOrigin, zones: &BlockZones) -> Self {
        let movable_only = is_movable_only(zones);
        let used_as = |class| if movable_only && class == FrameClass::Kernel { FrameClass::Anonymous } else { class };
        census
            .iter()
            .map(|(class, frames)| (used_as(class), Bytes::new(frames * FRAME_BYTES)))
            .map(|(class, bytes)| match (class, origin) {
                // Other frames that are offline alone are a balloon's.
                (FrameClass::Offline, MemoryOrigin::VirtioMem) => Self { unplugged: bytes, ..Self::default() },
                _ => Self::one(class, bytes),
            })
            .fold(Self::default(), Add::add)
    }

    fn one(class: FrameClass, bytes: Bytes) -> Self {
        let none = Self::default();
        match (can_move(class), class) {
            (Some(true), _) => Self { movable: bytes, ..none },
            (Some(false), _) => Self { unmovable: bytes, ..none },
            (None, FrameClass::Free) => Self { free: bytes, ..none },
            (None, FrameClass::Poisoned) => Self { retired: bytes, ..none },
            (None, _) => Self { hole: bytes, ..none },
        }
    }

    /// Memory in use, movable or not.
    #[must_use]
    pub fn used(&self) -> Bytes {
        Bytes::new(self.movable.get() + self.unmovable.get())
    }
}

/// Whether memory of this use can move; `None` if it is not in use.
pub(crate) const fn can_move(class: FrameClass) -> Option<bool> {
    match class {
        FrameClass::Anonymous | FrameClass::File | FrameClass::HugeTlb => Some(true),
        FrameClass::Slab | FrameClass::PageTable | FrameClass::Kernel | FrameClass::Reserved | FrameClass::Offline => {
            Some(false)
        }
        FrameClass::Free | FrameClass::AtHand | FrameClass::Poisoned | FrameClass::Absent => None,
    }
}

impl Add for FrameUseBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |one: Bytes, other: Bytes| Bytes::new(one.get() + other.get());
        Self {
            free: sum(self.free, other.free),
            movable: sum(self.movable, other.movable),
            unmovable: sum(self.unmovable, other.unmovable),
            retired: sum(self.retired, other.retired),
            unplugged: sum(self.unplugged, other.unplugged),
            hole: sum(self.hole, other.hole),
        }
    }
}

impl MemorySurvey {
    /// The block with this number; `None` if there is none.
    #[must_use]
    pub fn find(&self, number: HotplugBlock) -> Option<&BlockSurvey> {
        self.blocks.iter().find(|block| block.number == number)
    }

    /// Surveys the blocks, of unknown origin. `censuses` has the frames of each block by its number; `None` if they
    /// cannot be read.
    #[must_use]
    pub fn new(blocks: &MemoryBlocks, censuses: Option<&[Census]>, banks: BankLayout) -> Self {
        Self::with_origins(blocks, censuses, banks, &MemoryOrigins::default())
    }

    /// Surveys the blocks, as [`Self::new`].
    #[must_use]
    pub fn with_origins(
        blocks: &MemoryBlocks,
        censuses: Option<&[Census]>,
        banks: BankLayout,
        origins: &MemoryOrigins,
    ) -> Self {
        let survey = |block: &MemoryBlock| {
            let census = censuses.map(|all| {
                usize::try_from(block.number.0).ok().and_then(|number| all.get(number)).copied().unwrap_or_default()
            });
            BlockSurvey::new((block, blocks.size), census, &banks, origins.of(block.number, blocks.size))
        };
        let surveyed: Vec<_> = blocks.blocks.iter().map(survey).collect();
        let totals = MemoryTotals::of(&surveyed, blocks.size, &banks);
        Self { block: blocks.size, banks, uses_known: censuses.is_some(), blocks: surveyed, totals }
    }

    /// The survey as it is expected once this block is offline: what moved from it lies in other blocks of its node,
    /// the fullest first. The kernel does not say in advance where it moves pages to, but never from another zone into
    /// `ZONE_MOVABLE`.
    #[must_use]
    pub fn without(&self, block: HotplugBlock) -> Self {
        let mut after = self.clone();
        let Some(gone) = after.blocks.iter_mut().find(|other| other.number == block) else { return after };
        let (node, from_movable, mut left) = (gone.node, gone.is_movable_only(), gone.uses.movable.get());
        gone.state = HotplugState::Offline;
        gone.obstacle = Some(BlockObstacle::Offline);
        gone.uses = FrameUseBytes::default();
        let takes = |other: &&mut BlockSurvey| {
            other.node == node && other.state == HotplugState::Online && (from_movable || !other.is_movable_only())
        };
        let mut others: Vec<&mut BlockSurvey> = after.blocks.iter_mut().filter(takes).collect();
        others.sort_by_key(|other| other.uses.free);
        for other in others {
            let moved = left.min(other.uses.free.get());
            other.uses.free = Bytes::new(other.uses.free.get() - moved);
            other.uses.movable = Bytes::new(other.uses.movable.get() + moved);
            left -= moved;
        }
        after.totals = MemoryTotals::of(&after.blocks, after.block, &after.banks);
        after
    }

    /// The survey as it is expected once this offline block is online in a zone, with all its memory free.
    #[must_use]
    pub fn with(&self, block: HotplugBlock, zone: &str) -> Self {
        let mut after = self.clone();
        if let Some(back) = after.blocks.iter_mut().find(|other| other.number == block) {
            back.state = HotplugState::Online;
            back.zones = BlockZones::In(zone.to_owned());
            back.uses = FrameUseBytes { free: self.block, ..FrameUseBytes::default() };
            back.obstacle = None;
        }
        after.totals = MemoryTotals::of(&after.blocks, after.block, &after.banks);
        after
    }

    /// The zones as these blocks make them up, without the kernel's thresholds: a block in several zones counts as
    /// memory of the kernel.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneMemory> {
        let online = self.blocks.iter().filter(|block| block.state == HotplugState::Online);
        online
            .map(|block| ZoneMemory {
                node: block.node.unwrap_or(Node(0)),
                name: if block.is_movable_only() { "Movable" } else { "Normal" }.to_owned(),
                managed: self.block,
                free: block.uses.free,
                high: Bytes::ZERO,
                protected: Bytes::ZERO,
                lru: block.uses.movable,
            })
            .collect()
    }
}

impl BlockSurvey {
    fn new(
        (block, size): (&MemoryBlock, Bytes),
        census: Option<Census>,
        banks: &BankLayout,
        origin: MemoryOrigin,
    ) -> Self {
        let online = block.state == HotplugState::Online;
        let uses = |census| FrameUseBytes::of(&census, origin, &block.zones);
        let uses = census.filter(|_| online).map(uses).unwrap_or_default();
        let start = u64::from(block.number.0) * size.get();
        let of = banks.of(block.number, size);
        Self {
            number: block.number,
            addresses: (start, start + (size.get() - 1)),
            state: block.state,
            zones: block.zones.clone(),
            node: block.node,
            origin,
            banks: (*of.start(), *of.end()),
            set: (of.start().0..=of.end().0).find_map(|bank| banks.shared_set_of(Bank(bank))),
            uses,
            obstacle: obstacle(block, census.is_some(), &uses),
        }
    }

    /// Whether it takes only memory that can move (`ZONE_MOVABLE`).
    #[must_use]
    pub fn is_movable_only(&self) -> bool {
        is_movable_only(&self.zones)
    }

    /// Whether the host gave it by virtio-mem, and can have it back.
    #[must_use]
    pub fn is_of_virtio_mem(&self) -> bool {
        self.origin == MemoryOrigin::VirtioMem
    }

    /// The banks in which it lies.
    #[must_use]
    pub const fn bank_range(&self) -> RangeInclusive<Bank> {
        self.banks.0..=self.banks.1
    }
}

fn is_movable_only(zones: &BlockZones) -> bool {
    matches!(zones, BlockZones::In(zone) if zone == "Movable")
}

fn obstacle(block: &MemoryBlock, known: bool, uses: &FrameUseBytes) -> Option<BlockObstacle> {
    match block.state {
        HotplugState::Offline => return Some(BlockObstacle::Offline),
        HotplugState::GoingOffline => return Some(BlockObstacle::GoingOffline),
        HotplugState::Online => {}
    }
    if uses.hole > Bytes::ZERO {
        Some(BlockObstacle::Hole)
    } else if block.zones == BlockZones::Several {
        Some(BlockObstacle::SeveralZones)
    } else if !known {
        Some(BlockObstacle::Unknown)
    } else if uses.unmovable > Bytes::ZERO {
        Some(BlockObstacle::Unmovable)
    } else {
        None
    }
}

impl MemoryTotals {
    fn of(blocks: &[BlockSurvey], size: Bytes, layout: &BankLayout) -> Self {
        let sum = |keep: &dyn Fn(&BlockSurvey) -> bool| {
            Bytes::new(blocks.iter().filter(|block| keep(block)).count() as u64 * size.get())
        };
        let to_move =
            blocks.iter().filter(|block| block.obstacle.is_none()).map(|block| block.uses.movable.get()).sum();
        let all = banks(blocks.iter());
        let stuck: Vec<&BlockSurvey> =
            blocks.iter().filter(|block| !matches!(block.obstacle, None | Some(BlockObstacle::Offline))).collect();
        let stay = banks(stuck.iter().copied()) + held_by_sets(blocks, &stuck, layout);
        Self {
            online: sum(&|block| block.state != HotplugState::Offline),
            offline: sum(&|block| block.state == HotplugState::Offline),
            can_be_emptied: sum(&|block| block.obstacle.is_none()),
            to_move: Bytes::new(to_move),
            removable_banks: all - stay,
            banks: all,
            virtio_mem: VirtioMemTotals {
                plugged: sum(&BlockSurvey::is_of_virtio_mem),
                offline: sum(&|block| block.is_of_virtio_mem() && block.state == HotplugState::Offline),
                can_be_emptied: sum(&|block| block.is_of_virtio_mem() && block.obstacle.is_none()),
            },
        }
    }
}

/// The number of banks that could go, but stay because another bank of their set does.
fn held_by_sets(blocks: &[BlockSurvey], stuck: &[&BlockSurvey], layout: &BankLayout) -> u64 {
    let of_sets: Vec<&NamedBank> = layout.named.iter().filter(|named| named.set.is_some()).collect();
    let is_stuck = |named: &NamedBank| stuck.iter().any(|block| block.bank_range().contains(&named.bank));
    let stuck_sets: BTreeSet<Option<Bank>> =
        of_sets.iter().filter(|named| is_stuck(named)).map(|named| named.set).collect();
    let is_present = |named: &NamedBank| blocks.iter().any(|block| block.bank_range().contains(&named.bank));
    let is_held = |named: &&&NamedBank| stuck_sets.contains(&named.set) && !is_stuck(named) && is_present(named);
    of_sets.iter().filter(is_held).count() as u64
}

/// The number of banks in which these blocks, ascending, lie.
fn banks<'a>(blocks: impl Iterator<Item = &'a BlockSurvey>) -> u64 {
    let (mut count, mut next) = (0, 0);
    for block in blocks {
        let (first, last) = (u64::from(block.banks.0.0).max(next), u64::from(block.banks.1.0));
        count += (last + 1).saturating_sub(first);
        next = next.max(last + 1);
    }
    count
}

#[cfg(test)]
mod tests;
