//! Frames that are known to be bad, kept from the program.
//!
//! **Problem.** A frame that failed, in this process, in another or in a test last week, is memory like any other to a
//! kernel that was not told, or was booted since. **Idea.** What the kernel gives is compared with the list that is
//! handed over ([`BadFrames`]) before the program gets it; what is on the list is held for as long as the process
//! lives, and the kernel is asked again. **Why this way.** Only who holds a frame keeps it from being given out, and
//! each turn holds one frame more, so it ends.
//!
//! Pages that come to such a frame in another way, because the kernel moves them, copies them after a fork, or gave
//! them before there was a guard, are found when they are locked, and put elsewhere
//! ([`super::pool::TestedFramePool::renew`]). Where frame numbers are hidden nothing can be compared.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::SystemTime;

use rampart_guard::{BadFrames, Counter, GuardCounts};
use rampart_linux::{Block, Error, PageKind, Pagemap, Pinning, Roots};
use rampart_memory::{Bytes, Frame};

/// The list, and pages on frames of it.
pub struct KnownBadPages {
    counts: &'static GuardCounts,
    pagemap: Option<Pagemap>,
    path: Option<PathBuf>,
    list: RwLock<List>,
    kept: Mutex<Vec<Block>>,
}

/// What was read, and when the file was written.
#[derive(Default)]
struct List {
    frames: BadFrames,
    written: Option<SystemTime>,
}

impl KnownBadPages {
    /// The list in a folder; none without.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn begin(folder: Option<&Path>, counts: &'static GuardCounts) -> Result<Self, String> {
        let known = Self {
            counts,
            pagemap: Pagemap::open(&Roots::default()).ok(),
            path: folder.map(|folder| folder.join(BadFrames::FILE)),
            list: RwLock::default(),
            kept: Mutex::default(),
        };
        known.refresh().map(|()| known)
    }

    /// Reads the list again if it was replaced.
    ///
    /// # Errors
    /// What is wrong with it; the old one holds on.
    pub fn refresh(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let written = match fs::metadata(path).and_then(|file| file.modified()) {
            Ok(written) => Some(written),
            // Where nothing can be compared, nothing is handed over.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        if self.list.read().expect("no panic").written == written {
            return Ok(());
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let frames = text.parse().map_err(|error| format!("{}: {error}", path.display()));
        let mut list = self.list.write().expect("no panic");
        list.written = written;
        list.frames = frames?;
        Ok(())
    }

    /// Whether nothing is to be kept from the program.
    pub fn is_empty(&self) -> bool {
        self.pagemap.is_none() || self.list.read().expect("no panic").frames.is_empty()
    }

    /// Which of some pages are on frames of the list.
    pub fn among(&self, frames: &[Option<Frame>]) -> Vec<u64> {
        self.list.read().expect("no panic").frames.among(frames)
    }

    /// Which of some pages are; `frames_of` reads their frames, if they can be compared with anything.
    pub fn below(&self, frames_of: impl FnOnce(&Pagemap, &mut Vec<Option<Frame>>) -> Result<(), Error>) -> Vec<u64> {
        let list = self.list.read().expect("no panic");
        let Some(pagemap) = self.pagemap.as_ref().filter(|_| !list.frames.is_empty()) else { return Vec::new() };
        let mut frames = Vec::new();
        frames_of(pagemap, &mut frames).map_or_else(|_| Vec::new(), |()| list.frames.among(&frames))
    }

    /// Memory from the kernel, as [`Block::claim`] has it, none of it on such a frame.
    ///
    /// # Errors
    /// Those of [`Block::claim`].
    pub fn claim(&self, bytes: Bytes, kind: PageKind) -> Result<Block, Error> {
        loop {
            let block = Block::claim(bytes, kind)?;
            let bad = self.below(|pagemap, frames| block.frames(pagemap, frames));
            if bad.is_empty() {
                return Ok(block);
            }
            self.counts.add(Counter::Avoided, bad.len() as u64);
            self.kept.lock().expect("no panic").extend(hold(block, &bad));
        }
    }
}

/// Holds these pages of a block, and gives the others back.
pub fn hold(block: Block, pages: &[u64]) -> Vec<Block> {
    let mut held = block.keep_only(pages).expect("they are pages of the block");
    for page in &mut held {
        // So that it is not swapped out at least. Where a process may lock no more, it may be.
        let _ = page.pin_by(Pinning::Locked);
    }
    held
}
