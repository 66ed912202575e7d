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
use self::uses::{FrameUse, MemoryUses, UseChange};
use crate::Error;

pub use held::Held;
pub use migration::MigrationCounts;
pub use report::{
    AllocatorSteps, BankAverages, BankFootprint, BankMaxima, BankSample, LargeRequests, ReplayReport, UseAverages,
};

/// The CPUs of the simulated machine.
pub const CPUS: u32 = 2;

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
    /// The same, but the kernel takes any bank of programs instead of the emptiest: worse than no pools at all
    /// [Panwar15, 4.1.2].
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
    let sets = interleaved(settings.nodes.into(), settings.banks(), settings.ways.into());
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
            let fullest = FullestBank::new(&zones, CPUS, bank, memory).map_err(Error::Machine)?;
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
    let knows_sets = !matches!(settings.allocator, AllocatorName::Array | AllocatorName::List | AllocatorName::Fullest);
    if settings.ways > 1 && !knows_sets { Err(Error::NoSets) } else { Ok(size) }
}

impl MachineSettings {
    const fn banks(&self) -> u64 {
        self.memory.get() / self.bank.get()
    }

    fn bank_count(&self) -> usize {
        usize::try_from(self.banks()).expect("a machine has few banks")
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

    /// Counts the banks, after pages have moved out of the emptiest. `movable` is every movable block in use. As often,
    /// the allocator may put its best banks first.
    pub fn observe<'b>(&mut self, micros: u64, movable: impl Iterator<Item = &'b mut Held>) {
        let passed = micros.saturating_sub(self.report.micros);
        self.report.micros = micros;
        self.advance(micros);
        if let Some(pools) = self.pools.filter(|_| self.settings.migrates) {
            self.consolidate(pools, passed, movable);
        }
        self.switches.look();
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
            self.units.all().map(|unit| unit.iter().fold(FrameUse::default(), |sum, &bank| sum.plus(banks[bank])));
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
    let limits = [(ZoneKind::Dma, 16 << 20), (ZoneKind::Dma32, 4 << 30), (ZoneKind::Normal, u64::MAX)];
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
pub(crate) mod tests {
    use super::*;

    pub const MACHINE: MachineSettings = MachineSettings {
        allocator: AllocatorName::Buddy,
        memory: Bytes::from_mib(256),
        bank: Bytes::from_mib(32),
        nodes: 1,
        ways: 1,
        reserve_percent: 5,
        migrates: true,
        patience_micros: 0,
    };

    #[test]
    fn only_banks_without_memory_of_the_kernel_can_go() {
        on_machine(MACHINE, |machine| {
            for bank in 2..8 {
                let page = FrameBlock::of(Frame::new(bank * 8192).unwrap());
                machine.uses.count(page, Migratetype::Unmovable, UseChange::Taken);
            }
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.optimum, seen.offlinable, seen.tainted_gib), (2, 7, 2, 1));
        })
        .unwrap();
    }

    #[test]
    fn each_node_has_its_share_of_the_memory_and_a_machine_is_made_up_of_whole_banks() {
        let machine =
            MachineSettings { memory: Bytes::from_mib(32 << 10), bank: Bytes::from_mib(256), nodes: 2, ..MACHINE };
        let zones: Vec<(u32, ZoneKind, u64)> =
            zones(machine).into_iter().map(|zone| (zone.node.0, zone.kind, zone.frames.count() * 4 / 1024)).collect();
        let (dma, dma32, normal) = (ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal);
        assert_eq!(zones, [(0, dma, 16), (0, dma32, 4080), (0, normal, 12_288), (1, normal, 16_384)]);
        assert!(bank_size(machine).is_ok());
        assert!(bank_size(MachineSettings { memory: Bytes::from_mib(256 * 3), ..machine }).is_err());
        assert!(bank_size(MachineSettings { nodes: 0, ..machine }).is_err());
    }

    /// Leaves a block of 4 MiB and 56 pages in a bank; of the other banks, each page in so many is free.
    fn fill(machine: &mut SimulatedBanks<'_>, free_each: u64) -> Vec<Held> {
        let take =
            |machine: &mut SimulatedBanks<'_>, order| machine.allocate(order, Migratetype::Movable, Cpu(0), Node(0));
        let [first, large] = [(); 2].map(|()| take(machine, BlockOrder::MAX).unwrap());
        machine.free(first, Cpu(0));
        let mut held: Vec<Held> = std::iter::from_fn(|| take(machine, BlockOrder::ZERO)).collect();
        let bank = |held: &Held| held.block.first().address() / MACHINE.bank.get();
        held.retain(|page| {
            let frame = page.block.first().number();
            let keeps = if bank(page) == bank(&large) { frame % 128 == 0 } else { frame % free_each != 0 };
            if !keeps {
                machine.free(*page, Cpu(0));
            }
            keeps
        });
        held.push(large);
        held
    }

    #[test]
    fn a_large_block_that_finds_no_room_is_split_and_comes_back_whole() {
        for allocator in [AllocatorName::Adaptive, AllocatorName::Fullest] {
            let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
                let mut held = fill(machine, 10);
                let used = machine.uses.used();
                machine.observe(1, held.iter_mut());
                assert_eq!(machine.uses.used(), used);
                held.into_iter().for_each(|held| machine.free(held, Cpu(0)));
                assert_eq!(machine.uses.used(), 0);
            });
            let seen = report.unwrap().migration;
            assert_eq!((seen.split, seen.emptied, seen.failed), (1, 1, 0), "{allocator:?}");
            assert!(seen.moved > Bytes::from_mib(4) && seen.moved_again == Bytes::ZERO, "{allocator:?} {seen:?}");
        }
    }

    #[test]
    fn no_page_moves_out_of_a_bank_that_has_to_keep_a_large_block() {
        let settings = MachineSettings { allocator: AllocatorName::Adaptive, reserve_percent: 0, ..MACHINE };
        let report = on_machine(settings, |machine| {
            // What is free elsewhere is only just more than what has to move: the watermarks forbid it.
            let mut held = fill(machine, 56);
            let used = machine.uses.used();
            machine.observe(1, held.iter_mut());
            assert_eq!(machine.uses.used(), used);
        });
        let migration = MigrationCounts { failed: 1, ..MigrationCounts::default() };
        assert_eq!(report.unwrap().migration, migration);
    }

    #[test]
    fn a_page_that_moves_again_is_counted_and_none_moves_twice_in_a_pass() {
        let settings = MachineSettings { allocator: AllocatorName::Adaptive, reserve_percent: 0, ..MACHINE };
        let report = on_machine(settings, |machine| {
            let mut held: Vec<Held> =
                std::iter::from_fn(|| machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0)))
                    .collect();
            let mut micros = 0;
            // Whatever bank the last page is in, all others go, and it is pushed on.
            while held.len() > 1 {
                let gone = held.remove(held.len() / 2);
                machine.free(gone, Cpu(0));
                micros += 1;
                machine.observe(micros, held.iter_mut());
            }
        });
        let report = report.unwrap();
        let seen = report.migration;
        assert!(seen.moved_again > Bytes::ZERO && seen.moved_again < seen.moved, "{seen:?}");
        assert_eq!(seen.moved_twice_in_a_pass, Bytes::ZERO);
        let last = report.samples.last().unwrap();
        assert_eq!((last.moved, last.emptied), (seen.moved, seen.emptied));
    }

    #[test]
    fn a_bank_of_movable_pages_waits_for_as_long_as_it_is_full() {
        let emptied_after = |micros: u64| {
            let settings = MachineSettings { allocator: AllocatorName::Adaptive, patience_micros: 1000, ..MACHINE };
            let report = on_machine(settings, |machine| {
                let mut take = || machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0)).unwrap();
                // One bank of eight blocks, and a quarter of another one; then the first keeps six.
                let mut held: Vec<Held> = (0..10).map(|_| take()).collect();
                [0, 0].into_iter().for_each(|place| machine.free(held.remove(place), Cpu(0)));
                machine.observe(1, held.iter_mut());
                machine.observe(micros + 1, held.iter_mut());
            });
            report.unwrap().migration.emptied
        };
        assert_eq!([emptied_after(249), emptied_after(250)], [0, 1]);
    }

    #[test]
    fn interleaved_banks_are_removable_and_go_offline_only_together() {
        let settings = MachineSettings { allocator: AllocatorName::Adaptive, ways: 2, ..MACHINE };
        let report = on_machine(settings, |machine| {
            let mut take = |kind, order| machine.allocate(order, kind, Cpu(0), Node(0)).unwrap();
            // The kernel's set has the bank in two zones, and the one four banks after it.
            take(Migratetype::Unmovable, BlockOrder::ZERO);
            let mut held: Vec<Held> = (0..20).map(|_| take(Migratetype::Movable, BlockOrder::MAX)).collect();
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.offline), (6, Some(2)));
            held.drain(..10).for_each(|held| machine.free(held, Cpu(0)));
            machine.observe(1000, held.iter_mut());
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.offline, seen.optimum % 2), (6, Some(4), 0));
        });
        let report = report.unwrap();
        assert_eq!(report.most.offline, Some(4));
        // Off from the beginning on, as long as no bank of the set is used.
        assert_eq!(report.times.off_micros, 2 * 1000);
        for allocator in [AllocatorName::Array, AllocatorName::List] {
            let refused = on_machine(MachineSettings { allocator, ways: 2, ..MACHINE }, |_| {}).unwrap_err();
            assert!(refused.to_string().starts_with("this allocator knows no interleaved banks"), "{refused}");
        }
        for ways in [0, 3, 16] {
            let refused = on_machine(MachineSettings { ways, ..MACHINE }, |_| {}).unwrap_err().to_string();
            assert!(refused.starts_with("a node of the machine has 8 banks"), "{refused}");
        }
    }

    #[test]
    fn large_requests_and_what_is_free_for_them_are_counted() {
        let report = on_machine(MACHINE, |machine| {
            let order = |order| BlockOrder::new(order).unwrap();
            let mut take = |of| machine.allocate(order(of), Migratetype::Movable, Cpu(0), Node(0));
            let held: Vec<Held> = std::iter::from_fn(|| take(0)).collect();
            assert!(take(9).is_none() && take(10).is_none() && take(8).is_none());
            // One frame of two stays in use, but for one block of 2 MiB.
            let frame = |held: &&Held| held.block.first().number();
            let free = |held: &&Held| frame(held) % 2 == 0 || frame(held) / 512 == 100;
            let free: Vec<Held> = held.iter().filter(free).copied().collect();
            free.iter().for_each(|held| machine.free(*held, Cpu(0)));
            machine.observe(1, std::iter::empty());
            let all = machine.free_frames() as f64;
            let seen = machine.sample();
            assert!((seen.unusable_9 - (1.0 - 512.0 / all)).abs() < 1e-9 && seen.unusable_10 == 1.0, "{seen:?}");
            assert!(machine.allocate(order(9), Migratetype::Movable, Cpu(0), Node(0)).is_some());
            machine.observe(2, std::iter::empty());
        });
        let last = *report.unwrap().samples.last().unwrap();
        assert_eq!(last.order_9, LargeRequests { requests: 2, refused: 1 });
        assert_eq!(last.order_10, LargeRequests { requests: 1, refused: 1 });
    }

    #[test]
    fn averages_are_taken_by_the_memory_in_use() {
        let report = on_machine(MACHINE, |machine| {
            machine.observe(1, std::iter::empty());
            let take = |machine: &mut SimulatedBanks<'_>| {
                machine.allocate(BlockOrder::MAX, Migratetype::Unmovable, Cpu(0), Node(0)).unwrap()
            };
            // 6.25 and 7.8 % in use.
            let _four: Vec<Held> = (0..4).map(|_| take(machine)).collect();
            machine.observe(2, std::iter::empty());
            take(machine);
            machine.observe(3, std::iter::empty());
        });
        let report = report.unwrap();
        let seen: Vec<_> = report.by_use.iter().map(|uses| (uses.from_percent, uses.samples, uses.touched)).collect();
        // The first four blocks lie in a bank that begins in another zone, the fifth in the next bank.
        assert_eq!(seen, [(0, 1, 0.0), (5, 2, 0.1875)]);
        assert_eq!((report.by_use[1].tainted, report.most.tainted, report.most.tainted_gib), (0.1875, 2, 1));
        let footprint = &report.footprint;
        assert_eq!((footprint.section, footprint.kernel.len()), (Bytes::from_mib(128), 2));
        assert_eq!(footprint.kernel.iter().map(|kernel| kernel.get()).sum::<u64>(), 20 << 20);
    }

    #[test]
    fn pages_move_out_of_the_emptiest_bank_and_it_goes_offline() {
        for allocator in [AllocatorName::Array, AllocatorName::List, AllocatorName::Adaptive, AllocatorName::Fullest] {
            let mut offline = Vec::new();
            let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
                let mut take = || machine.allocate(BlockOrder::MAX, Migratetype::Movable, Cpu(0), Node(0)).unwrap();
                // Three banks of eight blocks each, of which the first keeps two and the others six.
                let mut held: Vec<Held> = (0..24).map(|_| take()).collect();
                let gone = [2, 3, 4, 5, 6, 7, 8, 9, 16, 17];
                gone.iter().rev().for_each(|&place| machine.free(held.remove(place), Cpu(0)));
                offline.push(machine.sample().offline);
                machine.observe(1, held.iter_mut());
                offline.push(machine.sample().offline);
                assert_eq!(machine.free_frames(), 65_536 - 14 * 1024);
            });
            // The first bank is in two zones, and so never goes.
            assert_eq!(offline, [Some(4), Some(5)], "{allocator:?}");
            let migration = MigrationCounts { moved: Bytes::from_mib(8), emptied: 1, ..MigrationCounts::default() };
            assert_eq!(report.unwrap().migration, migration, "{allocator:?}");
        }
    }
}
