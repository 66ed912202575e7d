//! Programs: how they progress, and how they allocate.

use std::collections::VecDeque;

use rampart_memory::{Frame, Node};
use rand::{Rng, RngExt};

use super::SimulatedMachine;
use crate::allocators::TestableAllocator;
use crate::frames::{long, short};
use crate::workload::{Rates, WorkloadProgram};

/// How long a short-lived page lives, in seconds of its program's time.
const SHORT_LIFE: f64 = 0.05;

/// The period of a swing of demand, in seconds of a program's time.
const SWING: f64 = 20.0;

/// A running program.
#[derive(Debug)]
pub struct Running {
    pub name: &'static str,
    pub rates: Rates,
    pub core: u32,
    pub node: Node,
    /// Work done since the last launch, and in total, in seconds of a run without testing.
    pub progress: f64,
    pub done: f64,
    /// Time that it must wait before it continues, in seconds.
    pub debt: f64,
    /// Its frames; those that it holds until it ends are first.
    pub held: Vec<u32>,
    /// Its short-lived frames, the oldest first.
    pub short: VecDeque<u32>,
    /// Its locked frames, inaccessible until they are tested.
    pub locked: Vec<u32>,
    /// Fractions of frames owed.
    replaced: f64,
    short_lived: f64,
    filling: f64,
    phase: f64,
}

impl<A: TestableAllocator> SimulatedMachine<A> {
    /// Starts a program on a core; it starts again whenever it ends [Rahman16, 5.3.1].
    pub fn start(&mut self, program: &WorkloadProgram, core: u32) {
        let rates = program.rates(self.description.speed, self.description.short_lived);
        self.start_with(program.name, rates, core);
    }

    /// Starts a program with these rates.
    pub fn start_with(&mut self, name: &'static str, rates: Rates, core: u32) {
        let node = self.description.node_of_core(usize::try_from(core).expect("a core"));
        let phase = SWING * self.random.random::<f64>();
        self.programs.push(Running {
            name,
            rates,
            core,
            node,
            progress: 0.0,
            done: 0.0,
            debt: 0.0,
            held: Vec::new(),
            short: VecDeque::new(),
            locked: Vec::new(),
            replaced: 0.0,
            short_lived: 0.0,
            filling: 0.0,
            phase,
        });
    }

    /// Returns the work that each program has done, in seconds of a run without testing.
    #[must_use]
    pub fn work_done(&self) -> Vec<f64> {
        self.programs.iter().map(|program| program.done).collect()
    }

    pub(super) fn run_programs(&mut self, seconds: f64, share: f64, memory: &[f64]) {
        for at in 0..self.programs.len() {
            self.run_program(at, seconds, share, memory);
        }
    }

    fn run_program(&mut self, at: usize, seconds: f64, share: f64, memory: &[f64]) {
        if self.out_of_memory {
            return;
        }
        self.unlock_touched(at, seconds);
        let program = &mut self.programs[at];
        let waited = program.debt.min(seconds);
        program.debt -= waited;
        let slowdown = memory[self.description.node_index(program.node)];
        let Rates { memory: bound, seconds: whole, .. } = program.rates;
        let work = (seconds - waited) * share / (1.0 - bound + bound * slowdown);
        program.progress += work;
        program.done += work;
        if program.progress >= whole {
            self.end_program(at);
        }
        self.allocate_for(at, work);
    }

    /// Ends a program, frees its frames, and starts it again.
    fn end_program(&mut self, at: usize) {
        let program = &mut self.programs[at];
        program.progress -= program.rates.seconds;
        let core = program.core;
        let held = std::mem::take(&mut program.held);
        let short = std::mem::take(&mut program.short);
        program.locked.clear();
        for number in held.into_iter().chain(short) {
            self.release(long(number), core);
        }
        self.statistics.relaunched += 1;
    }

    /// Allocates for a program that does this much work.
    fn allocate_for(&mut self, at: usize, work: f64) {
        let program = &mut self.programs[at];
        let rates = program.rates;
        let high = (program.done + program.phase) % SWING < SWING / 2.0;
        let swing = if high { 1.0 + rates.swing } else { 1.0 - rates.swing };
        let footprint = usize::try_from(rates.footprint).expect("a footprint");
        if program.held.len() < footprint {
            let count = whole(&mut program.filling, rates.filling * work).min(footprint - program.held.len());
            (0..count).for_each(|_| self.take_frame(at, None));
        } else {
            let count = whole(&mut program.replaced, rates.replaced * swing * work);
            (0..count).for_each(|_| self.replace_frame(at));
        }
        let program = &mut self.programs[at];
        let count = whole(&mut program.short_lived, rates.short_lived * swing * work);
        self.churn(at, count);
    }

    /// Allocates a frame and charges its cost to the program. If there is none, the program waits for memory.
    fn new_frame(&mut self, at: usize) -> Option<Frame> {
        let (core, node) = (self.programs[at].core, self.programs[at].node);
        let Some(given) = self.allocate(core, node) else {
            self.wait_for_memory(at);
            return None;
        };
        self.statistics.allocated += 1;
        self.programs[at].debt += given.cost;
        Some(given.frame)
    }

    /// Allocates a frame, at the end of the program's list or in a slot of it.
    fn take_frame(&mut self, at: usize, slot: Option<u32>) {
        let Some(frame) = self.new_frame(at) else { return };
        let held = &mut self.programs[at].held;
        let slot = match slot {
            Some(slot) => {
                held[slot as usize] = short(frame);
                slot
            }
            None => {
                held.push(short(frame));
                u32::try_from(held.len() - 1).expect("a footprint")
            }
        };
        self.hold(frame, number_of(at), slot);
    }

    /// Frees one of the frames that are not held long, and allocates another.
    fn replace_frame(&mut self, at: usize) {
        let program = &self.programs[at];
        let long_held = program.rates.long_held.min(program.held.len() as u64 - 1);
        let slots = program.held.len() as u64 - long_held;
        let slot = long_held + self.random.next_u64() % slots;
        let slot = u32::try_from(slot).expect("a footprint");
        let program = &self.programs[at];
        let (old, core) = (program.held[slot as usize], program.core);
        self.take_frame(at, Some(slot));
        if self.programs[at].held[slot as usize] != old {
            self.release(long(old), core);
        }
    }

    /// Lets a program without memory wait while testers hold some; otherwise memory has run out.
    fn wait_for_memory(&mut self, at: usize) {
        if self.in_testing == 0 {
            self.out_of_memory = true;
        } else {
            self.programs[at].debt += self.description.quantum.as_secs_f64();
        }
    }

    /// Allocates short-lived frames, and frees those whose lifetime has ended.
    fn churn(&mut self, at: usize, count: usize) {
        let core = self.programs[at].core;
        let kept = usize_of(self.programs[at].rates.short_lived * SHORT_LIFE);
        for _ in 0..count {
            let Some(frame) = self.new_frame(at) else { return };
            let program = &mut self.programs[at];
            program.short.push_back(short(frame));
            let old = if program.short.len() > kept { program.short.pop_front() } else { None };
            self.hold(frame, number_of(at), SHORT);
            if let Some(old) = old {
                self.release(long(old), core);
            }
        }
    }

    /// Replaces the frame in a slot of a program.
    pub(super) fn exchange(&mut self, program: u16, slot: u32, new: Frame) {
        self.programs[usize::from(program)].held[slot as usize] = short(new);
        self.hold(new, program, slot);
    }
}

/// The slot of all short-lived frames, which have no slot in a list.
pub const SHORT: u32 = u32::MAX;

pub(super) fn number_of(at: usize) -> u16 {
    u16::try_from(at).expect("a handful of programs")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole frames, not negative")]
pub(super) const fn usize_of(frames: f64) -> usize {
    frames as usize
}

/// Adds to the frames owed, and removes and returns the whole ones.
fn whole(owed: &mut f64, more: f64) -> usize {
    *owed += more;
    let frames = owed.floor();
    *owed -= frames;
    usize_of(frames)
}
