//! Memory that fails on purpose: it stands between a tester and good memory, and behaves as faulty memory does.
//!
//! **Problem.** Faults in cells (transition, coupling, retention) must appear in the memory itself, to every later
//! read; faults in the access path (stuck-at, state coupling, stuck-open, address) only when a line is accessed.
//! **Idea.** An access has two steps, as in a memory: the decoder decides which lines' cells the address reaches, then
//! the faults on those lines, in their given order, act on the written or read data. A fault that would change nothing
//! does not act, so an intermittent one draws only when it could be seen. **Why this way.** The exhaustive fault
//! simulator behind the coverage tables has the same steps, so a tester meets here what the tables guarantee.
//!
//! All bits of a line are written at once, so a coupling inside a line dominates: its victim ends with the fault's
//! value, not with the write's (van de Goor and Tlili, *March Tests for Word-Oriented Memories*, DATE 1998).

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fault::{Coupling, Effect, FaultKind, Floating, Persistence, PlacedFault, Reached, TransitionDirection};
use crate::{LineData, RegionLine};

/// The good memory behind an [`Emulator`], line by line.
pub trait LineAccess {
    /// The content of a line.
    fn load(&mut self, line: RegionLine) -> LineData;

    /// Sets a line's content to `data`.
    fn store(&mut self, line: RegionLine, data: LineData);
}

/// The faults of one region, with their state.
#[derive(Clone, Debug)]
pub struct Emulator {
    faults: Vec<PlacedFault>,
    /// For each fault, how long its cell was not written; only retention faults use it.
    idle: Vec<Duration>,
    index: LineIndex,
    chance: ChaCha8Rng,
    /// The sense amplifiers: the last read value of each bit column.
    sense: LineData,
    /// The bus: the last read or written data.
    bus: LineData,
}

impl Emulator {
    /// Memory with these faults. `seed` determines the behaviour of intermittent faults, and the initial content of the
    /// bus and the sense amplifiers.
    #[must_use]
    pub fn new(faults: Vec<PlacedFault>, seed: u64) -> Self {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let sense = LineData(std::array::from_fn(|_| chance.next_u64()));
        let bus = LineData(std::array::from_fn(|_| chance.next_u64()));
        Self { idle: vec![Duration::ZERO; faults.len()], index: LineIndex::new(&faults), faults, chance, sense, bus }
    }

    /// The faults, in their given order.
    #[must_use]
    pub fn faults(&self) -> &[PlacedFault] {
        &self.faults
    }

    /// Every line that any fault touches, ascending, each once: accesses to other lines need not pass here.
    #[must_use]
    pub fn lines(&self) -> &[RegionLine] {
        &self.index.lines
    }

    /// Writes to the memory as faulty memory would, with effects on victims on other lines.
    pub fn write(&mut self, memory: &mut impl LineAccess, line: RegionLine, data: LineData) {
        match self.decode(line, || data) {
            Reached::Nothing(_) => {}
            Reached::One(cells) => self.write_cells(memory, cells, data),
            Reached::Two(cells, more, _) => {
                self.write_cells(memory, cells, data);
                self.write_cells(memory, more, data);
            }
        }
        self.bus = data;
    }

    /// The answer of faulty memory to a read.
    pub fn read(&mut self, memory: &mut impl LineAccess, line: RegionLine) -> LineData {
        let answer = match self.decode(line, || memory.load(line)) {
            Reached::Nothing(Floating::Zeros) => LineData::ZERO,
            Reached::Nothing(Floating::Ones) => LineData::ZERO.inverted(),
            Reached::Nothing(Floating::LastOnBus(_)) => self.bus,
            Reached::One(cells) => self.read_cells(memory, cells),
            Reached::Two(cells, more, wired) => {
                let one = self.read_cells(memory, cells);
                wired.combine(&one, &self.read_cells(memory, more))
            }
        };
        self.sense = answer;
        self.bus = answer;
        answer
    }

    /// Time passes without access: cells that do not retain lose their value. Only time passed in here counts.
    pub fn pause(&mut self, memory: &mut impl LineAccess, elapsed: Duration) {
        let Self { faults, idle, chance, .. } = self;
        for (fault, idle) in faults.iter().zip(idle) {
            let FaultKind::Retention { cell, loses, after } = fault.kind else { continue };
            *idle = idle.saturating_add(elapsed);
            if *idle >= after {
                let held = memory.load(cell.line);
                let lost = if held.bit(cell.bit) == loses { held.with_bit(cell.bit, !loses) } else { held };
                let left = outcome(fault, chance, &held, held, lost);
                if left != held {
                    memory.store(cell.line, left);
                }
            }
        }
    }

    /// The cells that the address of `line` reaches in this access; `held` decides whether a pattern is present.
    fn decode(&mut self, line: RegionLine, held: impl FnOnce() -> LineData) -> Reached {
        let Self { faults, index, chance, .. } = self;
        let broken = index.faults_at(line).iter().find_map(|&fault| match &faults[fault].kind {
            FaultKind::Address(address) => Some((&faults[fault].persistence, address.reached_by(line)?)),
            _ => None,
        });
        match broken {
            Some((persistence, reached)) if acts(persistence, chance, held) => reached,
            _ => Reached::One(line),
        }
    }

    fn write_cells(&mut self, memory: &mut impl LineAccess, line: RegionLine, data: LineData) {
        let Self { faults, index, idle, chance, .. } = self;
        let held = memory.load(line);
        let mut left = data;
        for &number in index.faults_at(line) {
            let fault = &faults[number];
            left = outcome(fault, chance, &data, left, miswritten(&fault.kind, line, &held, left));
            for coupling in fault.kind.couplings().filter(|coupling| coupling.is_triggered(line, &held, &data)) {
                let victim = coupling.victim.line;
                if victim == line {
                    left = outcome(fault, chance, &data, left, coupling.act_on(left));
                } else {
                    let there = memory.load(victim);
                    memory.store(victim, outcome(fault, chance, &there, there, coupling.act_on(there)));
                }
            }
            if matches!(fault.kind, FaultKind::Retention { cell, .. } if cell.line == line) {
                idle[number] = Duration::ZERO;
            }
        }
        memory.store(line, left);
    }

    fn read_cells(&mut self, memory: &mut impl LineAccess, line: RegionLine) -> LineData {
        let Self { faults, index, chance, sense, .. } = self;
        let held = memory.load(line);
        index.faults_at(line).iter().fold(held, |answer, &number| {
            let fault = &faults[number];
            outcome(fault, chance, &held, answer, misread(&fault.kind, line, answer, sense, memory))
        })
    }
}

impl Coupling {
    /// Whether a write of `data` over `held` makes the aggressor's change.
    fn is_triggered(&self, line: RegionLine, held: &LineData, data: &LineData) -> bool {
        let bit = self.aggressor.bit;
        self.aggressor.line == line && TransitionDirection::of(held.bit(bit), data.bit(bit)) == Some(self.on)
    }

    /// The victim's line after the coupling acted on it.
    fn act_on(&self, data: LineData) -> LineData {
        let value = match self.effect {
            Effect::Invert => !data.bit(self.victim.bit),
            Effect::Force(value) => value,
        };
        data.with_bit(self.victim.bit, value)
    }
}

/// The line's own cells after a write: `left` with the bits that did not take it.
fn miswritten(kind: &FaultKind, line: RegionLine, held: &LineData, left: LineData) -> LineData {
    match *kind {
        FaultKind::Transition { cell, blocked }
            if cell.line == line
                && TransitionDirection::of(held.bit(cell.bit), left.bit(cell.bit)) == Some(blocked) =>
        {
            left.with_bit(cell.bit, blocked.from())
        }
        FaultKind::StuckOpen { cell, .. } if cell.line == line => left.with_bit(cell.bit, held.bit(cell.bit)),
        _ => left,
    }
}

/// The access path's answer to a read: `answer` with the bits that differ from their cells.
fn misread(
    kind: &FaultKind,
    line: RegionLine,
    answer: LineData,
    sense: &LineData,
    memory: &mut impl LineAccess,
) -> LineData {
    match *kind {
        FaultKind::StuckAt { cell, value } if cell.line == line => answer.with_bit(cell.bit, value),
        FaultKind::MultiBit { line: at, stuck } if at == line => stuck.imposed_on(answer),
        FaultKind::StuckOpen { cell, .. } if cell.line == line => answer.with_bit(cell.bit, sense.bit(cell.bit)),
        FaultKind::State { aggressor, holds, victim, reads }
            if victim.line == line && memory.load(aggressor.line).bit(aggressor.bit) == holds =>
        {
            answer.with_bit(victim.bit, reads)
        }
        _ => answer,
    }
}

/// `faulty` if the fault acts, else `sound`; a fault that changes nothing does not act.
fn outcome(
    fault: &PlacedFault,
    chance: &mut ChaCha8Rng,
    held: &LineData,
    sound: LineData,
    faulty: LineData,
) -> LineData {
    if sound != faulty && acts(&fault.persistence, chance, || *held) { faulty } else { sound }
}

fn acts(persistence: &Persistence, chance: &mut ChaCha8Rng, held: impl FnOnce() -> LineData) -> bool {
    match persistence {
        Persistence::Permanent => true,
        Persistence::Intermittent { probability } => chance.random_bool(probability.get()),
        Persistence::PatternSensitive { neighbourhood } => neighbourhood.is_shown_by(&held()),
    }
}

/// The faults that touch each line: `faults[starts[i] .. starts[i + 1]]` touch `lines[i]`.
#[derive(Clone, Debug)]
struct LineIndex {
    lines: Vec<RegionLine>,
    starts: Vec<usize>,
    faults: Vec<usize>,
}

impl LineIndex {
    fn new(faults: &[PlacedFault]) -> Self {
        let mut touched: Vec<(RegionLine, usize)> = Vec::new();
        for (number, fault) in faults.iter().enumerate() {
            touched.extend(fault.lines().into_iter().map(|line| (line, number)));
        }
        touched.sort_unstable();
        let mut index = Self { lines: Vec::new(), starts: Vec::new(), faults: Vec::with_capacity(touched.len()) };
        for (line, number) in touched {
            if index.lines.last() != Some(&line) {
                index.lines.push(line);
                index.starts.push(index.faults.len());
            }
            index.faults.push(number);
        }
        index.starts.push(index.faults.len());
        index
    }

    fn faults_at(&self, line: RegionLine) -> &[usize] {
        match self.lines.binary_search(&line) {
            Ok(place) => &self.faults[self.starts[place]..self.starts[place + 1]],
            Err(_) => &[],
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference_model;
#[cfg(test)]
mod tests;
