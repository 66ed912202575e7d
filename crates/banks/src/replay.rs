//! Replay: an allocator serves the page allocations of recorded loads, and its banks are counted meanwhile.
//!
//! **Problem.** How many banks a machine can do without shows only after a long load, and must be compared between
//! allocators under the same one. **Idea.** Traces are replayed again and again on a simulated machine: each
//! allocation of the trace becomes a request, each free gives that block back. From time to time the banks are counted
//! by what lies in them. **Why this way.** The allocator alone decides where pages lie, so the count is its doing.
//!
//! A trace begins on a machine that has run before, and ends while memory is still in use. So frees of blocks that were
//! not allocated in the trace are left out. What is in use at the end of a trace goes on living: movable memory, such
//! as cached files, until the end of the next trace, if a quarter of the machine is free; of the kernel's memory a
//! chosen share for good. A tenth of what the kernel has kept for good comes back at the end of each trace. From one
//! seed.

mod migration;

use std::collections::HashMap;

use rampart_buddy::{
    AdaptiveBuddy, BankPool, BankPools, BankSets, BankSize, Buddy, Cpu, FullestBank, FullestSlices, Locked,
    Migratetype, PageAllocator, Request, StealRule, Zone, ZoneKind,
};
use rampart_memory::{Bytes, FRAME_BYTES, Frame, FrameBlock, FrameRange, Node};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::Error;
use crate::page_trace::{PageChange, PageEvent};

pub use migration::MigrationCounts;

/// The CPUs of the simulated machine; those of a trace are mapped onto them.
const CPUS: u32 = 2;

/// The banks are counted so often in each trace.
const SAMPLES: usize = 40;

/// The allocator of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocatorName {
    /// The buddy system of Linux: it knows no banks.
    Buddy,
    /// Adaptive-Buddy: a buddy system for each of three pools of banks [Panwar15, 4.2].
    Adaptive,
    /// The same, but the kernel takes any bank of programs instead of the emptiest: worse than no pools at all
    /// [Panwar15, 4.1.2].
    AdaptiveArbitrary,
    /// Ours: it keeps the kernel's pages in few banks and fills the fullest first.
    Fullest,
}

/// The machine, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySettings {
    /// Its allocator.
    pub allocator: AllocatorName,
    /// Its memory: whole banks.
    pub memory: Bytes,
    /// The size of a bank, a power of two of at least 4 MiB.
    pub bank: Bytes,
    /// How often all traces are replayed, one after the other.
    pub loops: u32,
    /// This share of the kernel's memory that is in use at the end of a trace stays for good, in per cent.
    pub survivors_percent: u32,
    /// This share of the memory stays free, in per cent.
    pub reserve_percent: u32,
    /// Whether pages move to empty banks, if the allocator has pools.
    pub migrates: bool,
    /// The seed.
    pub seed: u64,
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

/// The result of a replay.
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
    /// What was moved to empty banks.
    pub migration: MigrationCounts,
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

/// A block in use.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: FrameBlock,
    migratetype: Migratetype,
}

/// A replay under way.
struct Replay<'a> {
    settings: ReplaySettings,
    allocator: &'a dyn PageAllocator,
    /// The same allocator, if it has pools.
    pools: Option<&'a dyn BankPools>,
    banks: Vec<BankUse>,
    /// Blocks in use by the first frame that they have in the trace.
    live: HashMap<Frame, Held>,
    /// Movable blocks of the trace before.
    cached: Vec<Held>,
    /// Memory that the kernel keeps for good.
    kept: Vec<Held>,
    random: ChaCha8Rng,
    report: ReplayReport,
}

/// Replays traces.
///
/// # Errors
/// [`Error::Banks`], [`Error::Machine`].
pub fn replay(traces: &[Vec<PageEvent>], settings: ReplaySettings) -> Result<ReplayReport, Error> {
    let (frames, bank) = frames(settings)?;
    let zones = zones(frames);
    match settings.allocator {
        AllocatorName::Buddy => {
            let buddy = Buddy::new(&zones, CPUS, ()).map_err(Error::Machine)?;
            replay_on(&Locked::new(buddy), None, traces, settings)
        }
        AllocatorName::Adaptive => replay_on_adaptive(StealRule::MostFree, &zones, bank, traces, settings),
        AllocatorName::AdaptiveArbitrary => replay_on_adaptive(StealRule::Lowest, &zones, bank, traces, settings),
        AllocatorName::Fullest => {
            let mut slices = FullestSlices::of(&zones, CPUS, bank);
            let mut vacant = slices.vacant_zones();
            let memory = slices.lend(&mut vacant);
            let fullest = FullestBank::new(&zones, CPUS, bank, memory).map_err(Error::Machine)?;
            replay_on(&fullest, Some(&fullest), traces, settings)
        }
    }
}

fn replay_on_adaptive(
    steal: StealRule,
    zones: &[Zone],
    bank: BankSize,
    traces: &[Vec<PageEvent>],
    settings: ReplaySettings,
) -> Result<ReplayReport, Error> {
    let adaptive = AdaptiveBuddy::new(zones, bank, &BankSets::plain(), steal).map_err(Error::Machine)?;
    replay_on(&adaptive, Some(&adaptive), traces, settings)
}

/// Returns the frames of the machine, and the size of its banks.
fn frames(settings: ReplaySettings) -> Result<(u64, BankSize), Error> {
    let (frames, bank) = (settings.memory.get() / FRAME_BYTES, settings.bank.get() / FRAME_BYTES);
    match BankSize::of_frames(bank) {
        Some(size) if frames >= bank && settings.memory.get().is_multiple_of(settings.bank.get()) => Ok((frames, size)),
        _ => Err(Error::Banks),
    }
}

fn replay_on(
    allocator: &dyn PageAllocator,
    pools: Option<&dyn BankPools>,
    traces: &[Vec<PageEvent>],
    settings: ReplaySettings,
) -> Result<ReplayReport, Error> {
    let mut replay = Replay::new(settings, allocator, pools)?;
    for _ in 0..settings.loops {
        traces.iter().for_each(|trace| replay.run(trace));
    }
    replay.report.average = BankAverages::of(&replay.report, settings);
    Ok(replay.report)
}

impl<'a> Replay<'a> {
    fn new(
        settings: ReplaySettings,
        allocator: &'a dyn PageAllocator,
        pools: Option<&'a dyn BankPools>,
    ) -> Result<Self, Error> {
        let banks = settings.memory.get() / settings.bank.get();
        Ok(Self {
            settings,
            allocator,
            pools,
            banks: vec![BankUse::default(); usize::try_from(banks).map_err(|_| Error::Banks)?],
            live: HashMap::new(),
            cached: Vec::new(),
            kept: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(settings.seed),
            report: ReplayReport {
                banks,
                micros: 0,
                requests: 0,
                refused: 0,
                unknown_frees: 0,
                migration: MigrationCounts::default(),
                samples: Vec::new(),
                average: BankAverages::default(),
            },
        })
    }

    fn run(&mut self, trace: &[PageEvent]) {
        let begin = self.report.micros;
        let between = trace.len().div_ceil(SAMPLES).max(1);
        for (number, event) in trace.iter().enumerate() {
            match event.change {
                PageChange::Allocated(migratetype) => self.allocate(event, migratetype),
                PageChange::Freed => self.free(event.frame),
            }
            self.report.micros = begin + event.micros;
            if (number + 1) % between == 0 || number + 1 == trace.len() {
                if let Some(pools) = self.pools.filter(|_| self.settings.migrates) {
                    self.consolidate(pools);
                }
                let sample = self.sample();
                self.report.samples.push(sample);
            }
        }
        self.end_of_trace();
    }

    fn allocate(&mut self, event: &PageEvent, migratetype: Migratetype) {
        // A free that the trace lacks.
        if self.live.contains_key(&event.frame) {
            self.free(event.frame);
        }
        self.report.requests += 1;
        let cpu = Cpu(u32::from(event.cpu) % CPUS);
        let request = Request { order: event.order, migratetype, cpu, node: Node(0), urgent: false };
        let Some(block) = self.allocator.allocate(request) else {
            self.report.refused += 1;
            return;
        };
        let held = Held { block, migratetype };
        self.count(held, u64::wrapping_add);
        self.live.insert(event.frame, held);
    }

    fn free(&mut self, frame: Frame) {
        match self.live.remove(&frame) {
            Some(held) => self.give_back(held),
            None => self.report.unknown_frees += 1,
        }
    }

    fn give_back(&mut self, held: Held) {
        self.count(held, u64::wrapping_sub);
        self.allocator.free(held.block, Cpu(0));
    }

    fn count(&mut self, held: Held, change: impl FnOnce(u64, u64) -> u64) {
        count(&mut self.banks, self.settings.bank, held, change);
    }

    /// Decides what goes on living.
    fn end_of_trace(&mut self) {
        std::mem::take(&mut self.cached).into_iter().for_each(|held| self.give_back(held));
        let mut left: Vec<Held> = std::mem::take(&mut self.live).into_values().collect();
        // The map has no order of its own that a seed determines.
        left.sort_unstable_by_key(|held| held.block);
        for held in left {
            let is_movable = held.migratetype == Migratetype::Movable;
            if is_movable && self.free_frames() > self.frames() / 4 {
                self.cached.push(held);
            } else if !is_movable && self.random.random_range(0..100) < self.settings.survivors_percent {
                self.kept.push(held);
            } else {
                self.give_back(held);
            }
        }
        self.kept.shuffle(&mut self.random);
        let stay = self.kept.len() - self.kept.len() / 10;
        self.kept.split_off(stay).into_iter().for_each(|held| self.give_back(held));
    }

    fn frames(&self) -> u64 {
        self.settings.memory.get() / FRAME_BYTES
    }

    fn free_frames(&self) -> u64 {
        self.frames() - self.banks.iter().map(|bank| bank.movable + bank.kernel).sum::<u64>()
    }

    /// Returns the frames that stay free.
    fn reserve(&self) -> u64 {
        self.frames() / 100 * u64::from(self.settings.reserve_percent)
    }

    fn offline_banks(&self) -> Option<u64> {
        let offline = |pools: &dyn BankPools| {
            (0..pools.parts()).filter(|&part| pools.part(part).pool == BankPool::Offline).count() as u64
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

impl BankAverages {
    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    fn of(report: &ReplayReport, settings: ReplaySettings) -> Self {
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

/// Changes the counts of the bank that a block lies in.
fn count(banks: &mut [BankUse], size: Bytes, held: Held, change: impl FnOnce(u64, u64) -> u64) {
    let bank = held.block.first().address() / size.get();
    let bank = &mut banks[usize::try_from(bank).expect("a bank of the machine")];
    let used = if held.migratetype == Migratetype::Movable { &mut bank.movable } else { &mut bank.kernel };
    *used = change(*used, held.block.count());
}

/// The zones of a PC with so many frames, without the hole below 4 GiB.
fn zones(frames: u64) -> Vec<Zone> {
    let limits = [(ZoneKind::Dma, 16 << 20), (ZoneKind::Dma32, 4 << 30), (ZoneKind::Normal, u64::MAX)];
    let mut start = 0;
    let mut zones = Vec::new();
    for (kind, limit) in limits {
        let end = frames.min(limit / FRAME_BYTES);
        let range = Frame::new(start).and_then(|first| FrameRange::new(first, end.saturating_sub(start)));
        zones.extend(range.map(|frames| Zone { node: Node(0), kind, frames }));
        start = end.max(start);
    }
    zones
}

#[cfg(test)]
mod tests;
