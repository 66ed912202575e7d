//! Faults of a memory of four cells: the field's ⟨S/F/R⟩ notation as data.
//!
//! **Problem.** The literature has some twenty functional fault models, each with its own prose. **Idea.** Nearly all
//! are one sentence with different words: *when S happens to this cell while that cell holds a value, the victim is
//! inverted, or the read returns the wrong value, or both* (A. J. van de Goor, Z. Al-Ars, *Functional memory faults: a
//! formal notation and a taxonomy*, VTS 2000). So a model is a function from these words to a [`Primitive`], one line
//! each, and the memory has one rule. Only two models differ and have variants of their own: a cell that cannot be
//! reached (stuck-open), and addresses that reach the wrong cells.

/// The number of simulated cells: a fault concerns at most three (two aggressors and a victim), and one more lies
/// between.
pub(super) const CELLS: u8 = 4;

/// A cell, 0 to 3 in ascending order of visit. Also its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell(pub(super) u8);

impl Cell {
    /// The set of this cell alone.
    pub(super) const fn alone(self) -> CellSet {
        1 << self.0
    }
}

/// All cells.
pub(super) fn cells() -> impl Iterator<Item = Cell> {
    (0..CELLS).map(Cell)
}

/// Every aggressor and victim.
pub(super) fn cell_pairs() -> impl Iterator<Item = (Cell, Cell)> {
    cells().flat_map(|a| cells().filter(move |&v| a != v).map(move |v| (a, v)))
}

/// S: the operation or state that sensitizes a fault, on its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitizer {
    /// Nothing but the cell's own value, at all times.
    State(bool),
    /// A delay while the cell holds this value.
    Delay(bool),
    /// A read that finds this value.
    Read(bool),
    /// A write that replaces the first value by the second.
    Write(bool, bool),
    /// Such a write, and at once a read of the same cell: two operations, so a *dynamic* fault.
    WriteRead(bool, bool),
}

pub(super) const BITS: [bool; 2] = [false, true];
pub(super) const TRANSITIONS: [Sensitizer; 2] = [Sensitizer::Write(false, true), Sensitizer::Write(true, false)];
pub(super) const NON_TRANSITIONS: [Sensitizer; 2] = [Sensitizer::Write(false, false), Sensitizer::Write(true, true)];
pub(super) const READS: [Sensitizer; 2] = [Sensitizer::Read(false), Sensitizer::Read(true)];

/// F and R: the effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The victim is inverted. A read that causes this still returns the value before.
    Inverts,
    /// The read returns the wrong value; the cell keeps the right one.
    Misreads,
    /// The cell is inverted and the read returns the inverted value.
    InvertsAndMisreads,
}

/// One fault primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Primitive {
    /// The sensitizing operation or state …
    pub(super) when: Sensitizer,
    /// … on this cell …
    pub(super) on: Cell,
    /// … while this other cell holds this value, if there is a condition.
    pub(super) given: Option<(Cell, bool)>,
    /// The cell that fails.
    pub(super) victim: Cell,
    /// How.
    pub(super) effect: Effect,
}

/// A fault of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// One primitive, or two *linked* ones: each may hide the effect of the other.
    Primitives(Vec<Primitive>),
    /// The cell is cut off: writes do not reach it, and a read returns the value of the read before.
    StuckOpen(Cell),
    /// Addresses reach the wrong cells.
    Address(AddressFault),
}

/// The cells that an address reaches: bit `c` stands for cell `c`.
pub(super) type CellSet = u8;

/// A fault of the address decoder (van de Goor, *Testing Semiconductor Memories*, 1991, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressFault {
    /// For each address, the cells that it reaches.
    pub(super) reaches: [CellSet; CELLS as usize],
    /// The value of a read that reaches no cell.
    pub(super) floating: Floating,
    /// The value of a read that reaches several cells.
    pub(super) wired: Wired,
}

/// The value of a bit line that no cell drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floating {
    /// Always this value.
    At(bool),
    /// The value read or written last.
    Last,
}

/// The value of a bit line that several cells drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wired {
    /// 1 if all hold 1.
    And,
    /// 1 if any holds 1.
    Or,
}

impl Fault {
    /// Whether it concerns one cell alone, so that other cells and the order of visits do not matter.
    pub(super) fn is_of_one_cell(&self) -> bool {
        match self {
            Self::Primitives(primitives) => primitives.iter().all(|p| p.on == p.victim && p.given.is_none()),
            Self::StuckOpen(_) | Self::Address(_) => false,
        }
    }

    /// The cells that must be simulated, ascending: the named cells, or all if accesses of any cell may matter.
    pub(super) fn cells_concerned(&self) -> Vec<Cell> {
        let mut cells: Vec<_> = match self {
            Self::Primitives(primitives) if !self.hinges_on_the_access_before() => {
                primitives.iter().flat_map(Primitive::cells).collect()
            }
            _ => (0..CELLS).map(Cell).collect(),
        };
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// Whether it shows only in an access that follows another at once: a read that repeats the value read before, or
    /// an operation that fails just after another.
    pub(super) fn hinges_on_the_access_before(&self) -> bool {
        match self {
            Self::Primitives(primitives) => primitives.iter().any(|p| matches!(p.when, Sensitizer::WriteRead(..))),
            Self::StuckOpen(_) => true,
            Self::Address(address) => address.floating == Floating::Last,
        }
    }
}

impl Effect {
    pub(super) const fn inverts(self) -> bool {
        matches!(self, Self::Inverts | Self::InvertsAndMisreads)
    }

    pub(super) const fn misreads(self) -> bool {
        matches!(self, Self::Misreads | Self::InvertsAndMisreads)
    }
}

impl Primitive {
    /// A fault of one cell.
    const fn of_cell(cell: Cell, when: Sensitizer, effect: Effect) -> Self {
        Self { when, on: cell, given: None, victim: cell, effect }
    }

    /// The cells that it names.
    pub(super) fn cells(&self) -> [Cell; 3] {
        [self.on, self.given.map_or(self.on, |(cell, _)| cell), self.victim]
    }

    /// The same fault, but only while another cell, the aggressor, holds a value.
    pub(super) const fn while_holds(mut self, aggressor: Cell, value: bool) -> Self {
        self.given = Some((aggressor, value));
        self
    }
}

/// SAF: the cell always holds `value`.
pub(super) const fn stuck_at(cell: Cell, value: bool) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::State(!value), Effect::Inverts)
}

/// TF: the cell fails to change from `from`.
pub(super) const fn transition(cell: Cell, from: bool) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::Write(from, !from), Effect::Inverts)
}

/// WDF: writing the `value` that the cell already holds inverts it.
pub(super) const fn write_disturb(cell: Cell, value: bool) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::Write(value, value), Effect::Inverts)
}

/// RDF, DRDF or IRF, by effect: reading `value` destroys it, destroys it with a correct result, or returns the wrong
/// value.
pub(super) const fn bad_read(cell: Cell, value: bool, effect: Effect) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::Read(value), effect)
}

/// Dynamic RDF, DRDF or IRF, by effect: the same, but only just after a write from `from` to `to`.
pub(super) const fn bad_read_after_write(cell: Cell, from: bool, to: bool, effect: Effect) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::WriteRead(from, to), effect)
}

/// DRF: the cell leaks, and loses `value` after a while.
pub(super) const fn retention(cell: Cell, value: bool) -> Primitive {
    Primitive::of_cell(cell, Sensitizer::Delay(value), Effect::Inverts)
}

/// CFin: the aggressor's change from `from` inverts the victim.
pub(super) const fn inversion(aggressor: Cell, victim: Cell, from: bool) -> Primitive {
    Primitive { when: Sensitizer::Write(from, !from), on: aggressor, given: None, victim, effect: Effect::Inverts }
}

/// CFds: an operation on the aggressor makes the victim lose `loses`. With a write that changes the aggressor it is a
/// CFid.
pub(super) const fn disturb(aggressor: Cell, when: Sensitizer, victim: Cell, loses: bool) -> Primitive {
    Primitive { when, on: aggressor, given: Some((victim, loses)), victim, effect: Effect::Inverts }
}

/// CFst: while the aggressor holds `holds`, the victim's `value` is read wrong.
pub(super) const fn state_coupling(aggressor: Cell, holds: bool, victim: Cell, value: bool) -> Primitive {
    bad_read(victim, value, Effect::Misreads).while_holds(aggressor, holds)
}

/// CFst in which the aggressor's state is forced on the victim; the victim keeps the wrong value afterwards.
pub(super) const fn forced_state_coupling(aggressor: Cell, holds: bool, victim: Cell, loses: bool) -> Primitive {
    Primitive::of_cell(victim, Sensitizer::State(loses), Effect::Inverts).while_holds(aggressor, holds)
}

impl AddressFault {
    /// No fault: every address reaches its cell.
    pub(super) fn sound() -> Self {
        Self { reaches: std::array::from_fn(|cell| 1 << cell), floating: Floating::At(false), wired: Wired::And }
    }

    fn redirect(mut self, address: Cell, cells: &[Cell]) -> Self {
        self.reaches[usize::from(address.0)] = cells.iter().map(|cell| cell.alone()).sum();
        self
    }

    /// Fault A: an address reaches no cell, and no address reaches its cell.
    pub(super) fn nowhere(address: Cell, floating: Floating) -> Self {
        Self { floating, ..Self::sound().redirect(address, &[]) }
    }

    /// Fault B: an address reaches no cell, and another reaches its cell too.
    pub(super) fn taken_over(address: Cell, by: Cell, floating: Floating, wired: Wired) -> Self {
        Self { floating, wired, ..Self::sound().redirect(address, &[]).redirect(by, &[by, address]) }
    }

    /// Fault C: an address reaches another's cell, and no address reaches its own.
    pub(super) fn misled(address: Cell, to: Cell) -> Self {
        Self::sound().redirect(address, &[to])
    }

    /// Fault D: an address reaches another's cell as well as its own.
    pub(super) fn spread(address: Cell, also: Cell, wired: Wired) -> Self {
        Self { wired, ..Self::sound().redirect(address, &[address, also]) }
    }
}
