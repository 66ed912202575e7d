//! Memory between two uses: tested and ready, waiting for its test, or bad.

use std::collections::VecDeque;

use rampart_guard::PoolTarget;
use rampart_guard::pool_target::CHUNK_PAGES;
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
        self.names.get(usize::try_from(self.next).expect("a page of a chunk")..).unwrap_or_default()
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
    pub target: PoolTarget,
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
    pub fn new(target: PoolTarget) -> Self {
        let (ready, waiting, empty, retired) = Default::default();
        Self { target, ready, pages: 0, waiting, empty, retired }
    }

    /// The number of ready chunks, a partly used one included.
    pub fn count(&self) -> usize {
        usize::try_from(self.pages.div_ceil(CHUNK_PAGES)).expect("they are in memory")
    }

    /// Whether more chunks are needed.
    pub fn is_short(&self) -> bool {
        self.count() < self.target.chunks()
    }

    /// Takes the next chunk.
    pub fn take(&mut self) -> Option<Chunk> {
        let chunk = self.ready.pop_front()?;
        self.pages -= chunk.left();
        Some(chunk)
    }

    /// Puts a chunk back, to be used next.
    pub fn put_back(&mut self, chunk: Chunk) {
        if chunk.left() == 0 {
            self.empty.push(chunk.block);
        } else {
            self.pages += chunk.left();
            self.ready.push_front(chunk);
        }
        self.target.taken(self.count());
    }

    /// Adds a chunk, or marks it for return to the kernel if there are enough.
    pub fn add(&mut self, chunk: Chunk) {
        if self.is_short() {
            self.pages += chunk.left();
            self.ready.push_back(chunk);
        } else {
            self.empty.push(chunk.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use rampart_linux::PageKind;
    use rampart_memory::Bytes;

    use super::*;

    /// A chunk whose frames have names from `first` on.
    fn chunk(first: u64) -> Chunk {
        let block = Block::claim(Bytes::from_mib(2), PageKind::Base).unwrap();
        let names = (first..first + CHUNK_PAGES).collect();
        Chunk { block, names, next: 0, tested: Timestamp::default(), frames: Vec::new() }
    }

    #[test]
    fn no_more_chunks_are_kept_than_the_target_and_a_used_one_comes_next() {
        let mut chunks = Chunks::new(PoolTarget::new(1, Timestamp::default()));
        assert!(chunks.is_short());
        chunks.add(chunk(0));
        assert!(!chunks.is_short(), "there are as many as there should be");
        chunks.add(chunk(1000));
        assert_eq!((chunks.count(), chunks.empty.len()), (1, 1), "one too many goes back to the kernel");
        let mut used = chunks.take().unwrap();
        used.next = 500;
        assert_eq!(used.next_names(), (500..512).collect::<Vec<_>>());
        chunks.put_back(used);
        assert_eq!(chunks.count(), 1, "in part");
        assert_eq!(chunks.take().map(|chunk| chunk.left()), Some(12));
        let mut whole = chunk(2000);
        whole.next = CHUNK_PAGES;
        assert!(whole.next_names().is_empty());
        chunks.put_back(whole);
        assert_eq!((chunks.count(), chunks.empty.len()), (0, 2));
    }
}
