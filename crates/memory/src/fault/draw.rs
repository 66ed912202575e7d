//! One fault, drawn at random: its variant, and lines of its own.

use std::collections::HashSet;
use std::ops::Range;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::fault::{
    AddressFault, FaultCell, FaultClass, FaultKind, Floating, Idempotent, InjectionSpec, LineSpan, Persistence,
    PlacedFault, TransitionDirection, Wired, WordPattern,
};
use crate::{LINES_PER_FRAME, LineBit, RegionLine};

/// The largest distance of a near pair of lines: within one DRAM row, and within a tester's prefetch.
const NEAR: u64 = 256;

/// The most neighbours of a pattern-sensitive cell: two on either side in its word.
const NEIGHBOURS: u16 = 2;

impl FaultClass {
    /// The most lines that a fault of this class touches.
    pub(super) const fn lines_touched(self) -> u64 {
        match self {
            Self::StuckAt | Self::Transition | Self::Retention | Self::MultiBit => 1,
            Self::Coupling | Self::CouplingInversion | Self::CouplingIdempotent | Self::CouplingState => 2,
            Self::StuckOpen | Self::Linked => 3,
            Self::Address => 4,
        }
    }
}

/// The lines that faults may take, each once.
pub(super) struct Ground {
    lines: Range<u64>,
    in_page: Range<u64>,
    taken: HashSet<u64>,
}

impl Ground {
    /// These lines of a region whose place in their page is in `in_page`.
    pub(super) fn new(lines: Range<u64>, in_page: Range<u64>) -> Self {
        Self { lines, in_page, taken: HashSet::new() }
    }

    fn is_free(&self, line: u64) -> bool {
        self.lines.contains(&line) && self.in_page.contains(&(line % LINES_PER_FRAME)) && !self.taken.contains(&line)
    }

    /// Takes so many consecutive lines, the first free ones from `start` on, wrapping at the end.
    fn take_from(&mut self, start: u64, count: u64) -> LineSpan {
        let is_free = |first: &u64| (*first..first + count).all(|line| self.is_free(line));
        let mut candidates = (start..self.lines.end).chain(self.lines.start..start);
        let first = candidates.find(is_free).expect("a campaign leaves more lines free than it takes");
        self.taken.extend(first..first + count);
        LineSpan { first: RegionLine(first), last: RegionLine(first + count - 1) }
    }

    fn take_anywhere(&mut self, count: u64, chance: &mut ChaCha8Rng) -> LineSpan {
        let start = chance.random_range(self.lines.clone());
        self.take_from(start, count)
    }

    /// Takes a line at any distance from another, or, equally often, a near one.
    fn take_beside(&mut self, other: RegionLine, chance: &mut ChaCha8Rng) -> RegionLine {
        if chance.random() {
            return self.take_anywhere(1, chance).first;
        }
        let first = other.0.saturating_sub(NEAR).max(self.lines.start);
        let end = (other.0 + NEAR + 1).min(self.lines.end);
        let start = chance.random_range(first..end);
        self.take_from(start, 1).first
    }
}

/// A fault of a class, on lines of its own.
pub(super) fn draw(
    class: FaultClass,
    spec: &InjectionSpec,
    ground: &mut Ground,
    chance: &mut ChaCha8Rng,
) -> PlacedFault {
    let kind = draw_kind(class, spec, ground, chance);
    let persistence = match spec.intermittent() {
        Some(probability) => Persistence::Intermittent { probability },
        None if spec.is_pattern_sensitive() => {
            Persistence::PatternSensitive { neighbourhood: draw_neighbourhood(&kind, chance) }
        }
        None => Persistence::Permanent,
    };
    PlacedFault { kind, persistence }
}

fn draw_kind(class: FaultClass, spec: &InjectionSpec, ground: &mut Ground, chance: &mut ChaCha8Rng) -> FaultKind {
    match class {
        FaultClass::StuckAt => FaultKind::StuckAt { cell: draw_cell(ground, chance), value: chance.random() },
        FaultClass::Transition => {
            FaultKind::Transition { cell: draw_cell(ground, chance), blocked: draw_direction(chance) }
        }
        FaultClass::Coupling => {
            let classes = [FaultClass::CouplingInversion, FaultClass::CouplingIdempotent, FaultClass::CouplingState];
            draw_kind(classes[chance.random_range(0..classes.len())], spec, ground, chance)
        }
        FaultClass::CouplingInversion => {
            let (aggressor, victim) = draw_pair(ground, chance);
            FaultKind::Inversion { aggressor, on: draw_direction(chance), victim }
        }
        FaultClass::CouplingIdempotent => {
            let (aggressor, victim) = draw_pair(ground, chance);
            FaultKind::Idempotent(Idempotent { aggressor, on: draw_direction(chance), victim, value: chance.random() })
        }
        FaultClass::CouplingState => {
            let (aggressor, victim) = draw_pair(ground, chance);
            FaultKind::State { aggressor, holds: chance.random(), victim, reads: chance.random() }
        }
        FaultClass::Address => FaultKind::Address(draw_address(ground, chance)),
        FaultClass::StuckOpen => {
            let column = ground.take_anywhere(3, chance);
            FaultKind::StuckOpen { cell: FaultCell { line: middle(column), bit: draw_bit(chance) }, column }
        }
        FaultClass::Retention => {
            FaultKind::Retention { cell: draw_cell(ground, chance), loses: chance.random(), after: spec.retention() }
        }
        FaultClass::Linked => draw_linked(ground, chance),
        FaultClass::MultiBit => {
            let line = ground.take_anywhere(1, chance).first;
            FaultKind::MultiBit { line, stuck: draw_stuck_bits(chance) }
        }
    }
}

/// An aggressor and a victim: one pair in eight in one line; half of the others near.
fn draw_pair(ground: &mut Ground, chance: &mut ChaCha8Rng) -> (FaultCell, FaultCell) {
    let victim = draw_cell(ground, chance);
    if chance.random_ratio(1, 8) {
        let bit = (victim.bit.index() + chance.random_range(1..LineBit::COUNT)) % LineBit::COUNT;
        let bit = LineBit::new(bit).expect("reduced to a line's bits");
        return (FaultCell { line: victim.line, bit }, victim);
    }
    (FaultCell { line: ground.take_beside(victim.line, chance), bit: draw_bit(chance) }, victim)
}

fn draw_address(ground: &mut Ground, chance: &mut ChaCha8Rng) -> AddressFault {
    let kind = chance.random_range(0..4_u8);
    let wired = if chance.random() { Wired::And } else { Wired::Or };
    if kind >= 2 {
        let line = ground.take_anywhere(1, chance).first;
        let other = ground.take_beside(line, chance);
        return if kind == 2 {
            AddressFault::Instead { line, other }
        } else {
            AddressFault::Also { line, other, wired }
        };
    }
    let (line, floating) = match chance.random_range(0..3_u8) {
        0 => (ground.take_anywhere(1, chance).first, Floating::Zeros),
        1 => (ground.take_anywhere(1, chance).first, Floating::Ones),
        _ => {
            let traffic = ground.take_anywhere(3, chance);
            (middle(traffic), Floating::LastOnBus(traffic))
        }
    };
    if kind == 0 {
        AddressFault::NoCell { line, floating }
    } else {
        AddressFault::Taken { line, by: ground.take_beside(line, chance), floating, wired }
    }
}

/// Two couplings that undo each other: by both changes of one aggressor, or by two aggressors.
fn draw_linked(ground: &mut Ground, chance: &mut ChaCha8Rng) -> FaultKind {
    let victim = draw_cell(ground, chance);
    let value = chance.random();
    let one = FaultCell { line: ground.take_beside(victim.line, chance), bit: draw_bit(chance) };
    let first = Idempotent { aggressor: one, on: draw_direction(chance), victim, value };
    let second = if chance.random_ratio(1, 4) {
        let on = if first.on == TransitionDirection::Up { TransitionDirection::Down } else { TransitionDirection::Up };
        Idempotent { on, value: !value, ..first }
    } else {
        let other = FaultCell { line: ground.take_beside(victim.line, chance), bit: draw_bit(chance) };
        Idempotent { aggressor: other, on: draw_direction(chance), victim, value: !value }
    };
    FaultKind::Linked { first, second }
}

fn draw_stuck_bits(chance: &mut ChaCha8Rng) -> WordPattern {
    let (word, bits) = (chance.random_range(0..8), chance.random_range(2..=8));
    let mut mask = 0_u64;
    while mask.count_ones() < bits {
        mask |= 1 << chance.random_range(0..64_u32);
    }
    WordPattern::new(word, mask, chance.random()).expect("a line has 8 words")
}

/// The cells beside a victim in its word, each with a value; if whole lines are victims, beside any of their cells.
fn draw_neighbourhood(kind: &FaultKind, chance: &mut ChaCha8Rng) -> WordPattern {
    let is_address = matches!(kind, FaultKind::Address(_));
    let victims = PlacedFault::permanent(*kind).victims()[0].1;
    let centre = if is_address { draw_bit(chance) } else { victims.iter().next().expect("every fault has a victim") };
    let place = centre.index() % 64;
    let near = place.saturating_sub(NEIGHBOURS)..=(place + NEIGHBOURS).min(63);
    let beside = near.fold(0_u64, |mask, place| mask | 1 << place);
    let victims = if is_address { 1 << place } else { victims.0.0[centre.word()] };
    let word = u8::try_from(centre.word()).expect("a line has 8 words");
    WordPattern::new(word, beside & !victims, chance.random()).expect("a line has 8 words")
}

fn draw_cell(ground: &mut Ground, chance: &mut ChaCha8Rng) -> FaultCell {
    FaultCell { line: ground.take_anywhere(1, chance).first, bit: draw_bit(chance) }
}

fn draw_bit(chance: &mut ChaCha8Rng) -> LineBit {
    LineBit::new(chance.random_range(0..LineBit::COUNT)).expect("drawn among a line's bits")
}

fn draw_direction(chance: &mut ChaCha8Rng) -> TransitionDirection {
    if chance.random() { TransitionDirection::Up } else { TransitionDirection::Down }
}

/// The middle one of three lines: its accesses come between those of the others, in either direction of a test.
fn middle(span: LineSpan) -> RegionLine {
    RegionLine(span.first.0 + 1)
}
