//! The state of each block.
//!
//! A range may be a terabyte, of which a program uses little: the table is allocated in pieces, each when its first
//! block is used. A block's lock is held during each operation on it, so a fault waits only for an operation on its own
//! block.

use std::sync::{Mutex, MutexGuard, OnceLock};

use rampart_memory::Timestamp;

use crate::state::layout::{BlockIndex, Layout, PageIndex};
use crate::state::units::Units;

/// Blocks of a piece.
const PIECE: u64 = 4096;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Untouched: it was never used, or not since it was forgotten; it is in neither range.
    Untouched,
    /// It is used; each of its units is unlocked, pending, or locked.
    Used,
    /// Excluded: the program changed the mapping in a way that a guard cannot follow. All of its units are unlocked.
    Excluded,
}

/// How much of a block is unlocked for a fault, where nothing else is known of the access pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All: it may be one huge page. Since then the program came back this often, outside of sweeps.
    Whole {
        /// How often.
        returns: u8,
    },
    /// Units, because the program uses it irregularly: `run` of them at once; `next` is the one after the last of
    /// these.
    Units {
        /// The next unit, if the program continues.
        next: u32,
        /// Units that were unlocked last.
        run: u32,
        /// The number of units of all blocks that had been unlocked by then.
        at: u64,
    },
}

impl Grain {
    /// Nothing is known.
    pub const NEW: Self = Self::Whole { returns: 0 };
}

/// One block.
#[derive(Debug)]
pub struct GuardBlock {
    /// Its use.
    pub state: BlockState,
    /// Unlocked units.
    pub unlocked: Units,
    /// Pending units: in the vault, their codes not made yet.
    pub pending: Units,
    /// Pre-verified units: in the vault, verified for a program that is about to use them. They count as unlocked until
    /// they are mapped or discarded. Units of a used block that are in none of these sets are locked: in the vault,
    /// with right codes.
    pub pre_verified: Units,
    /// Unlocked units that were not written since, and whose codes are right: their first write stops.
    pub watched: Units,
    /// The block is unlocked so often without being watched, because it was written recently.
    pub unwatched: u8,
    /// How much of it is unlocked per fault.
    pub grain: Grain,
    /// System calls that use it now: it stays unlocked for them.
    pub holders: u32,
    /// The codes of its pages in sequence; none before they are first made.
    pub codes: Box<[u8]>,
    /// The time of its frames' tests; `None`: not all are tested.
    pub tested: Option<Timestamp>,
    /// How often in a row its re-placement was refused, and the time of the last attempt.
    pub refused: Option<(u32, Timestamp)>,
    /// Pages that were reported as beyond correction, and not written since.
    pub reported: Vec<PageIndex>,
}

impl GuardBlock {
    /// Whether the program continues in this block where it was last.
    #[must_use]
    pub const fn goes_on_at(&self, unit: u32) -> bool {
        matches!(self.grain, Grain::Units { next, .. } if next == unit)
    }

    /// The units of the last unlocked run, if this unit is one of them; otherwise none.
    #[must_use]
    pub fn last_run_from(&self, unit: u32) -> Units {
        match self.grain {
            Grain::Units { next, run, .. } if (next.saturating_sub(run)..next).contains(&unit) => {
                Units::run(unit, next - unit)
            }
            _ => Units::NONE,
        }
    }

    fn new() -> Self {
        Self {
            state: BlockState::Untouched,
            unlocked: Units::NONE,
            pending: Units::NONE,
            pre_verified: Units::NONE,
            watched: Units::NONE,
            unwatched: 0,
            grain: Grain::NEW,
            holders: 0,
            codes: Box::default(),
            tested: None,
            refused: None,
            reported: Vec::new(),
        }
    }
}

type Piece = Box<[Mutex<GuardBlock>]>;

/// All blocks.
#[derive(Debug)]
pub struct BlockTable {
    layout: Layout,
    pieces: Box<[OnceLock<Piece>]>,
}

impl BlockTable {
    /// A table of untouched blocks.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, pieces: (0..layout.blocks().div_ceil(PIECE)).map(|_| OnceLock::new()).collect() }
    }

    /// The division of the range.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// A block, locked for the lifetime of the result. Panics beyond the last.
    pub fn lock(&self, block: BlockIndex) -> MutexGuard<'_, GuardBlock> {
        assert!(block.0 < self.layout.blocks(), "a block of the range");
        let piece = usize::try_from(block.0 / PIECE).expect("pieces have addresses");
        let place = usize::try_from(block.0 % PIECE).expect("a piece is small");
        let blocks = self.pieces[piece].get_or_init(|| (0..PIECE).map(|_| Mutex::new(GuardBlock::new())).collect());
        blocks[place].lock().expect("nobody panics with a block in hand")
    }

    /// The units of a block that are in the vault.
    #[must_use]
    pub fn not_unlocked(&self, known: &GuardBlock) -> Units {
        match known.state {
            BlockState::Used => self.layout.all_units() - known.unlocked,
            BlockState::Untouched | BlockState::Excluded => Units::NONE,
        }
    }

    /// The locked ones of them.
    #[must_use]
    pub fn locked(&self, known: &GuardBlock) -> Units {
        self.not_unlocked(known) - known.pending - known.pre_verified
    }

    /// Blocks of pieces in use, ascending.
    pub fn known(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let pieces = self.pieces.iter().zip(0..).filter(|(piece, _)| piece.get().is_some());
        let blocks = pieces.flat_map(|(_, number)| (number * PIECE..(number + 1) * PIECE).map(BlockIndex));
        blocks.filter(|block| block.0 < self.layout.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::Bytes;

    #[test]
    fn the_last_run_of_a_block_is_known_from_each_of_its_units_on() {
        let mut block = GuardBlock::new();
        assert!((0..8).all(|unit| !block.goes_on_at(unit) && block.last_run_from(unit).is_empty()), "it is whole");
        block.grain = Grain::Units { next: 6, run: 2, at: 0 };
        let runs = [3, 4, 5, 6].map(|unit| block.last_run_from(unit));
        assert_eq!(runs, [Units::NONE, Units::run(4, 2), Units::run(5, 1), Units::NONE]);
        assert_eq!([5, 6, 7].map(|unit| block.goes_on_at(unit)), [false, true, false]);
    }

    /// A huge range costs only what is used of it.
    #[test]
    fn known_blocks_are_those_of_the_pieces_in_use_and_none_beyond_the_range() {
        let table = BlockTable::new(Layout::new(Bytes::from_mib(2 * 9000), 512, 16).unwrap());
        assert_eq!(table.known().count(), 0);
        [8192, 5].into_iter().for_each(|block| drop(table.lock(BlockIndex(block))));
        let known: Vec<_> = table.known().map(|block| block.0).collect();
        assert_eq!(known, (0..4096).chain(8192..9000).collect::<Vec<_>>());
    }
}
