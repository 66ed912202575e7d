//! Memory between two uses: tested and ready, waiting for its test, spoilt.

use std::collections::VecDeque;

use rampart_guard::PoolTarget;
use rampart_guard::stock::TRAY_PAGES;
use rampart_linux::Block;
use rampart_memory::{Frame, Timestamp};

/// Memory to be tested.
pub struct Raw {
    pub block: Block,
    /// What its frames are called, where faults are emulated.
    pub names: Vec<u64>,
}

/// Memory that passed its test and holds zeros; it is used up from its first page on.
pub struct Chunk {
    pub block: Block,
    /// What its frames are called, where faults are emulated.
    pub names: Vec<u64>,
    /// The first page that was not given away.
    pub next: u64,
    /// When its test began.
    pub tested: Timestamp,
    /// The frames that were tested, where the kernel says.
    pub frames: Vec<Option<Frame>>,
}

impl Chunk {
    /// What the pages that are used next are called.
    pub fn next_names(&self) -> &[u64] {
        self.names.get(usize::try_from(self.next).expect("a page of a tray")..).unwrap_or_default()
    }

    /// To be tested again.
    pub fn raw(self) -> Raw {
        Raw { block: self.block, names: self.names }
    }

    /// Pages left.
    pub fn left(&self) -> u64 {
        self.block.pages() - self.next
    }
}

/// All of it.
pub struct Chunks {
    pub stock: PoolTarget,
    ready: VecDeque<Chunk>,
    /// Pages in `ready`.
    pages: u64,
    /// To be tested.
    pub waiting: Vec<Raw>,
    /// Of no use any more: given back to the kernel by a thread that has the time.
    pub empty: Vec<Block>,
    /// Pages on frames that failed. They stay here, so that nobody gets them.
    pub retired: Vec<Block>,
}

impl Chunks {
    pub fn new(stock: PoolTarget) -> Self {
        let (ready, waiting, empty, retired) = Default::default();
        Self { stock, ready, pages: 0, waiting, empty, retired }
    }

    /// How many trays are ready, one that is begun counted as one.
    pub fn trays(&self) -> usize {
        usize::try_from(self.pages.div_ceil(TRAY_PAGES)).expect("they are in memory")
    }

    /// Whether more is to be made ready.
    pub fn is_short(&self) -> bool {
        self.trays() < self.stock.wanted()
    }

    /// The tray that is used next, taken off the shelf.
    pub fn take(&mut self) -> Option<Chunk> {
        let tray = self.ready.pop_front()?;
        self.pages -= tray.left();
        Some(tray)
    }

    /// Puts a tray back, where it is used next.
    pub fn put_back(&mut self, tray: Chunk) {
        if tray.left() == 0 {
            self.empty.push(tray.block);
        } else {
            self.pages += tray.left();
            self.ready.push_front(tray);
        }
        self.stock.taken(self.trays());
    }

    /// Adds a tray, or gives it back to the kernel if there is enough.
    pub fn add(&mut self, tray: Chunk) {
        if self.is_short() {
            self.pages += tray.left();
            self.ready.push_back(tray);
        } else {
            self.empty.push(tray.block);
        }
    }
}
