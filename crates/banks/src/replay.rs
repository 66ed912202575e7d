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

use std::collections::HashMap;

use rampart_buddy::{Cpu, Migratetype};
use rampart_memory::{Frame, Node};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Error;
use crate::page_trace::{PageChange, PageEvent};
use crate::simulated_banks::{CPUS, Held, MachineSettings, ReplayReport, SimulatedBanks, on_machine};

/// The banks are counted so often in each trace.
const SAMPLES: usize = 40;

/// The machine, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySettings {
    /// The machine; the CPUs of a trace are mapped onto its own.
    pub machine: MachineSettings,
    /// How often all traces are replayed, one after the other.
    pub loops: u32,
    /// This share of the kernel's memory that is in use at the end of a trace stays for good, in per cent.
    pub survivors_percent: u32,
    /// The seed.
    pub seed: u64,
}

/// A replay under way.
struct Replay {
    settings: ReplaySettings,
    /// Blocks in use by the first frame that they have in the trace.
    live: HashMap<Frame, Held>,
    /// Movable blocks of the trace before.
    cached: Vec<Held>,
    /// Memory that the kernel keeps for good.
    kept: Vec<Held>,
    random: ChaCha8Rng,
}

/// Replays traces.
///
/// # Errors
/// [`Error::Banks`], [`Error::Machine`].
pub fn replay(traces: &[Vec<PageEvent>], settings: ReplaySettings) -> Result<ReplayReport, Error> {
    on_machine(settings.machine, |machine| {
        let mut replay = Replay::new(settings);
        for _ in 0..settings.loops {
            traces.iter().for_each(|trace| replay.run(trace, machine));
        }
    })
}

impl Replay {
    fn new(settings: ReplaySettings) -> Self {
        Self {
            settings,
            live: HashMap::new(),
            cached: Vec::new(),
            kept: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(settings.seed),
        }
    }

    fn run(&mut self, trace: &[PageEvent], machine: &mut SimulatedBanks<'_>) {
        let begin = machine.report().micros;
        let between = trace.len().div_ceil(SAMPLES).max(1);
        for (number, event) in trace.iter().enumerate() {
            machine.advance(begin + event.micros);
            match event.change {
                PageChange::Allocated(migratetype) => self.allocate(event, migratetype, machine),
                PageChange::Freed => self.free(event.frame, machine),
            }
            if (number + 1) % between == 0 || number + 1 == trace.len() {
                machine
                    .observe(begin + event.micros, self.live.values_mut().chain(&mut self.cached).filter(is_movable));
            }
        }
        self.end_of_trace(machine);
    }

    fn allocate(&mut self, event: &PageEvent, migratetype: Migratetype, machine: &mut SimulatedBanks<'_>) {
        // A free that the trace lacks.
        if self.live.contains_key(&event.frame) {
            self.free(event.frame, machine);
        }
        let cpu = Cpu(u32::from(event.cpu) % CPUS);
        if let Some(held) = machine.allocate(event.order, migratetype, cpu, Node(0)) {
            self.live.insert(event.frame, held);
        }
    }

    fn free(&mut self, frame: Frame, machine: &mut SimulatedBanks<'_>) {
        match self.live.remove(&frame) {
            Some(held) => machine.free(held, Cpu(0)),
            None => machine.report().unknown_frees += 1,
        }
    }

    /// Decides what goes on living.
    fn end_of_trace(&mut self, machine: &mut SimulatedBanks<'_>) {
        std::mem::take(&mut self.cached).into_iter().for_each(|held| machine.free(held, Cpu(0)));
        let mut left: Vec<Held> = std::mem::take(&mut self.live).into_values().collect();
        // The map has no order of its own that a seed determines.
        left.sort_unstable_by_key(|held| held.block);
        for held in left {
            let is_movable = held.migratetype == Migratetype::Movable;
            if is_movable && machine.free_frames() > machine.frames() / 4 {
                self.cached.push(held);
            } else if !is_movable && self.random.random_range(0..100) < self.settings.survivors_percent {
                self.kept.push(held);
            } else {
                machine.free(held, Cpu(0));
            }
        }
        self.kept.shuffle(&mut self.random);
        let stay = self.kept.len() - self.kept.len() / 10;
        self.kept.split_off(stay).into_iter().for_each(|held| machine.free(held, Cpu(0)));
    }
}

fn is_movable(held: &&mut Held) -> bool {
    held.migratetype == Migratetype::Movable
}

#[cfg(test)]
mod tests;
