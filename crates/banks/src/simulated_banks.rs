//! A simulated machine whose banks are counted: which allocator puts which pages where.
//!
//! **Problem.** Recorded loads and made-up ones need the same machine, the same migration and the same counts, so that
//! their figures compare. **Idea.** [`SimulatedBanks`] owns all of these; a load calls it to get and give back blocks.
//! **Why this way.** It knows of each block only what its bank must know: whether it is the kernel's.

mod migration;
mod switches;

use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankPool, BankPools, BankSets, BankSize, Buddy, Cpu, FullestBank, FullestSlices,
    ListBanks, Locked, Migratetype, PageAllocator, Request, StealRule, Zone, ZoneKind,
};
use rampart_memory::{BlockOrder, Bytes, FRAME_BYTES, Frame, FrameBlock, FrameRange, Node};
use serde::Serialize;

use self::switches::BankSwitches;
use crate::Error;
use crate::power::{BankTimes, EnergyReport, MovedPages, PowerModel};

pub use migration::MigrationCounts;

/// The CPUs of the simulated machine.
pub const CPUS: u32 = 2;

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
    /// This share of the memory stays free, in per cent.
    pub reserve_percent: u32,
    /// Whether pages move to empty banks, if the allocator has pools.
    pub migrates: bool,
}

/// The banks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BankSample {
    /// Simulated time.
    pub micros: u64,
    /// Free memory.
    pub free: Bytes,
    /// Banks without memory of the kernel: all in them can move.
    pub removable: u64,
    /// Banks in which nothing lies.
    pub empty: u64,
    /// Removable banks that can go offline, with room for what moves, and the reserve.
    pub offlinable: u64,
    /// As many banks as free memory beyond the reserve makes up.
    pub optimum: u64,
    /// What must move for that.
    pub to_move: Bytes,
    /// Banks that the allocator has in its offline pool now; `None` if it has no pools.
    pub offline: Option<u64>,
}

/// What happened on the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// All banks.
    pub banks: u64,
    /// Simulated time.
    pub micros: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that got no memory.
    pub refused: u64,
    /// Frees of blocks that the trace had not allocated.
    pub unknown_frees: u64,
    /// Blocks that the trace never freed, but whose frames it allocated anew.
    pub implied_frees: u64,
    /// What was moved to empty banks.
    pub migration: MigrationCounts,
    /// How long banks were on and off: off while they are in the offline pool. Without pools all are on.
    #[serde(skip)]
    pub times: BankTimes,
    /// The samples, in order.
    pub samples: Vec<BankSample>,
    /// Their averages.
    pub average: BankAverages,
}

/// Averages over all samples, each sample alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BankAverages {
    /// Free memory, as a share of all.
    pub free: f64,
    /// Removable banks, as a share of all.
    pub removable: f64,
    /// Empty banks, as a share of all.
    pub empty: f64,
    /// Offlinable banks, as a share of all.
    pub offlinable: f64,
    /// The optimum, as a share of all.
    pub optimum: f64,
    /// c: offlinable memory over free memory [Panwar15, table 5.2].
    pub offlined_of_free: f64,
    /// Banks in the offline pool, as a share of all.
    pub offline: Option<f64>,
    /// c of these.
    pub offline_of_free: Option<f64>,
}

/// What one bank holds, in frames.
#[derive(Clone, Copy, Debug, Default)]
struct BankUse {
    movable: u64,
    kernel: u64,
}

impl BankUse {
    const fn is_empty(self) -> bool {
        self.movable == 0 && self.kernel == 0
    }
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The block.
    pub block: FrameBlock,
    /// Whose it is.
    pub migratetype: Migratetype,
}

/// A machine under load.
pub struct SimulatedBanks<'a> {
    settings: MachineSettings,
    allocator: &'a dyn PageAllocator,
    /// The same allocator, if it has pools.
    pools: Option<&'a dyn BankPools>,
    banks: Vec<BankUse>,
    switches: BankSwitches<'a>,
    used: u64,
    report: ReplayReport,
}

/// Makes a machine and lets a load run on it.
///
/// # Errors
/// [`Error::Banks`], [`Error::Machine`].
pub fn on_machine(
    settings: MachineSettings,
    load: impl FnOnce(&mut SimulatedBanks<'_>),
) -> Result<ReplayReport, Error> {
    let bank = bank_size(settings)?;
    let zones = zones(settings);
    let run = |allocator: &dyn PageAllocator, pools: Option<&dyn BankPools>| {
        let mut machine = SimulatedBanks::new(settings, allocator, pools);
        load(&mut machine);
        machine.report.times = machine.switches.times();
        machine.report.average = BankAverages::of(&machine.report, settings);
        machine.report
    };
    let adaptive = |steal| AdaptiveBuddy::new(&zones, bank, &BankSets::plain(), steal).map_err(Error::Machine);
    match settings.allocator {
        AllocatorName::Buddy => {
            let buddy = Buddy::new(&zones, CPUS, ()).map_err(Error::Machine)?;
            Ok(run(&Locked::new(buddy), None))
        }
        AllocatorName::Array => {
            let array = ArrayBanks::new(&zones, bank).map_err(Error::Machine)?;
            Ok(run(&array, Some(&array)))
        }
        AllocatorName::List => {
            let lists = ListBanks::new(&zones, bank).map_err(Error::Machine)?;
            Ok(run(&lists, Some(&lists)))
        }
        AllocatorName::Adaptive => adaptive(StealRule::MostFree).map(|adaptive| run(&adaptive, Some(&adaptive))),
        AllocatorName::AdaptiveArbitrary => adaptive(StealRule::Lowest).map(|lowest| run(&lowest, Some(&lowest))),
        AllocatorName::Fullest => {
            let mut slices = FullestSlices::of(&zones, CPUS, bank);
            let mut vacant = slices.vacant_zones();
            let memory = slices.lend(&mut vacant);
            let fullest = FullestBank::new(&zones, CPUS, bank, &BankSets::plain(), memory).map_err(Error::Machine)?;
            Ok(run(&fullest, Some(&fullest)))
        }
    }
}

/// Returns the size of the banks, if the machine is made up of whole ones.
fn bank_size(settings: MachineSettings) -> Result<BankSize, Error> {
    let unit = settings.bank.get() * u64::from(settings.nodes);
    let whole = settings.memory.get() >= unit && unit > 0 && settings.memory.get().is_multiple_of(unit);
    BankSize::of_frames(settings.bank.get() / FRAME_BYTES).filter(|_| whole).ok_or(Error::Banks)
}

impl<'a> SimulatedBanks<'a> {
    pub(crate) fn new(
        settings: MachineSettings,
        allocator: &'a dyn PageAllocator,
        pools: Option<&'a dyn BankPools>,
    ) -> Self {
        let banks = settings.memory.get() / settings.bank.get();
        let count = usize::try_from(banks).expect("a machine has few banks");
        Self {
            settings,
            allocator,
            pools,
            banks: vec![BankUse::default(); count],
            switches: BankSwitches::new(pools, settings.bank, count),
            used: 0,
            report: ReplayReport {
                banks,
                micros: 0,
                requests: 0,
                refused: 0,
                unknown_frees: 0,
                implied_frees: 0,
                migration: MigrationCounts::default(),
                times: BankTimes::default(),
                samples: Vec::new(),
                average: BankAverages::default(),
            },
        }
    }

    /// Returns what happened so far.
    pub const fn report(&mut self) -> &mut ReplayReport {
        &mut self.report
    }

    /// Allocates a block; `None` if the machine has none.
    pub fn allocate(&mut self, order: BlockOrder, migratetype: Migratetype, cpu: Cpu, node: Node) -> Option<Held> {
        self.report.requests += 1;
        let Some(block) = self.allocator.allocate(Request { order, migratetype, cpu, node, urgent: false }) else {
            self.report.refused += 1;
            return None;
        };
        let held = Held { block, migratetype };
        self.count(held, u64::wrapping_add);
        self.switches.filled(self.bank_of(block));
        Some(held)
    }

    /// Gives a block back.
    pub fn free(&mut self, held: Held, cpu: Cpu) {
        self.count(held, u64::wrapping_sub);
        self.allocator.free(held.block, cpu);
        let bank = self.bank_of(held.block);
        if self.banks[bank].is_empty() {
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
        self.report.micros = micros;
        self.advance(micros);
        if let Some(pools) = self.pools.filter(|_| self.settings.migrates) {
            self.consolidate(pools, movable);
        }
        self.switches.look();
        if let Some(pools) = self.pools {
            pools.put_best_first();
        }
        let sample = self.sample();
        self.report.samples.push(sample);
    }

    fn count(&mut self, held: Held, change: impl Fn(u64, u64) -> u64) {
        let bank = self.bank_of(held.block);
        let bank = &mut self.banks[bank];
        let used = if held.migratetype == Migratetype::Movable { &mut bank.movable } else { &mut bank.kernel };
        *used = change(*used, held.block.count());
        self.used = change(self.used, held.block.count());
    }

    fn bank_of(&self, block: FrameBlock) -> usize {
        usize::try_from(block.first().address() / self.settings.bank.get()).expect("a bank of the machine")
    }

    /// Returns all frames.
    pub const fn frames(&self) -> u64 {
        self.settings.memory.get() / FRAME_BYTES
    }

    /// Returns the frames in which nothing lies.
    pub const fn free_frames(&self) -> u64 {
        self.frames() - self.used
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
        let bank = self.settings.bank.get() / FRAME_BYTES;
        let free = self.free_frames();
        let reserve = self.reserve();
        let mut removable: Vec<u64> =
            self.banks.iter().filter(|bank| bank.kernel == 0).map(|bank| bank.movable).collect();
        removable.sort_unstable();
        let optimum = free.saturating_sub(reserve) / bank;
        // Each bank that goes takes its size of free memory: its own, and room for what moves.
        let offlinable = optimum.min(removable.len() as u64);
        let moved: u64 = removable.iter().zip(0..offlinable).map(|(movable, _)| movable).sum();
        BankSample {
            micros: self.report.micros,
            free: Bytes::new(free * FRAME_BYTES),
            removable: removable.len() as u64,
            empty: removable.iter().filter(|movable| **movable == 0).count() as u64,
            offlinable,
            optimum,
            to_move: Bytes::new(moved * FRAME_BYTES),
            offline: self.offline_banks(),
        }
    }
}

impl ReplayReport {
    /// Returns the energy of this run of banks of a size, by a model; `None` if no time passed.
    #[must_use]
    pub fn energy(&self, model: &PowerModel, bank: Bytes) -> Option<EnergyReport> {
        let moved = MovedPages { bytes: self.migration.moved, emptied: self.migration.emptied };
        model.report(self.times, moved, bank)
    }
}

impl BankAverages {
    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    fn of(report: &ReplayReport, settings: MachineSettings) -> Self {
        let samples = report.samples.len().max(1) as f64;
        let mean = |of: &dyn Fn(&BankSample) -> f64| report.samples.iter().map(of).sum::<f64>() / samples;
        let banks = report.banks as f64;
        let bank = settings.bank.get() as f64;
        let has_pools = report.samples.iter().any(|sample| sample.offline.is_some());
        let of_free = |offline: u64, sample: &BankSample| {
            if sample.free == Bytes::ZERO { 0.0 } else { offline as f64 * bank / sample.free.get() as f64 }
        };
        Self {
            free: mean(&|sample| sample.free.get() as f64 / settings.memory.get() as f64),
            removable: mean(&|sample| sample.removable as f64 / banks),
            empty: mean(&|sample| sample.empty as f64 / banks),
            offlinable: mean(&|sample| sample.offlinable as f64 / banks),
            optimum: mean(&|sample| sample.optimum as f64 / banks),
            offlined_of_free: mean(&|sample| of_free(sample.offlinable, sample)),
            offline: has_pools.then(|| mean(&|sample| sample.offline.unwrap_or(0) as f64 / banks)),
            offline_of_free: has_pools.then(|| mean(&|sample| of_free(sample.offline.unwrap_or(0), sample))),
        }
    }
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
        reserve_percent: 5,
        migrates: true,
    };

    #[test]
    fn only_banks_without_memory_of_the_kernel_can_go() {
        on_machine(MACHINE, |machine| {
            machine.banks.iter_mut().skip(2).for_each(|bank| bank.kernel = 1);
            machine.used = 6;
            let seen = machine.sample();
            assert_eq!((seen.removable, seen.optimum, seen.offlinable), (2, 7, 2));
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

    #[test]
    fn no_page_moves_out_of_a_bank_that_has_to_keep_a_large_block() {
        for allocator in [AllocatorName::Adaptive, AllocatorName::Fullest] {
            let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
                let take = |machine: &mut SimulatedBanks<'_>, order| {
                    machine.allocate(order, Migratetype::Movable, Cpu(0), Node(0))
                };
                let [first, large] = [(); 2].map(|()| take(machine, BlockOrder::MAX).unwrap());
                machine.free(first, Cpu(0));
                let mut held: Vec<Held> = std::iter::from_fn(|| take(machine, BlockOrder::ZERO)).collect();
                // The bank keeps some pages and the large block; elsewhere, only single pages are free.
                let bank = |held: &Held| held.block.first().address() / MACHINE.bank.get();
                held.retain(|page| {
                    let frame = page.block.first().number();
                    let keeps = if bank(page) == bank(&large) { frame % 128 == 0 } else { frame % 10 != 0 };
                    if !keeps {
                        machine.free(*page, Cpu(0));
                    }
                    keeps
                });
                held.push(large);
                machine.observe(1, held.iter_mut());
            });
            let migration = MigrationCounts { moved: Bytes::ZERO, emptied: 0, failed: 1 };
            assert_eq!(report.unwrap().migration, migration, "{allocator:?}");
        }
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
            let migration = MigrationCounts { moved: Bytes::from_mib(8), emptied: 1, failed: 0 };
            assert_eq!(report.unwrap().migration, migration, "{allocator:?}");
        }
    }
}
