//! A synthetic load: programs, cached files and the kernel's own memory, for hours, from a seed.
//!
//! **Problem.** The recorded traces are minutes of one program on a small machine. The experiments of [Panwar15, 5.3]
//! ran for hours on 32 GiB. **Idea.** The memory in use wanders between two bounds: programs begin and grow until it
//! is as high as it shall be, and end when it is to fall. Each takes memory of the kernel with it, some of which
//! outlives it. From time to time a program creates very many small files and deletes them later. **Why this way.**
//! What decides whether a bank can be emptied is how memory of short and long life is mixed, so the load has both,
//! side by side.

mod crowd;

use std::collections::BTreeMap;

use rampart_buddy::{Cpu, Migratetype};
use rampart_memory::{BlockOrder, Node};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use self::crowd::{CROWDS, Crowd, last_of};
use crate::Error;
use crate::simulated_banks::{CPUS, Held, MachineSettings, ReplayReport, SimulatedBanks, on_machine};

/// The load acts every ten seconds, and the banks are counted midway between two actions. Just after an action, no bank
/// has waited long enough to be emptied; just before the next, all that will be are.
const STEP_MICROS: u64 = 10_000_000;

const MINUTE: u64 = 60_000_000;

/// The memory of the machine of [Panwar15, 5.1], in frames: 32 GiB. Its number of small files is for this size.
const MACHINE_OF_THE_THESIS: u64 = 8 << 20;

/// Small files of one burst [Panwar15, 5.2].
const FILES: u64 = 450_000;

/// How much memory is in use [Panwar15, 5.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyntheticLoad {
    /// 10 to 50 % of the memory.
    Light,
    /// 30 to 80 %, and bursts of small files.
    Medium,
    /// 5 to 90 %, to see every use.
    Wide,
    /// 40 to 95 %, with 450,000 open files and 10,000 processes on 32 GiB.
    KernelHeavy,
}

impl SyntheticLoad {
    /// Returns the bounds of the memory in use, in per cent.
    #[must_use]
    pub const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Light => (10, 50),
            Self::Medium => (30, 80),
            Self::Wide => (5, 90),
            Self::KernelHeavy => (40, 95),
        }
    }
}

/// The machine, its load, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticSettings {
    /// The machine.
    pub machine: MachineSettings,
    /// The load.
    pub load: SyntheticLoad,
    /// Simulated time in µs. It ends with the next count, of which there is one every ten seconds.
    pub micros: u64,
    /// The seed.
    pub seed: u64,
}

/// Runs the load.
///
/// # Errors
/// [`Error::Banks`], [`Error::Machine`].
pub fn run_synthetic(settings: SyntheticSettings) -> Result<ReplayReport, Error> {
    on_machine(settings.machine, |machine| {
        let mut world = World::new(settings);
        for step in 1..=settings.micros.div_ceil(STEP_MICROS).max(1) {
            let (acts, counts) = (step * STEP_MICROS - STEP_MICROS / 2, step * STEP_MICROS);
            machine.advance(acts);
            // The load's own clock counts whole steps.
            world.step(counts, machine);
            machine.look(acts, world.movable());
            machine.observe(counts, world.movable());
        }
    })
}

/// A program and the memory of the kernel that it needs.
#[derive(Default)]
struct Program {
    pages: Vec<Held>,
    kernel: Vec<Held>,
    /// Frames that it takes before it is as large as it gets.
    growth: u64,
    node: u32,
}

/// All that lives.
struct World {
    settings: SyntheticSettings,
    random: ChaCha8Rng,
    programs: Vec<Program>,
    /// What ends by itself, by the time when it does: cached files, and memory of the kernel that outlives its program.
    passing: BTreeMap<(u64, u64), Held>,
    passed: u64,
    /// Frames to be in use, and until when.
    target: u64,
    target_until: u64,
    next_files: u64,
    /// How many of each crowd have begun.
    begun: [u64; CROWDS.len()],
}

impl World {
    fn new(settings: SyntheticSettings) -> Self {
        let random = ChaCha8Rng::seed_from_u64(settings.seed);
        let next_files = match settings.load {
            SyntheticLoad::Light | SyntheticLoad::Wide | SyntheticLoad::KernelHeavy => u64::MAX,
            SyntheticLoad::Medium => 10 * MINUTE,
        };
        Self {
            settings,
            random,
            programs: Vec::new(),
            passing: BTreeMap::new(),
            passed: 0,
            target: 0,
            target_until: 0,
            next_files,
            begun: [0; CROWDS.len()],
        }
    }

    fn step(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) {
        self.expire(now, machine);
        if now >= self.target_until {
            let (low, high) = self.settings.load.bounds();
            self.target = machine.frames() / 100 * u64::from(self.random.random_range(low..=high));
            self.target_until = now + self.random.random_range(3 * MINUTE..=20 * MINUTE);
        }
        if now >= self.next_files {
            self.next_files = now + self.random.random_range(20 * MINUTE..=60 * MINUTE);
            self.create_files(now, machine);
        }
        if self.settings.load == SyntheticLoad::KernelHeavy {
            self.crowd(now, machine);
        }
        // A program reads or writes a few hundred MiB a second: a step changes a limited share of the memory.
        let mut budget = machine.frames() / 20;
        while budget > 0 && machine.frames() - machine.free_frames() < self.target {
            let grown = self.grow(now, machine);
            budget = budget.saturating_sub(grown);
            if grown == 0 {
                break;
            }
        }
        while machine.frames() - machine.free_frames() > self.target + machine.frames() / 50
            && !self.programs.is_empty()
        {
            self.end_program(now, machine);
        }
    }

    /// Frees what has had its time.
    fn expire(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) {
        let later = self.passing.split_off(&(now, 0));
        for held in std::mem::replace(&mut self.passing, later).into_values() {
            let cpu = self.cpu();
            machine.free(held, cpu);
        }
    }

    /// Lets a program grow by a few pages, or begins one. Returns the frames that were taken.
    fn grow(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) -> u64 {
        // Up to four programs grow at a time, so their pages mix.
        let growing: Vec<usize> = (0..self.programs.len()).filter(|&at| self.programs[at].growth > 0).take(4).collect();
        let place = if growing.len() < 4 && (growing.is_empty() || self.random.random_ratio(1, 1000)) {
            self.begin_program(machine);
            self.programs.len() - 1
        } else {
            growing[self.random.random_range(0..growing.len())]
        };
        let before = machine.free_frames();
        // Three tenths of a program's memory are huge pages.
        let is_huge = self.random.random_ratio(3, 1195);
        // As in Linux, a program gets single pages if there is no huge one.
        let got_huge = is_huge && self.take(place, 9, machine);
        let pages = match (is_huge, got_huge) {
            (true, true) => 0,
            (true, false) => 512,
            (false, _) => self.random.random_range(1..=5),
        };
        for _ in 0..pages {
            if !self.take(place, 0, machine) {
                self.programs[place].growth = 0;
                return 0;
            }
        }
        self.take_for_kernel(place, now, machine);
        let taken = before.saturating_sub(machine.free_frames());
        self.programs[place].growth = self.programs[place].growth.saturating_sub(taken);
        taken
    }

    fn begin_program(&mut self, machine: &SimulatedBanks<'_>) {
        // Sizes from 1/2048 of the machine to 1/16, small ones as often as large ones.
        let growth = machine.frames() >> self.random.random_range(4..=11);
        let node = self.random.random_range(0..self.settings.machine.nodes);
        self.programs.push(Program { growth, node, ..Program::default() });
    }

    fn take(&mut self, place: usize, order: u8, machine: &mut SimulatedBanks<'_>) -> bool {
        let (cpu, node) = (self.cpu(), Node(self.programs[place].node));
        let order = BlockOrder::new(order).expect("a good order");
        match machine.allocate(order, Migratetype::Movable, cpu, node) {
            Some(held) => {
                self.programs[place].pages.push(held);
                true
            }
            None => false,
        }
    }

    /// One page of the kernel for about fifty of programs: page tables, descriptors, sockets; and as many again of
    /// files that are cached.
    fn take_for_kernel(&mut self, place: usize, now: u64, machine: &mut SimulatedBanks<'_>) {
        let (cpu, node) = (self.cpu(), Node(self.programs[place].node));
        if self.random.random_ratio(1, 20) {
            let number = if self.random.random_ratio(1, 10) { self.random.random_range(1..=3) } else { 0 };
            let order = BlockOrder::new(number).expect("a good order");
            self.programs[place].kernel.extend(machine.allocate(order, Migratetype::Unmovable, cpu, node));
        }
        if self.random.random_ratio(1, 3)
            && let Some(held) = machine.allocate(BlockOrder::ZERO, Migratetype::Movable, cpu, node)
        {
            self.let_pass(held, now, 20 * MINUTE);
        }
    }

    /// Ends one program. A fifth of the kernel's memory outlives it, such as entries of files that it opened.
    fn end_program(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) {
        let program = self.programs.swap_remove(self.random.random_range(0..self.programs.len()));
        let cpu = self.cpu();
        program.pages.into_iter().for_each(|held| machine.free(held, cpu));
        for held in program.kernel {
            if self.random.random_ratio(1, 5) {
                self.let_pass(held, now, 30 * MINUTE);
            } else {
                machine.free(held, cpu);
            }
        }
    }

    /// Creates small files: a cached page each, and for four of them a page of the kernel, a fiftieth of which stays
    /// for hours.
    fn create_files(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) {
        let lifetime = self.random.random_range(5 * MINUTE..=15 * MINUTE);
        for file in 0..FILES * machine.frames() / MACHINE_OF_THE_THESIS {
            let (cpu, node) = (self.cpu(), Node(0));
            if machine.free_frames() < machine.frames() / 8 {
                return;
            }
            if let Some(held) = machine.allocate(BlockOrder::ZERO, Migratetype::Movable, cpu, node) {
                self.keep_until(held, now + lifetime);
            }
            if file % 4 == 0
                && let Some(held) = machine.allocate(BlockOrder::ZERO, Migratetype::Reclaimable, cpu, node)
            {
                let stays = self.random.random_ratio(1, 50);
                self.keep_until(held, now + if stays { 240 * MINUTE } else { lifetime });
            }
        }
    }

    /// Opens files and starts processes, and keeps a buffer of a device, the largest block, for five minutes.
    fn crowd(&mut self, now: u64, machine: &mut SimulatedBanks<'_>) {
        if now.is_multiple_of(MINUTE)
            && let Some(held) = machine.allocate(BlockOrder::MAX, Migratetype::Unmovable, self.cpu(), Node(0))
        {
            self.keep_until(held, now + 5 * MINUTE);
        }
        for (place, crowd) in CROWDS.iter().enumerate() {
            let end = crowd.begun(now, machine.frames(), MACHINE_OF_THE_THESIS);
            for number in std::mem::replace(&mut self.begun[place], end)..end {
                let node = Node(self.random.random_range(0..self.settings.machine.nodes));
                let uniform = self.random.random_range(f64::EPSILON..1.0);
                for block in crowd.takes {
                    let order = BlockOrder::new(block.order).expect("a good order");
                    for _ in 0..Crowd::begins(block, number) {
                        let held = machine.allocate(order, block.migratetype, self.cpu(), node);
                        let end = now + last_of(uniform, block.shared_by, crowd.mean_micros);
                        held.into_iter().for_each(|held| self.keep_until(held, end));
                    }
                }
            }
        }
    }

    /// Keeps a block for about this long: exponentially distributed.
    fn let_pass(&mut self, held: Held, now: u64, mean: u64) {
        let uniform: f64 = self.random.random_range(f64::EPSILON..1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "µs")]
        let lifetime = (-uniform.ln() * mean as f64) as u64;
        self.keep_until(held, now + lifetime);
    }

    fn keep_until(&mut self, held: Held, end: u64) {
        self.passed += 1;
        self.passing.insert((end, self.passed), held);
    }

    fn cpu(&mut self) -> Cpu {
        Cpu(self.random.random_range(0..CPUS))
    }

    /// Returns every movable block.
    fn movable(&mut self) -> impl Iterator<Item = &mut Held> {
        let passing = self.passing.values_mut().filter(|held| held.migratetype == Migratetype::Movable);
        self.programs.iter_mut().flat_map(|program| &mut program.pages).chain(passing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllocatorName, HOLE_END};
    use rampart_memory::Bytes;

    fn run(load: SyntheticLoad, allocator: AllocatorName, seed: u64) -> ReplayReport {
        let machine = MachineSettings {
            allocator,
            memory: Bytes::from_mib(1024),
            low_memory: HOLE_END,
            bank: Bytes::from_mib(16),
            nodes: 2,
            ways: 1,
            reserve_percent: 2,
            migrates: true,
            patience_micros: 0,
        };
        // The last count comes after the end.
        run_synthetic(SyntheticSettings { machine, load, micros: 30 * MINUTE - 1, seed }).unwrap()
    }

    #[test]
    fn the_memory_in_use_stays_within_the_bounds_of_the_load() {
        for load in [SyntheticLoad::Light, SyntheticLoad::Medium, SyntheticLoad::Wide] {
            let report = run(load, AllocatorName::Buddy, 1);
            let (low, high) = load.bounds();
            let used = |free: Bytes| 100 - free.get() * 100 / Bytes::from_mib(1024).get();
            // It begins with nothing in use.
            let shares: Vec<u64> = report.samples[30..].iter().map(|sample| used(sample.free)).collect();
            let least = shares.iter().min().unwrap();
            let most = shares.iter().max().unwrap();
            assert!(*least + 8 >= u64::from(low) && *most <= u64::from(high) + 8, "{least} {most}");
            assert_eq!(report.refused, 0);
            assert_eq!(report.samples.len(), 180);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_load_and_another_one_another() {
        let [first, second, other] = [1, 1, 2].map(|seed| run(SyntheticLoad::Light, AllocatorName::Fullest, seed));
        assert_eq!(first, second);
        assert_ne!(first.samples, other.samples);
    }

    #[test]
    fn files_and_processes_take_memory_of_the_kernel() {
        let kernel = |load| {
            let report = run(load, AllocatorName::Fullest, 1);
            report.footprint.kernel.iter().map(|kernel| kernel.get()).sum::<u64>()
        };
        // 14,062 files and 312 processes on a gigabyte: about 5 % of it.
        let (heavy, light) = (kernel(SyntheticLoad::KernelHeavy), kernel(SyntheticLoad::Light));
        assert!(heavy > 40 << 20 && heavy > 3 * light, "{heavy} {light}");
    }

    #[test]
    fn banks_are_off_from_one_look_to_the_next() {
        for allocator in [AllocatorName::Adaptive, AllocatorName::Fullest] {
            let report = run(SyntheticLoad::Light, allocator, 1);
            let counted: u64 = report.samples.iter().map(|sample| sample.offline.unwrap()).sum();
            let [off, look] = [report.times.off_micros, (STEP_MICROS / 2).into()];
            let by_counts = u128::from(counted * STEP_MICROS);
            assert!(off % look == 0 && off.abs_diff(by_counts) < off / 50, "{off} {by_counts}");
        }
    }

    /// [Panwar15, figure 5.2 and table 5.2].
    #[test]
    fn with_pools_most_banks_can_go_and_no_fewer_than_without() {
        for load in [SyntheticLoad::Light, SyntheticLoad::Medium] {
            let buddy = run(load, AllocatorName::Buddy, 3).average;
            for allocator in [AllocatorName::List, AllocatorName::Adaptive, AllocatorName::Fullest] {
                let pools = run(load, allocator, 3).average;
                assert!(pools.removable > 0.85 && pools.removable >= buddy.removable, "{load:?} {pools:?} {buddy:?}");
                assert!(pools.offline_of_free > Some(0.8), "{load:?} {pools:?}");
            }
        }
    }
}
