//! What is known of each block.
//!
//! A range may be a terabyte, of which a program uses little: the table is made in pieces, each when its first block is
//! used. A block's lock is held while anything is done to it, so a fault waits for whoever locks or verifies its block,
//! and for nobody else.

use std::sync::{Mutex, MutexGuard, OnceLock};

use rampart_memory::Timestamp;

use crate::state::layout::{BlockIndex, Layout, PageIndex};
use crate::state::units::Units;

/// Blocks of a piece.
const PIECE: u64 = 4096;

/// What a block is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// It was never used, or not since it was forgotten: it is nowhere.
    Fresh,
    /// It is used; each of its units is open, stale, or locked.
    Used,
    /// The program has it, and for good: it did to the mapping what a guard cannot follow. All of its units are open.
    Kept,
}

/// How much of a block is opened for a program that wants a page of it, where nothing else is known of what it will
/// want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All: it may be one huge page. Since it has been so the program came back this often, and not as part of a sweep.
    Whole {
        /// How often.
        returns: u8,
    },
    /// Units, since the program uses it here and there: `run` of them at once, and `next` is the one behind the last of
    /// these.
    Units {
        /// The next unit, if the program goes on as it did.
        next: u32,
        /// Units that were opened last.
        run: u32,
        /// How many units of all blocks had been opened then.
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
    /// What it is to the program.
    pub state: BlockState,
    /// Units that the program has.
    pub open: Units,
    /// Units that are in the vault, and whose codes are not made yet.
    pub stale: Units,
    /// Units that are in the vault, and were verified for a program that is about to want them: they are opened without
    /// it, and count as open until they are, or are let go. Those of a used block that are none of these are locked: in
    /// the vault, and their codes are right.
    pub ready: Units,
    /// Open units that were not written since they were opened, and whose codes are right: their first write stops.
    pub watched: Units,
    /// So often it is opened without being watched, since it was written of late.
    pub unwatched: u8,
    /// How much of it is opened.
    pub grain: Grain,
    /// System calls that use it just now: it stays open for them.
    pub holders: u32,
    /// The codes of its pages, one after the other; none before they are first made.
    pub codes: Box<[u8]>,
    /// When its frames were tested; `None`: not all were.
    pub tested: Option<Timestamp>,
    /// How often in a row it could not be put on tested frames, and when it was tried last.
    pub refused: Option<(u32, Timestamp)>,
    /// Pages that were reported as beyond correction, and were not written since.
    pub reported: Vec<PageIndex>,
}

impl GuardBlock {
    /// Whether the program goes on in this block where it was last.
    #[must_use]
    pub const fn goes_on_at(&self, unit: u32) -> bool {
        matches!(self.grain, Grain::Units { next, .. } if next == unit && unit > 0)
    }

    /// Those of the units that were opened last which a program wants that comes to this one; none if it is none of
    /// them.
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
            state: BlockState::Fresh,
            open: Units::NONE,
            stale: Units::NONE,
            ready: Units::NONE,
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
    /// All blocks are fresh.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, pieces: (0..layout.blocks().div_ceil(PIECE)).map(|_| OnceLock::new()).collect() }
    }

    /// How the range is cut.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// A block, for as long as the guard of its lock lives. Panics beyond the last.
    pub fn lock(&self, block: BlockIndex) -> MutexGuard<'_, GuardBlock> {
        assert!(block.0 < self.layout.blocks(), "a block of the range");
        let piece = usize::try_from(block.0 / PIECE).expect("pieces have addresses");
        let place = usize::try_from(block.0 % PIECE).expect("a piece is small");
        let blocks = self.pieces[piece].get_or_init(|| (0..PIECE).map(|_| Mutex::new(GuardBlock::new())).collect());
        blocks[place].lock().expect("nobody panics with a block in hand")
    }

    /// The units of a block that are in the vault.
    #[must_use]
    pub fn closed(&self, known: &GuardBlock) -> Units {
        match known.state {
            BlockState::Used => self.layout.all_units() - known.open,
            BlockState::Fresh | BlockState::Kept => Units::NONE,
        }
    }

    /// Those of them that are locked.
    #[must_use]
    pub fn locked(&self, known: &GuardBlock) -> Units {
        self.closed(known) - known.stale - known.ready
    }

    /// Blocks of pieces that are in use, ascending.
    pub fn known(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let pieces = self.pieces.iter().zip(0..).filter(|(piece, _)| piece.get().is_some());
        let blocks = pieces.flat_map(|(_, number)| (number * PIECE..(number + 1) * PIECE).map(BlockIndex));
        blocks.filter(|block| block.0 < self.layout.blocks())
    }
}
