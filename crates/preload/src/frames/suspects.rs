//! Suspect frames, on which a page had an error, and the frames that replace them.
//!
//! **Problem.** A bit that flipped once is right again after a write; a stuck cell is not, and content that is written
//! there looks right as long as it is in a cache, or for some milliseconds. **Idea.** A page with an error moves to
//! another frame, which is tested first, and its old frame is tested as soon as nobody uses it: by the march test of
//! all frames, at once, and again after rests ([`rampart_guard::probation`]). **Why this way.** Errors are rare and a
//! test of a page takes a tenth of a millisecond, so the first verdict costs nothing; for the others only the frame
//! waits, which the maintenance thread tests.
//!
//! A frame that fails a test is retired at once where the process may do that, and else held until the process ends.
//! One that passes all tests did err, but not permanently as far as tests show: it goes back to the kernel the first
//! time, and is kept from everybody from the second error on. So is one that cannot be tested to the end, and it is
//! reported as erring. If the process ends before that, its events show which frames had no verdict.

#![allow(unsafe_code, reason = "memory under test is reached by its addresses")]

use std::collections::BTreeMap;
use std::env;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rampart_codes::PageData;
use rampart_guard::probation::{Probation, rests_at_one};
use rampart_guard::{Counter, EngineRefusal, FrameSettings};
use rampart_linux::shared::{HeldFrame, SharedRange};
use rampart_linux::{Block, PageKind, Pagemap, Pinning, Roots, SteadyClock, SystemClock};
use rampart_memory::fault_map::{Evidence, MapOrigin};
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Frame, LineData, PAGE_BYTES, Timestamp};

use crate::reporting::published::Published;

use super::known_bad::KnownBadPages;
use super::numbers;
use super::test::FrameTest;

/// The most frames that are tested until one is good.
const FRAMES: usize = 8;

/// The number of errors that condemn a frame that passes its test.
const ERRORS: u32 = 2;

/// The test of all frames, if the environment names none.
const USUAL_TEST: &str = "test=March C-";

/// The holder of a frame.
pub enum SuspectHolder {
    Block(Block),
    Pipe(HeldFrame),
}

/// A frame that passed its first test.
struct Suspect {
    rests: Rests,
    /// Known if the kernel shows it.
    frame: Option<Frame>,
}

/// How a frame rests until its next test.
enum Rests {
    /// It holds the content for that test.
    Writable(Block),
    /// It is no longer writable, and holds this content.
    ReadOnly(HeldFrame, Box<PageData>),
}

impl From<Rests> for SuspectHolder {
    fn from(rests: Rests) -> Self {
        match rests {
            Rests::Writable(block) => Self::Block(block),
            Rests::ReadOnly(held, _) => Self::Pipe(held),
        }
    }
}

/// Tests suspect frames, and holds bad ones.
pub struct SuspectTester {
    test: FrameTest,
    shared: &'static Published,
    known: &'static KnownBadPages,
    pagemap: Option<Pagemap>,
    /// Frames that passed their test, and how often a page had an error there. `None`: errors are injected, and say
    /// nothing about frames.
    erred: Option<Mutex<BTreeMap<Frame, u32>>>,
    probation: Mutex<Probation<Suspect>>,
    clock: SteadyClock,
    held: Mutex<Vec<SuspectHolder>>,
}

impl SuspectTester {
    /// A tester with the test of the environment.
    pub fn from_environment(shared: &'static Published, known: &'static KnownBadPages) -> Result<Arc<Self>, String> {
        let text = env::var("RAMPART_GUARD_FRAMES").unwrap_or_else(|_| USUAL_TEST.to_owned());
        let settings: FrameSettings = text.parse().map_err(|error| format!("RAMPART_GUARD_FRAMES: {error}"))?;
        Ok(Arc::new(Self {
            test: FrameTest::new(&settings),
            shared,
            known,
            pagemap: Pagemap::open(&Roots::default()).ok(),
            erred: env::var_os("RAMPART_GUARD_INJECT").is_none().then(Mutex::default),
            probation: Mutex::default(),
            clock: SteadyClock::default(),
            held: Mutex::default(),
        }))
    }

    /// A page of its own on a frame that has just been tested.
    pub fn fresh(&self) -> Result<Block, EngineRefusal> {
        for _ in 0..FRAMES {
            let block = self.known.claim(Bytes::new(FRAME_BYTES), PageKind::Base);
            let block = block.map_err(|error| EngineRefusal::Kernel(error.to_string()))?;
            // SAFETY: the block is ours alone, one page that can be written, and nobody has a reference to it.
            if !unsafe { self.fails(block.base()) } {
                return Ok(block);
            }
            self.hold(SuspectHolder::Block(block));
        }
        Err(EngineRefusal::Kernel("no frame holds what is written to it".to_owned()))
    }

    /// A page with an error was in this block: its frame is held if it is bad, and otherwise tested again.
    pub fn judge(&self, mut block: Block) {
        let frame = self.frame(block.base());
        // SAFETY: as in `fresh`.
        if unsafe { self.is_bad(block.base()) } {
            self.hold(SuspectHolder::Block(block));
            return;
        }
        // This keeps the page in its place. Where a process may lock no more, a move is noticed.
        let _ = block.pin_by(Pinning::Locked);
        // SAFETY: as in `fresh`.
        unsafe { self.test.begin_rest(block.base(), rests_at_one(0), SystemClock.now()) };
        self.suspect(Suspect { rests: Rests::Writable(block), frame });
    }

    /// A page with an error was in this frame, which passed its test, is no longer writable and holds this content.
    pub fn watch_pipe(&self, held: HeldFrame, content: &PageData) {
        let frame = held.frame().and_then(numbers::own);
        self.suspect(Suspect { rests: Rests::ReadOnly(held, Box::new(content.clone())), frame });
    }

    fn suspect(&self, suspect: Suspect) {
        if self.erred.is_none() {
            return;
        }
        // Before its probation can end.
        if let Some(frame) = suspect.frame {
            self.shared.suspects(frame, false);
        }
        let crowded_out = self.probation().admit(suspect, self.clock.now());
        crowded_out.into_iter().for_each(|suspect| self.condemn(suspect));
    }

    /// Tests frames that have rested for long enough. In the maintenance thread.
    pub fn look(&self) {
        loop {
            let due = self.probation().due(self.clock.now());
            let Some((suspect, passed)) = due else { return };
            self.test_again(suspect, passed);
        }
    }

    fn test_again(&self, suspect: Suspect, passed: usize) {
        if !self.is_where_it_was(&suspect) {
            self.condemn(suspect);
            return;
        }
        match self.keeps(&suspect, passed) {
            Ok(None) => {}
            Ok(Some(seen)) => {
                self.fail(suspect.frame, &seen);
                self.hold(suspect.rests.into());
                return;
            }
            Err(()) => {
                self.condemn(suspect);
                return;
            }
        }
        let trusted = self.probation().passed(suspect, passed + 1, self.clock.now());
        if let Some(frame) = trusted.and_then(|trusted| trusted.frame) {
            self.shared.suspects(frame, true);
        }
    }

    /// Checks that a frame that has rested kept its content, and passes its test again. Returns the evidence if not.
    /// Begins its next rest.
    fn keeps(&self, suspect: &Suspect, passed: usize) -> Result<Option<Evidence>, ()> {
        let at = SystemClock.now();
        match &suspect.rests {
            Rests::Writable(block) => {
                let page = block.base();
                // SAFETY: as in `fresh`.
                let seen = unsafe {
                    let rested = self.test.end_rest(page, rests_at_one(passed), at);
                    let seen = rested.or_else(|| self.test.run_page(page, None, at));
                    self.test.begin_rest(page, rests_at_one(passed + 1), at);
                    seen
                };
                self.shared.counts.add(Counter::Tested, 1);
                Ok(seen)
            }
            Rests::ReadOnly(held, content) => {
                let mut found = [0; PAGE_BYTES];
                held.read(&mut found).map_err(|_| ())?;
                Ok(difference(content, &found, at))
            }
        }
    }

    /// `false`: the kernel moved the page, and the frame belongs to somebody else.
    fn is_where_it_was(&self, suspect: &Suspect) -> bool {
        match &suspect.rests {
            Rests::Writable(block) => suspect.frame.is_none() || self.frame(block.base()) == suspect.frame,
            Rests::ReadOnly(..) => true,
        }
    }

    /// Condemns a frame that nobody can show to be good.
    fn condemn(&self, suspect: Suspect) {
        if let Some(frame) = suspect.frame {
            self.shared.erring(frame);
            self.shared.counts.add(Counter::Retired, 1);
        }
        self.hold(suspect.rests.into());
    }

    fn probation(&self) -> MutexGuard<'_, Probation<Suspect>> {
        self.probation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the frame below a page with an error is bad. Leaves zeros in the page.
    ///
    /// # Safety
    /// As for [`FrameTest::run_page`].
    pub unsafe fn is_bad(&self, page: NonNull<u8>) -> bool {
        let frame = self.frame(page);
        // SAFETY: guaranteed by the caller.
        let fails = unsafe { self.fails(page) };
        fails || frame.filter(|_| frame == self.frame(page)).is_some_and(|frame| self.errs_again(frame))
    }

    /// Shows the frames of pages, if the kernel does.
    pub const fn pagemap(&self) -> Option<&Pagemap> {
        self.pagemap.as_ref()
    }

    /// Asks the kernel to retire the bad frame below a locked page, which keeps its content. Returns whether it did.
    pub fn retire_below(&self, frame: Option<Frame>, range: &SharedRange, page: u64) -> bool {
        frame.is_some_and(|frame| self.known.retire_shared(frame, range, page))
    }

    /// Keeps a bad frame from everybody: retired if the kernel does that, else held until the process ends.
    pub fn hold(&self, mut holder: SuspectHolder) {
        let is_retired = match &mut holder {
            SuspectHolder::Block(block) => self.known.retire(block),
            SuspectHolder::Pipe(held) => self.known.retire_held(held),
        };
        if is_retired {
            return;
        }
        if let SuspectHolder::Block(block) = &mut holder {
            // This at least keeps it from being swapped out, unless the process may lock no more.
            let _ = block.pin_by(Pinning::Locked);
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(holder);
    }

    /// Writes a page to the memory, so that no cache has it.
    ///
    /// # Safety
    /// As for [`FrameTest::run_page`].
    pub unsafe fn write(&self, page: NonNull<u8>, content: &PageData) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.test.write(page, content) };
    }

    /// # Safety
    /// As of [`FrameTest::run_page`].
    unsafe fn fails(&self, page: NonNull<u8>) -> bool {
        let (frame, began, counts) = (self.frame(page), Instant::now(), self.shared.counts);
        // SAFETY: guaranteed by the caller.
        let seen = unsafe { self.test.run_page(page, None, SystemClock.now()) };
        counts.add(Counter::Tested, 1);
        counts.add_time(Counter::TestNanos, began.elapsed());
        if let Some(seen) = &seen {
            self.fail(frame.filter(|_| frame == self.frame(page)), seen);
        }
        seen.is_some()
    }

    fn fail(&self, frame: Option<Frame>, seen: &Evidence) {
        // In this order: the process may end at any moment, and counted frames have been reported.
        self.shared.failed(frame, MapOrigin::Real, seen);
        self.shared.counts.add(Counter::Retired, 1);
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

    /// The frame of a page, if the kernel shows it.
    pub fn frame(&self, page: NonNull<u8>) -> Option<Frame> {
        let (pagemap, mut frames) = (self.pagemap.as_ref()?, Vec::new());
        pagemap.frames_of(page, 1, &mut frames).ok()?;
        frames.first().copied().flatten().and_then(numbers::own)
    }
}

/// The first line with wrong content after a rest.
fn difference(content: &PageData, found: &[u8; PAGE_BYTES], at: Timestamp) -> Option<Evidence> {
    let found = found.chunks_exact(size_of::<LineData>()).map(|line| {
        let (words, _) = line.as_chunks();
        LineData(std::array::from_fn(|word| u64::from_ne_bytes(words[word])))
    });
    let mut lines = (0..).zip(content.lines.iter().zip(found));
    let (line, (&expected, found)) = lines.find(|(_, (expected, found))| *expected != found)?;
    Some(Evidence {
        at,
        line,
        expected,
        found,
        // There is no second way to read the content of a pipe.
        reread: found,
        test: "{⇕(w0); Del; ⇕(r0)}".to_owned(),
        element: 2,
        background: "the page's own content".to_owned(),
    })
}

#[cfg(test)]
mod tests;
