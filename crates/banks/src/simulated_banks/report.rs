//! What a run on the simulated machine reports: counts at each moment, and averages of them.

use rampart_buddy::{AllocatorStatistics, BankSearches};
use rampart_memory::{Bytes, FRAME_BYTES};
use serde::Serialize;

use super::migration::MigrationCounts;
use super::uses::SectionUse;
use crate::power::{BankTimes, EnergyReport, MovedPages, PowerModel};

/// A share of the memory in use, in per cent: samples are also averaged within such steps.
const USE_STEP: u64 = 5;

/// The banks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BankSample {
    /// Simulated time.
    pub micros: u64,
    /// Free memory.
    pub free: Bytes,
    /// Banks without memory of the kernel: all in them can move.
    pub removable: u64,
    /// Banks in which nothing lies; the others are *touched*.
    pub empty: u64,
    /// Removable banks that can go offline, with room for what moves, and the reserve.
    pub offlinable: u64,
    /// As many banks as the free memory of each zone beyond its reserve makes up.
    pub optimum: u64,
    /// What must move for that.
    pub to_move: Bytes,
    /// Banks that the allocator has in its offline pool now; `None` if it has no pools.
    pub offline: Option<u64>,
    /// Blocks of 1 GiB in which memory of the kernel lies.
    pub tainted_gib: u64,
    /// Of free memory, the share that does not lie in free blocks of 2 MiB.
    pub unusable_9: f64,
    /// The same for blocks of 4 MiB.
    pub unusable_10: f64,
    /// What happened so far to requests of 2 MiB.
    pub order_9: LargeRequests,
    /// The same for those of 4 MiB.
    pub order_10: LargeRequests,
    /// Memory moved so far.
    pub moved: Bytes,
    /// Banks emptied so far.
    pub emptied: u64,
}

/// Requests of one large size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LargeRequests {
    /// All.
    pub requests: u64,
    /// Those that got no memory.
    pub refused: u64,
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
    /// What the allocator did.
    pub steps: AllocatorSteps,
    /// How long banks were on and off: off while they are in the offline pool. Without pools all are on.
    #[serde(skip)]
    pub times: BankTimes,
    /// The samples, in order.
    pub samples: Vec<BankSample>,
    /// Their averages.
    pub average: BankAverages,
    /// The largest of them.
    pub most: BankMaxima,
    /// Averages of the samples with as much memory in use, the least use first.
    pub by_use: Vec<UseAverages>,
    /// What lies where at the end.
    pub footprint: BankFootprint,
}

/// What the allocator counts of its own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllocatorSteps {
    /// Blocks cut in two.
    pub splits: u64,
    /// Pairs of buddies merged.
    pub merges: u64,
    /// Banks that the kernel took from programs; with the buddy system of Linux, blocks of another migratetype.
    pub steals: u64,
    /// Searches for a bank with room; `None` if the allocator does not count them.
    pub searches: Option<u64>,
    /// Banks that they looked at.
    pub looked_at: Option<u64>,
    /// The most banks that one of them looked at.
    pub most_looked_at: Option<u64>,
}

impl AllocatorSteps {
    /// Returns those of an allocator.
    pub(super) fn of(statistics: AllocatorStatistics, searches: Option<BankSearches>) -> Self {
        Self {
            splits: statistics.splits,
            merges: statistics.merges,
            steals: statistics.steals,
            searches: searches.map(|searches| searches.searches),
            looked_at: searches.map(|searches| searches.looked_at),
            most_looked_at: searches.map(|searches| searches.most),
        }
    }
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
    /// Blocks of 1 GiB with memory of the kernel.
    pub tainted_gib: f64,
    /// Of free memory, the share that does not lie in free blocks of 2 MiB.
    pub unusable_9: f64,
    /// The same for blocks of 4 MiB.
    pub unusable_10: f64,
}

/// The largest of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankMaxima {
    /// Banks in the offline pool; `None` without pools.
    pub offline: Option<u64>,
    /// Banks with memory of the kernel.
    pub tainted: u64,
    /// Blocks of 1 GiB with memory of the kernel.
    pub tainted_gib: u64,
}

/// Averages of the samples with as much memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UseAverages {
    /// The least memory in use, in per cent; the most is that of the next step.
    pub from_percent: u64,
    /// The number of samples.
    pub samples: u64,
    /// Banks in which something lies, as a share of all.
    pub touched: f64,
    /// Banks in which memory of the kernel lies, as a share of all.
    pub tainted: f64,
}

/// What lies in each section of the memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankFootprint {
    /// The size of a section.
    pub section: Bytes,
    /// Memory of the kernel in each.
    pub kernel: Vec<Bytes>,
    /// Memory of programs in each.
    pub movable: Vec<Bytes>,
}

impl BankFootprint {
    /// Returns that of these sections.
    pub(super) fn new(section: Bytes, uses: &[SectionUse]) -> Self {
        let bytes = |of: fn(&SectionUse) -> u64| uses.iter().map(|uses| Bytes::new(of(uses) * FRAME_BYTES)).collect();
        Self { section, kernel: bytes(|uses| uses.kernel), movable: bytes(|uses| uses.movable) }
    }
}

impl ReplayReport {
    /// Returns that of a machine of so many banks on which nothing happened.
    pub(super) fn new(banks: u64) -> Self {
        Self {
            banks,
            micros: 0,
            requests: 0,
            refused: 0,
            unknown_frees: 0,
            implied_frees: 0,
            migration: MigrationCounts::default(),
            steps: AllocatorSteps::default(),
            times: BankTimes::default(),
            samples: Vec::new(),
            average: BankAverages::default(),
            most: BankMaxima::default(),
            by_use: Vec::new(),
            footprint: BankFootprint::default(),
        }
    }

    /// Reckons what follows from the samples, on a machine with so much memory.
    pub(super) fn sum_up(&mut self, memory: Bytes) {
        self.average = self.averages(memory);
        let most = |of: fn(&BankSample) -> u64| self.samples.iter().map(of).max().unwrap_or(0);
        self.most = BankMaxima {
            offline: self.samples.iter().filter_map(|sample| sample.offline).max(),
            tainted: self.banks - self.samples.iter().map(|sample| sample.removable).min().unwrap_or(self.banks),
            tainted_gib: most(|sample| sample.tainted_gib),
        };
        self.by_use = self.by_use(memory);
    }

    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    fn averages(&self, memory: Bytes) -> BankAverages {
        let samples = self.samples.len().max(1) as f64;
        let mean = |of: &dyn Fn(&BankSample) -> f64| self.samples.iter().map(of).sum::<f64>() / samples;
        let banks = self.banks as f64;
        let bank = memory.get() as f64 / banks;
        let has_pools = self.samples.iter().any(|sample| sample.offline.is_some());
        let of_free = |offline: u64, sample: &BankSample| {
            if sample.free == Bytes::ZERO { 0.0 } else { offline as f64 * bank / sample.free.get() as f64 }
        };
        BankAverages {
            free: mean(&|sample| sample.free.get() as f64 / memory.get() as f64),
            removable: mean(&|sample| sample.removable as f64 / banks),
            empty: mean(&|sample| sample.empty as f64 / banks),
            offlinable: mean(&|sample| sample.offlinable as f64 / banks),
            optimum: mean(&|sample| sample.optimum as f64 / banks),
            offlined_of_free: mean(&|sample| of_free(sample.offlinable, sample)),
            offline: has_pools.then(|| mean(&|sample| sample.offline.unwrap_or(0) as f64 / banks)),
            offline_of_free: has_pools.then(|| mean(&|sample| of_free(sample.offline.unwrap_or(0), sample))),
            tainted_gib: mean(&|sample| sample.tainted_gib as f64),
            unusable_9: mean(&|sample| sample.unusable_9),
            unusable_10: mean(&|sample| sample.unusable_10),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    fn by_use(&self, memory: Bytes) -> Vec<UseAverages> {
        let step = |sample: &BankSample| {
            let used = u128::from(memory.get() - sample.free.get());
            u64::try_from(used * 100 / u128::from(memory.get())).expect("at most 100") / USE_STEP
        };
        let of = |at: u64| {
            let samples: Vec<&BankSample> = self.samples.iter().filter(|sample| step(sample) == at).collect();
            let mean = |banks: fn(&BankSample) -> u64| {
                let left: u64 = samples.iter().map(|sample| banks(sample)).sum();
                1.0 - left as f64 / (samples.len() as u64 * self.banks) as f64
            };
            (!samples.is_empty()).then(|| UseAverages {
                from_percent: at * USE_STEP,
                samples: samples.len() as u64,
                touched: mean(|sample| sample.empty),
                tainted: mean(|sample| sample.removable),
            })
        };
        (0..=100 / USE_STEP).filter_map(of).collect()
    }

    /// Returns the energy of this run of banks of a size, by a model; `None` if no time passed.
    #[must_use]
    pub fn energy(&self, model: &PowerModel, bank: Bytes) -> Option<EnergyReport> {
        let moved = MovedPages { bytes: self.migration.moved, emptied: self.migration.emptied };
        model.report(self.times, moved, bank)
    }
}
