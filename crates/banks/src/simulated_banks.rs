//! A simulated machine whose banks are counted: which allocator puts which pages where.
//!
//! **Problem.** Recorded loads and made-up ones need the same machine, the same migration and the same counts, so that
//! their figures compare. **Idea.** [`SimulatedBanks`] owns all of these; a load calls it to get and give back blocks.
//! **Why this way.** It knows of each block only what its bank must know: whether it is the kernel's.

mod held;
mod migration;
mod patience;
mod report;
mod switches;
mod units;
mod uses;

use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankPart, BankPool, BankPools, BankSearches, BankSize, Buddy, Cpu, FullestBank,
    FullestSlices, ListBanks, Locked, Migratetype, PageAllocator, Request, StealRule, Zone, ZoneKind,
};
use rampart_memory::{BlockOrder, Bytes, FRAME_BYTES, Frame, FrameBlock, FrameRange, Node};
use serde::Serialize;

use self::held::SplitBlocks;
use self::patience::SurplusAges;
use self::switches::BankSwitches;
use self::units::{BankUnits, interleaved};
use self::uses::{MemoryUses, SectionUse, UseChange};
use crate::Error;

pub use held::Held;
pub use migration::MigrationCounts;
pub use report::{
    AllocatorSteps, BankAverages, BankFootprint, BankMaxima, BankSample, LargeRequests, ReplayReport, UseAverages,
};

/// The CPUs of the simulated machine.
pub const CPUS: u32 = 2;

/// The end of the hole of PCs in which devices lie.
pub const HOLE_END: Bytes = Bytes::from_mib(4 << 10);

/// The unit of a footprint, as in [Panwar15, figure 2.4].
const SECTION: Bytes = Bytes::from_mib(128);

/// The allocator of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocatorName {
    /// The buddy system of Linux: it knows no banks.
    Buddy,
    /// The array of banks: the kernel takes the lowest bank with room, programs the highest [Panwar15, 4.1.1].
    Array,
    /// Lists of banks, with a cache and optimal selection [Panwar15, 4.1.2].
    List,
    /// Adaptive-Buddy: a buddy system for each of three pools of banks [Panwar15, 4.2].
    Adaptive,
    /// The same, but the kernel takes any bank of programs instead of the emptiest: in some cases worse than no pools
    /// at all [Panwar15, 4.1.2].
    AdaptiveArbitrary,
    /// Ours: it keeps the kernel's pages in few banks and fills the fullest first.
    Fullest,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineSettings {
    /// Its allocator.
    pub allocator: AllocatorName,
    /// Its memory: whole banks.
    pub memory: Bytes,
    /// So much of it lies below 4 GiB, where devices may have a hole; the rest is the zone `Normal`. At most 4 GiB.
    pub low_memory: Bytes,
    /// The size of a bank, a power of two of at least 4 MiB.
    pub bank: Bytes,
    /// Its nodes, each with the same share of the memory.
    pub nodes: u32,
    /// So many banks of a node are interleaved, and go offline only together; 1 if none are.
    pub ways: u32,
    /// This share of the memory stays free, in per cent.
    pub reserve_percent: u32,
    /// Whether pages move to empty banks, if the allocator has pools.
    pub migrates: bool,
    /// A bank full of movable pages is emptied after it was a surplus for so long, one that is half full after half.
    pub patience_micros: u64,
}

/// A machine under load.
pub struct SimulatedBanks<'a> {
    settings: MachineSettings,
    allocator: &'a dyn PageAllocator,
    /// The same allocator, if it has pools.
    pools: Option<&'a dyn BankPools>,
    uses: MemoryUses,
    units: BankUnits,
    switches: BankSwitches<'a>,
    splits: SplitBlocks,
    surplus: SurplusAges,
    /// The passes of migration so far.
    pass: u32,
    large: [LargeRequests; 2],
    report: ReplayReport,
}

/// Makes a machine and lets a load run on it.
///
/// # Errors
/// [`Error::Banks`], [`Error::Interleaved`], [`Error::NoSets`], [`Error::Machine`].
pub fn on_machine(
    settings: MachineSettings,
    load: impl FnOnce(&mut SimulatedBanks<'_>),
) -> Result<ReplayReport, Error> {
    let bank = bank_size(settings)?;
    let zones = zones(settings);
    let mut memory = vec![(0, 0); settings.bank_count()];
    let sets = interleaved(settings.nodes.into(), settings.banks(), settings.ways.into(), &mut memory);
    let units = BankUnits::new(&sets, settings.bank_count());
    let uses = MemoryUses::new(&zones, settings.memory, settings.bank);
    let run = |allocator: &dyn PageAllocator, pools: Option<&dyn BankPools>, searches: Searches<'_>| {
        let mut machine = SimulatedBanks::new(settings, (uses, units), allocator, pools);
        load(&mut machine);
        machine.end(searches())
    };
    let adaptive = |steal| AdaptiveBuddy::new(&zones, bank, &sets, steal).map_err(Error::Machine);
    match settings.allocator {
        AllocatorName::Buddy => {
            let buddy = Buddy::new(&zones, CPUS, ()).map_err(Error::Machine)?;
            Ok(run(&Locked::new(buddy), None, &|| None))
        }
        AllocatorName::Array => {
            let array = ArrayBanks::new(&zones, bank).map_err(Error::Machine)?;
            Ok(run(&array, Some(&array), &|| Some(array.searches())))
        }
        AllocatorName::List => {
            let lists = ListBanks::new(&zones, bank).map_err(Error::Machine)?;
            Ok(run(&lists, Some(&lists), &|| Some(lists.searches())))
        }
        AllocatorName::Adaptive => adaptive(StealRule::MostFree).map(|most| run(&most, Some(&most), &|| None)),
        AllocatorName::AdaptiveArbitrary => {
            adaptive(StealRule::Lowest).map(|lowest| run(&lowest, Some(&lowest), &|| None))
        }
        AllocatorName::Fullest => {
            let mut slices = FullestSlices::of(&zones, CPUS, bank);
            let mut vacant = slices.vacant_zones();
            let memory = slices.lend(&mut vacant);
            let fullest = FullestBank::new(&zones, CPUS, bank, &sets, memory).map_err(Error::Machine)?;
            Ok(run(&fullest, Some(&fullest), &|| None))
        }
    }
}

/// How far an allocator has searched, if it counts that.
type Searches<'a> = &'a dyn Fn() -> Option<BankSearches>;

/// Returns the size of the banks, if the machine is made up of whole ones, and of whole sets.
fn bank_size(settings: MachineSettings) -> Result<BankSize, Error> {
    let unit = settings.bank.get() * u64::from(settings.nodes);
    let whole = settings.memory.get() >= unit && unit > 0 && settings.memory.get().is_multiple_of(unit);
    let size = BankSize::of_frames(settings.bank.get() / FRAME_BYTES).filter(|_| whole).ok_or(Error::Banks)?;
    let of_node = settings.memory.get() / unit;
    if settings.ways == 0 || !of_node.is_multiple_of(settings.ways.into()) {
        return Err(Error::Interleaved(of_node, settings.ways));
    }
    let knows_sets = !matches!(settings.allocator, AllocatorName::Array | AllocatorName::List);
    if settings.ways > 1 && !knows_sets { Err(Error::NoSets) } else { Ok(size) }
}

impl MachineSettings {
    const fn banks(&self) -> u64 {
        self.memory.get() / self.bank.get()
    }

    fn bank_count(&self) -> usize {
        usize::try_from(self.banks()).expect("a machine has few banks")
    }

    /// Returns the frame here that is this one on a machine with the hole.
    fn without_hole(&self, frame: Frame) -> Option<Frame> {
        let below = frame.address() < HOLE_END.get();
        let hole = if below { 0 } else { HOLE_END.get().saturating_sub(self.low_memory.get()) };
        Frame::new(frame.number() - hole / FRAME_BYTES)
    }
}

impl<'a> SimulatedBanks<'a> {
    fn new(
        settings: MachineSettings,
        (uses, units): (MemoryUses, BankUnits),
        allocator: &'a dyn PageAllocator,
        pools: Option<&'a dyn BankPools>,
    ) -> Self {
        Self {
            settings,
            allocator,
            pools,
            uses,
            switches: BankSwitches::new(pools, settings.bank, units.clone()),
            units,
            splits: SplitBlocks::default(),
            surplus: SurplusAges::default(),
            pass: 0,
            large: [LargeRequests::default(); 2],
            report: ReplayReport::new(settings.banks()),
        }
    }

    /// Returns what happened, at the end.
    fn end(mut self, searches: Option<BankSearches>) -> ReplayReport {
        self.report.times = self.switches.times();
        self.report.steps = AllocatorSteps::of(self.allocator.statistics(), searches);
        let section =
            if self.settings.memory.get().is_multiple_of(SECTION.get()) { SECTION } else { self.settings.bank };
        self.report.footprint = BankFootprint::new(section, &self.uses.sections(section));
        self.report.sum_up(self.settings.memory);
        self.report
    }

    /// Returns what happened so far.
    pub const fn report(&mut self) -> &mut ReplayReport {
        &mut self.report
    }

    /// Allocates a block; `None` if the machine has none.
    pub fn allocate(&mut self, order: BlockOrder, migratetype: Migratetype, cpu: Cpu, node: Node) -> Option<Held> {
        let block = self.allocator.allocate(Request { order, migratetype, cpu, node, urgent: false });
        self.report.requests += 1;
        self.report.refused += u64::from(block.is_none());
        if let Some(large) = order.index().checked_sub(9).and_then(|place| self.large.get_mut(place)) {
            large.requests += 1;
            large.refused += u64::from(block.is_none());
        }
        let block = block?;
        self.note(block, migratetype);
        Some(Held::new(block, migratetype))
    }

    /// Allocates exactly these frames, as a machine with the hole names them, if they are free. It had them in use
    /// before, so this is where a buddy system put them, or the boot. One that chooses banks would have put them
    /// elsewhere: `None`.
    pub fn allocate_in_place(&mut self, first: Frame, order: BlockOrder, migratetype: Migratetype) -> Option<Held> {
        let first = self.settings.without_hole(first).filter(|_| self.pools.is_none())?;
        let block = FrameBlock::new(first, order).filter(|&block| self.allocator.claim(block))?;
        self.report.requests += 1;
        self.note(block, migratetype);
        Some(Held::new(block, migratetype))
    }

    /// Gives a block back.
    pub fn free(&mut self, held: Held, cpu: Cpu) {
        match held.split {
            None => self.give_back(held.block, held.migratetype, cpu),
            Some(split) => {
                let pieces = self.splits.remove(split);
                pieces.into_iter().for_each(|piece| self.give_back(piece.block, held.migratetype, cpu));
            }
        }
    }

    /// Counts a block that the allocator gave out.
    fn note(&mut self, block: FrameBlock, migratetype: Migratetype) {
        self.uses.count(block, migratetype, UseChange::Taken);
        self.switches.filled(self.uses.bank_of(block));
    }

    fn give_back(&mut self, block: FrameBlock, migratetype: Migratetype, cpu: Cpu) {
        self.uses.count(block, migratetype, UseChange::Freed);
        self.allocator.free(block, cpu);
        let bank = self.uses.bank_of(block);
        if self.uses.banks()[bank].is_empty() {
            self.switches.emptied(bank);
        }
    }

    /// Lets time pass.
    pub const fn advance(&mut self, micros: u64) {
        self.switches.advance(micros);
    }

    /// Looks for banks that are worth emptying now, and moves their pages. `movable` is every movable block in use.
    pub fn look<'b>(&mut self, micros: u64, movable: impl Iterator<Item = &'b mut Held>) {
        let passed = micros.saturating_sub(self.report.micros);
        self.report.micros = micros;
        self.advance(micros);
        if let Some(pools) = self.pools.filter(|_| self.settings.migrates) {
            self.consolidate(pools, passed, movable);
        }
        self.switches.look();
    }

    /// Does the same, and then counts the banks. As often, the allocator may put its best banks first.
    pub fn observe<'b>(&mut self, micros: u64, movable: impl Iterator<Item = &'b mut Held>) {
        self.look(micros, movable);
        if let Some(pools) = self.pools {
            pools.put_best_first();
        }
        let sample = self.sample();
        self.report.samples.push(sample);
    }

    fn bank_at(&self, frame: Frame) -> usize {
        usize::try_from(frame.address() / self.settings.bank.get()).expect("a bank of the machine")
    }

    /// Returns all frames.
    pub const fn frames(&self) -> u64 {
        self.settings.memory.get() / FRAME_BYTES
    }

    /// Returns the frames in which nothing lies.
    pub const fn free_frames(&self) -> u64 {
        self.frames() - self.uses.used()
    }

    /// Returns the frames that stay free.
    fn reserve(&self) -> u64 {
        self.frames() / 100 * u64::from(self.settings.reserve_percent)
    }

    fn offline_banks(&self) -> Option<u64> {
        let offline = |pools: &dyn BankPools| {
            (0..pools.parts()).filter(|&part| pools.pool(part) == BankPool::Offline).count() as u64
        };
        self.pools.map(offline)
    }

    fn sample(&self) -> BankSample {
        let free = self.free_frames();
        let ways = self.units.ways();
        let unit = self.settings.bank.get() / FRAME_BYTES * ways;
        let banks = self.uses.banks();
        let uses =
            self.units.all().map(|unit| unit.iter().fold(SectionUse::default(), |sum, &bank| sum.plus(banks[bank])));
        let mut removable: Vec<u64> = uses.filter(|unit| unit.kernel == 0).map(|unit| unit.movable).collect();
        removable.sort_unstable();
        let optimum = self.uses.units_free(unit, self.settings.reserve_percent);
        // Each unit that goes takes its size of free memory: its own, and room for what moves.
        let offlinable = optimum.min(removable.len() as u64);
        let to_move: u64 = removable.iter().zip(0..offlinable).map(|(movable, _)| movable).sum();
        let [free_9, free_10] = self.uses.free_blocks();
        BankSample {
            micros: self.report.micros,
            free: Bytes::new(free * FRAME_BYTES),
            removable: removable.len() as u64 * ways,
            empty: banks.iter().filter(|bank| bank.is_empty()).count() as u64,
            offlinable: offlinable * ways,
            optimum: optimum * ways,
            to_move: Bytes::new(to_move * FRAME_BYTES),
            offline: self.offline_banks(),
            tainted_gib: self.uses.tainted_gib(),
            unusable_9: unusable(free, free_9 * 512),
            unusable_10: unusable(free, free_10 * 1024),
            order_9: self.large[0],
            order_10: self.large[1],
            moved: self.report.migration.moved,
            emptied: self.report.migration.emptied,
        }
    }
}

/// Returns the unusable free space index: the share of free frames that are not in free blocks of the wanted size.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn unusable(free: u64, in_blocks: u64) -> f64 {
    if free == 0 { 0.0 } else { (free - in_blocks) as f64 / free as f64 }
}

/// The zones of PCs with equal nodes, without the hole below 4 GiB.
fn zones(settings: MachineSettings) -> Vec<Zone> {
    let frames = settings.memory.get() / FRAME_BYTES;
    let share = frames / u64::from(settings.nodes);
    let low = settings.low_memory.get();
    let limits = [(ZoneKind::Dma, 16 << 20), (ZoneKind::Dma32, low), (ZoneKind::Normal, u64::MAX)];
    let mut zones = Vec::new();
    for node in 0..settings.nodes {
        let mut start = share * u64::from(node);
        let end = start + share;
        for (kind, limit) in limits {
            let last = end.min(limit / FRAME_BYTES);
            let range = Frame::new(start).and_then(|first| FrameRange::new(first, last.saturating_sub(start)));
            zones.extend(range.map(|frames| Zone { node: Node(node), kind, frames }));
            start = start.max(last);
        }
    }
    zones
}

#[cfg(test)]
pub(crate) mod tests;
