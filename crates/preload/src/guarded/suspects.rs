//! Frames on which a page was wrong, and those that take their place.
//!
//! **Problem.** A bit that memory changed once is right again when it is written; a cell that is stuck is not, and what is written there
//! looks right as long as it is in a cache. **Idea.** A page that was wrong goes to another frame, which is tested first, and its old frame is
//! tested as soon as it is nobody's: by the march test of all frames, on the spot, since errors are rare and a page takes a tenth of
//! a millisecond. **Why this way.** Nothing waits for a verdict, so none is lost when the process ends.
//!
//! A frame that fails its test is held until the process ends. One that passes did err, but not for good as far as a test
//! sees: it goes back to the kernel the first time, and is held from the second error on.

#![allow(unsafe_code, reason = "memory under test is reached by its addresses")]

use std::collections::BTreeMap;
use std::env;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rampart_codes::PageData;
use rampart_guard::{Counter, FrameKnobs, Refusal};
use rampart_linux::shared::HeldFrame;
use rampart_linux::{Block, PageKind, Pagemap, Pinning, Roots, SystemClock};
use rampart_memory::fault_map::Origin;
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Frame};

use super::frames::{FrameTest, Known};
use super::lost;
use super::shared::Shared;

/// How many frames are tested until one is good.
const FRAMES: usize = 8;

/// So many errors of a frame that passes its test condemn it.
const ERRORS: u32 = 2;

/// The test of all frames, if the environment names none.
const USUAL_TEST: &str = "test=March C-";

/// Whoever holds a frame.
pub enum Holder {
    Block(Block),
    Pipe(#[expect(dead_code, reason = "it holds a frame until it is dropped")] HeldFrame),
}

/// What tests such frames, and holds those that are bad.
pub struct Suspects {
    test: FrameTest,
    shared: &'static Shared,
    known: &'static Known,
    pagemap: Option<Pagemap>,
    /// Frames that passed their test, and how often a page was wrong there. `None`: errors are made up, and say nothing of frames.
    erred: Option<Mutex<BTreeMap<Frame, u32>>>,
    held: Mutex<Vec<Holder>>,
}

impl Suspects {
    /// Tests as the environment says.
    pub fn from_environment(shared: &'static Shared, known: &'static Known) -> Result<Arc<Self>, String> {
        let text = env::var("RAMPART_GUARD_FRAMES").unwrap_or_else(|_| USUAL_TEST.to_owned());
        let knobs: FrameKnobs = text.parse().map_err(|error| format!("RAMPART_GUARD_FRAMES: {error}"))?;
        Ok(Arc::new(Self {
            test: FrameTest::new(&knobs),
            shared,
            known,
            pagemap: Pagemap::open(&Roots::default()).ok(),
            erred: env::var_os("RAMPART_GUARD_INJECT").is_none().then(Mutex::default),
            held: Mutex::default(),
        }))
    }

    /// A page of its own on a frame that has just been tested.
    pub fn fresh(&self) -> Result<Block, Refusal> {
        for _ in 0..FRAMES {
            let block = self.known.claim(Bytes::new(FRAME_BYTES), PageKind::Base);
            let block = block.map_err(|error| Refusal::Kernel(error.to_string()))?;
            // SAFETY: the block is ours alone, one page that can be written, and nobody has a reference to it.
            if !unsafe { self.fails(block.base()) } {
                return Ok(block);
            }
            self.hold(Holder::Block(block));
        }
        Err(Refusal::Kernel("no frame holds what is written to it".to_owned()))
    }

    /// A page was wrong that was in this block: its frame is held if it is bad, and given back else.
    pub fn judge(&self, block: Block) {
        // SAFETY: as in `fresh`.
        if unsafe { self.is_bad(block.base()) } {
            self.hold(Holder::Block(block));
        }
    }

    /// Whether the frame below a page that was wrong is bad. Leaves zeros in the page.
    ///
    /// # Safety
    /// As of [`FrameTest::run_page`].
    pub unsafe fn is_bad(&self, page: NonNull<u8>) -> bool {
        let frame = self.frame(page);
        // SAFETY: the caller's promise.
        let fails = unsafe { self.fails(page) };
        fails || frame.filter(|_| frame == self.frame(page)).is_some_and(|frame| self.errs_again(frame))
    }

    /// Keeps a frame from everybody until the process ends.
    pub fn hold(&self, mut holder: Holder) {
        if let Holder::Block(block) = &mut holder {
            // So that it is not swapped out at least. Where a process may lock no more, it may be.
            let _ = block.pin_by(Pinning::Locked);
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(holder);
    }

    /// Writes a page, and has it in the memory and in no cache.
    ///
    /// # Safety
    /// As of [`FrameTest::run_page`].
    pub unsafe fn write(&self, page: NonNull<u8>, content: &PageData) {
        // SAFETY: the caller's promise.
        unsafe { self.test.write(page, content) };
    }

    /// # Safety
    /// As of [`FrameTest::run_page`].
    unsafe fn fails(&self, page: NonNull<u8>) -> bool {
        let (frame, began, counts) = (self.frame(page), Instant::now(), self.shared.counts);
        // SAFETY: the caller's promise.
        let seen = unsafe { self.test.run_page(page, None, SystemClock.now()) };
        counts.add(Counter::Tested, 1);
        counts.add_time(Counter::TestNanos, began.elapsed());
        if let Some(seen) = &seen {
            // In this order: the process may end at any moment, and what is counted was told.
            self.shared.failed(frame.filter(|_| frame == self.frame(page)), Origin::Real, seen);
            counts.add(Counter::Retired, 1);
        }
        seen.is_some()
    }

    fn errs_again(&self, frame: Frame) -> bool {
        let Some(erred) = &self.erred else { return false };
        let mut erred: MutexGuard<'_, _> = erred.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = erred.entry(frame).or_insert(0);
        *errors += 1;
        let again = *errors == ERRORS;
        drop(erred);
        if again {
            self.shared.erring(frame);
            self.shared.counts.add(Counter::Retired, 1);
        }
        again
    }

    fn frame(&self, page: NonNull<u8>) -> Option<Frame> {
        let (pagemap, mut frames) = (self.pagemap.as_ref()?, Vec::new());
        pagemap.frames_of(page, 1, &mut frames).ok()?;
        frames.first().copied().flatten().and_then(lost::own)
    }
}
