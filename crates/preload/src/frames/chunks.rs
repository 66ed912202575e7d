//! Memory between two uses: tested and ready, waiting for its test, or bad.

use std::collections::VecDeque;

use rampart_guard::PoolTarget;
use rampart_guard::stock::TRAY_PAGES;
use rampart_linux::Block;
use rampart_memory::{Frame, Timestamp};

/// Memory that waits for its test.
pub struct Raw {
    pub block: Block,
    /// The names of its frames, if faults are emulated.
    pub names: Vec<u64>,
}

/// Memory that passed its test and holds zeros; its pages are used from the first on.
pub struct Chunk {
    pub block: Block,
    /// The names of its frames, if faults are emulated.
    pub names: Vec<u64>,
    /// The first page that is still unused.
    pub next: u64,
    /// When its test began.
    pub tested: Timestamp,
    /// The tested frames, if the kernel shows them.
    pub frames: Vec<Option<Frame>>,
}

impl Chunk {
    /// The names of the next pages.
    pub fn next_names(&self) -> &[u64] {
        self.names.get(usize::try_from(self.next).expect("a page of a tray")..).unwrap_or_default()
    }

    /// Turns it into memory that waits for its test.
    pub fn raw(self) -> Raw {
        Raw { block: self.block, names: self.names }
    }

    /// Unused pages.
    pub fn left(&self) -> u64 {
        self.block.pages() - self.next
    }
}

/// All chunks.
pub struct Chunks {
    pub stock: PoolTarget,
    ready: VecDeque<Chunk>,
    /// Pages in `ready`.
    pages: u64,
    /// Memory that waits for its test.
    pub waiting: Vec<Raw>,
    /// Useless memory: a thread with time gives it back to the kernel.
    pub empty: Vec<Block>,
    /// Pages on frames that failed. They stay here, so that nobody gets them.
    pub retired: Vec<Block>,
}

impl Chunks {
    pub fn new(stock: PoolTarget) -> Self {
        let (ready, waiting, empty, retired) = Default::default();
        Self { stock, ready, pages: 0, waiting, empty, retired }
    }

    /// The number of ready chunks, a partly used one included.
    pub fn trays(&self) -> usize {
        usize::try_from(self.pages.div_ceil(TRAY_PAGES)).expect("they are in memory")
    }

    /// Whether more chunks are needed.
    pub fn is_short(&self) -> bool {
        self.trays() < self.stock.wanted()
    }

    /// Takes the next chunk.
    pub fn take(&mut self) -> Option<Chunk> {
        let tray = self.ready.pop_front()?;
        self.pages -= tray.left();
        Some(tray)
    }

    /// Puts a chunk back, to be used next.
    pub fn put_back(&mut self, tray: Chunk) {
        if tray.left() == 0 {
            self.empty.push(tray.block);
        } else {
            self.pages += tray.left();
            self.ready.push_front(tray);
        }
        self.stock.taken(self.trays());
    }

    /// Adds a chunk, or marks it for return to the kernel if there are enough.
    pub fn add(&mut self, tray: Chunk) {
        if self.is_short() {
            self.pages += tray.left();
            self.ready.push_back(tray);
        } else {
            self.empty.push(tray.block);
        }
    }
}
