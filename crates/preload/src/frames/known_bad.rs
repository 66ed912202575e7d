//! Known bad frames, kept from the program.
//!
//! **Problem.** A frame that failed, in this process, in another or in a test last week, is ordinary memory to a kernel
//! that did not learn of it, or that has rebooted since. **Idea.** Frames from the kernel are compared with the list of
//! `rampart run` ([`BadFrames`]) before the program gets them; a listed one is held for as long as the process lives,
//! and the kernel is asked again. **Why this way.** Only holding a frame keeps the kernel from giving it out, and each
//! attempt holds one frame more, so this ends.
//!
//! A page may come to such a frame in another way: the kernel moves it, copies it after a fork, or gave it before the
//! guard began. Such pages are found when they are locked, and moved ([`super::pool::TestedFramePool::re_place`]).
//! Where frame numbers are hidden, nothing can be compared.
//!
//! A frame that failed its test in this process is retired at once, where the process may do that: a frame that is only
//! held can go to any process from the moment that this one ends until somebody retires it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::SystemTime;

use rampart_guard::{BadFrames, Counter, GuardCounts};
use rampart_linux::retire::{RetireEvidence, RetireOutcome};
use rampart_linux::shared::{HeldFrame, HeldFrameRetirer, SharedRange};
use rampart_linux::{Block, Error, PageKind, Pagemap, Pinning, Retirer, Roots};
use rampart_memory::{Bytes, Frame};

/// The list, and held pages on its frames.
pub struct KnownBadPages {
    counts: &'static GuardCounts,
    pagemap: Option<Pagemap>,
    retirer: Retirer,
    held_retirer: Option<HeldFrameRetirer>,
    path: Option<PathBuf>,
    list: RwLock<List>,
    kept: Mutex<Vec<Block>>,
}

/// The list, and the time of its file.
#[derive(Default)]
struct List {
    frames: BadFrames,
    written: Option<SystemTime>,
}

impl KnownBadPages {
    /// The list in a folder; an empty one without a folder.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn begin(folder: Option<&Path>, counts: &'static GuardCounts) -> Result<Self, String> {
        let retirer = Retirer::new(&Roots::default());
        let known = Self {
            counts,
            pagemap: Pagemap::open(&Roots::default()).ok(),
            held_retirer: HeldFrameRetirer::open(&Roots::default(), &retirer),
            retirer,
            path: folder.map(|folder| folder.join(BadFrames::FILE)),
            list: RwLock::default(),
            kept: Mutex::default(),
        };
        known.refresh().map(|()| known)
    }

    /// An empty list where the kernel shows no frame, for a test: nothing is retired.
    #[cfg(test)]
    pub fn begin_hidden(counts: &'static GuardCounts) -> Result<Self, String> {
        Self::begin(None, counts).map(|known| Self { pagemap: None, held_retirer: None, ..known })
    }

    /// These frames on a kernel that says where pages are and which frames are retired, for a test.
    #[cfg(test)]
    pub fn of(kernel: &super::fake_frames::FakeFrames, frames: &[u64]) -> Self {
        let frames = frames.iter().filter_map(|&frame| Frame::new(frame)).collect();
        Self {
            pagemap: Some(kernel.pagemap()),
            retirer: Retirer::new(&kernel.roots()),
            held_retirer: None,
            list: RwLock::new(List { frames, written: None }),
            ..Self::begin(None, Box::leak(Box::default())).expect("an empty list")
        }
    }

    /// Reads the list again if it was replaced.
    ///
    /// # Errors
    /// What is wrong with it; the old one stays in force.
    pub fn refresh(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let written = match fs::metadata(path).and_then(|file| file.modified()) {
            Ok(written) => Some(written),
            // Where nothing can be compared, there is no file.
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

    /// Whether no frame is to be kept from the program.
    pub fn is_empty(&self) -> bool {
        self.pagemap.is_none() || self.list.read().expect("no panic").frames.is_empty()
    }

    /// The pages on frames of the list.
    pub fn among(&self, frames: &[Option<Frame>]) -> Vec<u64> {
        self.list.read().expect("no panic").frames.among(frames)
    }

    /// The same; `frames_of` reads the frames, if there is anything to compare them with.
    pub fn below(&self, frames_of: impl FnOnce(&Pagemap, &mut Vec<Option<Frame>>) -> Result<(), Error>) -> Vec<u64> {
        let list = self.list.read().expect("no panic");
        let Some(pagemap) = self.pagemap.as_ref().filter(|_| !list.frames.is_empty()) else { return Vec::new() };
        let mut frames = Vec::new();
        frames_of(pagemap, &mut frames).map_or_else(|_| Vec::new(), |()| list.frames.among(&frames))
    }

    /// Asks the kernel to retire the frame of a page that nobody else uses. Returns whether it did; the page has
    /// another frame then.
    pub fn retire(&self, page: &mut Block) -> bool {
        let Some((pagemap, frame)) = self.pagemap.as_ref().zip(self.frame(page)) else { return false };
        is_marked(&self.retirer.retire_own(frame, page, 0, pagemap))
    }

    /// The same for the frame of a locked page; the page keeps its content.
    pub fn retire_shared(&self, frame: Frame, range: &SharedRange, page: u64) -> bool {
        let Some(pagemap) = &self.pagemap else { return false };
        is_marked(&range.retire(&self.retirer, frame, page, pagemap))
    }

    /// The same for a frame that has no page any more.
    pub fn retire_held(&self, held: &HeldFrame) -> bool {
        self.held_retirer.as_ref().is_some_and(|by| is_marked(&by.retire(&self.retirer, held)))
    }

    /// The frame of a block's first page, if the kernel shows it.
    fn frame(&self, page: &Block) -> Option<Frame> {
        page.frame_of(0, self.pagemap.as_ref()?).ok().flatten()
    }

    /// Holds these pages of a block, and gives the others back. Frames that failed are retired instead, if the kernel
    /// does that.
    pub fn keep(&self, block: Block, pages: &[u64], failed: &BTreeSet<Frame>) -> Vec<Block> {
        let mut held = hold(block, pages);
        held.retain_mut(|page| {
            let has_failed = page.pages() == 1 && self.frame(page).is_some_and(|frame| failed.contains(&frame));
            !(has_failed && self.retire(page))
        });
        held
    }

    /// Memory from the kernel, as of [`Block::claim`], without any such frame.
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

/// Whether the kernel says of a frame that it is retired.
fn is_marked(outcome: &RetireOutcome) -> bool {
    *outcome == RetireOutcome::Retired(RetireEvidence::Marked)
}

/// Holds these pages of a block, and gives the others back.
fn hold(block: Block, pages: &[u64]) -> Vec<Block> {
    let mut held = block.keep_only(pages).expect("they are pages of the block");
    for page in &mut held {
        // This at least keeps it from being swapped out, unless the process may lock no more.
        let _ = page.pin_by(Pinning::Locked);
    }
    held
}

#[cfg(test)]
mod tests {
    use rampart_linux::retire::RetireRefusal;
    use rampart_memory::FRAME_BYTES;
    use rustix::io::Errno;

    use super::*;
    use crate::frames::fake_frames::{FakeFrames, without_right};

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    fn begin(folder: Option<&Path>) -> Result<KnownBadPages, String> {
        KnownBadPages::begin(folder, Box::leak(Box::default()))
    }

    /// A block of this many pages on frames from 10 on.
    fn on_frames(kernel: &FakeFrames, pages: u64) -> Block {
        let block = Block::claim(Bytes::new(pages * FRAME_BYTES), PageKind::Base).unwrap();
        (0..pages).for_each(|page| kernel.put(block.base(), page, 10 + page));
        block
    }

    #[test]
    fn a_list_that_is_not_there_is_empty_and_one_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let known = begin(Some(folder.path())).unwrap();
        assert!(known.is_empty());
        let path = folder.path().join(BadFrames::FILE);
        fs::write(&path, "7\n").unwrap();
        known.refresh().unwrap();
        assert_eq!(known.among(&[None, Some(frame(7))]), [1]);
        fs::remove_file(&path).unwrap();
        known.refresh().unwrap();
        assert_eq!(known.among(&[Some(frame(7))]), [0], "the old list stays");
        fs::write(&path, "seven").unwrap();
        // The old one's time may be the same by a coarse clock.
        fs::File::options().write(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(known.refresh().unwrap_err().contains(BadFrames::FILE));
        assert_eq!(known.among(&[Some(frame(7))]), [0]);
        // A file in place of the folder.
        let refused = begin(Some(&path)).err().expect("nothing is in a file");
        assert!(refused.contains(BadFrames::FILE), "{refused}");
    }

    #[test]
    fn nothing_is_compared_without_a_list_or_without_frame_numbers() {
        let kernel = FakeFrames::new();
        let seven = |_: &Pagemap, frames: &mut Vec<_>| {
            frames.extend([Some(frame(6)), Some(frame(7))]);
            Ok(())
        };
        let known = KnownBadPages::of(&kernel, &[7]);
        assert_eq!((known.is_empty(), known.below(seven)), (false, vec![1]));
        let hidden = KnownBadPages { pagemap: None, ..KnownBadPages::of(&kernel, &[7]) };
        assert_eq!((hidden.is_empty(), hidden.below(seven)), (true, vec![]));
        let empty = KnownBadPages::of(&kernel, &[]);
        assert!(empty.is_empty() && empty.below(|_, _| panic!("there is nothing to compare with")).is_empty());
    }

    #[test]
    fn only_a_mark_of_the_kernel_says_that_a_frame_is_retired() {
        let outcomes = [
            RetireOutcome::Retired(RetireEvidence::Marked),
            RetireOutcome::Retired(RetireEvidence::Said),
            RetireOutcome::Refused(RetireRefusal::NotMarked),
            RetireOutcome::Refused(RetireRefusal::Kernel(Errno::BUSY)),
        ];
        assert_eq!(outcomes.map(|outcome| is_marked(&outcome)), [true, false, false, false]);
    }

    #[test]
    fn of_the_pages_that_are_kept_those_whose_frames_failed_are_retired_where_the_kernel_does_that() {
        let kernel = FakeFrames::new();
        let known = KnownBadPages::of(&kernel, &[]);
        let failed = BTreeSet::from([frame(12), frame(13)]);
        // The kernel retires frame 12, and would retire 11, which did not fail.
        [11, 12].into_iter().for_each(|number| kernel.mark(frame(number)));
        let block = on_frames(&kernel, 5);
        let held = without_right(|| known.keep(block, &[1, 2, 3], &failed));
        let frames: Vec<_> = held.iter().map(|page| known.frame(page)).collect();
        assert_eq!(frames, [Some(frame(11)), Some(frame(13))]);
        let hidden = KnownBadPages { pagemap: None, ..KnownBadPages::of(&kernel, &[]) };
        assert!(!hidden.retire(&mut on_frames(&kernel, 3)), "nobody knows which frame");
    }

    #[test]
    fn the_frame_of_a_locked_page_counts_as_retired_if_the_kernel_marks_it() {
        let kernel = FakeFrames::new();
        let known = KnownBadPages::of(&kernel, &[]);
        let range = SharedRange::prepare(Bytes::from_mib(2), PageKind::Base).unwrap();
        // The page has left both by now, so this kernel is not asked.
        kernel.put(range.behind(3), 0, 20);
        kernel.mark(frame(21));
        assert_eq!([21, 22].map(|number| known.retire_shared(frame(number), &range, 3)), [true, false]);
        let hidden = KnownBadPages { pagemap: None, ..KnownBadPages::of(&kernel, &[]) };
        assert!(!hidden.retire_shared(frame(21), &range, 3));
    }

    #[test]
    fn a_held_frame_counts_as_retired_if_the_kernel_takes_it_and_marks_it() {
        let kernel = FakeFrames::new();
        let Some((marked, other)) = kernel.held(30).zip(kernel.held(31)) else { return };
        kernel.mark(frame(30));
        let roots = kernel.roots();
        let file = roots.sys("devices/system/memory/hard_offline_page");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::create_dir_all(roots.proc("sys/vm")).unwrap();
        fs::write(&file, "").unwrap();
        fs::write(roots.proc("sys/vm/memory_failure_recovery"), "1\n").unwrap();
        let known = KnownBadPages::of(&kernel, &[]);
        assert!(!known.retire_held(&marked), "without the kernel's file");
        let by = HeldFrameRetirer::open(&roots, &known.retirer);
        assert!(by.is_some());
        let known = KnownBadPages { held_retirer: by, ..known };
        assert!(known.retire_held(&marked));
        assert_eq!(fs::read_to_string(&file).unwrap(), "0x1e000", "its address");
        assert!(!known.retire_held(&other));
    }
}
