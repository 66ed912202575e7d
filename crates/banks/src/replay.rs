//! Replay: an allocator serves the page allocations of recorded loads, and its banks are counted meanwhile.
//!
//! **Problem.** How many banks a machine can do without shows only after a long load, and must be compared between
//! allocators under the same one. **Idea.** Traces are replayed again and again on a simulated machine: each
//! allocation of the trace becomes a request, each free gives that block back. From time to time the banks are counted
//! by what lies in them. **Why this way.** The allocator alone decides where pages lie, so the count is its doing.
//!
//! A trace begins on a machine that has run before, and ends while memory is still in use. It may begin with what was
//! in use ([`in_use_before`]). Then that replaces what the trace before has left: blocks that both have stay where they
//! are. Else what is in use at the end of the trace before goes on living: movable memory, such as cached files, until
//! the end of this trace, if a quarter of the machine is free; of the kernel's memory a chosen share for good. A tenth
//! of what the kernel has kept for good comes back at the end of each trace. From one seed.
//!
//! Frees of frames that are not in use in the trace are left out. An allocation of frames in use frees them first.

use rampart_buddy::{Cpu, Migratetype};
use rampart_memory::{Bytes, FRAME_BYTES, Node};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Error;
use crate::live_blocks::LiveBlocks;
use crate::page_trace::{PageChange, PageEvent, in_use_before, most_in_use, warm_start};
use crate::simulated_banks::{CPUS, Held, MachineSettings, ReplayReport, SimulatedBanks, on_machine};

/// The banks are counted so often in each trace.
const SAMPLES: usize = 40;

/// The memory of a simulated machine, unless a trace needs more.
const USUAL_MEMORY: Bytes = Bytes::from_mib(4 << 10);

/// The machine, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySettings {
    /// The machine; the CPUs of a trace are mapped onto its own.
    pub machine: MachineSettings,
    /// How long all traces are replayed, one after the other.
    pub length: ReplayLength,
    /// This share of the kernel's memory that is in use at the end of a trace stays for good, in per cent.
    pub survivors_percent: u32,
    /// The seed.
    pub seed: u64,
}

/// How long traces are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayLength {
    /// So often.
    Loops(u32),
    /// All of them again and again, until at least so much simulated time has passed.
    Micros(u64),
}

impl ReplayLength {
    /// Whether it ends after so many loops, of which the last took the time from `before` to `now`.
    const fn ends(self, loops: u32, before: u64, now: u64) -> bool {
        match self {
            Self::Loops(wanted) => loops >= wanted,
            // Traces in which no time passes would have no end.
            Self::Micros(wanted) => loops > 0 && (now >= wanted || now == before),
        }
    }
}

/// A replay under way.
struct Replay {
    settings: ReplaySettings,
    /// Blocks in use, by the frames that they have in the trace.
    live: LiveBlocks<Held>,
    /// Movable blocks of the trace before.
    cached: Vec<Held>,
    /// Memory that the kernel keeps for good.
    kept: Vec<Held>,
    random: ChaCha8Rng,
}

/// A trace in two parts.
struct SplitTrace<'a> {
    /// What was in use at its beginning; `None` if it does not say.
    in_use: Option<Vec<PageEvent>>,
    /// What happened then.
    events: &'a [PageEvent],
}

impl<'a> SplitTrace<'a> {
    fn of(trace: &'a [PageEvent]) -> Self {
        let warm = warm_start(trace).len();
        Self { in_use: (warm > 0).then(|| in_use_before(trace)), events: &trace[warm..] }
    }
}

/// Returns the memory of a machine that fits the traces: 4 GiB, or else the smallest power of two of which they never
/// have more than three quarters in use.
#[must_use]
pub fn fitting_memory(traces: &[Vec<PageEvent>]) -> Bytes {
    let most = traces.iter().map(|trace| most_in_use(trace).get()).max().unwrap_or(0);
    USUAL_MEMORY.max(Bytes::new((most / 3 * 4).next_power_of_two()))
}

/// Replays traces.
///
/// # Errors
/// [`Error::Banks`], [`Error::Machine`], [`Error::WarmStart`].
pub fn replay(traces: &[Vec<PageEvent>], settings: ReplaySettings) -> Result<ReplayReport, Error> {
    let traces: Vec<SplitTrace<'_>> = traces.iter().map(|trace| SplitTrace::of(trace)).collect();
    let in_use = traces.iter().filter_map(|trace| trace.in_use.as_deref().map(memory)).max().unwrap_or(Bytes::ZERO);
    if in_use > settings.machine.memory {
        return Err(Error::WarmStart(in_use, settings.machine.memory));
    }
    on_machine(settings.machine, |machine| {
        let mut replay = Replay::new(settings);
        let (mut loops, mut before) = (0, 0);
        while !settings.length.ends(loops, before, machine.report().micros) {
            before = machine.report().micros;
            traces.iter().for_each(|trace| replay.run(trace, machine));
            loops += 1;
        }
    })
}

/// The memory of these allocations.
fn memory(allocations: &[PageEvent]) -> Bytes {
    Bytes::new(allocations.iter().map(|event| event.order.frames() * FRAME_BYTES).sum())
}

impl Replay {
    fn new(settings: ReplaySettings) -> Self {
        Self {
            settings,
            live: LiveBlocks::default(),
            cached: Vec::new(),
            kept: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(settings.seed),
        }
    }

    fn run(&mut self, trace: &SplitTrace<'_>, machine: &mut SimulatedBanks<'_>) {
        let begin = machine.report().micros;
        match &trace.in_use {
            Some(in_use) => self.warm_up(in_use, machine),
            None => self.leave(machine),
        }
        let events = trace.events;
        let between = events.len().div_ceil(SAMPLES).max(1);
        for (number, event) in events.iter().enumerate() {
            machine.advance(begin + event.micros);
            match event.change {
                PageChange::Allocated(migratetype) => self.allocate(event, migratetype, machine),
                PageChange::Freed => self.free(event, machine),
            }
            if (number + 1) % between == 0 || number + 1 == events.len() {
                machine.observe(begin + event.micros, self.movable());
            }
        }
    }

    fn movable(&mut self) -> impl Iterator<Item = &mut Held> {
        self.live.values_mut().chain(&mut self.cached).filter(is_movable)
    }

    fn allocate(&mut self, event: &PageEvent, migratetype: Migratetype, machine: &mut SimulatedBanks<'_>) {
        self.free_implied(event, machine);
        let cpu = Cpu(u32::from(event.cpu) % CPUS);
        if let Some(held) = machine.allocate(event.order, migratetype, cpu, Node(0)) {
            self.live.insert(event.frame, event.order, held);
        }
    }

    /// Allocates what was in use in the same frames, and returns whether it could.
    fn allocate_in_place(&mut self, event: &PageEvent, of: Migratetype, machine: &mut SimulatedBanks<'_>) -> bool {
        self.free_implied(event, machine);
        let held = machine.allocate_in_place(event.frame, event.order, of);
        held.map(|held| self.live.insert(event.frame, event.order, held)).is_some()
    }

    /// Frees what the trace allocates though it is in use: a free that the trace lacks.
    fn free_implied(&mut self, event: &PageEvent, machine: &mut SimulatedBanks<'_>) {
        let mut implied = 0;
        self.live.release(event.frame, event.order, |held| {
            machine.free(held, Cpu(0));
            implied += 1;
        });
        machine.report().implied_frees += implied;
    }

    fn free(&mut self, event: &PageEvent, machine: &mut SimulatedBanks<'_>) {
        if !self.live.release(event.frame, event.order, |held| machine.free(held, Cpu(0))) {
            machine.report().unknown_frees += 1;
        }
    }

    /// Makes the machine have in use what a trace begins with. What lies there already stays where it is; the rest gets
    /// its own frames first, as long as no other block has them.
    fn warm_up(&mut self, warm: &[PageEvent], machine: &mut SimulatedBanks<'_>) {
        let (mut kept, mut missing) = (LiveBlocks::default(), Vec::new());
        for event in warm {
            let PageChange::Allocated(migratetype) = event.change else { continue };
            let is_alike = |held: &Held| held.migratetype == migratetype && held.block.order() == event.order;
            match self.live.take_whole(event.frame, event.order, is_alike) {
                Some(held) => kept.insert(event.frame, event.order, held),
                None => missing.push((event, migratetype)),
            }
        }
        let others = std::mem::replace(&mut self.live, kept).drain();
        let gone = others.chain(self.cached.drain(..)).chain(self.kept.drain(..));
        gone.for_each(|held| machine.free(held, Cpu(0)));
        missing.retain(|&(event, migratetype)| !self.allocate_in_place(event, migratetype, machine));
        missing.into_iter().for_each(|(event, migratetype)| self.allocate(event, migratetype, machine));
    }

    /// Decides what of the last trace goes on living.
    fn leave(&mut self, machine: &mut SimulatedBanks<'_>) {
        std::mem::take(&mut self.cached).into_iter().for_each(|held| machine.free(held, Cpu(0)));
        let mut left: Vec<Held> = self.live.drain().collect();
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
